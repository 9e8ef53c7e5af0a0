//! V2: the state is torn, empty, or another's: Kelson continues with the parts that it can trust, and reports
//! the others.

use std::fs;
use std::os::unix::fs::FileExt as _;

use kelson_tests::{Host, eventually};

use super::reexec;

fn running() -> Host {
    let host = Host::builder()
        .runs("a", "print=a, serve")
        .runs("b", "print=b, serve")
        .runs("c", "print=c, serve")
        .start();
    host.wait_all_up(&["a", "b", "c"]);
    host
}

/// Where the two slots of a service are in the file.
#[track_caller]
fn slots_of(host: &Host, name: &str) -> (u64, usize) {
    const PAIR: usize = 2048;
    let bytes = fs::read(host.path("run/state/services")).expect("the state");
    // Checksum, length and number come first, then field 1 of the record, the name.
    let name = [&[0x0a, u8::try_from(name.len()).expect("short")], name.as_bytes()].concat();
    let at =
        bytes[4096..].chunks(PAIR / 2).position(|slot| slot[16..].starts_with(&name)).expect("its record");
    ((4096 + at / 2 * PAIR) as u64, PAIR)
}

#[test]
fn v2_one_torn_record_costs_one_service_its_memory_and_no_other_anything() {
    let mut host = running();
    let pids = ["a", "b", "c"].map(|name| host.pid_of(name));
    let newest = host.newest_event();
    let (at, length) = slots_of(&host, "b");
    let file = fs::File::options().write(true).open(host.path("run/state/services")).expect("the state");
    file.write_all_at(&vec![0xff; length], at).expect("it is a file");
    reexec(&host);
    for (name, pid) in [("a", pids[0]), ("c", pids[2])] {
        let now = host.service(name);
        assert_eq!((now.pid, now.restarts, now.up), (Some(pid), 0, true), "{now:?}");
    }
    host.wait_event(newest, "what is not trusted", |event| event.message.contains("is torn"));
    host.wait_event(newest, "whose it is", |event| event.service == "b" && event.message.contains("is lost"));
    host.wait_up("b");
    assert_ne!(host.pid_of("b"), pids[1]);
    // Never two of one service.
    eventually("the first b to be gone", || host.processes_with("print=b").len() == 1);
    host.poweroff();
}

#[test]
fn v2_without_events_exits_specs_and_configuration_the_services_go_on() {
    let mut host = running();
    let pids = ["a", "b", "c"].map(|name| host.pid_of(name));
    for file in ["events", "exits", "papers/b.spec", "papers/configuration", "papers/boot"] {
        fs::write(host.path("run/state").join(file), "").expect("the state");
    }
    // By intention nothing is put at risk; a crash does not ask.
    let refused = host.ctl(&["reexec"]).expect(1);
    assert!(refused.stderr.contains("was changed by another process"), "{refused:?}");
    host.crash(|| host.signal(libc::SIGSEGV));
    for (name, pid) in ["a", "b", "c"].into_iter().zip(pids) {
        let now = host.service(name);
        assert_eq!((now.pid, now.restarts, now.up), (Some(pid), 0, true), "{now:?}");
    }
    let told = host.events();
    assert_eq!(told.first().map(|event| event.seq), Some(1), "their numbers begin again");
    for what in ["events", "exits", "b.spec", "configuration", "boot"] {
        assert!(
            told.iter()
                .any(|event| event.message.contains("not all of the state") && event.message.contains(what)),
            "{what}: {told:#?}"
        );
    }
    host.poweroff();
}

#[test]
fn v2_without_the_records_of_the_services_the_host_boots_again() {
    let mut host = running();
    let pids = ["a", "b", "c"].map(|name| host.pid_of(name));
    host.touch("run/state/services");
    host.crash(|| host.signal(libc::SIGSEGV));
    assert!(host.console().contains("the host boots again"), "{}", host.console());
    for (name, pid) in ["a", "b", "c"].into_iter().zip(pids) {
        host.wait_for(name, "to run again", |now| now.up && now.pid != Some(pid));
        // Never two of one service.
        let word = format!("print={name}");
        eventually("the first one to be gone", || host.processes_with(&word).len() == 1);
    }
    host.poweroff();
}
