//! The pipes of the runs: taken over, read, left alone for a while, and closed.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use kelson_proto::v1;
use kelson_spec::names::is_name;
use nix::errno::Errno;
use nix::sys::epoll::{EpollEvent, EpollFlags};

use super::{Reader, SIGNAL};
use crate::flow::{self, Pause, Rate};
use crate::run::Run;
use crate::store::{Limits, Lost};
use crate::stream::Stream;

/// This many reads empty a full pipe.
const WHOLE: usize = 4;

impl Reader {
    pub(super) fn take_run(&mut self, run: v1::LogdRun, descriptors: Vec<OwnedFd>) {
        let ends = [(run.stdout, false), (run.stderr, true)].into_iter().filter(|(there, _)| *there);
        let ends: Vec<bool> = ends.map(|(_, stderr)| stderr).collect();
        if !is_name(&run.service) || ends.len() != descriptors.len() || run.id >= SIGNAL / 2 {
            return self.trouble(format!("PID 1 handed over a run that is none: {run:?}"));
        }
        let service: Arc<str> = run.service.as_str().into();
        self.leaving.retain(|leaving| *leaving != service);
        let limits = Limits { max_size: run.max_size.max(4096), max_files: run.max_files.max(1) };
        let of = Run::new(run.run, self.boot);
        self.store.open(&service, of, limits);
        // Once, however many runs of it are handed over.
        if run.interrupted && !self.flows.contains_key(&service) {
            let text = "kelson-logd was replaced; lines that the last one still held may be lost here";
            self.store.note(&service, text);
        }
        if run.lost_bytes > 0 {
            let lost = Lost { lines: run.lost_lines, bytes: run.lost_bytes };
            self.store.lose(&service, lost, "no kelson-logd was there to read them", true);
        }
        let flow = self.flows.entry(service.clone()).or_default();
        let limit = run.rate_limit.filter(|limit| *limit > 0);
        if flow.rate.as_ref().map(Rate::limit) != limit {
            flow.rate = limit.map(Rate::new);
        }
        for (stderr, pipe) in ends.into_iter().zip(descriptors) {
            let token = run.id.wrapping_shl(1) | u64::from(stderr);
            // Another incarnation of PID 1 hands over all that it has: this is read already.
            if self.streams.contains_key(&token) {
                continue;
            }
            match self.epoll.add(&pipe, EpollEvent::new(EpollFlags::EPOLLIN, token)) {
                Ok(()) => {
                    let service = service.clone();
                    if let Some(flow) = self.flows.get_mut(&service) {
                        flow.streams.push(token);
                    }
                    let v1::LogdRun { console, copied, named, .. } = run;
                    let held = Vec::new();
                    let stream = Stream { pipe, service, run: of, held, stderr, console, copied, named };
                    self.streams.insert(token, stream);
                }
                Err(error) => self.trouble(format!("the output of {service} cannot be read: {error}")),
            }
        }
    }

    /// Closes the file of a removed service once none of its pipes is left.
    pub(super) fn leave(&mut self, service: &Arc<str>) {
        if self.leaving.contains(service) && !self.streams.values().any(|stream| stream.service == *service) {
            self.leaving.retain(|leaving| leaving != service);
            self.flows.remove(service);
            self.store.forget(service);
        }
    }

    /// Reads at most so often, up to the end.
    pub(super) fn read(&mut self, token: u64, reads: usize) {
        let Some(stream) = self.streams.get_mut(&token) else { return };
        if stream.copied
            && let Some(until) = self.outlets.is_full(stream.stderr, Instant::now())
        {
            let (service, pause) = (stream.service.clone(), Pause::Unread(until, stream.stderr));
            return self.pause(&service, Some(pause));
        }
        let Some(flow) = self.flows.get_mut(&stream.service) else { return };
        let began = flow.rate.as_mut().map(|rate| {
            let now = Instant::now();
            let suppressed = rate.begin(now);
            if suppressed != Lost::default() {
                self.store.lose(&stream.service, suppressed, &rate.reason(), false);
            }
            flow::thread_time()
        });
        // A pipe whose lines are dropped is read whole, since it rests long afterwards.
        let exhausted = flow.rate.as_ref().is_some_and(Rate::is_exhausted);
        let reads = if exhausted { reads.max(WHOLE) } else { reads };
        let mut ended = false;
        for _ in 0..reads {
            let beside = (&mut self.console, &mut self.outlets);
            match stream.read(&mut self.buffer, &self.store, beside, flow.rate.as_mut()) {
                Ok(read) if read > 0 => {}
                Err(Errno::EAGAIN | Errno::EINTR) => break,
                Ok(_) | Err(_) => {
                    ended = true;
                    break;
                }
            }
        }
        let service = stream.service.clone();
        if ended {
            return self.ended(token);
        }
        if let (Some(rate), Some(began)) = (&flow.rate, began)
            && rate.is_exhausted()
        {
            if rate.due().is_some() && !self.suppressing.contains(&service) {
                self.suppressing.push(service.clone());
            }
            let rest = flow::rest_after(flow::thread_time().saturating_sub(began));
            let until = Instant::now().checked_add(rest).map(Pause::Resting);
            return self.pause(&service, until);
        }
        if self.store.crowded(&service) {
            let until = flow.wait_budget.begin(Instant::now()).map(Pause::Crowded);
            self.pause(&service, until);
        }
    }

    /// Reads nothing of the service for a while.
    pub(super) fn pause(&mut self, service: &Arc<str>, pause: Option<Pause>) {
        let Some(flow) = self.flows.get_mut(service).filter(|_| pause.is_some()) else { return };
        for stream in flow.streams.iter().filter_map(|token| self.streams.get(token)) {
            let _ = self.epoll.delete(&stream.pipe);
        }
        flow.pause = pause;
        if !self.paused.contains(service) {
            self.paused.push(service.clone());
        }
        self.hold_back();
    }

    /// Resumes services whose pause is over, or whose lines have room again.
    pub(super) fn resume(&mut self, now: Instant) {
        if self.paused.is_empty() {
            return;
        }
        let Reader { paused, flows, streams, store, epoll, outlets, .. } = self;
        paused.retain(|service| {
            let Some(flow) = flows.get_mut(service) else { return false };
            let over = match flow.pause {
                Some(Pause::Crowded(until)) => now >= until || !store.crowded(service),
                Some(Pause::Unread(_, stderr)) => {
                    let until = outlets.is_full(stderr, now);
                    flow.pause = until.map(|until| Pause::Unread(until, stderr));
                    until.is_none()
                }
                Some(Pause::Resting(until)) => now >= until,
                None => true,
            };
            if !over {
                return true;
            }
            let mut all = true;
            for (token, stream) in flow.streams.iter().filter_map(|token| Some((*token, streams.get(token)?)))
            {
                let added = epoll.add(&stream.pipe, EpollEvent::new(EpollFlags::EPOLLIN, token));
                // The pipes of a run that has come meanwhile are there already.
                all &= matches!(added, Ok(()) | Err(Errno::EEXIST));
            }
            flow.wait_budget.end(now);
            // The kernel had no memory: at the next turn, a moment later.
            flow.pause = now.checked_add(Duration::from_millis(10)).map(Pause::Resting).filter(|_| !all);
            !all
        });
        self.hold_back();
    }

    /// Tells the writer whether to wake this thread when there is room.
    pub(super) fn hold_back(&self) {
        let crowded = |service| {
            self.flows.get(service).is_some_and(|flow| matches!(flow.pause, Some(Pause::Crowded(_))))
        };
        self.store.held_back.store(self.paused.iter().any(crowded), Ordering::Relaxed);
    }

    /// Notes what was suppressed of services that are silent since.
    pub(super) fn note_suppressed(&mut self, now: Instant) {
        let Reader { suppressing, flows, store, .. } = self;
        suppressing.retain(|service| {
            let Some(rate) = flows.get_mut(service).and_then(|flow| flow.rate.as_mut()) else { return false };
            match rate.due() {
                Some(due) if now >= due => {
                    store.lose(service, rate.take(), &rate.reason(), false);
                    false
                }
                due => due.is_some(),
            }
        });
    }

    pub(super) fn ended(&mut self, token: u64) {
        let Some(mut stream) = self.streams.remove(&token) else { return };
        // By hand: PID 1 still holds the same pipe, and then closing does not remove it.
        let _ = self.epoll.delete(&stream.pipe);
        if let Some(flow) = self.flows.get_mut(&stream.service) {
            stream.finish(&self.store, &mut self.outlets, flow.rate.as_mut());
            flow.streams.retain(|open| *open != token);
        }
        let ended = v1::LogdEnded { id: token.wrapping_shr(1), stderr: stream.stderr };
        self.outbox.push_back(v1::logd_report::Report::Ended(ended));
        let service = stream.service.clone();
        self.leave(&service);
    }
}
