//! Access from elsewhere: the roles of a client's certificate, and the least role of each method.
//!
//! The roles are organisations of the certificate's subject (`O=os:admin`), as Talos and others have them. kelson-apid
//! asks this table before it forwards a call, and PID 1 asks it again. What does not stand in it nobody may call
//! through kelson-apid; the operator of the host itself may call all.

use std::fmt;

use tonic::Status;

/// The rights of a certificate's holder; each role also has those of the roles before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Looks.
    Reader,
    /// Starts and stops services and the machine.
    Operator,
    /// All: runs commands on the machine, too.
    Admin,
}

impl Role {
    pub const ALL: [Role; 3] = [Role::Reader, Role::Operator, Role::Admin];

    /// The organisation that stands for it.
    pub const fn name(self) -> &'static str {
        match self {
            Role::Reader => "os:reader",
            Role::Operator => "os:operator",
            Role::Admin => "os:admin",
        }
    }

    /// The word for it in a service file.
    pub fn word(self) -> &'static str {
        self.name().trim_start_matches("os:")
    }

    pub fn named(name: &[u8]) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.name().as_bytes() == name)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One line of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// As it stands in the request: `/package.Service/Method`.
    pub path: &'static str,
    pub role: Role,
}

const fn may(role: Role, path: &'static str) -> Access {
    Access { path, role }
}

/// Every method that can be called through kelson-apid.
pub const TABLE: &[Access] = &[
    may(Role::Reader, "/kelson.v1.Services/List"),
    may(Role::Reader, "/kelson.v1.Services/Status"),
    may(Role::Reader, "/kelson.v1.Services/Wait"),
    may(Role::Reader, "/kelson.v1.Services/Why"),
    may(Role::Reader, "/kelson.v1.Services/Graph"),
    may(Role::Reader, "/kelson.v1.Services/Events"),
    may(Role::Operator, "/kelson.v1.Services/Start"),
    may(Role::Operator, "/kelson.v1.Services/Stop"),
    may(Role::Operator, "/kelson.v1.Services/Restart"),
    may(Role::Operator, "/kelson.v1.Services/Signal"),
    may(Role::Operator, "/kelson.v1.Services/Reload"),
    may(Role::Operator, "/kelson.v1.Services/ReloadServices"),
    may(Role::Reader, "/kelson.v1.Machine/Version"),
    may(Role::Reader, "/kelson.v1.Machine/Caller"),
    may(Role::Reader, "/kelson.v1.Machine/Boot"),
    may(Role::Reader, "/kelson.v1.Machine/Dmesg"),
    may(Role::Operator, "/kelson.v1.Machine/Shutdown"),
    may(Role::Operator, "/kelson.v1.Machine/Reexec"),
    may(Role::Operator, "/kelson.v1.Machine/Resumed"),
    may(Role::Operator, "/kelson.v1.Machine/UnlockDisk"),
    may(Role::Admin, "/kelson.v1.Machine/RecoveryKey"),
    may(Role::Admin, "/kelson.v1.Configuration/Apply"),
    may(Role::Admin, "/kelson.v1.Configuration/Confirm"),
    may(Role::Admin, "/kelson.v1.Configuration/Get"),
    may(Role::Reader, "/kelson.v1.Configuration/History"),
    may(Role::Admin, "/kelson.v1.Secrets/Set"),
    may(Role::Reader, "/kelson.v1.Secrets/List"),
    may(Role::Admin, "/kelson.v1.Secrets/Remove"),
    may(Role::Reader, "/kelson.v1.Timers/List"),
    may(Role::Reader, "/kelson.v1.Volumes/List"),
    may(Role::Reader, "/kelson.v1.Volumes/Status"),
    may(Role::Reader, "/kelson.v1.Volumes/Providers"),
    may(Role::Admin, "/kelson.v1.Volumes/Create"),
    may(Role::Admin, "/kelson.v1.Volumes/Delete"),
    may(Role::Admin, "/kelson.v1.Volumes/Expand"),
    may(Role::Admin, "/kelson.v1.Volumes/CreateSnapshot"),
    may(Role::Admin, "/kelson.v1.Volumes/DeleteSnapshot"),
    may(Role::Reader, "/kelson.v1.Volumes/ListSnapshots"),
    may(Role::Reader, "/kelson.v1.Fleet/Registry"),
    may(Role::Reader, "/kelson.v1.Fleet/Status"),
    may(Role::Reader, "/kelson.v1.Fleet/Hosts"),
    may(Role::Reader, "/kelson.v1.Fleet/Instances"),
    may(Role::Reader, "/kelson.v1.Fleet/Plans"),
    may(Role::Operator, "/kelson.v1.Fleet/PutPlan"),
    may(Role::Operator, "/kelson.v1.Fleet/RemovePlan"),
    may(Role::Reader, "/kelson.v1.Images/List"),
    may(Role::Operator, "/kelson.v1.Images/Prune"),
    may(Role::Operator, "/kelson.v1.Images/Update"),
    may(Role::Admin, "/kelson.v1.Exec/Run"),
    may(Role::Reader, "/kelson.v1.Logs/Read"),
    may(Role::Reader, "/kelson.v1.Metrics/Get"),
    may(Role::Reader, "/kelson.v1.Health/Get"),
    may(Role::Reader, "/kelson.v1.Health/Watch"),
    may(Role::Reader, "/kelson.v1.Health/List"),
    may(Role::Reader, "/kelson.v1.Inspect/Processes"),
    may(Role::Reader, "/kelson.v1.Inspect/Mounts"),
    may(Role::Reader, "/kelson.v1.Inspect/Memory"),
    may(Role::Reader, "/kelson.v1.Inspect/Cpu"),
    may(Role::Reader, "/kelson.v1.Inspect/Disks"),
    may(Role::Reader, "/kelson.v1.Inspect/Facts"),
    may(Role::Reader, "/kelson.v1.Inspect/Network"),
    may(Role::Reader, "/kelson.v1.Inspect/Sockets"),
    may(Role::Reader, "/kelson.v1.Inspect/Cgroups"),
    may(Role::Reader, "/kelson.v1.Inspect/Clock"),
    may(Role::Admin, "/kelson.v1.Inspect/Files"),
    may(Role::Admin, "/kelson.v1.Inspect/ReadFile"),
    may(Role::Admin, "/kelson.v1.Inspect/Copy"),
    may(Role::Admin, "/kelson.v1.Inspect/WriteFile"),
    may(Role::Reader, "/grpc.health.v1.Health/Check"),
    may(Role::Reader, "/grpc.health.v1.Health/Watch"),
    may(Role::Reader, "/grpc.health.v1.Health/List"),
    may(Role::Reader, "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"),
    may(Role::Reader, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"),
    // A release has no such method.
    may(Role::Admin, "/kelson.test.v1.Faults/Provoke"),
];

/// The line of a method.
pub fn of(path: &str) -> Option<&'static Access> {
    TABLE.iter().find(|access| access.path == path)
}

/// Whether a call of this method changes nothing, and has one request: it may be made again when its answer was lost.
/// Not `Wait`, whose request says how long is still left.
pub fn only_reads(path: &str) -> bool {
    let looks = |access: &Access| access.role == Role::Reader || path.starts_with("/kelson.v1.Inspect/");
    let acts = path.ends_with("/Wait") || path.ends_with("/WriteFile");
    path.starts_with("/kelson.v1.") && !acts && of(path).is_some_and(looks)
}

/// Methods of the API with a stream of requests or of answers.
const STREAMS: &[&str] = include!(concat!(env!("OUT_DIR"), "/streams.rs"));

/// Whether the answer of a call that [only reads](only_reads) is one message.
pub fn answers_in_one_message(path: &str) -> bool {
    only_reads(path) && !STREAMS.contains(&path)
}

/// Whether a caller with this role may call this method.
///
/// # Errors
/// PERMISSION_DENIED, with what would be needed.
pub fn check(path: &str, role: Option<Role>) -> Result<(), Status> {
    let Some(role) = role else {
        return Err(Status::permission_denied(format!(
            "the client certificate has no role: its subject needs the organisation {}, {} or {}",
            Role::Reader,
            Role::Operator,
            Role::Admin
        )));
    };
    match of(path) {
        Some(access) if role >= access.role => Ok(()),
        Some(access) => Err(Status::permission_denied(format!(
            "{} needs the role {}, and the client certificate has {role}",
            method(path),
            access.role
        ))),
        None => Err(Status::permission_denied(format!(
            "{} is not served to other machines: no role may call it",
            method(path)
        ))),
    }
}

/// `/kelson.v1.Services/List` as it is shown: `Services.List`.
pub fn method(path: &str) -> String {
    let known = of(path).map_or(path, |access| access.path.trim_start_matches('/'));
    match known.strip_prefix("kelson.v1.") {
        Some(short) => short.replace('/', "."),
        None => known.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_may_do_what_those_before_it_may() {
        let may = |path: &str| -> Vec<Role> {
            Role::ALL.into_iter().filter(|role| check(path, Some(*role)).is_ok()).collect()
        };
        assert_eq!(may("/kelson.v1.Services/List"), Role::ALL);
        assert_eq!(may("/kelson.v1.Machine/Shutdown"), [Role::Operator, Role::Admin]);
        assert_eq!(may("/kelson.v1.Exec/Run"), [Role::Admin]);
        for unknown in
            ["/kelson.v1.Services/Lists", "/kelson.v1.Services", "/", "", "kelson.v1.Services/List"]
        {
            assert_eq!(may(unknown), [], "{unknown}");
        }
    }

    #[test]
    fn only_calls_that_change_nothing_are_made_again() {
        for path in ["Services/List", "Services/Events", "Logs/Read", "Inspect/Copy"] {
            assert!(only_reads(&format!("/kelson.v1.{path}")), "{path}");
        }
        for path in [
            "Services/Stop",
            "Services/Wait",
            "Services/Reload",
            "Machine/Reexec",
            "Images/Prune",
            "Images/Update",
            "Inspect/WriteFile",
            "Exec/Run",
            "x.Y/Z",
        ] {
            assert!(!only_reads(&format!("/kelson.v1.{path}")), "{path}");
        }
        // A stream of requests is gone once it is sent.
        assert!(!only_reads("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"));
    }

    #[test]
    fn who_answers_in_one_message() {
        for (path, one) in [
            ("Services/List", true),
            ("Inspect/Clock", true),
            ("Services/Events", false),
            ("Inspect/Copy", false),
            ("Services/Wait", false),
            ("Services/Stop", false),
        ] {
            assert_eq!(answers_in_one_message(&format!("/kelson.v1.{path}")), one, "{path}");
        }
    }

    #[test]
    fn a_refusal_says_what_is_needed() {
        let said = |path: &str, role| check(path, role).unwrap_err().message().to_owned();
        assert_eq!(
            said("/kelson.v1.Machine/Shutdown", Some(Role::Reader)),
            "Machine.Shutdown needs the role os:operator, and the client certificate has os:reader"
        );
        assert!(said("/kelson.v1.Machine/Version", None).contains("os:reader, os:operator or os:admin"));
        assert!(said("/x.Y/Z", Some(Role::Admin)).contains("/x.Y/Z is not served"));
    }

    #[test]
    fn names_are_whole_and_exact() {
        for role in Role::ALL {
            assert_eq!(Role::named(role.name().as_bytes()), Some(role));
        }
        for other in ["", "os:", "os:Admin", "os:admin ", "admin", "os:admin\0", "os:adminx"] {
            assert_eq!(Role::named(other.as_bytes()), None, "{other:?}");
        }
    }

    /// Each method of PID 1 and kelson-logd in the protos is in the table, once.
    #[test]
    fn every_method_has_its_line() {
        use prost::Message as _;
        let files = prost_types::FileDescriptorSet::decode(crate::v1::FILE_DESCRIPTOR_SET).unwrap();
        let mut missing = Vec::new();
        for file in &files.file {
            for service in &file.service {
                let name = format!("{}.{}", file.package(), service.name());
                let paths = service.method.iter().map(|method| format!("/{name}/{}", method.name()));
                missing.extend(paths.filter(|path| of(path).is_none()));
            }
        }
        assert_eq!(missing, Vec::<String>::new());
        for access in TABLE {
            assert_eq!(TABLE.iter().filter(|other| other.path == access.path).count(), 1, "{}", access.path);
        }
    }
}
