//! The power is cut at any moment, and the next boot comes up by itself: what was called done is there, and what was
//! not done is not taken for done.
//!
//! Half of the cuts are those of a drive without a cache of its own, the others of one that loses what was not flushed
//! ([`Drive`]). Each boot has one image that is new, so that there is always something to be unpacked.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use kelson_tests::chaos::Toll;
use kelson_tests::image::noise;
use kelson_tests::{Cache, Dice, Drive, Image, Loss, PATIENCE, Tar, Vm, archive, checksum, paths, until};

use crate::assert_clean;
use crate::ticks::{self, TICK, log, missing};

/// The same cuts again: `KELSON_SEED`.
const SEED: u64 = 5;
const LARGE: usize = 6 << 20;
const SMALL: usize = 3000;
/// The program of steps, on the machine.
const STEPS: &str = "/etc/kelson/kelson-test-program";
const STATE: &str = "/var/lib/kelson";
const SNAPSHOTTER: &str = "containerd/io.containerd.snapshotter.v1.overlayfs/snapshots";
const ALL: [&str; 6] = ["look", "ledger", "chatty", "talker", "old", "new"];

/// The state of the machine when its power goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    /// Between the kernel's first line and services.
    Boot,
    /// An image is brought into containerd.
    Unpack,
    /// All runs: logs and a database are written.
    Run,
    /// Services stop, file systems are unmounted.
    Stop,
}

#[test]
fn a_cut_of_the_power_costs_nothing_that_was_done() {
    let mut trial = Trial::new("power-cut");
    trial.cut(Moment::Run, Cache::Volatile);
    trial.end();
}

#[test]
fn long_two_cuts_of_the_power_cost_nothing_that_was_done() {
    let mut trial = Trial::new("two-power-cuts");
    trial.cut(Moment::Unpack, Cache::Volatile);
    trial.cut(Moment::Run, Cache::Volatile);
    trial.end();
}

#[test]
#[ignore = "minutes: hack/chaos runs it"]
fn long_fifty_cuts_of_the_power_cost_nothing_that_was_done() {
    let mut trial = Trial::new("power-cuts");
    // Each boot that is cut early or in the middle of an unpack comes before one that is looked at.
    for number in 0.. {
        // Some find the machine off already.
        if trial.cuts == 50 {
            break;
        }
        let early = [Moment::Unpack, Moment::Boot, Moment::Unpack];
        let late = [Moment::Run, Moment::Stop];
        let moments: &[Moment] = if number % 2 == 0 { &early } else { &late };
        let moment = moments[usize::try_from(trial.dice.below(moments.len() as u64)).expect("small")];
        let cache = if trial.dice.once_in(2) { Cache::None } else { Cache::Volatile };
        if !trial.survives(|trial| trial.cut(moment, cache)) {
            break;
        }
    }
    trial.end();
}

struct Trial {
    name: &'static str,
    drive: Drive,
    dice: Dice,
    boots: u64,
    cuts: u64,
    /// Lost are services that are not up again by themselves.
    toll: Toll,
    /// The last record that was called kept, as this computer heard.
    kept: u64,
    /// The last tick of each service whose log was looked at just before a cut.
    ticks: Vec<(&'static str, u64)>,
    /// The longest end of a log that a cut has taken.
    longest_tail: Duration,
    machine_id: Option<String>,
    left: Option<BTreeSet<String>>,
    told: String,
}

impl Trial {
    fn new(name: &'static str) -> Trial {
        let seed = std::env::var("KELSON_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(SEED);
        Trial {
            name,
            drive: Drive::new(name, "KELSON"),
            dice: Dice::new(seed),
            boots: 0,
            cuts: 0,
            toll: Toll::of("power-cut"),
            kept: 0,
            ticks: Vec::new(),
            longest_tail: Duration::ZERO,
            machine_id: None,
            left: None,
            told: format!("seed {seed}\n"),
        }
    }

    fn tell(&mut self, text: &str) {
        self.told.push_str(text);
        self.told.push('\n');
    }

    fn start(&mut self) -> Vm {
        self.boots += 1;
        self.drive.keep();
        let (number, ticks) = (self.boots, TICK.as_millis());
        Vm::builder(self.name)
            .disk(self.drive.file())
            .disk_log(&self.drive.log())
            .runs("look", "serve")
            .runs_with("ledger", "'ledger=/var/lib/ledger:20ms'", "restart: {policy: once}")
            // The one has its log rotated all the time, the other never.
            .runs_with(
                "chatty",
                &format!("print=begin, 'ticker={ticks}ms'"),
                "logs: {maxSize: 32Ki, maxFiles: 8}",
            )
            .runs_with("talker", &format!("print=begin, 'ticker={ticks}ms'"), "logs: {maxSize: 16Mi}")
            .service("old", &service("old:1", 0))
            .service("new", &service(&format!("new-{number}:1"), number))
            .archive("old.tar", image("old:1", 0))
            .archive(&format!("new-{number}.tar"), image(&format!("new-{number}:1"), number))
            .start()
    }

    /// Boots, and cuts the power at such a moment.
    #[track_caller]
    fn cut(&mut self, moment: Moment, cache: Cache) {
        let mut vm = self.start();
        let pause = match moment {
            Moment::Boot => {
                vm.wait_console("Run /init");
                self.dice.millis(6000)
            }
            Moment::Unpack => {
                vm.wait_console("kelson: new: preparing");
                self.dice.millis(4000)
            }
            Moment::Run | Moment::Stop => {
                self.look(&mut vm);
                self.dice.millis(3000)
            }
        };
        if moment == Moment::Stop {
            vm.ctl(&["poweroff"]);
        }
        // A random moment is what this waits for.
        let begun = Instant::now();
        if moment == Moment::Run {
            self.listen(&vm, pause);
        } else {
            std::thread::sleep(pause);
        }
        let pause = begun.elapsed();
        let cut = vm.cut();
        let loss = if cut {
            self.drive.cut(cache, &mut self.dice)
        } else {
            Loss { writes: 0, unflushed: 0, lost: 0 }
        };
        self.cuts += u64::from(cut);
        let off = if cut { "" } else { ", off already" };
        self.tell(&format!(
            "boot {} cut {:.1} s after {moment:?}{off}, cache {cache:?}: {loss:?}",
            self.boots,
            pause.as_secs_f32()
        ));
    }

    /// Receives lines up to the cut.
    fn listen(&mut self, vm: &Vm, pause: Duration) {
        let end = Instant::now() + pause;
        let mut lines = vm.client().follow(&["logs", "-f", "--tail", "1", "ledger"]);
        while let Some(line) = lines.next(end.saturating_duration_since(Instant::now())) {
            if let Some(number) = line.rsplit_once("kept ").and_then(|(_, number)| number.parse().ok()) {
                self.kept = number;
            }
        }
        let last = |name| log(vm, name, &["--tail", "1"]).iter().find_map(ticks::number).unwrap_or(0);
        self.ticks = ["chatty", "talker"].map(|name| (name, last(name))).to_vec();
    }

    /// Whether a boot comes to its end, and to what must hold then. One that does not is counted as one that hangs.
    fn survives(&mut self, boot: impl FnOnce(&mut Trial)) -> bool {
        let mut hung = Toll::default();
        let done = hung.attempt(|| boot(self)).is_some();
        self.toll.hangs += hung.hangs;
        self.toll.problems.append(&mut hung.problems);
        done
    }

    /// The last boot, down to a clean power off.
    #[track_caller]
    fn end(mut self) {
        if self.toll.hangs == 0 {
            self.survives(|trial| {
                let mut vm = trial.start();
                trial.look(&mut vm);
                vm.poweroff();
                assert_clean(trial.drive.file());
            });
        }
        self.tell(&format!("at most {:.1} s of the end of a log were lost", self.longest_tail.as_secs_f32()));
        self.toll.times = u32::try_from(self.cuts).expect("a small number");
        let said = format!("{}{}\n", self.told, self.toll);
        print!("{}", self.told);
        std::fs::write(paths::test_logs().join(format!("{}.told", self.name)), said)
            .expect("the folder of test logs is writable");
        // hack/chaos gathers this line.
        self.toll.tell();
    }

    /// All that has to hold after a boot.
    #[track_caller]
    fn look(&mut self, vm: &mut Vm) {
        vm.wait_answer();
        let up = vm.ctl(&[&["wait"], &ALL[..], &["--for", "up", "--timeout", "120s"]].concat());
        self.toll.count_lost(0, String::new);
        for service in vm.services() {
            if !service.up && ALL.contains(&service.name.as_str()) {
                self.tell(&format!("boot {}: {service:?}", self.boots));
                self.toll.count_lost(1, || format!("{service:?}"));
            }
            self.toll.count_restarts(service.restarts);
        }
        assert!(up.status == 0 || self.toll.lost > Some(0), "{up:?}");
        let console = vm.console();
        for word in ["EXT4-fs error", "Kernel panic", "a fault in Kelson"] {
            assert!(!console.contains(word), "{word}: {}", self.told);
        }
        self.look_at_the_ledger(vm);
        self.look_at_logs(vm);
        self.look_for_leftovers(vm);
        let id = look(vm, "cat=/etc/machine-id");
        let before = self.machine_id.get_or_insert_with(|| id.clone());
        assert_eq!(*before, id, "the machine has another id than before the cut");
    }

    /// A record that was called kept is there. The service fails if a record is damaged.
    #[track_caller]
    fn look_at_the_ledger(&mut self, vm: &Vm) {
        let lines = log(vm, "ledger", &[]);
        let holds = lines
            .iter()
            .rev()
            .find_map(|line| line.text.strip_prefix("ledger holds "))
            .and_then(|n| n.parse::<u64>().ok());
        let holds = holds.unwrap_or_else(|| {
            panic!("the ledger does not say what it holds: {:?}", vm.client().service("ledger"))
        });
        assert!(
            holds >= self.kept,
            "record {} was called kept, and the ledger holds {holds}: {}",
            self.kept,
            self.told
        );
        self.kept = holds;
    }

    /// Each run's lines are there one after the other. At the end of one some may be missing, never in the middle.
    #[track_caller]
    fn look_at_logs(&mut self, vm: &Vm) {
        for name in ["chatty", "talker"] {
            let found = missing(&log(vm, name, &[]));
            for text in &found.told {
                self.tell(&format!("boot {}: {name}: {text}", self.boots));
            }
            self.toll.count_lines(found.lines, || format!("{name}: {:?}", found.told));
            if let Some((_, seen)) = self.ticks.iter().find(|(service, _)| *service == name) {
                let lost =
                    u32::try_from(seen.saturating_sub(found.end_of_run_before)).expect("a small number");
                self.longest_tail = self.longest_tail.max(TICK * lost);
            }
        }
        self.ticks.clear();
    }

    /// Nothing of a broken-off unpack stays, and nothing becomes more from cut to cut.
    #[track_caller]
    fn look_for_leftovers(&mut self, vm: &Vm) {
        vm.ctl(&["images", "prune"]).ok();
        // A cut may leave the folder of a write that has no name in it yet. containerd passes over such a one
        // permanently; there is one a cut at most.
        let ingest = look(vm, &format!("list={STATE}/containerd/io.containerd.content.v1.content/ingest"));
        assert!(ingest.lines().count() as u64 <= self.cuts, "{ingest}");
        let mut untidy = Vec::new();
        let left = until("containerd to be tidy", PATIENCE, || {
            let is_empty = |path: &str| look(vm, &format!("list={STATE}/{path}")).trim().is_empty();
            // containerd makes a folder, mounts a snapshot on it and removes both in the end. At its start it looks at
            // mounts alone: a cut in between leaves the empty folder, one a cut at most.
            let points = look(vm, &format!("list={STATE}/containerd/tmpmounts"));
            let unmounted = points.lines().count() as u64 <= self.cuts
                && points.lines().all(|point| is_empty(&format!("containerd/tmpmounts/{point}")))
                && !look(vm, "cat=/proc/self/mountinfo").contains("/tmpmounts/");
            let rows = |arguments: &[&str]| ctr(vm, arguments).lines().skip(1).count();
            let snapshots = rows(&["snapshots", "ls"]);
            let folders = look(vm, &format!("list={STATE}/{SNAPSHOTTER}")).lines().count();
            let all = [
                ("leases", rows(&["leases", "ls"]) == 0),
                ("content that is being written", rows(&["content", "active"]) == 0),
                ("mounts", unmounted),
                ("folders of snapshots", snapshots == folders),
            ];
            let now: Vec<_> = all.iter().filter(|(_, tidy)| !tidy).map(|(what, _)| *what).collect();
            if now != untidy {
                println!("boot {}: not tidy: {now:?}, {snapshots} snapshots, {folders} folders", self.boots);
                untidy.clone_from(&now);
            }
            now.is_empty().then(|| {
                let blobs = look(
                    vm,
                    &format!("list={STATE}/containerd/io.containerd.content.v1.content/blobs/sha256"),
                );
                let own = look(vm, &format!("list={STATE}"));
                let mut left: BTreeSet<String> = own.lines().map(str::to_owned).collect();
                left.insert(format!("{snapshots} snapshots"));
                left.insert(format!("{} blobs", blobs.lines().count()));
                left.insert(format!("{} containers", rows(&["containers", "ls"])));
                left
            })
        });
        let before = self.left.get_or_insert_with(|| left.clone());
        assert_eq!(*before, left, "something is left of earlier boots: {}", self.told);
    }
}

/// A service that runs this image only if its files are what they were in the archive.
fn service(image: &str, number: u64) -> String {
    let mut expected = String::new();
    for (path, bytes) in files(number) {
        write!(expected, "'expect=/{path}:{:016x}', ", checksum::of(&bytes)).expect("a String takes it");
    }
    format!(
        "container: {{image: '{image}', command: [/program, {expected}serve]}}\nrestart: {{policy: once}}"
    )
}

/// A large file and some small ones, other ones for each number.
fn files(number: u64) -> Vec<(String, Vec<u8>)> {
    let mut bytes = noise(LARGE);
    for place in bytes.iter_mut().step_by(64) {
        *place = place.wrapping_add(u8::try_from(number % 251).expect("it fits"));
    }
    let small = (0..8)
        .map(|n| (format!("small-{n}"), bytes[n * SMALL..(n + 1) * SMALL].to_vec()))
        .collect::<Vec<_>>();
    small.into_iter().chain([("large".to_owned(), bytes.clone())]).collect()
}

fn image(reference: &str, number: u64) -> Vec<u8> {
    let mut image = Image::new(reference, &["serve"]);
    let files = files(number);
    for part in files.chunks(4) {
        let mut tar = Tar::new();
        for (path, bytes) in part {
            tar = tar.file(path, 0o644, bytes);
        }
        image = image.layer(tar);
    }
    archive(&[image])
}

/// Performs steps on the machine, and returns their output.
#[track_caller]
fn look(vm: &Vm, step: &str) -> String {
    vm.ctl(&["exec", "look", "--", STEPS, step]).ok().stdout
}

/// Runs containerd's own tool, and returns its output.
#[track_caller]
fn ctr(vm: &Vm, args: &[&str]) -> String {
    vm.ctl(&[&["exec", "look", "--", "/usr/bin/ctr", "--namespace", "kelson"], args].concat()).ok().stdout
}
