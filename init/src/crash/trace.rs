//! Where the program is and how it came there, as far as a signal handler can find out.
//!
//! The program is compiled with frame pointers (`.cargo/config.toml`): the frame of a function holds the address of its
//! caller's frame and, above it, the address to which it returns. Following them needs no tables, no memory and no lock.
//! The C library has no frame pointers: the caller of one of its functions may be missing. A stack that was overwritten
//! ends the chain early; the caller survives a fault in here.

use std::ffi::c_void;

/// From one frame to the next it is not farther.
const LARGEST: usize = 1 << 20;
/// Where a function of the C library uses the frame pointer for something else, the nearest frame is searched
/// for in this many words of the stack.
const SEARCHED: usize = 256;

unsafe extern "C" {
    /// Of the linker: the program's first byte, and the end of its code.
    static __ehdr_start: u8;
    static etext: u8;
}

/// The registers of a thread that lead to its callers.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// Known of an interrupted thread.
    instruction: Option<usize>,
    stack: usize,
    frame: usize,
}

impl Place {
    /// The frame of the function that this is called in.
    #[inline(always)]
    pub fn here() -> Place {
        let frame: usize;
        // SAFETY: it copies a register.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            std::arch::asm!("mov {}, rbp", out(reg) frame, options(nomem, nostack, preserves_flags));
            #[cfg(target_arch = "aarch64")]
            std::arch::asm!("mov {}, x29", out(reg) frame, options(nomem, nostack, preserves_flags));
        }
        Place { instruction: None, stack: frame, frame }
    }

    /// Where a signal interrupted the thread.
    ///
    /// # Safety
    /// `context` is what the kernel hands to a handler with `SA_SIGINFO`.
    pub unsafe fn interrupted(context: *mut c_void) -> Option<Place> {
        // SAFETY: the kernel hands over a ucontext.
        let machine = &unsafe { context.cast::<libc::ucontext_t>().as_ref() }?.uc_mcontext;
        #[cfg(target_arch = "x86_64")]
        let register = |number: libc::c_int| {
            let value = machine.gregs.get(usize::try_from(number).ok()?).copied()?;
            usize::try_from(value.cast_unsigned()).ok()
        };
        #[cfg(target_arch = "x86_64")]
        let (instruction, stack, frame) =
            (register(libc::REG_RIP)?, register(libc::REG_RSP)?, register(libc::REG_RBP)?);
        #[cfg(target_arch = "aarch64")]
        let (instruction, stack, frame) = (
            usize::try_from(machine.pc).ok()?,
            usize::try_from(machine.sp).ok()?,
            usize::try_from(*machine.regs.get(29)?).ok()?,
        );
        Some(Place { instruction: Some(instruction), stack, frame })
    }

    /// Calls for each address from here up, the innermost first, until it says that it is enough.
    pub fn walk(self, each: &mut dyn FnMut(u64) -> bool) {
        if self.instruction.is_some_and(|instruction| !each(offset(instruction))) {
            return;
        }
        let near = |frame: &usize| follows(self.stack, *frame) && link(*frame).is_some();
        let mut searched =
            (0..SEARCHED).map(|word| self.stack.saturating_add(word.saturating_mul(size_of::<usize>())));
        let first = Some(self.frame).filter(near).or_else(|| searched.find(starts_chain));
        let Some(mut frame) = first else { return };
        while let Some((caller, address)) = link(frame) {
            if !each(offset(address)) || caller == frame || !follows(frame, caller) {
                return;
            }
            frame = caller;
        }
    }
}

/// Frames of callers lie above, and are aligned.
fn follows(below: usize, frame: usize) -> bool {
    frame.checked_sub(below).is_some_and(|distance| distance <= LARGEST)
        && frame.is_multiple_of(size_of::<usize>())
}

/// Whether a frame is here, and one of its caller above.
fn starts_chain(frame: &usize) -> bool {
    link(*frame)
        .is_some_and(|(caller, _)| caller > *frame && follows(*frame, caller) && link(caller).is_some())
}

/// The frame of the caller, and the address to which the function of this frame returns. `None`: this is no frame.
fn link(frame: usize) -> Option<(usize, usize)> {
    let words = std::ptr::with_exposed_provenance::<usize>(frame);
    // SAFETY: `frame` lies on the stack of the thread, near its stack pointer or near another frame. Where it does not,
    // since the stack was overwritten, the read faults, and that ends the walk (`handler::die`).
    let (caller, address) = unsafe { (words.read_volatile(), words.wrapping_add(1).read_volatile()) };
    let program = (&raw const __ehdr_start).addr()..(&raw const etext).addr();
    program.contains(&address).then_some((caller, address))
}

/// Counted from the program's first byte: the kernel puts it somewhere else each time.
fn offset(address: usize) -> u64 {
    let first = (&raw const __ehdr_start).addr();
    u64::try_from(address.wrapping_sub(first)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(place: Place, most: usize) -> Vec<u64> {
        let mut frames = Vec::new();
        place.walk(&mut |offset| {
            frames.push(offset);
            frames.len() < most
        });
        frames
    }

    #[inline(never)]
    fn deeper(levels: u32, most: usize) -> Vec<u64> {
        if levels > 0 {
            let frames = std::hint::black_box(deeper)(levels - 1, most);
            return std::hint::black_box(frames);
        }
        frames(Place::here(), most)
    }

    #[test]
    fn each_call_is_a_frame() {
        let shallow = deeper(0, 100).len();
        assert!(shallow > 3, "{shallow}");
        assert_eq!(deeper(5, 100).len(), shallow + 5);
        assert_eq!(deeper(50, 10).len(), 10);
        // All of them lie in the program, which has not 1 GB.
        assert!(deeper(5, 10).iter().all(|offset| *offset > 0 && *offset < 1 << 30));
    }

    #[test]
    fn a_frame_pointer_that_is_none_is_replaced_by_the_nearest_frame() {
        let here = Place::here();
        let all = frames(here, 100);
        let word = 0_usize;
        let stack = (&raw const word).addr();
        for frame in [0, 1, usize::MAX, stack + 1, stack - 8, here.frame + LARGEST + 8] {
            let found = frames(Place { instruction: Some(1), stack, frame }, 100);
            // The search may find one more: what an inner function has left on the stack.
            assert!(found.ends_with(&all[1..]), "{frame:x}: {found:x?}, {all:x?}");
        }
    }

    #[test]
    fn a_stack_that_was_overwritten_ends_the_walk() {
        let stack = [usize::MAX; 2 * SEARCHED];
        let start = stack.as_ptr().addr();
        assert_eq!(frames(Place { instruction: None, stack: start, frame: start }, 100), [0_u64; 0]);
    }
}
