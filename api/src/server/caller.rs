//! Who calls: the peer of a connection by SO_PEERCRED, and the identity that kelson-apid forwards.

use std::fmt;

use tokio::net::unix::UCred;
use tonic::Status;
use tonic::codegen::http::HeaderMap;

use crate::access::{self, Role};
use crate::{IDENTITY, IDENTITY_MAX, ROLE};

/// Whom the server takes.
#[derive(Debug, Clone, Copy)]
pub struct Admission {
    /// PID 1's own user: root, or whoever runs a container mode.
    pub own_uid: u32,
    pub apid_uid: Option<u32>,
}

/// What is asked of a peer that has kelson-apid's user: whether it is kelson-apid, by its PID.
type IsApid<'a> = &'a dyn Fn(i32) -> bool;

/// What the peer of a connection may do, asked once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// Root or PID 1's own user.
    Trusted { uid: u32, pid: Option<i32> },
    /// kelson-apid: only on behalf of somebody.
    Forwarder,
    /// A stranger: each of its calls is denied with this sentence.
    Refused(String),
}

/// On whose behalf a call is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    Local { uid: u32, pid: Option<i32> },
    Remote { identity: String, role: Option<Role> },
}

impl Caller {
    /// Whether it may call this method. kelson-apid has asked as well.
    ///
    /// # Errors
    /// PERMISSION_DENIED, with what would be needed.
    pub fn may(&self, path: &str) -> Result<(), Status> {
        match self {
            Caller::Local { .. } => Ok(()),
            Caller::Remote { role, .. } => access::check(path, *role),
        }
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Caller::Local { uid, pid: Some(pid) } => write!(f, "user {uid} (process {pid})"),
            Caller::Local { uid, pid: None } => write!(f, "user {uid}"),
            Caller::Remote { identity, .. } => write!(f, "{identity} through apid"),
        }
    }
}

impl Admission {
    /// `is_apid` is asked of those alone who have its user: a service may have been given it as well.
    pub fn judge(self, peer: std::io::Result<UCred>, is_apid: IsApid<'_>) -> Standing {
        let peer = match peer {
            Ok(peer) => peer,
            Err(error) => return Standing::Refused(format!("the kernel does not tell who calls: {error}")),
        };
        let uid = peer.uid();
        if uid == 0 || uid == self.own_uid {
            // 0 is a process outside this PID namespace.
            Standing::Trusted { uid, pid: peer.pid().filter(|pid| *pid > 0) }
        } else if Some(uid) == self.apid_uid && peer.pid().is_some_and(is_apid) {
            Standing::Forwarder
        } else {
            Standing::Refused(format!(
                "user {uid} may not use this socket: call as root (sudo kelsonctl …), or from elsewhere through \
                 kelson-apid with a client certificate (kelsonctl --endpoint HOST:PORT)"
            ))
        }
    }
}

impl Standing {
    /// Nothing that it asks for is done.
    pub fn refused(&self) -> bool {
        matches!(self, Standing::Refused(_))
    }

    /// On whose behalf this call is made.
    ///
    /// # Errors
    /// PERMISSION_DENIED, with what to do about it.
    pub fn caller(&self, headers: &HeaderMap) -> Result<Caller, Status> {
        match self {
            Standing::Refused(why) => return Err(Status::permission_denied(why.as_str())),
            Standing::Trusted { .. } | Standing::Forwarder => {}
        }
        match (identity(headers)?, self) {
            (Some(identity), _) => Ok(Caller::Remote { identity, role: role(headers)? }),
            (None, Standing::Trusted { uid, pid }) => Ok(Caller::Local { uid: *uid, pid: *pid }),
            (None, _) => Err(Status::permission_denied(format!(
                "kelson-apid must say on whose behalf it calls, in the metadata {IDENTITY}; it may do nothing of itself"
            ))),
        }
    }
}

/// The forwarded identity: at most one, of printable ASCII, since it goes to the kernel log.
fn identity(headers: &HeaderMap) -> Result<Option<String>, Status> {
    let mut values = headers.get_all(IDENTITY).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let bytes = value.as_bytes();
    let printable = bytes.iter().all(|byte| matches!(byte, b' '..=b'~'));
    if values.next().is_some() || bytes.is_empty() || bytes.len() > IDENTITY_MAX || !printable {
        return Err(Status::permission_denied(format!(
            "the metadata {IDENTITY} must be one value of 1 to {IDENTITY_MAX} printable ASCII characters"
        )));
    }
    Ok(Some(String::from_utf8_lossy(bytes).into_owned()))
}

/// The forwarded role: one of those that there are, or none.
fn role(headers: &HeaderMap) -> Result<Option<Role>, Status> {
    let mut values = headers.get_all(ROLE).iter();
    let Some(value) = values.next() else { return Ok(None) };
    match Role::named(value.as_bytes()) {
        Some(role) if values.next().is_none() => Ok(Some(role)),
        _ => Err(Status::permission_denied(format!("the metadata {ROLE} must be one role"))),
    }
}

#[cfg(test)]
mod tests {
    use tonic::Code;
    use tonic::codegen::http::HeaderValue;

    use super::*;

    fn with(values: &[&[u8]]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(IDENTITY, HeaderValue::from_bytes(value).unwrap());
        }
        headers
    }

    fn ann(role: Option<Role>) -> Caller {
        Caller::Remote { identity: "CN=ann".into(), role }
    }

    #[test]
    fn a_role_is_one_of_those_that_there_are() {
        let mut headers = with(&[b"CN=ann"]);
        headers.append(ROLE, HeaderValue::from_static("os:operator"));
        let caller = Standing::Forwarder.caller(&headers).unwrap();
        assert_eq!(caller, ann(Some(Role::Operator)));
        assert!(caller.may("/kelson.v1.Machine/Shutdown").is_ok());
        let denied = caller.may("/kelson.v1.Exec/Run").unwrap_err();
        assert_eq!(denied.code(), Code::PermissionDenied);
        assert!(ann(None).may("/kelson.v1.Services/List").is_err(), "no role, no call");
        assert!(Caller::Local { uid: 0, pid: None }.may("/kelson.v1.Exec/Run").is_ok());
        headers.append(ROLE, HeaderValue::from_static("os:admin"));
        assert!(Standing::Forwarder.caller(&headers).is_err(), "two roles");
        let mut headers = with(&[b"CN=ann"]);
        headers.append(ROLE, HeaderValue::from_static("os:root"));
        assert!(Standing::Forwarder.caller(&headers).is_err());
    }

    const ROOT: Standing = Standing::Trusted { uid: 0, pid: Some(7) };

    #[test]
    fn root_calls_for_itself_or_for_somebody() {
        assert_eq!(ROOT.caller(&HeaderMap::new()).unwrap(), Caller::Local { uid: 0, pid: Some(7) });
        assert_eq!(ROOT.caller(&with(&[b"CN=ann"])).unwrap(), ann(None));
    }

    #[test]
    fn apid_calls_for_somebody_only() {
        let denied = Standing::Forwarder.caller(&HeaderMap::new()).unwrap_err();
        assert_eq!(denied.code(), Code::PermissionDenied);
        assert!(denied.message().contains(IDENTITY), "{denied}");
        assert_eq!(Standing::Forwarder.caller(&with(&[b"CN=ann"])).unwrap(), ann(None));
    }

    #[test]
    fn an_identity_is_short_printable_and_one() {
        let longest = vec![b'a'; IDENTITY_MAX];
        assert!(Standing::Forwarder.caller(&with(&[&longest])).is_ok());
        let too_long = vec![b'a'; IDENTITY_MAX + 1];
        for bad in [vec![&b""[..]], vec![b"a\tb"], vec![b"a", b"b"], vec![&too_long], vec!["é".as_bytes()]] {
            for standing in [ROOT, Standing::Forwarder] {
                let denied = standing.caller(&with(&bad)).unwrap_err();
                assert_eq!(denied.code(), Code::PermissionDenied, "{bad:?}");
            }
        }
    }

    #[test]
    fn a_stranger_stays_refused_whatever_it_sends() {
        let denied = Standing::Refused("no".into()).caller(&with(&[b"CN=ann"])).unwrap_err();
        assert_eq!((denied.code(), denied.message()), (Code::PermissionDenied, "no"));
    }
}
