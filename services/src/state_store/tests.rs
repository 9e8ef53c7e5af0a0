use super::*;
use crate::model::{Event, State};
use crate::service_runner::table::{
    Active, Down, Gate, Hold, Outcome, Phase, ReadySignal, Rest, ServiceState, Stage,
};
use file::unseal;
use kelson_proto::state::v1 as stored;
use record::SLOT;
use rings::slot_of;
use std::fs::OpenOptions;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileExt;
use std::time::Duration;

const HEADER: u64 = 4096;

fn record(name: &str, run: u64) -> Record {
    let mut service = ServiceState::new(true);
    service.run = run;
    service.restarts = 3;
    service.phase = Phase::Active(Active { start: Some(Duration::from_millis(12_345)), ..active(42) });
    service.exit = Some(kelson_runner::Exit::Signal { signal: 9, core: false });
    Record {
        name: name.into(),
        builtin: false,
        service,
        start_time: 7,
        since: 1_800_000_000_000_000_000,
        entered: Some(Duration::from_millis(4)),
        status_text: Some("all well".into()),
        spawned_after: Some(Duration::from_millis(5)),
        up_after: None,
        start_took: None,
        start_took_run: 0,
        noted_runs: vec![],
    }
}

/// Of a run that is ready.
pub(super) fn active(pid: i32) -> Active {
    Active {
        pid,
        readiness: ReadySignal::Given,
        healthy: None,
        proven: false,
        start: None,
        watchdog: None,
        owes_post: false,
    }
}

fn place(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("kelson-state-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    path
}

/// While the machine has swap, the files are as long as the room that was set aside for them.
#[test]
fn room_that_is_part_of_a_file_is_no_slot() {
    let dir = place("room");
    let life = Incarnation::current().unwrap();
    let store = StateStore::create(&dir, &life).unwrap();
    store.record(&Arc::from("a"), &record("a", 1));
    let longer = |name: &str| {
        let file = OpenOptions::new().write(true).open(dir.join(name)).unwrap();
        file.set_len(file.metadata().unwrap().len() + (1 << 16)).unwrap();
    };
    for name in ["services", "events", "exits", "checks", "descriptors", "health"] {
        longer(name);
    }
    let past = Past::take(&dir, &life).unwrap();
    assert_eq!(
        (past.records.as_slice(), past.doubts.as_slice()),
        ([record("a", 1)].as_slice(), [].as_slice())
    );
    past.store.record(&Arc::from("b"), &record("b", 1));
    assert_eq!(read(&dir, &life).unwrap().records, [record("a", 1), record("b", 1)]);
    std::fs::remove_dir_all(dir).unwrap();
}

/// Others may fill the file system: what is written soon has its room by then, and what is not written takes none.
#[test]
fn a_file_has_room_for_what_comes_next() {
    use std::os::unix::fs::MetadataExt as _;
    let dir = place("ahead");
    let life = Incarnation::current().unwrap();
    let store = StateStore::create(&dir, &life).unwrap();
    let room = |name: &str| std::fs::metadata(dir.join(name)).unwrap().blocks() * 512;
    assert!(room("services") <= 4096 && room("events") <= 4096);
    let a: Arc<str> = Arc::from("a");
    store.record(&a, &record("a", 1));
    let taken = room("services");
    assert!(taken >= 4096 + 2 * 1024 + (8 << 10), "{taken}");
    for run in 2..10 {
        store.record(&a, &record("a", run));
    }
    assert_eq!((room("services"), room("events")), (taken, room("checks")));
    for number in 0..16 {
        let name: Arc<str> = Arc::from(format!("b{number}"));
        store.record(&name, &record(&name, 1));
    }
    assert!(room("services") >= 4096 + 17 * 2 * 1024 + (8 << 10) - 1024);
    // The next incarnation goes on from there.
    let past = Past::take(&dir, &life).unwrap();
    past.store.record(&Arc::from("c"), &record("c", 1));
    assert!(room("services") >= 4096 + 18 * 2 * 1024 + (8 << 10) - 1024);
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn what_was_written_last_is_read_and_a_torn_write_leaves_the_one_before() {
    let dir = place("torn");
    let life = Incarnation::current().unwrap();
    let store = StateStore::create(&dir, &life).unwrap();
    let (a, b): (Arc<str>, Arc<str>) = (Arc::from("a"), Arc::from("b"));
    for run in 1..=3 {
        store.record(&a, &record("a", run));
    }
    store.record(&b, &record("b", 1));
    assert_eq!(read(&dir, &life).unwrap().records, [record("a", 3), record("b", 1)]);

    // The third write of "a" went to slot 1; tear it.
    let file = OpenOptions::new().write(true).open(dir.join("services")).unwrap();
    file.write_all_at(&[0xff; 20], HEADER + slot_of::<2>(0, 3) * SLOT as u64 + 10).unwrap();
    let recovered = read(&dir, &life).unwrap();
    assert_eq!(recovered.records, [record("a", 2), record("b", 1)]);

    store.remove("a");
    store.record(&Arc::from("c"), &record("c", 1));
    assert_eq!(read(&dir, &life).unwrap().records, [record("c", 1), record("b", 1)]);
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn v2_another_life_another_version_and_nonsense_are_not_used() {
    let dir = place("life");
    let life = Incarnation::current().unwrap();
    let store = StateStore::create(&dir, &life).unwrap();
    store.record(&Arc::from("a"), &record("a", 1));
    let other = Incarnation { boot: life.boot.clone(), start_time: life.start_time + 1 };
    let recovered = read(&dir, &other).unwrap();
    assert!(recovered.records.is_empty() && recovered.doubts[0].contains("another life"));
    assert!(Past::take(&dir, &other).is_err_and(|doubt| doubt.to_string().contains("another life")));

    let file = OpenOptions::new().write(true).open(dir.join("services")).unwrap();
    file.write_all_at(&99_u32.to_le_bytes(), 8).unwrap();
    assert!(read(&dir, &life).unwrap().doubts[0].contains("has state format 99"));
    file.set_len(0).unwrap();
    assert!(read(&dir, &life).unwrap().doubts[0].contains("no state of Kelson"));
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn v2_a_torn_record_is_said_and_the_others_are_gone_on_with() {
    let dir = place("doubt");
    let life = Incarnation::current().unwrap();
    let store = StateStore::create(&dir, &life).unwrap();
    for name in ["a", "b", "c"] {
        store.record(&Arc::from(name), &record(name, 1));
    }
    store.write(Kind::Boot, "", &7_u64);
    store.write(Kind::Intent, "", &8_u64);
    drop(store);
    let file = OpenOptions::new().write(true).open(dir.join("services")).unwrap();
    file.write_all_at(&[0xff; 8], HEADER + slot_of::<2>(1, 1) * SLOT as u64 + 20).unwrap();
    std::fs::write(dir.join("papers/boot"), b"torn").unwrap();
    std::fs::write(dir.join("events"), b"").unwrap();

    let mut past = Past::take(&dir, &life).unwrap();
    let names: Vec<&str> = past.records.iter().map(|record| record.name.as_str()).collect();
    assert_eq!(names, ["a", "c"]);
    assert_eq!(past.paper::<u64>(Kind::Boot, ""), None);
    assert_eq!(past.paper::<u64>(Kind::Intent, ""), Some(8));
    assert_eq!(past.paper::<u64>(Kind::Spec, "a"), None);
    assert_eq!(past.doubts.len(), 3, "{:?}", past.doubts);
    assert!(past.doubts[0].contains("torn") && past.doubts[1].contains("events"), "{:?}", past.doubts);
    assert!(past.doubts[2].contains("boot"), "{:?}", past.doubts);

    // It is reported once.
    assert_eq!(read(&dir, &life).unwrap().doubts, Vec::<String>::new());
    // The torn one's place is free, and the numbers of the others go on.
    past.store.record(&Arc::from("d"), &record("d", 1));
    past.store.record(&Arc::from("a"), &record("a", 2));
    let now = read(&dir, &life).unwrap();
    assert_eq!(now.doubts, Vec::<String>::new());
    assert_eq!(now.records, [record("a", 2), record("d", 1), record("c", 1)]);
    std::fs::remove_dir_all(dir).unwrap();
}

/// A life that failed so often, a second apart.
fn failed(times: u32) -> ServiceState {
    let mut rules = crate::service_runner::table_tests::rules();
    (rules.restart.attempts, rules.restart.interval) = (20_000, Duration::from_secs(1_000_000));
    let mut service = ServiceState::new(true);
    for time in 1..=times {
        use crate::service_runner::table::Input;
        service.phase = Phase::Spawning { owes_post: false };
        let now = Duration::from_secs(time.into());
        service.step(&rules, Input::Spawned(Err(kelson_runner::RunnerError::new("no"))), now, 0);
        assert!(matches!(service.phase, Phase::Backoff { .. }));
    }
    service
}

#[test]
fn every_failure_counts_after_it_was_written_down() {
    for times in [0, 1, 17, 64, 500, 5000] {
        let mut many = record("a", 1);
        many.service = failed(times);
        many.service.message = Arc::from("ä".repeat(300));
        many.status_text = Some("x".repeat(300));
        let sealed = many.seal(1, b"").unwrap();
        let found = Record::read(unseal(&sealed).unwrap().1).unwrap();
        assert_eq!(found.record.service.failures(), usize::try_from(times).unwrap());
    }
}

#[test]
fn a_field_of_a_later_release_is_written_back() {
    let dir = place("later");
    let life = Incarnation::current().unwrap();
    let store = StateStore::create(&dir, &life).unwrap();
    let a: Arc<str> = Arc::from("a");
    store.record(&a, &record("a", 1));
    // Field 900, a text; field 901, a number: as a later release would write them, before and behind what is known.
    let later = [&[0xa2, 0x38, 3][..], b"new", &[0xa8, 0x38, 7]];
    let mut payload = later[0].to_vec();
    payload.extend_from_slice(later[1]);
    payload.extend(record("a", 2).seal(2, later[2]).map(|slot| unseal(&slot).unwrap().1.to_vec()).unwrap());
    let slot = file::seal(2, &payload, SLOT).unwrap();
    let file = OpenOptions::new().write(true).open(dir.join("services")).unwrap();
    file.write_all_at(&slot, HEADER + slot_of::<2>(0, 2) * SLOT as u64).unwrap();

    let past = Past::take(&dir, &life).unwrap();
    assert_eq!((past.records.as_slice(), past.doubts.len()), (&[record("a", 2)][..], 0));
    let mut long = record("a", 3);
    long.service.message = Arc::from("ä".repeat(2000));
    for written in [record("a", 3), long, record("a", 4)] {
        past.store.record(&a, &written);
        let bytes = std::fs::read(dir.join("services")).unwrap();
        let newest =
            bytes[4096..].chunks(SLOT).filter_map(unseal).max_by_key(|(number, _)| *number).unwrap().1;
        assert!(newest.ends_with(&later.concat()), "{newest:?}");
    }
    // Another service that takes the place has nothing of it.
    past.store.remove("a");
    past.store.record(&a, &record("a", 1));
    let bytes = std::fs::read(dir.join("services")).unwrap();
    assert!(!bytes.windows(3).any(|part| part == b"new"));
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_number_says_which_fields_are_known() {
    // All fields of the message: a change that adds one adds it here, and counts on.
    let every = stored::ServiceRecord {
        name: "a".into(),
        builtin: true,
        state: 1,
        phase: 1,
        run: 1,
        pid: 1,
        start_time: 1,
        since: 1,
        ready: true,
        healthy: Some(true),
        proven: true,
        restarts: 1,
        restarts_by: vec![1],
        stopped: true,
        unwanted: true,
        finished: true,
        request_id: 1,
        message: "a".into(),
        will_start: true,
        exit: Some(Default::default()),
        opened: true,
        owes_post: true,
        delays: true,
        leaving: true,
        awaits_group: true,
        asked_group: 1,
        new_spec_has_when: Some(true),
        closing: true,
        after: Some(Default::default()),
        spawned_at: 1,
        failures: vec![1],
        failure_counts: vec![1],
        doublings: 1,
        start_timer: Some(1),
        watchdog_timer: Some(1),
        stop_delay_timer: Some(1),
        backoff_timer: Some(1),
        stop_for_timer: Some(1),
        stop_until: Some(1),
        watchdog: Some(1),
        status_text: Some("a".into()),
        spawned_after: Some(1),
        up_after: Some(1),
        start_took: Some(1),
        start_took_run: 1,
        noted_runs: vec![1],
        stop_signal: 1,
        escalated: true,
        broken_off: 1,
        entered: Some(1),
        retry: Some(stored::Retry { ended: "a".into(), budget: "b".into() }),
        failure: Some(stored::Ended { how: Some(stored::ended::How::NotStarted("a".into())), refusal: None }),
    };
    let bytes = prost::Message::encode_to_vec(&every);
    assert_eq!(record::unknown_fields(&bytes, record::KNOWN).unwrap(), b"");
    assert_ne!(record::unknown_fields(&bytes, record::KNOWN - 1).unwrap(), b"", "the last one is the last");
    // Each phase keeps what belongs to it.
    for phase in (1..).map_while(|phase| stored::Phase::try_from(phase).ok()) {
        let every = stored::ServiceRecord { phase: phase.into(), ..every.clone() };
        let found = Record::read(&prost::Message::encode_to_vec(&every)).unwrap();
        let again = found.record.seal(1, b"").unwrap();
        let mut expected = releases::of_its_phase(every);
        // One each is the usual, and is not written.
        expected.failure_counts.clear();
        let mut read: stored::ServiceRecord = prost::Message::decode(unseal(&again).unwrap().1).unwrap();
        // An unknown next step is for the restart policy.
        assert_eq!(
            read.after.take().is_some_and(|after| after.what.is_some()),
            expected.after.take().is_some()
        );
        assert_eq!(read, expected);
    }
}

#[test]
fn one_that_an_earlier_release_has_stopped_is_stopped() {
    let with = |stopped| {
        let stored = kelson_proto::state::v1::ServiceRecord {
            name: "a".into(),
            state: 7,
            phase: 1,
            stopped,
            ..Default::default()
        };
        Record::read(&prost::Message::encode_to_vec(&stored)).unwrap().record.service.state()
    };
    assert_eq!((with(true), with(false)), (State::Stopped, State::Finished));
}

#[test]
fn a_phase_that_is_not_known_is_gone_on_with() {
    let with = |pid: i32, state: i32| {
        let stored = kelson_proto::state::v1::ServiceRecord {
            name: "a".into(),
            phase: 99,
            pid,
            state,
            ..Default::default()
        };
        let found = Record::read(&prost::Message::encode_to_vec(&stored)).unwrap();
        assert_eq!(found.unknown_phase, Some(99));
        (found.record.service.state(), found.record.service.phase)
    };
    let active = Phase::Active(active(42));
    assert_eq!(with(42, 99), (State::Running, active.clone()));
    assert_eq!(with(42, 6), (State::Running, active));
    let finished = Rest::Ended(Outcome::Finished, Hold::Abandoned);
    assert_eq!(with(0, 7), (State::Finished, Phase::Rest(finished)));
    let gate = Gate { shown: State::Preparing, missing: vec![], opened: false };
    assert_eq!(with(0, 3), (State::Preparing, Phase::Gate(gate)));
    assert_eq!(with(0, 10), (State::Backoff, Phase::Backoff { until: None, opened: false }));
    let unknown = with(0, 99);
    assert!(matches!(unknown, (State::Stopping, Phase::Down(Down { stage: Stage::Clearing, .. }))));
}

#[test]
fn what_does_not_fit_is_shortened_and_not_lost() {
    let dir = place("long");
    let life = Incarnation::current().unwrap();
    let store = StateStore::create(&dir, &life).unwrap();
    let mut long = record("a", 9);
    long.service.message = Arc::from("ä".repeat(2000));
    long.status_text = Some("x".repeat(256));
    store.record(&Arc::from("a"), &long);
    let back = read(&dir, &life).unwrap().records.remove(0);
    assert_eq!((back.service.run, back.service.pid(), back.service.phase), (9, Some(42), long.service.phase));
    assert!(back.service.message.len() >= 90 && "ä".repeat(2000).starts_with(&*back.service.message));
    std::fs::remove_dir_all(dir).unwrap();
}

fn event(seq: u64, message: String) -> Event {
    Event {
        seq,
        time: std::time::UNIX_EPOCH + Duration::from_micros(seq),
        service: Arc::from("web"),
        state: State::Failed,
        message: Arc::from(message),
        run: 1,
        details: Some(Arc::from([("step".to_owned(), "NodeStageVolume".to_owned())])),
    }
}

#[test]
fn a_long_event_keeps_its_number() {
    let dir = place("event");
    let life = Incarnation::current().unwrap();
    let store = StateStore::create(&dir, &life).unwrap();
    store.event(1, &event(4097, "ä".repeat(500)));
    let bytes = std::fs::read(dir.join("events")).unwrap();
    let offset = 4096 + ring::EVENT_SLOT;
    assert_eq!(unseal(&bytes[offset..offset + ring::EVENT_SLOT]).unwrap().0, 4097);
    let (slot, back) = Past::take(&dir, &life).unwrap().events.remove(0);
    assert!(slot == 1 && back.message.len() >= 170 && "ä".repeat(500).starts_with(&*back.message));
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_torn_event_costs_itself() {
    let dir = place("events");
    let life = Incarnation::current().unwrap();
    let store = StateStore::create(&dir, &life).unwrap();
    for (slot, seq) in [(0, 7), (1, 3), (2, 4), (3, 12)] {
        store.event(slot, &event(seq, format!("m{seq}")));
    }
    let file = OpenOptions::new().write(true).open(dir.join("events")).unwrap();
    file.write_all_at(&[0xff; 8], HEADER + 2 * ring::EVENT_SLOT as u64 + 20).unwrap();
    let past = Past::take(&dir, &life).unwrap();
    assert_eq!(
        past.events,
        [(1, 3), (0, 7), (3, 12)].map(|(slot, seq)| (slot, event(seq, format!("m{seq}"))))
    );
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn v8_the_newest_exit_of_a_pid_is_known() {
    use kelson_runner::Exit;
    let dir = place("exits");
    let life = Incarnation::current().unwrap();
    let store = StateStore::create(&dir, &life).unwrap();
    for pid in 1..=2000 {
        store.exit(pid, Exit::Status(pid & 0x7f));
    }
    store.exit(1500, Exit::Signal { signal: 11, core: true });
    let past = Past::take(&dir, &life).unwrap();
    assert_eq!(past.exits.get(&1500), Some(&Exit::Signal { signal: 11, core: true }));
    assert_eq!(past.exits.get(&2000), Some(&Exit::Status(2000 & 0x7f)));
    assert_eq!(past.exits.get(&1), None);
    // The ring goes on where it was.
    past.store.exit(2000, Exit::Status(1));
    assert_eq!(Past::take(&dir, &life).unwrap().exits.get(&2000), Some(&Exit::Status(1)));
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_kept_descriptor_is_found_and_one_that_was_let_go_is_not() {
    let dir = place("descriptors");
    let life = Incarnation::current().unwrap();
    let store = StateStore::create(&dir, &life).unwrap();
    let notify = |service: &str| Descriptor::Notify { service: service.into(), run: 3 };
    let (kept, _far) = nix::unistd::pipe().unwrap();
    let (gone, _far_too) = nix::unistd::pipe().unwrap();
    let (other, _far_as_well) = nix::unistd::pipe().unwrap();
    // The descriptors that are taken over below are copies by number: this test owns the originals too, and
    // must not close twice.
    let kept = std::mem::ManuallyDrop::new(KeptDescriptor::new(kept, Some(&store), || notify("web")));
    drop(KeptDescriptor::new(gone, Some(&store), || notify("gone")));
    // Its number is another's now.
    store.keep(other.as_fd(), notify("other"));
    nix::unistd::dup3(std::fs::File::open("/dev/null").unwrap(), &mut { other }, nix::fcntl::OFlag::empty())
        .unwrap();
    let flags = nix::fcntl::fcntl(&*kept, nix::fcntl::FcntlArg::F_GETFD).unwrap();
    assert_eq!(flags, 0, "it comes through execve");
    let past = Past::take(&dir, &life).unwrap();
    let found: Vec<_> =
        past.inherited.iter().map(|one| (one.what.clone(), one.descriptor.as_raw_fd())).collect();
    assert_eq!(found, [(notify("web"), kept.as_raw_fd())]);
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn what_finds_no_room_is_written_later_and_the_newest_of_it() {
    let dir = place("full");
    let life = Incarnation::current().unwrap();
    let store = StateStore::create(&dir, &life).unwrap();
    assert_eq!(store.trouble(), None);
    store.write(Kind::Boot, "", &1_u64);
    // As good as no room: nothing can be written there.
    std::fs::remove_dir_all(dir.join("papers")).unwrap();
    store.write(Kind::Boot, "", &2_u64);
    store.write(Kind::Boot, "", &3_u64);
    store.write(Kind::Intent, "", &4_u64);
    store.write(Kind::Spec, "web", &5_u64);
    store.discard(Kind::Spec, "web");
    assert!(store.trouble().is_some_and(|why| why.contains("cannot be written: No such file")));
    // A record that has its place is written all the same.
    store.record(&Arc::from("a"), &record("a", 1));
    std::fs::create_dir(dir.join("papers")).unwrap();
    assert_eq!(store.trouble(), None);
    let mut past = Past::take(&dir, &life).unwrap();
    assert_eq!(past.records, [record("a", 1)]);
    assert_eq!(past.paper::<u64>(Kind::Boot, ""), Some(3));
    assert_eq!(past.paper::<u64>(Kind::Intent, ""), Some(4));
    assert_eq!(past.paper::<u64>(Kind::Spec, "web"), None);
    std::fs::remove_dir_all(dir).unwrap();
}

#[tokio::test(start_paused = true)]
async fn that_there_is_no_room_is_said_once_and_so_is_its_end() {
    let dir = place("said");
    let store = StateStore::create(&dir, &Incarnation::current().unwrap()).unwrap();
    let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let keeping = tokio::spawn(store.clone().keep_up(move |text| told.send(text.to_owned()).unwrap()));
    for turn in 0..2_u64 {
        std::fs::remove_dir_all(dir.join("papers")).unwrap();
        for n in 0..10_u64 {
            store.write(Kind::Boot, "", &n);
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        assert!(
            heard.try_recv().is_ok_and(|text| text.contains("a crash of PID 1 would lose it")),
            "turn {turn}"
        );
        std::fs::create_dir(dir.join("papers")).unwrap();
        assert_eq!(heard.recv().await.unwrap(), "the state of the services is written again");
        assert!(heard.try_recv().is_err());
    }
    keeping.abort();
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn what_others_do_to_the_files_is_seen() {
    let dir = place("harm");
    let store = StateStore::create(&dir, &Incarnation::current().unwrap()).unwrap();
    std::fs::rename(dir.join("exits"), dir.join("gone")).unwrap();
    assert!(store.trouble().is_some_and(|why| why.contains("exits was removed or replaced")));
    std::fs::rename(dir.join("gone"), dir.join("exits")).unwrap();
    assert_eq!(store.trouble(), None);
    OpenOptions::new().write(true).open(dir.join("services")).unwrap().set_len(0).unwrap();
    store.record(&Arc::from("a"), &record("a", 1));
    assert!(store.trouble().is_some_and(|why| why.contains("services was changed by another process")));
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn what_this_life_has_opened_is_never_taken_for_what_was_left() {
    let dir = place("own");
    let life = Incarnation::current().unwrap();
    let store = StateStore::create(&dir, &life).unwrap();
    // A damaged file may name any descriptor: to own one twice would close it under somebody's hands.
    let own = std::fs::File::open("/dev/null").unwrap();
    store.keep(own.as_fd(), Descriptor::Api);
    nix::fcntl::fcntl(&own, nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::FD_CLOEXEC)).unwrap();
    assert_eq!(Past::take(&dir, &life).unwrap().inherited.len(), 0);
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_descriptor_of_a_kind_that_is_not_known_stays_open_and_written_down() {
    let dir = place("unknown");
    let life = Incarnation::current().unwrap();
    let store = StateStore::create(&dir, &life).unwrap();
    let (kept, _far) = nix::unistd::pipe().unwrap();
    store.keep(kept.as_fd(), Descriptor::Api);
    // The same record with a kind of a later release: field 900, a text.
    let number = u64::try_from(kept.as_raw_fd()).unwrap();
    let at = HEADER + number * descriptors::SLOT as u64;
    let file = OpenOptions::new().read(true).write(true).open(dir.join("descriptors")).unwrap();
    let mut slot = vec![0; descriptors::SLOT];
    file.read_exact_at(&mut slot, at).unwrap();
    let mut record: kelson_proto::state::v1::DescriptorRecord =
        prost::Message::decode(unseal(&slot).unwrap().1).unwrap();
    record.what = None;
    let mut payload = prost::Message::encode_to_vec(&record);
    payload.extend([0xa2, 0x38, 1, b'x']);
    let later = file::seal(1, &payload, descriptors::SLOT).unwrap();
    file.write_all_at(&later, at).unwrap();

    let mut past = Past::take(&dir, &life).unwrap();
    assert!(past.inherited.is_empty() && past.doubts.is_empty(), "{:?}", past.doubts);
    past.close_the_rest();
    let flags = nix::fcntl::fcntl(&kept, nix::fcntl::FcntlArg::F_GETFD).unwrap();
    assert_eq!(flags, 0, "it comes through the next execve, too");
    file.read_exact_at(&mut slot, at).unwrap();
    assert_eq!(slot, later);
    std::fs::remove_dir_all(dir).unwrap();
}
