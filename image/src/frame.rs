//! Reports on their way through the pipe: a length of four bytes, little end first, and that many bytes of postcard.

use kelson_sys::text::harmless;

use crate::report::Report;

/// A report of more bytes than this is none.
pub const FRAME_MAX: usize = 64 << 10;

/// The bytes of a report. One that is too large becomes the failure to tell it.
pub fn encode(report: &Report) -> Vec<u8> {
    frame(report).unwrap_or_else(|| {
        let text = match report {
            Report::Unpacked(unpacked) => format!(
                "the config of image {} has more than {FRAME_MAX} bytes of words and environment",
                bounded(&unpacked.config.image, 512)
            ),
            Report::Note(text) | Report::Failed(text) | Report::Refused { text, .. } => {
                return encode(&Report::Failed(bounded(text, 4096)));
            }
            _ => String::from("a name of an image is too long for a report"),
        };
        frame(&Report::Failed(text)).unwrap_or_default()
    })
}

fn frame(report: &Report) -> Option<Vec<u8>> {
    let body = postcard::to_allocvec(report).ok().filter(|body| body.len() <= FRAME_MAX)?;
    let mut bytes = u32::try_from(body.len()).ok()?.to_le_bytes().to_vec();
    bytes.extend(body);
    Some(bytes)
}

/// The length that a frame's first bytes tell, where it can be one.
pub fn length(head: [u8; 4]) -> Option<usize> {
    usize::try_from(u32::from_le_bytes(head)).ok().filter(|length| (1..=FRAME_MAX).contains(length))
}

/// The report in the body of a frame.
pub fn decode(body: &[u8]) -> Option<Report> {
    postcard::from_bytes(body).ok()
}

/// Text that others wrote, fit to be shown: at most `most` characters, none of which moves a terminal.
pub fn bounded(text: &str, most: usize) -> String {
    harmless(text, Some(' ')).take(most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kelson_spec::image::ImageConfig;

    use crate::report::Unpacked;

    #[test]
    fn a_report_comes_back() {
        let report = Report::Note("one archive is broken".to_owned());
        let bytes = encode(&report);
        let (head, body) = bytes.split_at(4);
        assert_eq!(length(head.try_into().unwrap()), Some(body.len()));
        assert_eq!(decode(body), Some(report));
    }

    #[test]
    fn a_report_that_is_too_large_is_a_failure() {
        let environment = vec!["x".repeat(FRAME_MAX)];
        let config = ImageConfig { image: "a:1".to_owned(), environment, ..ImageConfig::default() };
        let unpacked = Unpacked { config, ..Unpacked::default() };
        let bytes = encode(&Report::Unpacked(Box::new(unpacked)));
        let Some(Report::Failed(text)) = decode(&bytes[4..]) else { panic!("{bytes:?}") };
        assert!(text.contains("a:1"), "{text}");
        let bytes = encode(&Report::Failed("y".repeat(2 * FRAME_MAX)));
        assert!(matches!(decode(&bytes[4..]), Some(Report::Failed(text)) if text.len() == 4096));
    }

    #[test]
    fn what_is_no_length_is_refused() {
        assert_eq!(length([0; 4]), None);
        assert_eq!(length([0xff; 4]), None);
        assert_eq!(length([1, 0, 1, 0]), None);
        assert_eq!(length([0, 0, 1, 0]), Some(FRAME_MAX));
    }
}
