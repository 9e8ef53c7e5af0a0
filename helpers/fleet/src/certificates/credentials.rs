//! A file with a certificate and its key, in PEM, after lines that say whose they are and until when.
//!
//! A token is such a file, and so is what a host has of its own. One file changes at once, where two would not.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// What is in such a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The user of etcd, which is the common name of the certificate.
    pub user: String,
    /// What a host may register; empty for a token.
    pub services: BTreeSet<String>,
    /// Seconds since 1970: when it was issued, and when it expires.
    pub from: u64,
    pub until: u64,
    /// The certificate and the key.
    pub pem: String,
}

impl Credentials {
    /// When the next certificate is asked for, in seconds since 1970: after two thirds of the time.
    pub fn renew_at(&self) -> u64 {
        let life = self.until.saturating_sub(self.from);
        self.until.saturating_sub(life.div_ceil(3))
    }
}

impl fmt::Display for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let services: Vec<&str> = self.services.iter().map(String::as_str).collect();
        writeln!(f, "kelson-fleet: 1\nuser: {}\nservices: {}", self.user, services.join(","))?;
        writeln!(f, "from: {}\nuntil: {}", self.from, self.until)?;
        f.write_str(&self.pem)
    }
}

impl FromStr for Credentials {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Credentials, &'static str> {
        let at = text.find("-----BEGIN ").ok_or("there is no certificate in it")?;
        let (head, pem) = text.split_at_checked(at).unwrap_or_default();
        let value = |key: &str| {
            let mut lines = head.lines().filter_map(|line| line.split_once(": "));
            lines.find(|(name, _)| *name == key).map(|(_, value)| value.trim_end())
        };
        let number = |key: &str| value(key).and_then(|value| value.parse().ok());
        let names = value("services").unwrap_or_default().split(',').filter(|name| !name.is_empty());
        Some(Credentials {
            user: value("user").unwrap_or_default().to_owned(),
            services: names.map(str::to_owned).collect(),
            from: number("from").unwrap_or_default(),
            until: number("until").unwrap_or_default(),
            pem: pem.to_owned(),
        })
        .filter(|read| value("kelson-fleet") == Some("1") && !read.user.is_empty() && read.until > 0)
        .ok_or("it has no lines with user and until before the certificate")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_written_and_read() {
        let credentials = Credentials {
            user: "edge-1_07".into(),
            services: ["web".into(), "db".into()].into(),
            from: 1000,
            until: 1300,
            pem: "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n".into(),
        };
        assert_eq!(credentials.to_string().parse(), Ok(credentials.clone()));
        assert_eq!(credentials.renew_at(), 1200);
        let token = Credentials { services: BTreeSet::new(), ..credentials };
        assert_eq!(token.to_string().parse(), Ok(token));
        for unfit in ["", "user: a\nuntil: 1\n", "-----BEGIN CERTIFICATE-----\n", "user: a\n-----BEGIN C"] {
            assert!(unfit.parse::<Credentials>().is_err(), "{unfit:?}");
        }
    }
}
