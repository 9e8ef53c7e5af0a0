//! Kelson's default seccomp profile: the usual container profile, as a small program for the kernel.
//!
//! A profile allows what ordinary programs need, and of the rest what the capabilities of the service make
//! sense of. A call that is not allowed fails with EPERM; `clone3`, whose flags a filter cannot see, and
//! calls newer than this list fail with ENOSYS, so that a libc falls back to an older call.

mod oci;
mod profile;

use std::sync::Arc;

use kelson_sys::seccomp::{ANY_BIT, EQUAL, FIRST_ARGUMENT, LOAD, RETURN, Rest, Verdict, instruction};
use libc::{sock_filter, sock_fprog};

pub(crate) use oci::Profile;

/// A compiled filter; shared by all services that have the same.
pub struct Filter {
    program: Vec<sock_filter>,
    /// Of a service that can hold every capability. It allows every call of a spawner thread.
    is_of_all: bool,
}

impl std::fmt::Debug for Filter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Filter({} instructions)", self.program.len())
    }
}

impl Filter {
    /// Kelson's default profile for a service that can hold the capabilities `held` (bit n: capability n).
    pub fn default_profile(held: u64) -> Filter {
        let is_of_all = held & profile::RELEVANT == profile::RELEVANT;
        Filter { program: compile(&profile::rules(held)), is_of_all }
    }

    /// The calls that `kelson-logd` needs, and no others.
    pub fn logd() -> Filter {
        Filter { program: compile(&profile::rules_of_logd()), is_of_all: false }
    }

    /// The calls of a process that asks at Unix sockets, and no others: it opens, makes and removes no file.
    pub fn socket_client() -> Filter {
        Filter { program: compile(&profile::rules_of_socket_client()), is_of_all: false }
    }

    pub(crate) fn is_of_all(&self) -> bool {
        self.is_of_all
    }

    /// Puts the calling thread, and all that it makes, under this filter, which nothing takes away again.
    ///
    /// # Errors
    /// The kernel knows no filters, or this process may not install one.
    pub fn install(&self) -> nix::Result<()> {
        let program = self.as_fprog();
        // SAFETY: the kernel copies the program, which lives as long as this filter.
        let result =
            unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program) };
        nix::errno::Errno::result(result).map(drop)
    }

    /// The program in the kernel's form; valid as long as this filter.
    pub(crate) fn as_fprog(&self) -> sock_fprog {
        sock_fprog {
            len: u16::try_from(self.program.len()).unwrap_or(u16::MAX),
            filter: self.program.as_ptr().cast_mut(),
        }
    }
}

/// Compiled filters by the capabilities that make a difference; few, since most services ask for the same.
#[derive(Debug, Default)]
pub(crate) struct Filters {
    compiled: Vec<(u64, Arc<Filter>)>,
}

impl Filters {
    pub(crate) fn default_profile(&mut self, held: u64) -> Arc<Filter> {
        let key = held & profile::RELEVANT;
        if let Some((_, filter)) = self.compiled.iter().find(|(known, _)| *known == key) {
            return Arc::clone(filter);
        }
        let filter = Arc::new(Filter::default_profile(key));
        self.compiled.push((key, Arc::clone(&filter)));
        filter
    }
}

/// The treatment of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    Allow,
    Refuse,
    Unknown,
    /// `clone` that makes no namespace.
    Clone,
    /// `personality` that asks, or asks for an ordinary one.
    Personality,
    /// `socket` of any family but vsock, which reaches beyond the host.
    Socket,
    /// `socket` of the family Unix.
    UnixSocket,
}

const NAMESPACES: u32 = 0x7e02_0000;
const AF_UNIX: u32 = 1;
const AF_VSOCK: u32 = 40;
const PERSONALITIES: [u32; 5] = [0, 8, 0x2_0000, 0x2_0008, 0xffff_ffff];

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const EPERM: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned();
const ENOSYS: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned();

/// The program for `rules`; what is not named is refused, and what is beyond the list is unknown.
fn compile(rules: &[(u32, Rule)]) -> Vec<sock_filter> {
    let rest = Rest { newest: profile::NEWEST, unnamed: Rule::Refuse, unknown: Rule::Unknown };
    kelson_sys::seccomp::compile(rules, rest)
}

impl Verdict for Rule {
    fn code(self) -> Vec<sock_filter> {
        let answer = |k| instruction(RETURN, k, 0, 0);
        let argument = instruction(LOAD, FIRST_ARGUMENT, 0, 0);
        match self {
            Rule::Allow => vec![answer(ALLOW)],
            Rule::Refuse => vec![answer(EPERM)],
            Rule::Unknown => vec![answer(ENOSYS)],
            Rule::Clone => {
                vec![argument, instruction(ANY_BIT, NAMESPACES, 0, 1), answer(EPERM), answer(ALLOW)]
            }
            Rule::Socket => vec![argument, instruction(EQUAL, AF_VSOCK, 0, 1), answer(EPERM), answer(ALLOW)],
            Rule::UnixSocket => {
                vec![argument, instruction(EQUAL, AF_UNIX, 0, 1), answer(ALLOW), answer(EPERM)]
            }
            Rule::Personality => {
                let mut code = vec![argument];
                for (left, value) in (0u8..5).rev().zip(PERSONALITIES) {
                    code.push(instruction(EQUAL, value, left.saturating_add(1), 0));
                }
                code.extend([answer(EPERM), answer(ALLOW)]);
                code
            }
        }
    }
}

#[cfg(test)]
mod tests;
