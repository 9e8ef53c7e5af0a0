//! The patterns of shells, as fnmatch(3) has them: in the aliases of kernel modules and in rules.

/// Whether the whole text is of the pattern: `*` is any text, `?` any byte, `[a-f]` one of these bytes, `[!a-f]` any other.
pub fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut at, mut position) = (0_usize, 0_usize);
    // After the last `*`, and the position up to which it reaches.
    let mut star: Option<(usize, usize)> = None;
    while let Some(byte) = text.get(position) {
        let step = match pattern.get(at) {
            Some(b'*') => {
                star = Some((at.saturating_add(1), position));
                at = at.saturating_add(1);
                continue;
            }
            Some(b'?') => Some(at.saturating_add(1)),
            Some(b'[') => set(pattern, at, *byte),
            Some(same) if same == byte => Some(at.saturating_add(1)),
            _ => None,
        };
        match (step, &mut star) {
            (Some(next), _) => {
                at = next;
                position = position.saturating_add(1);
            }
            (None, Some((after, reached))) => {
                *reached = reached.saturating_add(1);
                (at, position) = (*after, *reached);
            }
            (None, None) => return false,
        }
    }
    pattern.get(at..).unwrap_or_default().iter().all(|byte| *byte == b'*')
}

/// The place after the set that begins at `at`, if the byte is in it. A set without an end has no byte.
fn set(pattern: &[u8], at: usize, byte: u8) -> Option<usize> {
    let inside = pattern.get(at.saturating_add(1)..)?;
    let (negated, inside, skipped) = match inside.split_first() {
        Some((b'!' | b'^', rest)) => (true, rest, 2_usize),
        _ => (false, inside, 1),
    };
    // A bracket that comes first is one of the set.
    let end = inside.iter().skip(1).position(|byte| *byte == b']')?.saturating_add(1);
    let members = inside.get(..end)?;
    let mut found = false;
    let mut rest = members;
    while let Some((first, after)) = rest.split_first() {
        if let [b'-', last, tail @ ..] = after {
            found |= (*first..=*last).contains(&byte);
            rest = tail;
        } else {
            found |= *first == byte;
            rest = after;
        }
    }
    (found != negated).then(|| at.saturating_add(skipped).saturating_add(end).saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_question_marks_and_sets() {
        for (pattern, text) in [
            ("virtio:d00000002v*", "virtio:d00000002v00001AF4"),
            ("pci:v*d*sv*sd*bc01sc06i01*", "pci:v00008086d00002922sv00001AF4sd00001100bc01sc06i01"),
            ("usb:v0403p6001d*dc*", "usb:v0403p6001d0600dc00dsc00"),
            ("acpi*:PNP0C0C:*", "acpi:PNP0C0C:"),
            ("tty[A-Z]*", "ttyUSB0"),
            ("tty[!A-Z]*", "tty10"),
            ("[]x]", "]"),
            ("a?c", "abc"),
            ("", ""),
            ("**", ""),
            ("*a*b", "xaxbxab"),
        ] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [
            ("virtio:d00000002v*", "virtio:d00000001v00001AF4"),
            ("tty[!A-Z]*", "ttyS0"),
            ("a[", "a["),
            ("a", "ab"),
            ("ab", "a"),
            ("", "a"),
            ("*a*b", "xaxbxa"),
        ] {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn a_pattern_of_many_stars_ends_soon() {
        assert!(!matches(&"a*".repeat(200), &"a".repeat(199)));
        assert!(!matches(&format!("{}b", "*a".repeat(100)), &"a".repeat(2000)));
    }
}
