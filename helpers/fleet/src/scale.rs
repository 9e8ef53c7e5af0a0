//! Up to 10,000 hosts against one etcd: what a fleet costs the store. They start within 20 s, as after a power cut.
//!
//! The hosts are in a few processes, which are this test binary started again: one may not open that number of files everywhere.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use etcd_client::{Client, EventType, GetOptions, WatchOptions};
use kelson_proto::v1::fleet_command::Command as Order;
use kelson_proto::v1::{FleetHealth, FleetRegister};
use kelson_spec::fleet::FleetSpec;
use kelson_spec::wire;
use kelson_sys::process;
use kelson_tests::Etcd;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::engine::Engine;
use crate::limits::Limits;

const HOSTS: usize = 10_000;
const PROCESSES: usize = 4;
/// Of each host: its own, and that of one service.
const KEYS: usize = 2;
/// The time in which all of them start.
const START: Duration = Duration::from_secs(20);
/// The time in which it is measured.
const MEASURED: Duration = Duration::from_secs(60);
/// Hundredths of a core. 8 were measured, and 25 before the hosts renewed their leases at the same moments.
const REST: f32 = 20.0;
const PART: &str = "KELSON_TEST_HOSTS";
/// For all hosts to be in the store.
const SOON: Duration = Duration::from_secs(60);

#[test]
#[ignore = "not a test: a part of the hosts"]
fn part() {
    let Ok(words) = std::env::var(PART) else { return };
    let [part, hosts, time, endpoint, folder] = words.split('\n').collect::<Vec<_>>()[..] else {
        panic!("{words:?}")
    };
    let (count, time): (u32, u64) = (hosts.parse().unwrap(), time.parse().unwrap());
    // With the thread of the test.
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut hosts = JoinSet::new();
        for number in 0..count {
            let folder = Path::new(folder).join(number.to_string());
            let name = format!("host-{part}-{number}");
            hosts.spawn(run(host(name, endpoint, &folder)));
            sleep(Duration::from_millis(time) / count).await;
        }
        hosts.join_all().await;
    });
}

fn host(name: String, endpoint: &str, folder: &Path) -> Engine {
    let mut engine = Engine::new(&folder.join("state"), &folder.join("run"), Limits::default()).unwrap();
    let spec = FleetSpec { endpoints: vec![endpoint.to_owned()], name: Some(name), ..FleetSpec::default() };
    engine.command(Order::Settings(wire::encode(&spec).unwrap()));
    engine.command(Order::Health(FleetHealth { state: "healthy".into(), causes: Vec::new() }));
    let (service, name) = ("nginx".to_owned(), "web".to_owned());
    engine.command(Order::Register(FleetRegister { service, name, port: 80, ..FleetRegister::default() }));
    engine.command(Order::Complete(true));
    engine
}

async fn run(mut engine: Engine) {
    loop {
        engine.act();
        while engine.report().is_some() {}
        engine.wait().await;
    }
}

/// All hosts; they end with the value.
struct Hosts(Vec<Child>);

impl Hosts {
    /// All of them within this time. `folder`: for their files.
    fn start(count: usize, time: Duration, etcd: &Etcd, folder: &Path) -> Hosts {
        let (count, time) = (count.div_ceil(PROCESSES), time.as_millis());
        let start = |part: usize| {
            let folder = folder.join(part.to_string());
            Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "scale::part", "--ignored", "--nocapture"])
                .env(PART, format!("{part}\n{count}\n{time}\n{}\n{}", etcd.endpoint(), folder.display()))
                .stdout(Stdio::null())
                .spawn()
                .unwrap()
        };
        Hosts((0..PROCESSES).map(start).collect())
    }

    fn signal(&self, signal: Signal) {
        let pid = |child: &Child| Pid::from_raw(i32::try_from(child.id()).unwrap());
        self.0.iter().for_each(|child| kill(pid(child), signal).unwrap());
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        self.0.iter_mut().for_each(|child| {
            let _ = child.kill();
            let _ = child.wait();
        });
    }
}

/// What is in the store, for a client beside the hosts.
struct Store {
    client: Client,
    /// What came before does not count.
    revision: i64,
}

impl Store {
    async fn new(etcd: &Etcd, revision: i64) -> Store {
        Store { client: Client::connect([etcd.endpoint()], None).await.unwrap(), revision }
    }

    async fn count(&mut self) -> usize {
        let options = GetOptions::new().with_prefix().with_count_only();
        let answer = self.client.get("/kelson/v1/", Some(options)).await.unwrap();
        usize::try_from(answer.count()).unwrap()
    }

    /// As `--auto-compaction-retention` does it. Until then etcd 3.4 copies for each answer the buffers that the start of
    /// many hosts has made large, and computes twice as much.
    async fn compact(&mut self, revision: i64) {
        self.client.compact(revision, None).await.unwrap();
    }

    async fn revision(&mut self) -> i64 {
        self.client.get("/", None).await.unwrap().header().unwrap().revision()
    }

    /// Waits until this number of keys is there: how long it took, and how many came in each second.
    async fn all(&mut self, keys: usize) -> (Duration, Vec<usize>) {
        let (began, mut before, mut seconds) = (Instant::now(), self.count().await, Vec::new());
        while before < keys {
            assert!(began.elapsed() < 10 * SOON, "{before} of {keys} keys are there");
            sleep(Duration::from_secs(1)).await;
            let count = self.count().await;
            seconds.push(count.saturating_sub(before));
            before = count;
        }
        (began.elapsed(), seconds)
    }

    /// For each number of deletes and puts that a key had, the number of such keys.
    async fn changes(&mut self) -> BTreeMap<(usize, usize), usize> {
        let until = self.revision().await;
        let mut keys = BTreeMap::<Vec<u8>, (usize, usize)>::new();
        let options = WatchOptions::new().with_start_revision(self.revision + 1).with_all_keys();
        let mut stream = self.client.watch("", Some(options)).await.unwrap();
        let mut last = self.revision;
        while last < until {
            for event in stream.message().await.unwrap().unwrap().events() {
                let value = event.kv().unwrap();
                let (deletes, puts) = keys.entry(value.key().to_vec()).or_default();
                match event.event_type() {
                    EventType::Put => *puts += 1,
                    EventType::Delete => *deletes += 1,
                }
                last = value.mod_revision();
            }
        }
        let mut counts = BTreeMap::new();
        keys.into_values().for_each(|change| *counts.entry(change).or_default() += 1);
        counts
    }
}

/// What a process has computed, in seconds.
fn computed(pid: i32) -> f32 {
    let ticks = |stat: &process::Stat<'_>| Some(stat.field::<u64>(14)? + stat.field::<u64>(15)?);
    Duration::from_millis(10 * process::stat(pid, ticks).unwrap().unwrap()).as_secs_f32()
}

/// What etcd computes while nothing changes, in hundredths of a core.
async fn at_rest(etcd: &Etcd) -> f32 {
    let before = computed(etcd.pid());
    sleep(MEASURED).await;
    100.0 * (computed(etcd.pid()) - before) / MEASURED.as_secs_f32()
}

/// What the processes of the hosts have computed, in seconds.
fn computed_by(hosts: &Hosts) -> f32 {
    hosts.0.iter().map(|child| computed(i32::try_from(child.id()).unwrap())).sum()
}

/// The memory of a process that is in no file, in MiB.
fn memory(pid: u32) -> f32 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let anonymous = text.lines().find_map(|line| line.strip_prefix("Anonymous:")).unwrap();
    anonymous.trim().trim_end_matches(" kB").parse::<f32>().unwrap() / 1024.0
}

#[test]
#[ignore = "not a test: `hack/fleet-cost` draws what it prints"]
fn cost() {
    let etcd = Etcd::start().unwrap();
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let count: usize = std::env::var("HOSTS").unwrap().parse().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut store = Store::new(&etcd, 0).await;
        let hosts = Hosts::start(count, START, &etcd, folder.path());
        store.all(KEYS * count.next_multiple_of(PROCESSES)).await;
        sleep(Duration::from_secs(40)).await;
        let revision = store.revision().await;
        store.compact(revision).await;
        let before = computed_by(&hosts);
        let etcd_share = at_rest(&etcd).await;
        let share = 100.0 * (computed_by(&hosts) - before) / MEASURED.as_secs_f32() / count as f32;
        let etcd_memory = memory(u32::try_from(etcd.pid()).unwrap());
        let memory: f32 = hosts.0.iter().map(|child| memory(child.id())).sum();
        let memory = 1024.0 * memory / count as f32;
        println!("cost {count} {etcd_share:.3} {etcd_memory:.1} {share:.5} {memory:.1}");
    });
}

#[test]
fn long_10_000_hosts() {
    let Some(mut etcd) = Etcd::start() else { return };
    // The files of 10,000 hosts are on one disk here.
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut store = Store::new(&etcd, 0).await;
        let hosts = Hosts::start(HOSTS, START, &etcd, folder.path());
        let (took, seconds) = store.all(KEYS * HOSTS).await;
        println!(
            "all registered in {:.1} s; etcd computed {:.1} s",
            took.as_secs_f32(),
            computed(etcd.pid())
        );
        println!("keys in each second: {seconds:?}");
        assert!(took < SOON);

        // Until the renewals of hosts that came together are spread.
        sleep(Duration::from_secs(40)).await;
        let revision = store.revision().await;
        println!("at rest etcd computes {:.1} % of a core", at_rest(&etcd).await);
        store.compact(revision).await;
        let share = at_rest(&etcd).await;
        println!("after a compaction {share:.1} %");
        assert!(share < REST, "{share}");
        assert_eq!(store.revision().await, revision);

        etcd.stop();
        sleep(Duration::from_secs(20)).await;
        etcd.restart();
        sleep(Duration::from_secs(60)).await;
        let mut store = Store::new(&etcd, revision).await;
        let changes = store.revision().await - revision;
        println!("an outage of 20 s: {changes} changes");
        assert_eq!(changes, 0);

        hosts.signal(Signal::SIGSTOP);
        sleep(Duration::from_secs(120)).await;
        assert_eq!(store.count().await, 0);
        let before = computed(etcd.pid());
        hosts.signal(Signal::SIGCONT);
        let (took, seconds) = store.all(KEYS * HOSTS).await;
        let computed = computed(etcd.pid()) - before;
        println!("cut off for 2 min: all back in {:.1} s; etcd computed {computed:.1} s", took.as_secs_f32());
        println!("keys in each second: {seconds:?}");
        assert!(took < SOON);
        sleep(Duration::from_secs(10)).await;
        assert_eq!(store.changes().await, BTreeMap::from([((1, 1), KEYS * HOSTS)]));
    });
}
