//! The lines of a unit file, read as systemd reads them: `config_parse` of its `shared/conf-parser.c`, version 252.

/// What systemd strips and skips.
const BLANKS: [char; 4] = [' ', '\t', '\n', '\r'];

/// A line that assigns a value, or one that systemd passes over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// `KEY=VALUE` below `[SECTION]`; the value may be empty.
    Assignment { section: String, key: String, value: String, line: u32 },
    /// What is wrong with it.
    Passed { line: u32, mistake: Mistake },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Mistake {
    #[error("the line is no assignment (there is no =), and systemd passes over it")]
    NoAssignment,
    #[error("the assignment stands before the first section, and systemd passes over it")]
    NoSection,
    #[error("the header of the section has no ] at its end, and systemd passes over the line")]
    Header,
    #[error("there is no key before the =, and systemd passes over the line")]
    NoKey,
}

/// The lines of a text in their order. A line goes on in the next if a backslash is its last letter; comments in between
/// count for nothing.
pub fn lines(text: &str) -> Vec<Line> {
    let mut found = Vec::new();
    let mut section: Option<String> = None;
    let mut begun: Option<(u32, String)> = None;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (line, raw) in (1_u32..).zip(text.split(['\n', '\0'])) {
        let raw = raw.strip_suffix('\r').unwrap_or(raw).trim_start_matches(BLANKS);
        if raw.starts_with(['#', ';']) {
            continue;
        }
        let (first, mut whole) = begun.take().unwrap_or((line, String::new()));
        whole.push_str(raw);
        if goes_on(&whole) {
            whole.pop();
            whole.push(' ');
            begun = Some((first, whole));
            continue;
        }
        found.extend(one(&mut section, &whole, first));
    }
    if let Some((first, whole)) = begun {
        found.extend(one(&mut section, &whole, first));
    }
    found
}

/// Whether its last letter is a backslash that is not itself escaped.
fn goes_on(line: &str) -> bool {
    let backslashes = line.bytes().rev().take_while(|byte| *byte == b'\\').count();
    !backslashes.is_multiple_of(2)
}

fn one(section: &mut Option<String>, whole: &str, line: u32) -> Option<Line> {
    let whole = whole.trim_matches(BLANKS);
    if whole.is_empty() {
        return None;
    }
    if let Some(header) = whole.strip_prefix('[') {
        return match header.strip_suffix(']') {
            Some(name) => {
                *section = Some(name.to_owned());
                None
            }
            None => Some(Line::Passed { line, mistake: Mistake::Header }),
        };
    }
    let Some((key, value)) = whole.split_once('=') else {
        return Some(Line::Passed { line, mistake: Mistake::NoAssignment });
    };
    let (key, value) = (key.trim_matches(BLANKS).to_owned(), value.trim_matches(BLANKS).to_owned());
    Some(match section {
        None => Line::Passed { line, mistake: Mistake::NoSection },
        Some(_) if key.is_empty() => Line::Passed { line, mistake: Mistake::NoKey },
        Some(section) => Line::Assignment { section: section.clone(), key, value, line },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assignments(text: &str) -> Vec<(String, String, u32)> {
        let of = |line| match line {
            Line::Assignment { key, value, line, .. } => Some((key, value, line)),
            Line::Passed { .. } => None,
        };
        lines(text).into_iter().filter_map(of).collect()
    }

    fn first(text: &str) -> String {
        assignments(text).into_iter().next().unwrap().1
    }

    #[test]
    fn a_line_goes_on_after_a_backslash() {
        assert_eq!(first("[Service]\nExecStart=/bin/a \\\n  --b \\\n\t--c\n"), "/bin/a  --b  --c");
        // A comment in between is none of the value, and does not end it.
        assert_eq!(first("[Service]\nExecStart=/bin/a \\\n# --not\n  ; nor this\n  --b\n"), "/bin/a  --b");
        // An empty line ends it, and so does the end of the file.
        assert_eq!(
            assignments("[S]\nA=1 \\\n\nB=2\\"),
            [("A".to_owned(), "1".to_owned(), 2), ("B".to_owned(), "2".to_owned(), 4)]
        );
        // Two backslashes are one that does not go on.
        assert_eq!(first("[S]\nA=1\\\\\nB=2\n"), "1\\\\");
        // Blanks after it: it is in the line, not at its end.
        assert_eq!(first("[S]\nA=1\\ \nB=2\n"), "1\\");
    }

    #[test]
    fn blanks_comments_and_line_ends_do_not_matter() {
        assert_eq!(first("\u{feff}# c\r\n[Service]\r\n  Type = simple  \r\n"), "simple");
        assert_eq!(first("[S]\nA=a # b"), "a # b");
        assert_eq!(first("[S]\nA==b="), "=b=");
        assert_eq!(first("[S]\nA="), "");
    }

    #[test]
    fn what_is_no_assignment_is_named() {
        let mistakes = |text| {
            let of = |line| match line {
                Line::Passed { line, mistake } => Some((line, mistake)),
                Line::Assignment { .. } => None,
            };
            lines(text).into_iter().filter_map(of).collect::<Vec<_>>()
        };
        assert_eq!(
            mistakes("A=1\n[S\n[S]\nword\n=x\n"),
            [(1, Mistake::NoSection), (2, Mistake::Header), (4, Mistake::NoAssignment), (5, Mistake::NoKey)]
        );
        assert_eq!(mistakes("[S]\nA=1\n\n"), []);
    }
}
