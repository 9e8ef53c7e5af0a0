//! How full the volumes of services are: the check `volume`.

use std::fs;

use kelson_tests::{Host, process};

#[test]
fn a_full_volume_makes_its_service_unhealthy_until_there_is_space_again() {
    let volumes = "volumes:\n\
        - {name: data, source: {tmpfs: {size: 1Mi, mode: '0777'}}, target: $DIR/seen}\n\
        - {name: kept, source: {path: $DIR/kept, create: {}}, target: $DIR/kept-there}\n\
        health:\n\
        - {name: data, volume: data, freeAtLeast: 50%, interval: 50ms, failureThreshold: 1}\n\
        - {name: kept, volume: kept, freeAtLeast: 1Ki, interval: 50ms}\n";
    let mut host = Host::builder().runs("plain", "serve").start();
    host.write_service("web", &process("serve", volumes));
    host.ctl(&["reload"]).ok();
    host.wait_up("web");
    let seen = format!("/proc/{}/root{}/seen/big", host.outer_pid(host.pid_of("web")), host.dir().display());
    for _ in 0..2 {
        fs::write(&seen, vec![0; 700 << 10]).expect("the service's volume");
        let full = host.wait_for("web", "a full volume", |now| !now.up);
        let expected = "running, waits for check data: volume data: 31 % of 1.0 MiB are free; at least 50 % is asked for";
        assert_eq!(full.message, expected);
        let status = host.ctl(&["status", "web"]).ok().stdout;
        assert!(status.contains("at least 50 % is asked for"), "{status}");
        fs::remove_file(&seen).expect("it is there");
        host.wait_up("web");
    }
    // The checks of the next incarnation of PID 1 see the same.
    host.crash(|| host.signal(libc::SIGSEGV));
    fs::write(&seen, vec![0; 700 << 10]).expect("the service's volume");
    host.wait_for("web", "a full volume", |now| !now.up);
    let status = host.ctl(&["status", "web", "-o", "json"]).ok().stdout;
    assert!(status.contains("volume data: 31 % of 1.0 MiB are free"), "{status}");
    host.poweroff();
}
