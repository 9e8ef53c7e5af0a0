//! When an incarnation of PID 1 ends: in front of a system call, in the middle of it, or behind it.
//!
//! The calls by which PID 1 changes what outlives it are replaced in this test binary: a call is a point at which it
//! may die. One that is dead changes nothing any more, whatever its tasks still do until they are dropped, and what was
//! to stay open stays open under its number. So what the next incarnation finds is what `execve` at that very point
//! would leave.

use std::cell::RefCell;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

/// The end of one incarnation.
pub struct Fate {
    /// Points that it lives through.
    left: AtomicU64,
    dead: AtomicBool,
    /// Which part of a torn write is written.
    cut: AtomicU64,
    /// Descriptors that the next incarnation inherits.
    kept: Mutex<Vec<RawFd>>,
    /// Where it is to die, if not at a number.
    wanted: Mutex<Option<String>>,
    /// Where it died.
    place: Mutex<String>,
    died: Notify,
}

thread_local! {
    /// Of the life that this thread plays.
    static FATE: RefCell<Option<Arc<Fate>>> = const { RefCell::new(None) };
}

impl Fate {
    /// It dies on request.
    pub fn never() -> Arc<Fate> {
        Arc::new(Fate {
            left: AtomicU64::new(u64::MAX),
            dead: AtomicBool::new(false),
            cut: AtomicU64::new(0),
            kept: Mutex::default(),
            wanted: Mutex::default(),
            place: Mutex::default(),
            died: Notify::new(),
        })
    }

    /// From now on it passes `points` points, and dies at the next.
    pub fn dies_after(&self, points: u64, cut: u64) {
        self.left.store(points, Ordering::Relaxed);
        self.cut.store(cut, Ordering::Relaxed);
    }

    /// It dies when it next comes to a place of this name.
    pub fn dies_at(&self, place: &str) {
        *self.wanted.lock().unwrap() = Some(place.to_owned());
    }

    /// The one of the life that this thread plays.
    pub fn current() -> Option<Arc<Fate>> {
        FATE.try_with(|fate| fate.borrow().clone()).ok().flatten()
    }

    /// Plays a life that ends so: `body` lives it, and drops what is left of it.
    pub fn play<T>(self: &Arc<Fate>, body: impl FnOnce() -> T) -> T {
        struct Over;
        impl Drop for Over {
            fn drop(&mut self) {
                FATE.set(None);
            }
        }
        FATE.set(Some(Arc::clone(self)));
        let _over = Over;
        body()
    }

    pub fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Relaxed)
    }

    /// Where it died.
    pub fn place(&self) -> String {
        self.place.lock().unwrap().clone()
    }

    /// One more point at which it may die. True: it is dead.
    pub fn at(&self, place: &str) -> bool {
        self.passes(|| place.to_owned())
    }

    fn passes(&self, place: impl Fn() -> String) -> bool {
        if self.is_dead() {
            return true;
        }
        let left = self.left.load(Ordering::Relaxed);
        self.left.store(left.saturating_sub(1), Ordering::Relaxed);
        let wanted = self.wanted.lock().unwrap().clone();
        if left == 0 || wanted.is_some_and(|wanted| wanted == place()) {
            self.die(&place());
        }
        self.is_dead()
    }

    /// It dies here and now.
    pub fn die(&self, place: &str) {
        // Descriptors that are not marked to close come through `execve`.
        let open = std::fs::read_dir("/proc/self/fd").unwrap();
        let open = open.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        // SAFETY: it takes numbers alone.
        let stays = |descriptor: &RawFd| unsafe { fcntl(*descriptor, libc::F_GETFD, 0) } == 0;
        *self.kept.lock().unwrap() = open.filter(stays).collect();
        *self.place.lock().unwrap() = place.to_owned();
        self.dead.store(true, Ordering::Relaxed);
        self.died.notify_one();
    }

    /// Returns once it is dead.
    pub async fn died(&self) {
        while !self.is_dead() {
            self.died.notified().await;
        }
    }

    /// Never returns to one that is dead, or dies here.
    pub async fn pass(&self, place: &str) {
        if self.at(place) {
            std::future::pending::<()>().await;
        }
    }
}

fn file_of(descriptor: RawFd) -> String {
    let path = std::fs::read_link(format!("/proc/self/fd/{descriptor}")).unwrap_or_default();
    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// A call that is done whole or not at all.
fn whole(what: &'static str, call: impl FnOnce() -> libc::c_long) -> libc::c_int {
    let Some(fate) = Fate::current() else { return libc::c_int::try_from(call()).unwrap() };
    if fate.passes(|| format!("before {what}")) {
        return 0;
    }
    let result = call();
    fate.passes(|| format!("after {what}"));
    libc::c_int::try_from(result).unwrap()
}

/// # Safety
/// As of pwrite(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwrite64(
    descriptor: libc::c_int,
    bytes: *const libc::c_void,
    count: libc::size_t,
    at: libc::off64_t,
) -> libc::ssize_t {
    let write = |count: usize| {
        // SAFETY: the caller vouches for the bytes; the count is theirs or less.
        let written = unsafe { libc::syscall(libc::SYS_pwrite64, descriptor, bytes, count, at) };
        libc::ssize_t::try_from(written).unwrap()
    };
    let Some(fate) = Fate::current() else { return write(count) };
    let all = libc::ssize_t::try_from(count).unwrap();
    if fate.passes(|| format!("before a write to {}", file_of(descriptor))) {
        return all;
    }
    if fate.passes(|| format!("in the middle of a write to {}", file_of(descriptor))) {
        write(usize::try_from(fate.cut.load(Ordering::Relaxed)).unwrap() % count.max(1));
        return all;
    }
    let written = write(count);
    fate.passes(|| format!("after a write to {}", file_of(descriptor)));
    written
}

/// # Safety
/// As of rename(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rename(from: *const libc::c_char, to: *const libc::c_char) -> libc::c_int {
    // SAFETY: the caller vouches for the paths.
    whole("a rename", || unsafe {
        libc::syscall(libc::SYS_renameat, libc::AT_FDCWD, from, libc::AT_FDCWD, to)
    })
}

/// # Safety
/// As of unlink(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unlink(path: *const libc::c_char) -> libc::c_int {
    // SAFETY: the caller vouches for the path.
    whole("a removal", || unsafe { libc::syscall(libc::SYS_unlinkat, libc::AT_FDCWD, path, 0) })
}

/// # Safety
/// As of bind(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bind(
    socket: libc::c_int,
    address: *const libc::sockaddr,
    length: libc::socklen_t,
) -> libc::c_int {
    // SAFETY: the caller vouches for the address.
    whole("a bind", || unsafe { libc::syscall(libc::SYS_bind, socket, address, length) })
}

/// Messages that have arrived stay for the next incarnation.
///
/// # Safety
/// As of recv(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recv(
    socket: libc::c_int,
    bytes: *mut libc::c_void,
    count: libc::size_t,
    flags: libc::c_int,
) -> libc::ssize_t {
    if Fate::current().is_some_and(|fate| fate.is_dead()) {
        return 0;
    }
    // SAFETY: the caller vouches for the bytes.
    let received = unsafe { libc::syscall(libc::SYS_recvfrom, socket, bytes, count, flags, 0, 0) };
    libc::ssize_t::try_from(received).unwrap()
}

/// # Safety
/// As of close(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn close(descriptor: libc::c_int) -> libc::c_int {
    let kept = |fate: Arc<Fate>| fate.is_dead() && fate.kept.lock().unwrap().contains(&descriptor);
    if Fate::current().is_some_and(kept) {
        return 0;
    }
    // SAFETY: it takes a number alone.
    libc::c_int::try_from(unsafe { libc::syscall(libc::SYS_close, descriptor) }).unwrap()
}

/// # Safety
/// As of fcntl(2), with an argument that is a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fcntl(
    descriptor: libc::c_int,
    command: libc::c_int,
    argument: libc::c_ulong,
) -> libc::c_int {
    if command == libc::F_SETFD && Fate::current().is_some_and(|fate| fate.is_dead()) {
        return 0;
    }
    // SAFETY: the caller vouches for the argument.
    libc::c_int::try_from(unsafe { libc::syscall(libc::SYS_fcntl, descriptor, command, argument) }).unwrap()
}
