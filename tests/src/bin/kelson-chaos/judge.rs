//! The faults, one after the other, and the look at all services after each.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use kelson_tests::chaos::load::{GROUP, JUDGE, MANUAL, QUIET, RESTLESS, WRITER, is_settled};
use kelson_tests::chaos::{Ledger, Verdict};
use kelson_tests::ctl::Events;
use kelson_tests::{Ctl, Event, Lines, Service, time_of, until};

use crate::Plan;
use crate::fault::Fault;
use crate::life::{self, Held};

/// Built-ins that start again in each incarnation, and are no service of anybody.
const HELPERS: [&str; 1] = ["probe"];
/// No more problems than this are reported.
const ENOUGH_PROBLEMS: usize = 50;

/// The time since when the host is healthy is counted back from now, so a clock that is slewed moves it. A state that
/// begins again at a fault moves it by seconds.
const SLEW: Duration = Duration::from_millis(100);

/// The state of a service that must not change.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Known {
    pid: Option<i32>,
    state: String,
    up: bool,
    healthy: Option<bool>,
    since: String,
    restarts: u32,
}

/// The health of the host and of its groups: state, and since when, by the name of the group.
type Health = BTreeMap<String, (String, serde_json::Value)>;

pub struct Judge {
    pub plan: Plan,
    pub ctl: Ctl,
    pub verdict: Verdict,
    known: BTreeMap<String, Known>,
    /// Of a host with the load; that of the demo has a health of its own.
    health: Health,
    /// The numbers of the events of [`QUIET`].
    quiet: Vec<u64>,
    /// Kept open all the while.
    pub streams: Option<Streams>,
    answers: Vec<Duration>,
    /// How often PID 1 was to re-execute itself on request, and to crash.
    pub asked: (u64, u64),
    /// The counts of both before.
    pub counted: (u64, u64),
    held: Option<Held>,
    chance: u64,
}

/// The streams that a client follows from before the first fault to after the last.
pub struct Streams {
    pub events: Events,
    /// The number of the first event that is to come.
    pub from: u64,
    /// The log of the first writer, where there is one.
    pub lines: Option<Lines>,
}

impl Judge {
    pub fn new(plan: Plan) -> Judge {
        let ctl = Ctl::at(format!("unix://{}", plan.runtime.join("init.sock").display()));
        let verdict = Verdict { fault: plan.name.clone(), ..Verdict::default() };
        // Where in the work of the host a fault strikes is another each time.
        let chance = u64::from(std::process::id()) ^ life::of_pid_1().unwrap_or_default();
        Judge {
            plan,
            ctl,
            verdict,
            known: BTreeMap::new(),
            health: Health::new(),
            quiet: Vec::new(),
            streams: None,
            answers: Vec::new(),
            asked: (0, 0),
            counted: (0, 0),
            held: None,
            chance: chance | 1,
        }
    }

    pub fn judge(mut self) -> Verdict {
        self.settle();
        for time in 1..=self.plan.times {
            let fault = self.plan.faults[(time as usize - 1) % self.plan.faults.len()];
            std::thread::sleep(self.plan.pause.mul_f64(self.by_chance()));
            if !self.inject(time, fault) {
                self.verdict.hangs += 1;
                self.problem(format!("{time}: PID 1 does not answer any more"));
                return self.told();
            }
            self.verdict.times = time;
            if time == 2 {
                self.held = Held::now();
            }
            if time % 10 == 0 {
                println!("{time} times, {} problems", self.verdict.problems.len());
            }
        }
        self.nothing_grows();
        self.a_quiet_service_keeps_its_events();
        crate::end::look(&mut self);
        self.told()
    }

    pub fn problem(&mut self, text: String) {
        if self.verdict.problems.len() < ENOUGH_PROBLEMS {
            self.verdict.problems.push(text);
        }
    }

    /// The services, where that is answered.
    pub fn ask(&self) -> Result<Vec<Service>, String> {
        let output = self.ctl.run(&["-o", "json", "services"]);
        if output.status != 0 {
            return Err(format!("status {}: {}", output.status, output.stderr.trim()));
        }
        serde_json::from_str(&output.stdout).map_err(|error| error.to_string())
    }

    /// How often PID 1 re-executed itself and how often it crashed, by its own report.
    pub fn lives(&self) -> Option<(u64, u64)> {
        let output = self.ctl.run(&["-o", "json", "version"]);
        let version: serde_json::Value = serde_json::from_str(&output.stdout).ok()?;
        let count = |name: &str| version["server"][name].as_u64();
        Some((count("reexecs")?, count("crashes").unwrap_or_default()))
    }

    /// Returns once all services rest in their states and the streams are open, and notes how they are.
    fn settle(&mut self) {
        let services = until("the services to be as they are to be", 10 * self.plan.bound, || {
            let services = self.ask().ok()?;
            services.iter().all(|service| self.settled(service)).then_some(services)
        });
        self.known = services.into_iter().map(known).collect();
        if self.known.contains_key(MANUAL) {
            self.ask_for_more();
        }
        self.counted = until("an answer", self.plan.bound, || self.lives());
        let from = self.ctl.events().last().map_or(1, |event| event.seq);
        let mut events = self.ctl.follow_events(from);
        events.next(self.plan.bound).expect("the newest event");
        let writer = format!("{WRITER}0");
        let lines = self.known.contains_key(&writer).then(|| {
            let mut lines = self.ctl.follow(&["logs", "-f", "--tail", "1", &writer]);
            lines.next(self.plan.bound).expect("a line");
            lines
        });
        self.streams = Some(Streams { events, from: from + 1, lines });
    }

    /// Notes what no death of PID 1 may change: the health of the host and of a group, the events of a service that has
    /// none any more, and that a service whose file says `auto` since it was read is started by nobody.
    fn ask_for_more(&mut self) {
        let file = self.plan.config.join(format!("{MANUAL}.yaml"));
        let text = std::fs::read_to_string(&file).expect("the file of a service");
        let changed = text.replace("start: manual", "start: auto");
        assert_ne!(text, changed, "{}", file.display());
        std::fs::write(&file, changed).expect("the files of the services can be written");
        self.ctl.run(&["reload"]).ok();
        self.health = until("the host and its group to be healthy", 10 * self.plan.bound, || {
            let health = self.health().ok()?;
            let healthy = health.values().all(|(state, _)| state == "healthy");
            (healthy && health.contains_key(GROUP)).then_some(health)
        });
        self.quiet = self.quiet_events();
        assert!(!self.quiet.is_empty(), "{QUIET} has no events");
    }

    fn health(&self) -> Result<Health, String> {
        let output = self.ctl.run(&["-o", "json", "health"]);
        let report: serde_json::Value = serde_json::from_str(&output.stdout)
            .map_err(|error| format!("{error}: status {}: {}", output.status, output.stderr.trim()))?;
        let text =
            |report: &serde_json::Value, key: &str| report[key].as_str().unwrap_or_default().to_owned();
        let of = |report: &serde_json::Value| {
            (text(report, "group"), (text(report, "state"), report["since"].clone()))
        };
        let groups = report["groups"].as_array().into_iter().flatten().map(of);
        Ok(groups.chain([of(&report)]).collect())
    }

    fn quiet_events(&self) -> Vec<u64> {
        let events: Vec<Event> = self.ctl.run(&["-o", "json", "events", QUIET]).ok().json_lines();
        events.iter().map(|event| event.seq).collect()
    }

    /// A crash loop evicts its own events alone.
    fn a_quiet_service_keeps_its_events(&mut self) {
        if self.quiet.is_empty() {
            return;
        }
        let now = self.quiet_events();
        self.verdict.written += now.len() as u64;
        let missing = self.quiet.iter().filter(|seq| !now.contains(seq)).count();
        if now != self.quiet {
            self.verdict.lines += missing.max(1) as u64;
            self.problem(format!("{QUIET} had the events {:?}, and has {now:?}", self.quiet));
        }
    }

    /// A balancer does not notice that PID 1 died.
    fn compare_health(&mut self, time: u32) {
        if self.health.is_empty() {
            return;
        }
        match self.health() {
            Ok(now) if same_health(&self.health, &now) => self.health = now,
            Ok(now) => {
                self.verdict.lost += 1;
                self.problem(format!("{time}: the health was {:?}, is {now:?}", self.health));
                self.health = now;
            }
            Err(why) => {
                self.verdict.lost += 1;
                self.problem(format!("{time}: the health is not answered: {why}"));
            }
        }
    }

    fn settled(&self, service: &Service) -> bool {
        if service.builtin {
            return service.up || service.state != "starting";
        }
        let writes = !service.name.starts_with(WRITER) || self.plan.files.join(&service.name).exists();
        is_settled(service) && writes
    }

    /// Whether PID 1 answers in time afterwards.
    fn inject(&mut self, time: u32, fault: Fault) -> bool {
        let before = life::of_pid_1();
        let began = Instant::now();
        let injected = match fault.inject(&self.ctl) {
            Ok(injected) => injected,
            Err(error) => {
                self.problem(format!("{time}: it could not be injected: {error}"));
                return true;
            }
        };
        let deadline = began + self.plan.bound;
        while life::of_pid_1() == before {
            if Instant::now() > deadline {
                self.problem(format!("{time}: PID 1 is not executed anew"));
                self.verdict.hangs += 1;
                return self.ask().is_ok();
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        let services = loop {
            match self.ask() {
                Ok(services) => break services,
                Err(why) if Instant::now() > deadline => {
                    self.problem(format!("{time}: no answer in {:?}: {why}", self.plan.bound));
                    return false;
                }
                Err(why) => {
                    // A client need not notice more than that it waits.
                    self.problem(format!("{time}: not answered at once: {why}"));
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
        };
        self.answers.push(began.elapsed());
        match fault {
            Fault::Reexec => self.asked.0 += 1,
            _ => self.asked.1 += 1,
        }
        if let Some(complaint) = injected.complaint() {
            self.problem(format!("{time}: {complaint}"));
        }
        self.compare(time, services);
        self.compare_health(time);
        true
    }

    fn compare(&mut self, time: u32, services: Vec<Service>) {
        let mut gone = std::mem::take(&mut self.known);
        for service in services {
            let (name, now) = known(service);
            let Some(before) = gone.remove(&name) else {
                self.problem(format!("{time}: {name} was not there before: {now:?}"));
                continue;
            };
            let restless = name.starts_with(RESTLESS);
            if restless && now.restarts < before.restarts || !restless && now.restarts != before.restarts {
                self.verdict.miscounted += 1;
                self.problem(format!(
                    "{time}: {name}: {} restarts before, {} now",
                    before.restarts, now.restarts
                ));
            }
            let same = Known { restarts: before.restarts, ..now.clone() } == before;
            if restless && now.state == "failed" || !restless && !same && !HELPERS.contains(&name.as_str()) {
                self.verdict.lost += 1;
                self.problem(format!("{time}: {name} was {before:?}, is {now:?}"));
            }
            self.known.insert(name, now);
        }
        for (name, before) in gone {
            if HELPERS.contains(&name.as_str()) {
                // It is shown again once something asks for it.
                self.known.insert(name, before);
                continue;
            }
            self.verdict.lost += 1;
            self.problem(format!("{time}: {name} is gone, it was {before:?}"));
        }
    }

    /// PID 1 holds as much after many incarnations as after two, but for what is just being started.
    fn nothing_grows(&mut self) {
        let (Some(before), Some(now)) = (self.held, Held::now()) else { return };
        println!("PID 1 held {before:?}, and holds {now:?}");
        let more = now.descriptors > before.descriptors + 30 || now.threads > before.threads + 4;
        if more || now.memory > before.memory + 2048 {
            self.problem(format!("PID 1 holds more and more: {before:?} after 2 times, and then {now:?}"));
        }
    }

    pub fn count_lines(&mut self, of: &str, ledger: Ledger) {
        self.verdict.written += ledger.seen;
        if ledger.wrong() > 0 {
            self.verdict.lines += ledger.wrong();
            self.problem(format!("{of}: {ledger:?}"));
        }
    }

    fn told(mut self) -> Verdict {
        self.answers.sort_unstable();
        let millis = |duration: Option<&Duration>| duration.map_or(0.0, |d| d.as_secs_f64() * 1000.0);
        self.verdict.median = millis(self.answers.get(self.answers.len() / 2));
        self.verdict.worst = millis(self.answers.last());
        self.verdict
    }

    /// At least 0, below 1: xorshift.
    fn by_chance(&mut self) -> f64 {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        (self.chance >> 11) as f64 / (1_u64 << 53) as f64
    }
}

fn same_health(before: &Health, now: &Health) -> bool {
    before.len() == now.len()
        && before.iter().zip(now).all(|((group, (state, since)), (other, (new_state, new_since)))| {
            group == other && state == new_state && time_of(since).abs_diff(time_of(new_since)) <= SLEW
        })
}

/// The known state of a service. Of this very program, and of logd, less: the time of the one's event is a
/// moment later.
fn known(service: Service) -> (String, Known) {
    let Service { name, state, up, healthy, restarts, pid, since, .. } = service;
    let since = if name == "logd" || name == JUDGE || name.starts_with(RESTLESS) {
        String::new()
    } else {
        since.to_string()
    };
    let known = if name.starts_with(RESTLESS) || HELPERS.contains(&name.as_str()) {
        Known { pid: None, state, up: false, healthy: None, since, restarts }
    } else {
        Known { pid, state, up, healthy, since, restarts }
    };
    (name, known)
}
