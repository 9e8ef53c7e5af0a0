//! Reports on their way through the pipe: frames ([`kelson_helper::answer`]) of postcard.

use kelson_helper::answer;
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
            Report::Note(text)
            | Report::Failed(text)
            | Report::Refused { text, .. }
            | Report::Absent { text, .. } => {
                return encode(&Report::Failed(bounded(text, 4096)));
            }
            _ => String::from("a name of an image is too long for a report"),
        };
        frame(&Report::Failed(text)).unwrap_or_default()
    })
}

fn frame(report: &Report) -> Option<Vec<u8>> {
    let body = postcard::to_allocvec(report).ok().filter(|body| body.len() <= FRAME_MAX)?;
    Some(answer::frame(&body))
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
        assert_eq!(decode(&encode(&report)[answer::HEADER..]), Some(report));
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
}
