//! Programs that look at system calls for the kernel, in the language of seccomp.
//!
//! A program is a binary search over ranges of call numbers. A list of comparisons, one a call, would be ten times
//! as large, and the kernel runs a new filter once for each of its call numbers when it is installed, and compiles it:
//! that would cost more than the whole start of a process.

use libc::sock_filter;

use crate::ordered;

/// Offsets in `struct seccomp_data`.
pub const NUMBER: u32 = 0;
pub const ARCHITECTURE: u32 = 4;
/// The lower half of the first argument; each next one is [`ARGUMENT`] bytes on.
pub const FIRST_ARGUMENT: u32 = 16;
pub const ARGUMENT: u32 = 8;

/// The architecture of this program, as the kernel names it to a filter.
#[cfg(target_arch = "x86_64")]
pub const NATIVE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
pub const NATIVE: u32 = 0xc000_00b7;

pub const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
pub const EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
pub const AT_LEAST: u32 = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
pub const ANY_BIT: u32 = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
pub const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
pub const JUMP: u32 = libc::BPF_JMP | libc::BPF_JA;

/// A conditional jump has a byte for its distance.
const NEAR: usize = u8::MAX as usize;

pub fn instruction(code: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code: u16::try_from(code).unwrap_or(u16::MAX), jt, jf, k }
}

/// The treatment of a call.
pub trait Verdict: Copy + PartialEq {
    /// Answers the call; it may look at its arguments first.
    fn code(self) -> Vec<sock_filter>;
}

/// The calls of a program that it treats alike.
#[derive(Debug, Clone, Copy)]
pub struct Rest<V> {
    /// The newest call that the program knows.
    pub newest: u32,
    /// Of those up to there which no rule names.
    pub unnamed: V,
    /// Of those beyond.
    pub unknown: V,
}

/// The program for `rules`: the number of a call, and what becomes of it. Of several rules for one number the last counts.
pub fn compile<V: Verdict>(rules: &[(u32, V)], rest: Rest<V>) -> Vec<sock_filter> {
    let mut assembler = Assembler { reversed: Vec::new(), verdicts: Vec::new() };
    // Its last step stands right after the first ones.
    assembler.search(&ranges(rules, rest), rest.newest);
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
fn ranges<V: Verdict>(rules: &[(u32, V)], rest: Rest<V>) -> Vec<(u32, V)> {
    let mut sorted = rules.to_vec();
    // Stable: of several rules for one number the last stays last.
    ordered::sort_by_key(&mut sorted, |(number, _)| *number);
    let mut ranges: Vec<(u32, V)> = Vec::new();
    let mut named = sorted.into_iter().peekable();
    let mut push = |number, rule| {
        if ranges.last().is_none_or(|(_, last)| *last != rule) {
            ranges.push((number, rule));
        }
    };
    for number in 0..=rest.newest {
        let mut rule = rest.unnamed;
        while let Some((_, named)) = named.next_if(|(at, _)| *at <= number) {
            rule = named;
        }
        push(number, rule);
    }
    push(rest.newest.saturating_add(1), rest.unknown);
    ranges
}

/// Builds a program from its end, because jumps go forward only: each target is there before the jump to it. A place is
/// the number of instructions from there to the end.
struct Assembler<V> {
    reversed: Vec<sock_filter>,
    /// The place of each verdict that is near enough for a conditional jump. Most ranges share one of two.
    verdicts: Vec<(V, usize)>,
}

impl<V: Verdict> Assembler<V> {
    /// A binary search, and its place. It halves the call numbers, not the ranges: when a filter is installed, the kernel
    /// runs it once for each number.
    fn search(&mut self, ranges: &[(u32, V)], newest: u32) -> usize {
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

    fn verdict(&mut self, rule: V) -> usize {
        if let Some((_, place)) = self.verdicts.iter().find(|(known, _)| *known == rule)
            && self.distance(*place) <= NEAR
        {
            return *place;
        }
        self.reversed.extend(rule.code().into_iter().rev());
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
