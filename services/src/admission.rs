//! Decides which processes may connect: uid 0 alone makes nobody the operator of the host.
//!
//! The process at the other end must have PID 1's user, be in its user namespace, and hold CAP_SYS_ADMIN where PID 1
//! does. One in the cgroup of a service, or below it, has no more than the service's file grants, whatever it is
//! besides. Where there is no cgroup2, each process that descends from PID 1 is a process of the service whose main
//! process is among its ancestors, and is refused where there is none; who has entered the PID namespace from outside
//! does not descend from PID 1. Of a process outside PID 1's PID namespace the kernel tells its user and nothing else;
//! that decides then.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use kelson_runner::CgroupRoot;
use kelson_runner::peer::{Peer, Power, descent};
pub use kelson_spec::service::ApiAccess;
pub use kelson_spec::vsock::VsockSpec;
use kelson_sys::{process, vsock};

use crate::builtins::{apid, containerd};
use crate::error::ServicesError::{self, Denied};
use crate::manager::Manager;

/// The rights of the peer of a connection, determined once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// The operator of the host: in no service's cgroup, and as powerful as PID 1.
    Host { uid: u32, pid: Option<i32> },
    /// A process of a service, which may do what the service's file grants.
    Service { name: Arc<str>, uid: u32, pid: i32 },
    /// The process of kelson-apid that meets strangers: only on behalf of somebody.
    Forwarder,
    /// A process of the hypervisor's host, or of another machine that is configured, at the other end of a vsock
    /// connection.
    Vsock { cid: u32, port: u32, access: ApiAccess },
    /// Each of its calls is denied with this sentence.
    Refused(String),
}

impl Standing {
    /// Nothing that it asks for is done.
    pub fn refused(&self) -> bool {
        matches!(self, Standing::Refused(_))
    }
}

/// The sentence for a process of a service that has no access.
pub fn no_access(service: &str) -> String {
    format!(
        "service \"{service}\" has no access to the API: set `api:` in its file (reader, operator or admin)"
    )
}

/// Judges connections. Cheap to clone.
#[derive(Clone)]
pub struct Admission(Arc<Inner>);

struct Inner {
    manager: Manager,
    cgroups: Option<CgroupRoot>,
    uid: u32,
    power: Result<Power, ServicesError>,
    apid_uid: u32,
    vsock: Option<VsockSpec>,
}

/// The side that a process belongs to.
enum Owner {
    /// No service's.
    Host,
    Service(Arc<str>),
    /// A service's, and nobody can tell which.
    Unknown,
}

impl Admission {
    /// `cgroups`: where those of the services are, if there are any.
    /// `vsock`: who may connect there.
    pub fn new(
        manager: Manager,
        cgroups: Option<CgroupRoot>,
        apid_uid: u32,
        vsock: Option<VsockSpec>,
    ) -> Admission {
        Admission(Arc::new(Inner {
            manager,
            cgroups,
            uid: nix::unistd::geteuid().as_raw(),
            power: Power::own().map_err(|error| Denied(error.to_string())),
            apid_uid,
            vsock,
        }))
    }

    /// The access to the API that the service file grants to the processes of the service now.
    pub fn grants(&self, service: &str) -> ApiAccess {
        self.0.manager.spec(service).map_or(ApiAccess::None, |spec| spec.api)
    }

    /// Whether the process at the other end of this socket may read the logs.
    ///
    /// # Errors
    /// Why not.
    pub fn may_read_logs(&self, socket: BorrowedFd<'_>) -> Result<(), ServicesError> {
        match self.judge(socket) {
            // A service that has any access may read; kelson-apid has asked for the role.
            Standing::Host { .. }
            | Standing::Service { .. }
            | Standing::Forwarder
            | Standing::Vsock { .. } => Ok(()),
            Standing::Refused(why) => Err(Denied(why)),
        }
    }

    /// Determines the peer of this socket. Reads files of `/proc` alone, of which none makes PID 1 wait.
    pub fn judge(&self, socket: BorrowedFd<'_>) -> Standing {
        if let Some(vsock) = &self.0.vsock
            && let Some((cid, port)) = vsock::peer(socket)
        {
            return vsock_standing(vsock, cid, port);
        }
        let peer = match Peer::of(socket) {
            Ok(peer) => peer,
            Err(error) => return Standing::Refused(format!("the kernel does not say who calls: {error}")),
        };
        self.standing(&peer).unwrap_or_else(|refusal| Standing::Refused(refusal.to_string()))
    }

    fn standing(&self, peer: &Peer) -> Result<Standing, ServicesError> {
        let uid = peer.uid();
        let own = self.0.uid;
        if (uid == own || uid == self.0.apid_uid) && self.is_apid(peer) {
            return Ok(Standing::Forwarder);
        }
        if uid != own {
            let who = if own == 0 { "root (sudo kelsonctl …)".to_owned() } else { format!("user {own}") };
            return Err(Denied(format!(
                "user {uid} may not use this socket: call as {who}, or from elsewhere through kelson-apid with a \
                 client certificate (kelsonctl --endpoint HOST:PORT)"
            )));
        }
        let Some(pid) = peer.pid() else { return Ok(Standing::Host { uid, pid: None }) };
        let cannot = |error: String| Denied(format!("process {pid} has no access to the API: {error}"));
        let owner = peer.ask(|pid| self.owner(pid)).map_err(|error| cannot(error.to_string()))?;
        // A mistake in a file comes first: an operator can correct it.
        match &owner {
            Owner::Service(name) if self.grants(name) == ApiAccess::None => {
                let builtin = self.0.manager.get(name).is_some_and(|service| service.builtin);
                return Err(Denied(match builtin {
                    true => format!("{name} is a part of Kelson and has no access to the API"),
                    false => no_access(name),
                }));
            }
            Owner::Unknown => {
                let why = "the service of the process is not known: there is no cgroup2".to_owned();
                return Err(cannot(why));
            }
            Owner::Host | Owner::Service(_) => {}
        }
        let power =
            peer.ask(Power::of).map_err(|error| cannot(format!("PID 1 cannot look at it: {error}")))?;
        let ours = self.0.power.as_ref().map_err(|error| cannot(error.to_string()))?;
        if !power.same_user_namespace(ours) {
            return Err(cannot("it is in another user namespace than PID 1".to_owned()));
        }
        if ours.administers && !power.administers {
            return Err(cannot("it has not the capability CAP_SYS_ADMIN, which PID 1 has".to_owned()));
        }
        Ok(match owner {
            Owner::Service(name) => Standing::Service { name, uid, pid },
            Owner::Host | Owner::Unknown => Standing::Host { uid, pid: Some(pid) },
        })
    }

    /// The process that meets strangers is a child of the service's main process, which calls nobody.
    fn is_apid(&self, peer: &Peer) -> bool {
        peer.ask(|pid| Ok(self.0.manager.is_child_of(apid::NAME, pid))).unwrap_or(false)
    }

    fn owner(&self, pid: i32) -> std::io::Result<Owner> {
        let Some(cgroups) = &self.0.cgroups else { return Ok(self.of_descent(pid)) };
        let membership = process::membership(pid)?;
        Ok(match cgroups.service_of(&membership) {
            None => Owner::Host,
            // Where cgroup2 is mounted beside the older kind, containers stay in the cgroup of containerd.
            Some(name) if name == containerd::NAME => match self.of_descent(pid) {
                Owner::Service(name) => Owner::Service(name),
                Owner::Host | Owner::Unknown => Owner::Service(Arc::from(name)),
            },
            Some(name) => Owner::Service(Arc::from(name)),
        })
    }

    fn of_descent(&self, pid: i32) -> Owner {
        match descent(pid) {
            None => Owner::Host,
            Some(line) if line.is_empty() => Owner::Host,
            Some(line) => {
                let running = self.0.manager.list();
                let of = |pid: &i32| running.iter().find(|service| service.pid == Some(*pid));
                line.iter()
                    .find_map(of)
                    .map_or(Owner::Unknown, |found| Owner::Service(Arc::clone(&found.name)))
            }
        }
    }
}

/// The kernel reports the CID of a caller over vsock; behind it every process of that machine is alike.
fn vsock_standing(vsock: &VsockSpec, cid: u32, port: u32) -> Standing {
    if cid == vsock.cid {
        return Standing::Vsock { cid, port, access: vsock.access };
    }
    Standing::Refused(format!(
        "CID {cid} may not connect: this machine takes calls over vsock from CID {} only (cid= of kelson.api); a \
         process on the machine itself uses the Unix socket",
        vsock.cid
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn over_vsock_one_cid_has_access() {
        let vsock = VsockSpec::parse("vsock:5000,role=reader").unwrap();
        let host = vsock_standing(&vsock, 2, 1024);
        assert!(
            matches!(host, Standing::Vsock { cid: 2, port: 1024, access: ApiAccess::Reader }),
            "{host:?}"
        );
        for cid in [0, 1, 3, u32::MAX] {
            let Standing::Refused(why) = vsock_standing(&vsock, cid, 1024) else { panic!("CID {cid}") };
            assert!(why.starts_with(&format!("CID {cid} may not connect")), "{why}");
        }
    }
}
