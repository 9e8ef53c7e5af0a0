//! Where a request goes: a URL, as far as registries need one.

use std::fmt;

use hyper::Uri;

/// A URL of `http` or `https`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// With TLS.
    pub secure: bool,
    pub host: String,
    pub port: u16,
    /// With its query, from the root.
    pub path: String,
}

impl Place {
    /// A path at `HOST` or `HOST:PORT`.
    pub fn at(registry: &str, secure: bool, path: String) -> Place {
        let usual = if secure { 443 } else { 80 };
        let (host, port) = match registry.split_once(':') {
            Some((host, port)) => (host, port.parse().unwrap_or(usual)),
            None => (registry, usual),
        };
        Place { secure, host: host.to_ascii_lowercase(), port, path }
    }

    /// Reads a whole URL. `None`: it is none, or one of another protocol.
    pub fn parse(text: &str) -> Option<Place> {
        let uri: Uri = text.parse().ok()?;
        let secure = match uri.scheme_str()? {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let authority = uri.authority()?;
        if authority.as_str().contains('@') || authority.host().is_empty() {
            return None;
        }
        let port = match authority.as_str().strip_prefix(authority.host()) {
            Some("") | Some(":") => {
                if secure {
                    443
                } else {
                    80
                }
            }
            _ => authority.port_u16()?,
        };
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        Some(Place { secure, host: authority.host().to_ascii_lowercase(), port, path: path.to_owned() })
    }

    /// Where a redirect from here leads: a URL, or a path from the root.
    pub fn redirect(&self, location: &str) -> Option<Place> {
        if location.starts_with('/') && !location.starts_with("//") {
            let uri: Uri = location.parse().ok()?;
            return Some(Place { path: uri.path_and_query()?.to_string(), ..self.clone() });
        }
        Place::parse(location)
    }

    /// Whether both are of one server: what one may know, the other may.
    pub fn is_beside(&self, other: &Place) -> bool {
        (self.secure, &self.host, self.port) == (other.secure, &other.host, other.port)
    }

    /// As the header `Host` has it.
    pub fn authority(&self) -> String {
        match (self.secure, self.port) {
            (true, 443) | (false, 80) => self.host.clone(),
            _ => format!("{}:{}", self.host, self.port),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", if self.secure { "https" } else { "http" }, self.authority(), self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_and_written() {
        for (text, written) in [
            ("https://auth.example/token?a=b", "https://auth.example/token?a=b"),
            ("https://Auth.Example:443", "https://auth.example/"),
            ("http://a:80/x", "http://a/x"),
            ("http://a:8080/x", "http://a:8080/x"),
            ("https://[::1]:5000/x", "https://[::1]:5000/x"),
            ("https://[::1]/x", "https://[::1]/x"),
        ] {
            assert_eq!(Place::parse(text).map(|place| place.to_string()).as_deref(), Some(written), "{text}");
        }
        for wrong in ["", "/x", "ftp://a/", "https:///x", "https://user:word@a/", "https://a:99999/", "a.b/c"]
        {
            assert_eq!(Place::parse(wrong), None, "{wrong}");
        }
        assert_eq!(
            Place::at("Registry.example", true, "/v2/".to_owned()).to_string(),
            "https://registry.example/v2/"
        );
        assert_eq!(Place::at("r:5000", false, "/v2/".to_owned()).to_string(), "http://r:5000/v2/");
    }

    #[test]
    fn a_redirect_is_relative_or_whole() {
        let from = Place::at("registry.example:5000", true, "/v2/app/blobs/x".to_owned());
        let to = |location| from.redirect(location).map(|place| place.to_string());
        assert_eq!(to("/other?x=1").as_deref(), Some("https://registry.example:5000/other?x=1"));
        assert_eq!(to("https://cdn.example/x").as_deref(), Some("https://cdn.example/x"));
        for wrong in ["//cdn.example/x", "x", "", "javascript:x"] {
            assert_eq!(to(wrong), None, "{wrong}");
        }
        let other = |location| from.redirect(location).unwrap();
        assert!(from.is_beside(&other("/x")) && from.is_beside(&other("https://Registry.example:5000/y")));
        for apart in
            ["http://registry.example:5000/", "https://registry.example/", "https://evil.example:5000/"]
        {
            assert!(!from.is_beside(&other(apart)), "{apart}");
        }
    }
}
