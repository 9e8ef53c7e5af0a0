//! How hosts get their certificates: `PREFIX/certificates/…`, where a host asks and the issuer, `kelsonctl fleet issue`,
//! answers.
//!
//! Who may read and write a key follows from the user of etcd that stands in it. Keys of a certificate never leave the
//! host: a request has the public one. It needs no signature, as a certificate is of no use without its key.

mod credentials;
mod exchange;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::key::{Key, Keys, end_of};
pub use credentials::Credentials;
pub use exchange::{ask, called, connect};

/// The user of the issuer. No host has a name with `_`.
pub const ISSUER: &str = "_issuer";
/// The users of tokens begin with it.
const TOKEN: &str = "_join_";
/// What of the name of a host is in that of its user: a common name has at most 64 characters.
const HOST_IN_USER: usize = 47;

/// The keys of the certificates of a fleet, and what the users of etcd may do.
#[derive(Debug, Clone)]
pub struct Access {
    prefix: String,
    keys: Keys,
}

/// A range of keys, and whether it may be changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permission {
    pub from: Key,
    /// `None`: the key alone.
    pub end: Option<Key>,
    pub may_write: bool,
}

/// What a host asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// A point of P-256, uncompressed, in hexadecimal digits.
    pub public_key: String,
    /// What it registers: each a `register.name`.
    pub services: BTreeSet<String>,
}

/// What the issuer answers to a request with this public key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    pub public_key: String,
    /// Why there is no certificate; empty: there is one.
    #[serde(default)]
    pub refused: String,
    /// In PEM.
    #[serde(default)]
    pub certificate: String,
    /// The user of the host, which is the common name of the certificate.
    #[serde(default)]
    pub user: String,
    /// What the host may register.
    #[serde(default)]
    pub services: BTreeSet<String>,
    /// Seconds since 1970: when it was issued, and when it expires.
    #[serde(default)]
    pub from: u64,
    #[serde(default)]
    pub until: u64,
}

/// A token as the operator has made it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    /// Patterns; with `*` and `?`.
    pub hosts: Vec<String>,
    pub services: Vec<String>,
    /// Hosts that it still lets in.
    pub uses: u32,
    /// Seconds since 1970.
    pub until: u64,
}

/// A host that has a certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    pub user: String,
    /// The user of the token with which it came.
    pub token: String,
    /// Of its last request.
    pub public_key: String,
    /// The patterns of its token.
    pub allowed: Vec<String>,
    /// What it may register.
    pub services: BTreeSet<String>,
    /// Seconds since 1970: when its last certificate expires.
    pub until: u64,
}

impl Access {
    pub fn new(prefix: &str) -> Access {
        Access { prefix: prefix.trim_end_matches('/').to_owned(), keys: Keys::new(prefix) }
    }

    fn below(&self, what: &str) -> String {
        format!("{}/certificates/{what}", self.prefix)
    }

    /// Where all requests begin; with a `/` at the end.
    pub fn requests(&self) -> String {
        self.below("requests/")
    }

    pub fn request(&self, user: &str, host: &str) -> String {
        self.below(&format!("requests/{user}/{host}"))
    }

    pub fn answer(&self, user: &str, host: &str) -> String {
        self.below(&format!("answers/{user}/{host}"))
    }

    /// Where all tokens are; with a `/` at the end.
    pub fn tokens(&self) -> String {
        self.below("tokens/")
    }

    pub fn token(&self, user: &str) -> String {
        self.below(&format!("tokens/{user}"))
    }

    pub fn member(&self, host: &str) -> String {
        self.below(&format!("members/{host}"))
    }

    /// The user and the host of the key of a request.
    pub fn parse_request(&self, key: &[u8]) -> Option<(String, String)> {
        let rest = std::str::from_utf8(key).ok()?.strip_prefix(&self.requests())?;
        let (user, host) = rest.split_once('/')?;
        Some((user.to_owned(), host.to_owned()))
    }

    /// What every user may do that asks for certificates.
    pub fn of_asker(&self, user: &str) -> Vec<Permission> {
        let [requests, answers] = ["requests", "answers"].map(|what| self.below(&format!("{what}/{user}/")));
        vec![below(&requests, true), below(&answers, false)]
    }

    /// What a host may do: read all but what concerns certificates, and write what is its own.
    pub fn of_host<'a>(
        &self,
        user: &str,
        host: &str,
        services: impl IntoIterator<Item = &'a String>,
    ) -> Vec<Permission> {
        let (whole, secret) = (format!("{}/", self.prefix), self.below(""));
        let read = |from: Key, end: Key| Permission { from, end: Some(end), may_write: false };
        let own = Key::from(self.host(host));
        let mut all = self.of_asker(user);
        all.push(read(Key::from(whole.as_str()), Key::from(secret.as_str())));
        all.push(read(end_of(&secret), end_of(&whole)));
        all.push(Permission { from: own, end: None, may_write: true });
        all.push(below(&self.keys.plans_of(host), true));
        all.extend(services.into_iter().map(|name| below(&self.of_service(name, host), true)));
        all
    }

    /// The key of a host.
    pub fn host(&self, host: &str) -> String {
        format!("{}{host}", self.keys.hosts())
    }

    /// Where all is that a host registers under a name; with a `/` at the end.
    pub fn of_service(&self, name: &str, host: &str) -> String {
        format!("{}{host}/", self.keys.services(Some(name)))
    }
}

fn below(prefix: &str, may_write: bool) -> Permission {
    Permission { from: Key::from(prefix), end: Some(end_of(prefix)), may_write }
}

/// The user of a new token.
pub fn token_user(number: u64) -> String {
    format!("{TOKEN}{number:016x}")
}

/// The user of a new host. A host that comes again under a name has another one, so that the certificates that were issued
/// to the name before are of no use.
pub fn host_user(host: &str, number: u64) -> String {
    format!("{}_{number:016x}", kelson_sys::text::start_of(host, HOST_IN_USER))
}

/// Whether it is the user of a token.
pub fn is_token(user: &str) -> bool {
    user.starts_with(TOKEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_reads_all_but_certificates_and_writes_its_own() {
        let access = Access::new("/kelson/v1");
        let (user, services) = (host_user("edge-1", 7), ["web".to_owned()]);
        assert_eq!(user, "edge-1_0000000000000007");
        let all = access.of_host(&user, "edge-1", &services);
        let may = |key: &str, writes: bool| {
            all.iter().any(|one| {
                let key = key.as_bytes();
                let is_in = match &one.end {
                    Some(end) => one.from.as_slice() <= key && key < end.as_slice(),
                    None => one.from == key,
                };
                is_in && (one.may_write || !writes)
            })
        };
        for own in ["hosts/edge-1", "services/web/edge-1/nginx", "plans/edge-1/first/0000"] {
            assert!(may(&format!("/kelson/v1/{own}"), true), "{own}");
        }
        assert!(may(&access.request(&user, "edge-1"), true));
        assert!(may(&access.answer(&user, "edge-1"), false) && !may(&access.answer(&user, "edge-1"), true));
        for other in [
            "hosts/edge-11",
            "hosts/edge-2",
            "services/web/edge-2/nginx",
            "services/db/edge-1/db",
            "plans/edge-2/a/0000",
            "zoo",
        ] {
            let key = format!("/kelson/v1/{other}");
            assert!(may(&key, false) && !may(&key, true), "{other}");
        }
        for hidden in [access.token("a"), access.member("edge-2"), access.request("b", "edge-1")] {
            assert!(!may(&hidden, false), "{hidden}");
        }
        assert!(!may("/kelson/v10/hosts/edge-1", false) && !may("/other", false));
    }

    #[test]
    fn requests_are_told_apart_by_their_user() {
        let access = Access::new("/kelson/v1/");
        let user = token_user(1);
        let key = access.request(&user, "edge-1");
        assert_eq!(key, "/kelson/v1/certificates/requests/_join_0000000000000001/edge-1");
        assert_eq!(access.parse_request(key.as_bytes()), Some((user.clone(), "edge-1".to_owned())));
        assert!(is_token(&user) && !is_token(&host_user("join", 1)));
        assert_eq!(access.parse_request(b"/kelson/v1/hosts/edge-1"), None);
    }
}
