//! On whose behalf a call is made: the process at the other end of the connection, or the identity that kelson-apid
//! forwards for it.

use std::fmt;
use std::sync::Arc;

use kelson_services::admission::{ApiAccess, Standing, no_access};
use tonic::Status;
use tonic::codegen::http::HeaderMap;

use kelson_proto::access::{self, Role};
use kelson_proto::call::{IDENTITY, IDENTITY_MAX, ROLE};

/// On whose behalf a call is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    Local { uid: u32, pid: Option<i32> },
    Service { name: Arc<str>, uid: u32, pid: i32, role: Role },
    Vsock { cid: u32, port: u32, role: Role },
    Remote { identity: String, role: Option<Role> },
}

/// The question to [`Admission`](kelson_services::admission::Admission): the access that the file of a
/// service grants now.
pub type Grants<'a> = &'a (dyn Fn(&str) -> ApiAccess + Sync);

impl Caller {
    /// The name of the caller in the audit log.
    pub fn identity(&self) -> String {
        match self {
            Caller::Remote { identity, .. } => identity.clone(),
            Caller::Local { .. } | Caller::Service { .. } | Caller::Vsock { .. } => self.to_string(),
        }
    }

    /// The name of its role; `local`: it is the operator of the host itself.
    pub fn role(&self) -> &'static str {
        match self {
            Caller::Local { .. } => "local",
            Caller::Service { role, .. } | Caller::Vsock { role, .. } => role.name(),
            Caller::Remote { role, .. } => role.map_or("none", Role::name),
        }
    }

    /// Whether it may call this method. kelson-apid has asked as well.
    ///
    /// # Errors
    /// PERMISSION_DENIED, with what would be needed.
    pub fn may(&self, path: &str) -> Result<(), Status> {
        match self {
            Caller::Local { .. }
            | Caller::Service { role: Role::Admin, .. }
            | Caller::Vsock { role: Role::Admin, .. } => Ok(()),
            Caller::Service { name, role, .. } => {
                let needed = access::of(path).map_or(Role::Admin, |access| access.role);
                if *role >= needed {
                    return Ok(());
                }
                Err(Status::permission_denied(format!(
                    "{} needs `api: {}`, and the file of service \"{name}\" has `api: {}`",
                    access::method(path),
                    needed.word(),
                    role.word()
                )))
            }
            Caller::Vsock { role, .. } => access::check(path, Some(*role)),
            Caller::Remote { role, .. } => access::check(path, *role),
        }
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Caller::Local { uid, pid: Some(pid) } => write!(f, "user {uid} (process {pid})"),
            Caller::Local { uid, pid: None } => write!(f, "user {uid}"),
            Caller::Service { name, uid, pid, .. } => {
                write!(f, "user {uid} (process {pid} of service {name})")
            }
            Caller::Vsock { cid, port, .. } => write!(f, "CID {cid} port {port} over vsock"),
            Caller::Remote { identity, .. } => write!(f, "{identity} through apid"),
        }
    }
}

/// On whose behalf this call is made.
///
/// # Errors
/// PERMISSION_DENIED, with what to do about it.
pub fn caller(standing: &Standing, headers: &HeaderMap, grants: Grants<'_>) -> Result<Caller, Status> {
    let caller = match standing {
        Standing::Refused(why) => return Err(Status::permission_denied(why.as_str())),
        Standing::Forwarder => None,
        Standing::Host { uid, pid } => Some(Caller::Local { uid: *uid, pid: *pid }),
        Standing::Service { name, uid, pid } => {
            // Asked for each call: the file may have been read again since the connection was made.
            let role = role_of(grants(name)).ok_or_else(|| Status::permission_denied(no_access(name)))?;
            Some(Caller::Service { name: Arc::clone(name), uid: *uid, pid: *pid, role })
        }
        Standing::Vsock { cid, port, access } => {
            let role = role_of(*access)
                .ok_or_else(|| Status::permission_denied("this machine takes no calls over vsock"))?;
            Some(Caller::Vsock { cid: *cid, port: *port, role })
        }
    };
    match (identity(headers)?, caller) {
        (Some(_), Some(Caller::Service { name, .. })) => Err(Status::permission_denied(format!(
            "the metadata {IDENTITY} is kelson-apid's: service \"{name}\" calls for itself alone"
        ))),
        (Some(_), Some(Caller::Vsock { .. })) => Err(Status::permission_denied(format!(
            "the metadata {IDENTITY} is kelson-apid's: over vsock a client calls for itself alone"
        ))),
        (Some(identity), _) => Ok(Caller::Remote { identity, role: role(headers)? }),
        (None, Some(caller)) => Ok(caller),
        (None, None) => Err(Status::permission_denied(format!(
            "kelson-apid must say on whose behalf it calls, in the metadata {IDENTITY}; it may do nothing of itself"
        ))),
    }
}

fn role_of(access: ApiAccess) -> Option<Role> {
    match access {
        ApiAccess::None => None,
        ApiAccess::Reader => Some(Role::Reader),
        ApiAccess::Operator => Some(Role::Operator),
        ApiAccess::Admin => Some(Role::Admin),
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
        let called = caller(&Standing::Forwarder, &headers, NOTHING).unwrap();
        assert_eq!(called, ann(Some(Role::Operator)));
        assert!(called.may("/kelson.v1.Machine/Shutdown").is_ok());
        let denied = called.may("/kelson.v1.Exec/Run").unwrap_err();
        assert_eq!(denied.code(), Code::PermissionDenied);
        assert!(ann(None).may("/kelson.v1.Services/List").is_err(), "no role, no call");
        assert!(Caller::Local { uid: 0, pid: None }.may("/kelson.v1.Exec/Run").is_ok());
        headers.append(ROLE, HeaderValue::from_static("os:admin"));
        assert!(caller(&Standing::Forwarder, &headers, NOTHING).is_err(), "two roles");
        let mut headers = with(&[b"CN=ann"]);
        headers.append(ROLE, HeaderValue::from_static("os:root"));
        assert!(caller(&Standing::Forwarder, &headers, NOTHING).is_err());
    }

    const ROOT: Standing = Standing::Host { uid: 0, pid: Some(7) };
    const NOTHING: Grants<'static> = &|_| ApiAccess::None;

    fn web() -> Standing {
        Standing::Service { name: Arc::from("web"), uid: 0, pid: 7 }
    }

    #[test]
    fn a_process_of_a_service_may_do_what_its_file_grants_now() {
        let refused = |grants: Grants<'_>, headers: &HeaderMap, path: &str| {
            let asked = caller(&web(), headers, grants).and_then(|called| called.may(path));
            let status = asked.expect_err(path);
            assert_eq!(status.code(), Code::PermissionDenied);
            status.message().to_owned()
        };
        let (none, list) = (HeaderMap::new(), "/kelson.v1.Services/List");
        assert_eq!(
            refused(NOTHING, &none, list),
            "service \"web\" has no access to the API: set `api:` in its file (reader, operator or admin)"
        );
        let reader: Grants<'_> = &|name| if name == "web" { ApiAccess::Reader } else { ApiAccess::None };
        let called = caller(&web(), &none, reader).unwrap();
        assert_eq!(called.to_string(), "user 0 (process 7 of service web)");
        assert!(called.may(list).is_ok());
        assert_eq!(
            refused(reader, &none, "/kelson.v1.Machine/Shutdown"),
            "Machine.Shutdown needs `api: operator`, and the file of service \"web\" has `api: reader`"
        );
        let operator: Grants<'_> = &|_| ApiAccess::Operator;
        assert!(caller(&web(), &none, operator).unwrap().may("/kelson.v1.Machine/Shutdown").is_ok());
        assert!(refused(operator, &none, "/kelson.v1.Exec/Run").contains("`api: admin`"));
        assert!(refused(operator, &none, "/not.In/TheTable").contains("`api: admin`"));
        let admin: Grants<'_> = &|_| ApiAccess::Admin;
        assert!(caller(&web(), &none, admin).unwrap().may("/not.In/TheTable").is_ok());
        let mut forged = with(&[b"CN=ann"]);
        forged.append(ROLE, HeaderValue::from_static("os:admin"));
        assert!(refused(reader, &forged, list).contains("calls for itself alone"));
    }

    #[test]
    fn over_vsock_a_client_has_the_role_of_the_command_line_and_no_other_identity() {
        let at = |access| Standing::Vsock { cid: 2, port: 1024, access };
        let called = caller(&at(ApiAccess::Reader), &HeaderMap::new(), NOTHING).unwrap();
        assert_eq!(called.to_string(), "CID 2 port 1024 over vsock");
        assert!(called.may("/kelson.v1.Services/List").is_ok());
        let denied = called.may("/kelson.v1.Exec/Run").unwrap_err();
        assert_eq!(denied.code(), Code::PermissionDenied);
        let admin = caller(&at(ApiAccess::Admin), &HeaderMap::new(), NOTHING).unwrap();
        assert!(admin.may("/kelson.v1.Exec/Run").is_ok());
        let mut forged = with(&[b"CN=ann"]);
        forged.append(ROLE, HeaderValue::from_static("os:admin"));
        let denied = caller(&at(ApiAccess::Reader), &forged, NOTHING).unwrap_err();
        assert!(denied.message().contains("calls for itself alone"), "{denied}");
    }

    #[test]
    fn root_calls_for_itself_or_for_somebody() {
        assert_eq!(
            caller(&ROOT, &HeaderMap::new(), NOTHING).unwrap(),
            Caller::Local { uid: 0, pid: Some(7) }
        );
        assert_eq!(caller(&ROOT, &with(&[b"CN=ann"]), NOTHING).unwrap(), ann(None));
    }

    #[test]
    fn apid_calls_for_somebody_only() {
        let denied = caller(&Standing::Forwarder, &HeaderMap::new(), NOTHING).unwrap_err();
        assert_eq!(denied.code(), Code::PermissionDenied);
        assert!(denied.message().contains(IDENTITY), "{denied}");
        assert_eq!(caller(&Standing::Forwarder, &with(&[b"CN=ann"]), NOTHING).unwrap(), ann(None));
    }

    #[test]
    fn an_identity_is_short_printable_and_one() {
        let longest = vec![b'a'; IDENTITY_MAX];
        assert!(caller(&Standing::Forwarder, &with(&[&longest]), NOTHING).is_ok());
        let too_long = vec![b'a'; IDENTITY_MAX + 1];
        for bad in [vec![&b""[..]], vec![b"a\tb"], vec![b"a", b"b"], vec![&too_long], vec!["é".as_bytes()]] {
            for standing in [ROOT, Standing::Forwarder] {
                let denied = caller(&standing, &with(&bad), NOTHING).unwrap_err();
                assert_eq!(denied.code(), Code::PermissionDenied, "{bad:?}");
            }
        }
    }

    #[test]
    fn a_stranger_stays_refused_whatever_it_sends() {
        let denied = caller(&Standing::Refused("no".into()), &with(&[b"CN=ann"]), NOTHING).unwrap_err();
        assert_eq!((denied.code(), denied.message()), (Code::PermissionDenied, "no"));
    }
}
