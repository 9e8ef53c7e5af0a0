//! The strings of SMBIOS type 11, which the maker of a machine may fill; hypervisors let their users do it.
//!
//! The table is a sequence of structures (DMTF DSP0134, 6.1): type, length of the formatted part, handle, the rest of the
//! formatted part; then strings, each with a NUL behind it, and one more NUL.

/// `OEM Strings`.
const STRINGS: u8 = 11;
/// `End-of-Table`.
const END: u8 = 127;
/// Type, length and handle.
const HEADER: usize = 4;

/// The strings of all structures of type 11. A table that ends in the middle of a structure ends before it.
pub fn strings(table: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    let mut rest = table;
    while let [kind, length, ..] = rest
        && *kind != END
    {
        let length = usize::from(*length);
        let Some(mut strings) = rest.get(length..).filter(|_| length >= HEADER) else { break };
        loop {
            let Some(end) = strings.iter().position(|byte| *byte == 0) else { return found };
            let (string, behind) = strings.split_at(end);
            strings = behind.get(1..).unwrap_or_default();
            if string.is_empty() {
                break;
            }
            if *kind == STRINGS {
                found.push(string);
            }
        }
        // A structure without strings has two NULs.
        rest = match strings {
            [0, behind @ ..] if rest.get(length) == Some(&0) => behind,
            _ => strings,
        };
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strings_of_type_11_are_found_among_others() {
        let table = [
            &[1, 6, 0, 1, 9, 9][..],
            b"maker\0\0",
            &[4, 4, 0, 2],
            b"\0\0",
            &[11, 5, 0, 3, 2],
            b"a=1\0b=2\0\0",
            &[11, 5, 0, 4, 0],
            b"\0\0",
            &[11, 5, 0, 5, 1],
            b"c=3\0\0",
            &[127, 4, 0, 6],
            b"\0\0",
            &[11, 5, 0, 7, 1],
            b"behind the end\0\0",
        ]
        .concat();
        assert_eq!(strings(&table), [b"a=1", b"b=2", b"c=3"]);
    }

    #[test]
    fn a_table_that_makes_no_sense_ends_where_it_does() {
        for table in [&[][..], &[11], &[11, 0, 0, 0], &[11, 3, 0], &[11, 200, 0, 0], &[11, 5, 0, 0, 1, b'a']]
        {
            assert_eq!(strings(table), Vec::<&[u8]>::new(), "{table:?}");
        }
    }
}
