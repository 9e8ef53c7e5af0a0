//! Certificates in PEM, by which a check knows the server it asks.
//!
//! Only what is needed here: which parts of a text are certificates. Their contents are for their users to
//! judge.

/// The most that a file of certificates may hold, in bytes.
pub const MAX_CERTIFICATES: u64 = 64 << 10;

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

/// Why a text gives no certificates.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    #[error("there is no certificate in PEM here; it begins with a line -----BEGIN CERTIFICATE-----")]
    None,
    #[error("the certificate that begins in line {0} has no line -----END CERTIFICATE-----")]
    NoEnd(usize),
    #[error("the certificate that begins in line {0} is damaged: it is not base64 of a certificate")]
    Damaged(usize),
    #[error("the certificates are more than {MAX_CERTIFICATES} bytes")]
    TooLong,
}

/// Whether a text holds certificates rather than the path of a file.
pub fn looks_like(text: &str) -> bool {
    text.trim_start().starts_with("-----BEGIN ")
}

/// The certificates of `text` in its order, and nothing else of it: a private key beside them goes nowhere.
///
/// # Errors
/// When there is none, or one of them cannot be read.
pub fn of(text: &str) -> Result<String, Unusable> {
    if u64::try_from(text.len()).unwrap_or(u64::MAX) > MAX_CERTIFICATES {
        return Err(Unusable::TooLong);
    }
    let mut found = String::new();
    let mut lines = text.lines().map(str::trim).zip(1_usize..);
    while let Some((line, number)) = lines.next() {
        if line != BEGIN {
            continue;
        }
        let mut body = String::new();
        loop {
            match lines.next() {
                Some((END, _)) => break,
                Some((line, _)) if !line.starts_with("-----") => body.push_str(line),
                _ => return Err(Unusable::NoEnd(number)),
            }
        }
        if !is_sequence(&body) {
            return Err(Unusable::Damaged(number));
        }
        // Never longer than it was: it must be taken again.
        if !found.is_empty() {
            found.push('\n');
        }
        found.push_str(&[BEGIN, &body, END].join("\n"));
    }
    if found.is_empty() { Err(Unusable::None) } else { Ok(found) }
}

/// Whether this is base64 of what begins as every certificate does: with a sequence longer than 127 bytes.
fn is_sequence(body: &str) -> bool {
    let bare = body.trim_end_matches('=');
    body.len().checked_rem(4) == Some(0)
        && body.len().saturating_sub(bare.len()) <= 2
        && body.starts_with("MI")
        && bare.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'+' || b == b'/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_are_taken_and_nothing_else() {
        let text = "a comment\n-----BEGIN CERTIFICATE-----\r\nMIIB\r\nAA==\r\n-----END CERTIFICATE-----\r\n\
            -----BEGIN PRIVATE KEY-----\nMIIS\n-----END PRIVATE KEY-----\n\
              -----BEGIN CERTIFICATE-----\n MIIC\n-----END CERTIFICATE-----";
        let expected = "-----BEGIN CERTIFICATE-----\nMIIBAA==\n-----END CERTIFICATE-----\n\
            -----BEGIN CERTIFICATE-----\nMIIC\n-----END CERTIFICATE-----";
        assert_eq!(of(text).as_deref(), Ok(expected));
        assert_eq!(of(expected).as_deref(), Ok(expected), "what was taken is taken again");
    }

    #[test]
    fn what_is_no_certificate_is_told() {
        assert_eq!(of(""), Err(Unusable::None));
        assert_eq!(of("-----BEGIN PRIVATE KEY-----\nMIIS\n-----END PRIVATE KEY-----\n"), Err(Unusable::None));
        let one = |body: &str| of(&format!("\n{BEGIN}\n{body}\n{END}\n"));
        assert!(one("MIIBAA==").is_ok());
        for damaged in ["", "MIIBA", "MIIB====", "MI=BAAAA", "AAAA", "MI*B", "MIIB AAA"] {
            assert_eq!(one(damaged), Err(Unusable::Damaged(2)), "{damaged}");
        }
        assert_eq!(of(&format!("{BEGIN}\nMIIB\n")), Err(Unusable::NoEnd(1)));
        assert_eq!(of(&format!("x\n{BEGIN}\nMIIB\n{BEGIN}\nMIIB\n{END}\n")), Err(Unusable::NoEnd(2)));
        assert_eq!(of(&"x".repeat((64 << 10) + 1)), Err(Unusable::TooLong));
    }
}
