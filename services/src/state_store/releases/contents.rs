//! The contents of a release's stored state, and how this release writes them.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use kelson_load::{Sources, load_with};
use kelson_proto::state::v1 as stored;
use kelson_runner::Exit;
use kelson_spec::Loaded;
use kelson_spec::encryption::{EncryptionSpec, Tpm2Spec};
use kelson_spec::machine::{Format, MountSpec};
use prost::Message as _;

use super::super::record::FoundRecord;
use super::super::{Kind, Part, Record, StateStore, descriptors, file};
use super::life;
use crate::host::{BootReport, LockedDisk, PhaseRecord, TaskRecord};
use crate::model::{Event, State};
use crate::state_store::numbers::Numbered as _;

/// One record for each phase.
pub(super) fn records() -> Vec<stored::ServiceRecord> {
    (1..).map_while(|phase| stored::Phase::try_from(phase).ok()).map(record).collect()
}

/// Each field has a value of its own. Each boolean is true in another set of records.
fn record(phase: stored::Phase) -> stored::ServiceRecord {
    let place = u32::try_from(i32::from(phase)).unwrap();
    let number = |field: u32| u64::from(field * 100 + place);
    let is = |which: u32| place == which;
    stored::ServiceRecord {
        name: phase.as_str_name().to_lowercase().replace('_', "-"),
        builtin: is(1),
        state: i32::try_from((place - 1) % 10 + 1).unwrap(),
        phase: phase.into(),
        run: number(5),
        pid: i32::try_from(number(6)).unwrap(),
        start_time: number(7),
        since: number(8),
        ready: is(2),
        healthy: (place % 3 > 0).then_some(place % 3 == 1),
        proven: is(3),
        restarts: place + 1200,
        restarts_by: (1..=11).map(|reason| reason * 100 + place).collect(),
        stopped: is(4),
        unwanted: is(5),
        finished: is(6),
        request_id: number(17),
        message: format!("message {place}"),
        will_start: is(7),
        exit: exit(place),
        opened: is(8),
        owes_post: is(9),
        delays: is(10),
        leaving: is(11),
        awaits_group: is(12),
        asked_group: i32::try_from((place - 1) % 11 + 1).unwrap(),
        new_spec_has_when: (place % 3 < 2).then_some(place % 3 == 1),
        closing: is(13),
        after: after(place),
        spawned_at: number(31),
        failures: vec![number(32), 5, 9],
        failure_counts: vec![2, 1, place],
        doublings: place + 3400,
        start_timer: Some(number(35)),
        watchdog_timer: Some(number(36)),
        stop_delay_timer: Some(number(37)),
        backoff_timer: Some(number(38)),
        stop_until: Some(number(39)),
        watchdog: Some(number(40)),
        status_text: Some(format!("status {place}")),
        spawned_after: Some(number(42)),
        up_after: Some(number(43)),
        start_took: Some(number(44)),
        start_took_run: number(45),
        noted_runs: vec![number(46), 1],
        stop_signal: place,
        escalated: is(14),
        broken_off: place + 4900,
        entered: (place % 3 > 0).then(|| number(50)),
        retry: (place % 2 == 0)
            .then(|| stored::Retry { ended: format!("ended {place}"), budget: format!("budget {place}") }),
        stop_for_timer: None,
        failure: None,
    }
}

fn exit(place: u32) -> Option<stored::Exit> {
    use stored::exit::How;
    match place % 4 {
        0 => None,
        1 => Some(stored::Exit::default()),
        2 => Some(stored::Exit { how: Some(How::Status(3)), core_dumped: false }),
        _ => Some(stored::Exit { how: Some(How::Signal(11)), core_dumped: true }),
    }
}

fn after(place: u32) -> Option<stored::Next> {
    use stored::ended::{Exited, GivenUp, How};
    use stored::next::{End, Refused, What};
    let ended = |how, refusal| What::Decide(stored::Ended { how: Some(how), refusal });
    let not_started = || How::NotStarted("no such file".to_owned());
    let what = match place {
        1 => ended(
            How::Exited(Exited {
                exit: exit(3),
                ran: 4100,
                before_ready: true,
                out_of_memory: false,
                outlived: 0,
            }),
            None,
        ),
        2 => ended(
            How::Exited(Exited {
                exit: exit(2),
                ran: 4200,
                before_ready: false,
                out_of_memory: true,
                outlived: 0,
            }),
            None,
        ),
        3 => ended(How::GivenUp(GivenUp { ran: 4300, reason: 8, text: "a watchdog".to_owned() }), None),
        4 => ended(not_started(), None),
        5 => ended(not_started(), Some(stored::Refusal { archives: None })),
        6 => ended(not_started(), Some(stored::Refusal { archives: Some(77) })),
        7 => What::Again(9),
        8 => What::Gate(true),
        9 => What::End(End {
            state: 7,
            finished: true,
            stopped: false,
            wanted: false,
            text: "over".to_owned(),
        }),
        10 => {
            What::End(End { state: 8, finished: false, stopped: true, wanted: false, text: "hm".to_owned() })
        }
        11 => {
            What::End(End { state: 9, finished: false, stopped: false, wanted: true, text: "no".to_owned() })
        }
        12 => What::Refused(Refused {
            refusal: Some(stored::Refusal { archives: Some(78) }),
            text: "no image".to_owned(),
        }),
        _ => return None,
    };
    Some(stored::Next { what: Some(what) })
}

pub(super) fn events() -> Vec<Event> {
    let states = (1..).map_while(State::of_number);
    let event = |(seq, state): (u64, State)| Event {
        seq,
        time: UNIX_EPOCH + Duration::from_nanos(1_800_000_000_000_000_000 + seq),
        service: Arc::from(format!("service-{seq}")),
        state,
        message: Arc::from(format!("event {seq}")),
        run: seq + 100,
        details: None,
    };
    (7..).zip(states).map(event).collect()
}

/// Results of checks, by the names of service and check. Each check stands otherwise.
pub(super) fn checks() -> Vec<(&'static str, &'static str, stored::CheckRecord)> {
    let result = |standing: u32, at: u64| stored::CheckRecord {
        service: 0,
        check: 0,
        run: u64::from(standing) + 30,
        standing: i32::try_from(standing).unwrap(),
        passes: standing + 50,
        failures: standing + 60,
        counted: standing + 70,
        proven: standing == 2,
        began: u64::from(standing) + 90,
        since: u64::from(standing) + 100,
        at,
        took: standing + 120,
        passed: at % 2 == 1,
        text: format!("result {at}"),
        entered: Some(u64::from(standing) + 150),
        heard: Some(at + 160),
    };
    let of = [("web", "page", 1), ("web", "port", 2), ("db", "query", 3)];
    let each = |(service, check, standing)| {
        (1..=3).map(move |at| (service, check, result(standing, u64::from(standing) * 10 + at)))
    };
    of.into_iter().flat_map(each).collect()
}

pub(super) fn exits() -> [(i32, Exit); 3] {
    [(11, Exit::Status(3)), (12, Exit::Signal { signal: 9, core: true }), (13, Exit::Lost)]
}

/// All kinds, by the number of the descriptor.
pub(super) fn kept() -> Vec<(u64, stored::DescriptorRecord)> {
    use stored::descriptor_record::{LogControl, LogPipe, Socket, Voice, What};
    let voice = |service: &str, run| Voice { service: service.to_owned(), run };
    let pipe = |id, stderr, rate_limit| LogPipe {
        id,
        service: "web".to_owned(),
        run: id + 1,
        stderr,
        max_size: id + 2,
        max_files: 4,
        console: !stderr,
        rate_limit,
        copied: false,
        named: false,
    };
    let control = LogControl { pid: 31, start_time: 32, restarts: 33, version: "0.2.0".to_owned() };
    let all = [
        What::LogPipe(pipe(21, true, None)),
        What::LogPipe(pipe(24, false, Some(25))),
        What::LogControl(control),
        What::Notify(voice("db", 41)),
        What::Readiness(voice("cache", 42)),
        What::Api(true),
        What::Cgroups(b"/sys/fs/cgroup/kelson".to_vec()),
        What::Watchdog(true),
        // Before 0.4.0 there is none.
        What::Socket(Socket { service: "web".to_owned(), listen: "0.0.0.0:80".to_owned() }),
    ];
    let all = (3..).zip(all);
    all.map(|(place, what)| {
        (place, stored::DescriptorRecord { device: place + 500, inode: place + 600, what: Some(what) })
    })
    .collect()
}

/// A configuration with each key of the files: two services and one with a mistake.
fn loaded() -> Loaded {
    let root = std::env::temp_dir().join(format!("kelson-stored-{}-files", std::process::id()));
    let write = |file: &str, text: &str| {
        let file = root.join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    };
    write("etc/web.env", "A=1\n");
    write("config/services/web.yaml", include_str!("../../../../helpers/load/tests/whole.yaml"));
    write(
        "config/services/box.yaml",
        "container: {image: 'web:1', command: [/run], workingDirectory: /srv, hostname: box, network: none, \
         mounts: [{source: /srv, target: /data, options: [ro]}, {source: tmpfs, target: /tmp}], \
         devices: [{source: /dev/fuse}]}\nuser: '7'\nname: box\n",
    );
    write("config/services/wrong.yaml", "name: wrong\ngroup: shop\nrequired: false\nprocess: {}\n");
    write(
        "config/machine.yaml",
        "hostname: edge-1\nhealth: {deadline: 1m}\nshutdown: {timeout: 90s}\n\
         api: {listen: ['0.0.0.0:50000'], ca: /a, certificate: /b, key: /c}\n\
         builtins: {apid: {environment: {A: b}, resources: {memoryMax: 64Mi}}, containerd: {enabled: true}}\n",
    );
    let mut loaded =
        load_with(&root.join("config"), &Sources { root: Some(root.clone()), ..Sources::default() });
    let on_a_host =
        |file: &Path| Path::new("/etc/kelson").join(file.strip_prefix(root.join("config")).unwrap());
    loaded.services.iter_mut().for_each(|spec| spec.file = on_a_host(&spec.file));
    loaded.diagnostics.iter_mut().for_each(|mistake| mistake.file = on_a_host(&mistake.file));
    fs::remove_dir_all(root).unwrap();
    let names: Vec<&str> = loaded.services.iter().map(|spec| spec.name.as_str()).collect();
    assert_eq!(names, ["box", "web"], "{:?}", loaded.diagnostics);
    loaded
}

fn boot() -> BootReport {
    let time = Duration::from_millis;
    let task = TaskRecord {
        name: "mount".to_owned(),
        start: time(11),
        duration: Some(time(12)),
        error: Some("no device".to_owned()),
        message: "/var".to_owned(),
    };
    let phase = PhaseRecord {
        name: "mounts".to_owned(),
        start: time(13),
        duration: Some(time(14)),
        tasks: vec![task],
    };
    let absent = MountSpec {
        source: "LABEL=LATE".to_owned(),
        target: "/late".into(),
        fs_type: "ext4".to_owned(),
        options: vec!["noatime".to_owned()],
        wait: time(1500),
        format: Format::IfBlank,
        grow: true,
    };
    let disk = EncryptionSpec {
        name: "data".to_owned(),
        source: "SERIAL=LOCKED".to_owned(),
        tpm2: Some(Tpm2Spec { pcrs: vec![11] }),
        key_file: Some("/data.key".into()),
        recovery_file: Some("/data.recovery".into()),
        wait: time(1700),
        format: Format::IfBlank,
    };
    BootReport {
        phases: vec![phase],
        kernel: Some(time(900)),
        total: Some(time(2900)),
        absent: vec![absent],
        unpartitioned: vec!["SERIAL=PARTS\n-:swap:DATA".to_owned()],
        locked: vec![LockedDisk { disk, refused: true }],
    }
}

/// Writes all of it, as this release does.
pub(super) fn write(folder: &Path) {
    let store = StateStore::create(folder, &life()).unwrap();
    for record in records() {
        let FoundRecord { record, unknown, unknown_phase } = Record::read(&record.encode_to_vec()).unwrap();
        assert_eq!((unknown, unknown_phase), (vec![], None));
        store.record(&Arc::from(record.name.as_str()), &record);
    }
    events().iter().enumerate().for_each(|(slot, event)| store.event(slot as u64, event));
    for (service, check, result) in checks() {
        store.check_record(service, check, result.run).write(result);
    }
    exits().into_iter().for_each(|(pid, exit)| store.exit(pid, exit));
    for (place, record) in kept() {
        let slot = file::seal(1, &record.encode_to_vec(), descriptors::SLOT);
        store.put(Part::Descriptors, place, "", slot.as_deref());
    }
    let mut loaded = loaded();
    let services = std::mem::take(&mut loaded.services);
    for spec in &services {
        store.write(Kind::Spec, &spec.name, spec);
    }
    store.write(Kind::NextSpec, "web", &services[0]);
    store.write(Kind::Configuration, "", &loaded);
    store.write(Kind::Boot, "", &boot());
}
