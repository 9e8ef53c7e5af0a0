//! Which devices the processes of a cgroup may open: a program of the kernel (eBPF) that is attached to the cgroup of a
//! service, as runc does it. It lasts as long as the cgroup, and counts for those below it, in which commands run.

use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};

use nix::errno::Errno;

// Of Linux's `bpf.h`.
const PROG_LOAD: libc::c_int = 5;
const PROG_ATTACH: libc::c_int = 8;
const PROG_TYPE_CGROUP_DEVICE: u32 = 15;
const CGROUP_DEVICE: u32 = 6;
const ALLOW_MULTI: u32 = 2;

/// What a process may do with a device; one of the two kinds is the lower half of the first word that the program sees.
pub const MAKE: u32 = 1;
pub const READ: u32 = 2;
pub const WRITE: u32 = 4;
pub const BLOCK: u32 = 1;
pub const CHARACTER: u32 = 2;

/// A kind, major and minor number (`None`: any), and what is allowed.
pub type Rule = (u32, Option<u32>, Option<u32>, u32);

/// Nodes may be made, which opens none; and these may be opened: null, zero, full, random, urandom, tty, ptmx, and
/// pseudoterminals.
pub const USUAL: [Rule; 10] = [
    (CHARACTER, None, None, MAKE),
    (BLOCK, None, None, MAKE),
    (CHARACTER, Some(1), Some(3), READ | WRITE | MAKE),
    (CHARACTER, Some(1), Some(5), READ | WRITE | MAKE),
    (CHARACTER, Some(1), Some(7), READ | WRITE | MAKE),
    (CHARACTER, Some(1), Some(8), READ | WRITE | MAKE),
    (CHARACTER, Some(1), Some(9), READ | WRITE | MAKE),
    (CHARACTER, Some(5), Some(0), READ | WRITE | MAKE),
    (CHARACTER, Some(5), Some(2), READ | WRITE | MAKE),
    (CHARACTER, Some(136), None, READ | WRITE | MAKE),
];

/// One instruction: code, registers (source in the upper half), offset, constant.
#[derive(Clone, Copy)]
#[repr(C)]
struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    constant: i32,
}

const fn instruction(code: u8, to: u8, from: u8, offset: i16, constant: i32) -> Instruction {
    Instruction { code, registers: from << 4 | to, offset, constant }
}

/// Register = the word at an offset of what register 1 refers to.
const fn load(to: u8, offset: i16) -> Instruction {
    instruction(0x61, to, 1, offset, 0)
}

/// 32-bit arithmetic with a constant.
const fn calculate(operation: u8, to: u8, constant: i32) -> Instruction {
    instruction(0x04 | operation, to, 0, 0, constant)
}

/// Skips this number of instructions if the register is not the constant.
const fn unless_equal(register: u8, constant: i32, skipped: i16) -> Instruction {
    instruction(0x55, register, 0, skipped, constant)
}

const AND: u8 = 0x50;
const SHIFT_RIGHT: u8 = 0x70;
const SET: u8 = 0xb0;
const COPY_2_TO_6: Instruction = instruction(0xbc, 6, 2, 0, 0);
const EXIT: Instruction = instruction(0x95, 0, 0, 0, 0);

/// The program: 1 where a rule allows all that is asked for, 0 otherwise.
fn program(rules: &[Rule]) -> Vec<Instruction> {
    // 2: what is asked for; 3: the kind; 4 and 5: the numbers.
    let mut program = vec![
        load(2, 0),
        instruction(0xbc, 3, 2, 0, 0),
        calculate(AND, 3, 0xffff),
        calculate(SHIFT_RIGHT, 2, 16),
        load(4, 4),
        load(5, 8),
    ];
    for (kind, major, minor, allowed) in rules {
        let number = |number: u32| i32::from_ne_bytes(number.to_ne_bytes());
        let mut tests = vec![(3, number(*kind))];
        tests.extend(major.map(|major| (4, number(major))));
        tests.extend(minor.map(|minor| (5, number(minor))));
        // Behind each test: the tests that follow, the question whether more is asked for (3), and the answer (2).
        let mut left = i16::try_from(tests.len()).unwrap_or(3).saturating_add(5);
        for (register, constant) in tests {
            left = left.saturating_sub(1);
            program.push(unless_equal(register, constant, left));
        }
        program.extend([
            COPY_2_TO_6,
            calculate(AND, 6, number(!allowed)),
            unless_equal(6, 0, 2),
            calculate(SET, 0, 1),
            EXIT,
        ]);
    }
    program.extend([calculate(SET, 0, 0), EXIT]);
    program
}

/// `rwm` as bits.
pub fn access(words: &str) -> u32 {
    let bit = |letter| match letter {
        'r' => READ,
        'w' => WRITE,
        'm' => MAKE,
        _ => 0,
    };
    words.chars().fold(0, |all, letter| all | bit(letter))
}

fn call(command: libc::c_int, attributes: &[u64]) -> nix::Result<RawFd> {
    let size = size_of_val(attributes);
    // SAFETY: the attributes, and what they point to, live over the call.
    let done = unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_ptr(), size) };
    RawFd::try_from(Errno::result(done)?).map_err(|_| Errno::EBADF)
}

/// Two words of 32 bits as they lie in memory.
fn pair(first: u32, second: u32) -> u64 {
    let mut bytes = [0; 8];
    let (low, high) = bytes.split_at_mut(4);
    low.copy_from_slice(&first.to_ne_bytes());
    high.copy_from_slice(&second.to_ne_bytes());
    u64::from_ne_bytes(bytes)
}

/// A program that allows what is in these rules, and nothing else.
///
/// # Errors
/// The kernel's.
pub fn load_program(rules: &[Rule]) -> nix::Result<OwnedFd> {
    let program = program(rules);
    let count = u32::try_from(program.len()).map_err(|_| Errno::E2BIG)?;
    let address = |pointer: *const u8| pointer.addr() as u64;
    let license = c"Dual MIT/GPL";
    // Kind, count, instructions, license; without a log of the kernel's checker.
    let attributes = [
        pair(PROG_TYPE_CGROUP_DEVICE, count),
        address(program.as_ptr().cast()),
        address(license.as_ptr().cast()),
        0,
        0,
        0,
    ];
    let fd = call(PROG_LOAD, &attributes)?;
    // SAFETY: the kernel has just made it, for this caller.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Puts a program in force for all processes of a cgroup and below it, beside those that are in force there.
///
/// # Errors
/// The kernel's.
pub fn attach(program: BorrowedFd<'_>, cgroup: BorrowedFd<'_>) -> nix::Result<()> {
    let word = |fd: RawFd| u32::try_from(fd).map_err(|_| Errno::EBADF);
    let attributes =
        [pair(word(cgroup.as_raw_fd())?, word(program.as_raw_fd())?), pair(CGROUP_DEVICE, ALLOW_MULTI)];
    call(PROG_ATTACH, &attributes).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the program says of a device, played.
    fn says(rules: &[Rule], kind: u32, major: u32, minor: u32, asked: u32) -> bool {
        let memory = [kind | asked << 16, major, minor];
        let program = program(rules);
        let (mut registers, mut at) = ([0_u32; 11], 0_usize);
        loop {
            let Instruction { code, registers: of, offset, constant } = program[at];
            let (to, from) = (usize::from(of & 15), usize::from(of >> 4));
            at = at.saturating_add(1);
            match code {
                0x61 => registers[to] = memory[usize::try_from(offset).unwrap() / 4],
                0xbc => registers[to] = registers[from],
                0x54 => registers[to] &= constant.cast_unsigned(),
                0x74 => registers[to] >>= constant,
                0xb4 => registers[to] = constant.cast_unsigned(),
                0x55 if registers[to] != constant.cast_unsigned() => {
                    at = at.saturating_add(usize::try_from(offset).unwrap());
                }
                0x55 => {}
                0x95 => return registers[0] == 1,
                other => panic!("{other:x}"),
            }
        }
    }

    #[test]
    fn what_no_rule_allows_is_refused() {
        let rules: Vec<Rule> = USUAL
            .into_iter()
            .chain([(BLOCK, Some(8), Some(1), READ), (CHARACTER, Some(10), None, WRITE)])
            .collect();
        let of = |kind, major, minor, asked| says(&rules, kind, major, minor, asked);
        assert!(of(CHARACTER, 1, 3, READ | WRITE) && of(CHARACTER, 136, 77, READ));
        assert!(of(BLOCK, 8, 1, READ) && !of(BLOCK, 8, 1, READ | WRITE) && !of(BLOCK, 8, 2, READ));
        assert!(of(CHARACTER, 10, 200, WRITE) && !of(CHARACTER, 10, 200, READ) && !of(BLOCK, 10, 200, WRITE));
        assert!(of(BLOCK, 254, 0, MAKE) && !of(BLOCK, 254, 0, READ), "a node that cannot be opened");
        assert!(!of(CHARACTER, 1, 1, READ), "the memory of the host");
    }
}
