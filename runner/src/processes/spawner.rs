//! The threads that make children.
//!
//! Two are enough while disks answer. A start from a dead disk holds its thread (it waits in vfork for a child that
//! waits for the disk); when all threads have been held longer than [`STUCK`](super::shared::STUCK), the next one that waits for its start
//! has a further thread made. Idle threads sleep on a condition variable and cost no wake-up.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::{Arc, Condvar};
use std::time::Instant;

use kelson_sys::{lock, pidfd, process};
use nix::sched::{CloneFlags, setns};

use super::child::{Child, ExitCell};
use super::job::Job;
use super::shared::{Pool, Shared, Worker};
use super::start_time;
use crate::command::{Command, PidNamespace};
use crate::spawn::clone::clone;
use crate::spawn::plan::Plan;
use crate::spawn::stack::ChildStack;
use crate::spawn::window::Window;
use crate::spawn::{SpawnError, Step};

/// Threads at most, also with a dead disk.
pub(super) const MOST: usize = 8;
/// What the name of a thread under a seccomp filter ends with.
const FILTERED: &str = "-seccomp";
/// Starts for which the queue keeps room.
const QUEUED: usize = 16;

impl Shared {
    pub(super) fn enqueue(self: &Arc<Self>, job: Arc<Job>) {
        if job.is_apart {
            return self.make_apart(job);
        }
        let filtered = job.filtered;
        let mut state = lock(&self.state);
        let pool = state.pool(filtered);
        pool.queue.push_back(job);
        if pool.idle() < pool.queue.len() && pool.alive() < self.spawners {
            self.start_thread(pool, filtered);
        }
        self.queued(filtered).notify_one();
    }

    /// Starts a further thread when there is work and every thread hangs.
    pub(super) fn relieve(self: &Arc<Self>) {
        let mut state = lock(&self.state);
        for filtered in [false, true] {
            let pool = state.pool(filtered);
            let all_hang = pool.workers.iter().filter(|worker| !worker.gone).all(Worker::hangs);
            if !pool.queue.is_empty() && all_hang && pool.alive() < MOST {
                self.start_thread(pool, filtered);
            }
        }
    }

    fn queued(&self, filtered: bool) -> &Condvar {
        if filtered { &self.queued_filtered } else { &self.queued }
    }

    /// Makes a child that begins in another PID namespace. Its thread enters that one before the clone, and ends after it.
    fn make_apart(self: &Arc<Self>, job: Arc<Job>) {
        let shared = Arc::clone(self);
        let thread = std::thread::Builder::new().name("spawn-apart".to_owned()).stack_size(128 * 1024);
        let of_thread = Arc::clone(&job);
        lock(&self.state).apart.push(Arc::clone(&job));
        let started = thread.spawn(move || {
            block_signals();
            shared.make(&of_thread, usize::MAX, false, &mut ChildStack::new());
            lock(&shared.state).apart.retain(|other| !Arc::ptr_eq(other, &of_thread));
        });
        if let Err(error) = started {
            lock(&self.state).apart.retain(|other| !Arc::ptr_eq(other, &job));
            let text = format!("cannot make a thread to start a process: {error}");
            job.finish(Err(SpawnError::prepare(text, error.raw_os_error())));
        }
    }

    fn start_thread(self: &Arc<Self>, pool: &mut Pool, filtered: bool) {
        let number = pool.workers.iter().position(|worker| worker.gone).unwrap_or(pool.workers.len());
        match pool.workers.get_mut(number) {
            Some(worker) => *worker = Worker::default(),
            None => pool.workers.push(Worker::default()),
        }
        let shared = Arc::clone(self);
        let name = format!("spawn-{number}{}", if filtered { FILTERED } else { "" });
        let thread = std::thread::Builder::new().name(name).stack_size(128 * 1024);
        if let Err(error) = thread.spawn(move || shared.serve(number, filtered)) {
            tracing::error!("cannot make a thread to start processes: {error}");
            if let Some(worker) = pool.workers.get_mut(number) {
                worker.gone = true;
            }
        }
    }

    /// The life of one spawner thread.
    fn serve(self: &Arc<Self>, number: usize, filtered: bool) {
        block_signals();
        let is_filtered = filtered && self.take_filter();
        let mut stack = ChildStack::new();
        while let Some(job) = self.next_job(number, filtered) {
            self.make(&job, number, is_filtered, &mut stack);
            if let Some(worker) = lock(&self.state).pool(filtered).workers.get_mut(number) {
                worker.busy = None;
            }
        }
    }

    /// Puts the calling thread under the filter of services that can hold every capability. Returns whether it is.
    fn take_filter(&self) -> bool {
        let filter = lock(&self.filters).default_profile(u64::MAX);
        let taken = filter.install();
        if let Err(errno) = taken {
            tracing::debug!("a thread cannot take the seccomp profile, so each service does: {errno}");
            self.cannot_filter.store(true, Relaxed);
        }
        taken.is_ok()
    }

    /// Waits for work. `None`: this thread was only made because others hung, and is no longer needed.
    fn next_job(&self, number: usize, filtered: bool) -> Option<Arc<Job>> {
        let mut state = lock(&self.state);
        loop {
            let pool = state.pool(filtered);
            let job = pool.queue.pop_front();
            // A boot queues all services at once; what that took is not kept.
            if pool.queue.is_empty() {
                pool.queue.shrink_to(QUEUED);
            }
            let alive = pool.alive();
            let worker = pool.workers.get_mut(number)?;
            if let Some(job) = job {
                worker.busy = Some((Arc::clone(&job), Instant::now()));
                return Some(job);
            }
            if alive > self.spawners {
                worker.gone = true;
                return None;
            }
            state = self.queued(filtered).wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }

    /// `is_filtered`: this thread is under the child's filter.
    fn make(&self, job: &Arc<Job>, number: usize, is_filtered: bool, stack: &mut io::Result<ChildStack>) {
        let command = {
            let mut work = lock(&job.work);
            let Some(command) = work.command.take() else { return };
            work.slot = self.slots.take(command.owner).map(Arc::new);
            command
        };
        job.control.enter(Step::Prepare);
        let own = if job.filtered { number.saturating_add(self.spawners) } else { number };
        let mut window = self.windows.get(own).filter(|_| number < self.spawners).map(lock);
        let result = self.try_make(job, command, is_filtered, stack, window.as_deref_mut());
        drop(window);
        if result.is_err() {
            lock(&job.work).slot = None;
        }
        job.finish(result);
    }

    fn try_make(
        &self,
        job: &Arc<Job>,
        command: Command,
        is_filtered: bool,
        stack: &mut io::Result<ChildStack>,
        mut window: Option<&mut Window>,
    ) -> Result<Child, SpawnError> {
        if stack.is_err() {
            *stack = ChildStack::new();
        }
        let stack = stack.as_mut().map_err(|error| {
            SpawnError::prepare(format!("cannot make a stack for a process: {error}"), error.raw_os_error())
        })?;
        let mut plan = Plan::new(command, Arc::clone(&job.control), &self.inheritance)?;
        if is_filtered {
            plan.seccomp = None;
        }
        let slot = lock(&job.work).slot.clone();
        let cell = slot.as_ref().and_then(|slot| slot.pid()).unwrap_or(&job.control.pid);
        if let PidNamespace::Of(namespace) = &plan.command.pid_namespace {
            setns(namespace, CloneFlags::CLONE_NEWPID).map_err(|errno| {
                let text = format!("cannot enter the PID namespace of the service: {}", errno.desc());
                SpawnError::prepare(text, Some(errno as i32))
            })?;
        }
        job.control.enter(Step::Clone);
        if job.control.is_cancelled() {
            return Err(SpawnError::refused(Step::Clone, libc::ECANCELED, 0, &job.subject));
        }
        if let Some(window) = window.as_deref_mut() {
            plan.stage(window);
        }
        let begun = start_time::ticks_now();
        let cloned = clone(&mut plan, stack, &self.refused, cell, &job.control.pidfd);
        if let Some(window) = window {
            window.clear();
        }
        let pidfd = job.control.take_pidfd();
        if let Err(errno) = cloned {
            return Err(SpawnError::refused(Step::Clone, errno, 0, &job.subject));
        }
        let pid = cell.load(SeqCst);
        match job.control.failure() {
            None => {
                let ticks = start_time::between(begun, start_time::ticks_now());
                let child = self.report(job, pid, pidfd, ticks);
                child.map_err(|errno| SpawnError::refused(Step::Clone, errno, 0, &job.subject))
            }
            Some(errno) => {
                let mut state = lock(&self.state);
                if lock(&job.work).reported().is_none() {
                    state.children.insert(pid, None);
                }
                let control = &job.control;
                Err(SpawnError::refused(control.step(), errno, control.detail(), &job.subject))
            }
        }
    }

    /// Registers a child that has executed its program; from here on its exit is the owner's.
    fn report(&self, job: &Job, pid: i32, pidfd: Option<OwnedFd>, ticks: Option<u64>) -> Result<Child, i32> {
        let ticks = ticks.or_else(|| process::start_time(pid)).unwrap_or_default();
        let exit = Arc::new(ExitCell::default());
        let mut state = lock(&self.state);
        let mut work = lock(&job.work);
        let slot = work.slot.take();
        if let Some((ended, kept)) = work.reported() {
            exit.complete(ended);
            // It was reaped before the start time was read: that may be a stranger's.
            let pidfd = pidfd.or(kept).ok_or(libc::EMFILE)?;
            return Ok(Child { pid, pidfd, start_time: 0, exit: exit.receiver(slot) });
        }
        // Not reaped, and the lock keeps it so: the number is still its own.
        let Some(pidfd) = pidfd.or_else(|| pidfd::open(pid).ok().flatten()) else {
            // SAFETY: a number of our own child.
            unsafe { libc::kill(pid, libc::SIGKILL) };
            state.children.insert(pid, None);
            return Err(libc::EMFILE);
        };
        state.children.insert(pid, Some(Arc::clone(&exit)));
        Ok(Child { pid, pidfd, start_time: ticks, exit: exit.receiver(slot) })
    }
}

/// The signals that a fault of a thread sends to the thread itself. The kernel ends the process if the thread
/// has blocked the signal, even if there is a handler.
const FAULTS: [i32; 7] =
    [libc::SIGILL, libc::SIGTRAP, libc::SIGABRT, libc::SIGBUS, libc::SIGFPE, libc::SIGSEGV, libc::SIGSYS];

/// Spawner threads take no signal but that of a fault of their own, which PID 1 survives; and a child starts with the
/// others blocked, until it has let go of PID 1's handlers. Straight into the kernel, as libc keeps two signals for itself.
fn block_signals() {
    let bit = |signal: i32| 1_u64.wrapping_shl(signal.cast_unsigned().wrapping_sub(1));
    let faults = FAULTS.into_iter().fold(0, |set, signal| set | bit(signal));
    let others = !faults;
    // SAFETY: the sets live on this stack and have the kernel's size.
    unsafe {
        let none = std::ptr::null::<u64>();
        libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_BLOCK, &raw const others, none, 8);
        libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_UNBLOCK, &raw const faults, none, 8);
    }
}

/// Bit n-1: this process ignores signal n.
pub(super) fn ignored_signals() -> u64 {
    let mut ignored = 0u64;
    for signal in 1..=64i32 {
        // The kernel's struct sigaction. Not libc's call: that hides the two signals that it keeps for itself.
        let mut action = [0usize; 4];
        // SAFETY: the call only reads the disposition, into a struct of the kernel's size.
        unsafe {
            libc::syscall(libc::SYS_rt_sigaction, signal, std::ptr::null::<u8>(), action.as_mut_ptr(), 8);
        }
        let [handler, ..] = action;
        if handler == libc::SIG_IGN {
            ignored |= 1u64.wrapping_shl(signal.cast_unsigned().wrapping_sub(1));
        }
    }
    ignored
}
