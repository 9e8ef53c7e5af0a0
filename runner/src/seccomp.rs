//! Kelson's default seccomp profile: the usual container profile, as a small program for the kernel.
//!
//! A profile allows what ordinary programs need, and of the rest what the capabilities of the service make
//! sense of. A call that is not allowed fails with EPERM; `clone3`, whose flags a filter cannot see, and
//! calls newer than this list fail with ENOSYS, so that a libc falls back to an older call.
//!
//! The program is a binary search over ranges of call numbers. A list of comparisons, one a call, would be ten times
//! as large, and the kernel runs a new filter once for each of its call numbers when it is installed, and compiles it:
//! that would cost more than the whole start of the process.

mod oci;
mod profile;

use kelson_sys::ordered;
use std::sync::Arc;

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
        Filter { program: compile(&profile::rules(held), profile::NEWEST), is_of_all }
    }

    /// The calls that `kelson-logd` needs, and no others.
    pub fn logd() -> Filter {
        Filter { program: compile(&profile::rules_of_logd(), profile::NEWEST), is_of_all: false }
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

/// Offsets in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
/// The lower half of the first argument.
const FIRST_ARGUMENT: u32 = 16;

#[cfg(target_arch = "x86_64")]
const NATIVE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const NATIVE: u32 = 0xc000_00b7;

const NAMESPACES: u32 = 0x7e02_0000;
const AF_UNIX: u32 = 1;
const AF_VSOCK: u32 = 40;
const PERSONALITIES: [u32; 5] = [0, 8, 0x2_0000, 0x2_0008, 0xffff_ffff];

const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const AT_LEAST: u32 = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
const ANY_BIT: u32 = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
const JUMP: u32 = libc::BPF_JMP | libc::BPF_JA;

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const EPERM: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned();
const ENOSYS: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned();

/// A conditional jump has a byte for its distance.
const NEAR: usize = u8::MAX as usize;

fn instruction(code: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code: u16::try_from(code).unwrap_or(u16::MAX), jt, jf, k }
}

/// The program for `rules` (call number and what becomes of it; what is not named is refused) up to the number
/// `newest`, beyond which calls are unknown.
fn compile(rules: &[(u32, Rule)], newest: u32) -> Vec<sock_filter> {
    let mut assembler = Assembler::default();
    // Its last step stands right after the first ones.
    assembler.search(&ranges(rules, newest), newest);
    let mut program = assembler.reversed;
    program.extend([
        instruction(LOAD, NUMBER, 0, 0),
        // Programs for another architecture number their calls differently: refused as a whole, and loudly.
        instruction(RETURN, libc::SECCOMP_RET_KILL_PROCESS, 0, 0),
        instruction(EQUAL, NATIVE, 1, 0),
        instruction(LOAD, ARCHITECTURE, 0, 0),
    ]);
    program.reverse();
    program
}

/// Neighbours that share a fate become one range, named by its first number.
fn ranges(rules: &[(u32, Rule)], newest: u32) -> Vec<(u32, Rule)> {
    let mut sorted = rules.to_vec();
    // Stable: of several rules for one number the last stays last.
    ordered::sort_by_key(&mut sorted, |(number, _)| *number);
    let mut ranges: Vec<(u32, Rule)> = Vec::new();
    let mut named = sorted.into_iter().peekable();
    let mut push = |number, rule| {
        if ranges.last().is_none_or(|(_, last)| *last != rule) {
            ranges.push((number, rule));
        }
    };
    for number in 0..=newest {
        let mut rule = Rule::Refuse;
        while let Some((_, named)) = named.next_if(|(at, _)| *at <= number) {
            rule = named;
        }
        push(number, rule);
    }
    push(newest.saturating_add(1), Rule::Unknown);
    ranges
}

/// Builds a program from its end, because jumps go forward only: each target is there before the jump to it. A place is
/// the number of instructions from there to the end.
#[derive(Default)]
struct Assembler {
    reversed: Vec<sock_filter>,
    /// The place of each verdict that is near enough for a conditional jump. Most ranges share one of two.
    verdicts: Vec<(Rule, usize)>,
}

impl Assembler {
    /// A binary search, and its place. It halves the call numbers, not the ranges: when a filter is installed, the kernel
    /// runs it once for each number.
    fn search(&mut self, ranges: &[(u32, Rule)], newest: u32) -> usize {
        let (Some((first, rule)), Some((last, _))) = (ranges.first(), ranges.last()) else { return 0 };
        let end = ranges.get(1).map_or(*last, |_| newest.max(*last));
        let middle = first.midpoint(end);
        let inner = ranges.iter().enumerate().skip(1);
        let Some((split, (pivot, _))) = inner.min_by_key(|(_, (begin, _))| begin.abs_diff(middle)) else {
            return self.verdict(*rule);
        };
        let (below, above) = ranges.split_at(split);
        let above = self.search(above, newest);
        let below = self.search(below, pivot.saturating_sub(1));
        let (above, below) = (self.forward(above, 1), self.forward(below, 0));
        let (above, below) = (self.distance(above), self.distance(below));
        let near = |distance| u8::try_from(distance).unwrap_or(u8::MAX);
        self.reversed.push(instruction(AT_LEAST, *pivot, near(above), near(below)));
        self.reversed.len()
    }

    fn verdict(&mut self, rule: Rule) -> usize {
        if let Some((_, place)) = self.verdicts.iter().find(|(known, _)| *known == rule)
            && self.distance(*place) <= NEAR
        {
            return *place;
        }
        self.reversed.extend(verdict(rule).into_iter().rev());
        self.verdicts.retain(|(known, _)| *known != rule);
        self.verdicts.push((rule, self.reversed.len()));
        self.reversed.len()
    }

    /// The place, or a jump to it where it is too far for a conditional jump that has `more` instructions before it.
    fn forward(&mut self, place: usize, more: usize) -> usize {
        let distance = self.distance(place);
        if distance.saturating_add(more) <= NEAR {
            return place;
        }
        self.reversed.push(instruction(JUMP, u32::try_from(distance).unwrap_or(u32::MAX), 0, 0));
        self.reversed.len()
    }

    /// How many instructions the next one would have to skip.
    fn distance(&self, place: usize) -> usize {
        self.reversed.len().saturating_sub(place)
    }
}

fn verdict(rule: Rule) -> Vec<sock_filter> {
    let answer = |k| instruction(RETURN, k, 0, 0);
    let argument = instruction(LOAD, FIRST_ARGUMENT, 0, 0);
    match rule {
        Rule::Allow => vec![answer(ALLOW)],
        Rule::Refuse => vec![answer(EPERM)],
        Rule::Unknown => vec![answer(ENOSYS)],
        Rule::Clone => vec![argument, instruction(ANY_BIT, NAMESPACES, 0, 1), answer(EPERM), answer(ALLOW)],
        Rule::Socket => vec![argument, instruction(EQUAL, AF_VSOCK, 0, 1), answer(EPERM), answer(ALLOW)],
        Rule::UnixSocket => vec![argument, instruction(EQUAL, AF_UNIX, 0, 1), answer(ALLOW), answer(EPERM)],
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

#[cfg(test)]
mod tests;
