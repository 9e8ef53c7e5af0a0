//! Which of the two words of `cp` means a path of the host.

use std::path::PathBuf;

use crate::commands::ls::absolute;
use crate::failure::Failure;

/// One end of the copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Side {
    /// `:/PATH`, or `NAME:/PATH`, where the name is one as `--nodes` takes it.
    Host {
        name: Option<String>,
        path: String,
    },
    Here(PathBuf),
}

impl Side {
    /// Reads a word of the command line.
    ///
    /// # Errors
    /// A sentence: the path of the host is none.
    pub fn parse(text: &str) -> Result<Side, Failure> {
        match text.split_once(':') {
            // `./a:b` and `/a:b` are files here.
            Some((name, path)) if !name.contains('/') && (path.starts_with('/') || name.is_empty()) => {
                let name = Some(name.to_owned()).filter(|name| !name.is_empty());
                Ok(Side::Host { name, path: absolute(path)? })
            }
            _ => Ok(Side::Here(PathBuf::from(text))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_the_host_begins_with_a_colon_or_a_name() {
        let host = |name: Option<&str>, path: &str| {
            Ok(Side::Host { name: name.map(str::to_owned), path: path.to_owned() })
        };
        assert_eq!(Side::parse(":/etc/x"), host(None, "/etc/x"));
        assert_eq!(Side::parse("edge-1:/etc/a:b"), host(Some("edge-1"), "/etc/a:b"));
        for here in ["/etc/x", "x", ".", "-", "./a:/b", "/a:/b", "a:b"] {
            assert_eq!(Side::parse(here), Ok(Side::Here(here.into())), "{here}");
        }
        assert!(Side::parse(":etc").is_err());
    }
}
