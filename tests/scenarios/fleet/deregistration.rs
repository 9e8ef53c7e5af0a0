//! A registration goes before the service does.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kelson_tests::namespace::Guard;
use kelson_tests::{Etcd, eventually, free_port, process};

use super::{HOST, WEB, member};

/// F5
#[test]
fn f5_a_registration_is_gone_before_the_stop_signal() {
    let Some(etcd) = Etcd::start() else { return };
    // It asks the store itself what is there when the signal comes.
    let ctl = format!("ETCDCTL_API=3 {} --endpoints {}", etcd.client().display(), etcd.endpoint());
    let script = format!(
        "trap \"{ctl} get --prefix --keys-only /kelson/v1/services/ >$DIR/seen; exit 0\" TERM; \
         while :; do sleep 0.01; done"
    );
    let web = format!("process: {{command: [sh, -c, '{script}']}}\nregister: {{port: 80}}");
    let mut host = member("edge-1", &etcd.endpoint()).service("web", &web).start();
    for _ in 0..10 {
        eventually("the service to be registered", || etcd.keys("/") == [HOST, WEB]);
        host.ctl(&["restart", "web", "--wait"]).ok();
        assert_eq!(fs::read_to_string(host.path("seen")).expect("it was stopped"), "");
    }
    assert!(
        host.events_of("web").iter().any(|event| event.message.ends_with("its registration first")),
        "{:?}",
        host.events_of("web")
    );
    host.poweroff();
}

/// F5
#[test]
fn f5_a_client_that_follows_the_registry_fails_in_no_rolling_restart() {
    rolling_restarts(3);
}

/// F5
#[test]
fn long_f5_a_client_that_follows_the_registry_fails_in_none_of_100_rolling_restarts() {
    rolling_restarts(100);
}

fn rolling_restarts(times: u32) {
    let Some(etcd) = Etcd::start() else { return };
    let ports = [free_port(), free_port()];
    let web = |port: u16| {
        let more = format!(
            "register: {{name: web, port: {port}}}\nstop: {{delay: 200ms}}\n\
             health: [{{tcp: {{port: {port}}}, interval: 20ms, timeout: 5s}}]"
        );
        process(&format!("http={port}"), &more)
    };
    let mut host = member("edge-1", &etcd.endpoint())
        .service("web-1", &web(ports[0]))
        .service("web-2", &web(ports[1]))
        .up(&["web-1", "web-2"]);
    let follower = Follower::new(&etcd, "/kelson/v1/services/web/");
    eventually("both to be registered", || follower.ports().len() == 2);
    let ends = AtomicBool::new(false);
    let (asked, failed) = std::thread::scope(|scope| {
        let client = scope.spawn(|| {
            let (mut asked, mut failed) = (0_u32, Vec::new());
            while !ends.load(Ordering::Relaxed) {
                for port in follower.ports() {
                    asked += 1;
                    failed.extend(request(port).err());
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
            (asked, failed)
        });
        for _ in 0..times {
            for service in ["web-1", "web-2"] {
                host.ctl(&["restart", service, "--wait"]).ok();
                eventually("both to be registered", || follower.ports().len() == 2);
            }
        }
        ends.store(true, Ordering::Relaxed);
        client.join().expect("the client panics in no case")
    });
    assert!(asked > 10 * times, "{asked}");
    assert!(failed.is_empty(), "{} of {asked}: {failed:?}", failed.len());
    host.poweroff();
}

/// A whole request and its answer.
fn request(port: u16) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: web\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    match answer.starts_with("HTTP/1.1 200 ") {
        true => Ok(()),
        false => Err(std::io::Error::other(format!("answer {answer:?}"))),
    }
}

/// A client that watches a prefix, and knows the ports that are registered there.
struct Follower {
    ports: Arc<Mutex<BTreeMap<String, u16>>>,
    _watch: Guard,
}

impl Follower {
    /// From the first revision on: nothing is missed between a read and a watch.
    fn new(etcd: &Etcd, prefix: &str) -> Follower {
        let watch = Command::new(etcd.client())
            .env("ETCDCTL_API", "3")
            .args(["--endpoints", &etcd.endpoint(), "watch", "--rev=1", "--prefix", prefix])
            .stdout(Stdio::piped())
            .spawn();
        let mut watch = watch.expect("etcdctl can be executed");
        let mut lines = BufReader::new(watch.stdout.take().expect("piped")).lines().map_while(Result::ok);
        let ports = Arc::new(Mutex::new(BTreeMap::new()));
        let known = Arc::clone(&ports);
        std::thread::spawn(move || {
            // Of each change: the word, the key, and the value.
            while let (Some(word), Some(key), Some(value)) = (lines.next(), lines.next(), lines.next()) {
                let mut known = known.lock().expect("nobody panics with it");
                let value: serde_json::Value = serde_json::from_str(&value).unwrap_or_default();
                match value["port"].as_u64().filter(|_| word == "PUT") {
                    Some(port) => known.insert(key, u16::try_from(port).expect("a port")),
                    None => known.remove(&key),
                };
            }
        });
        Follower { ports, _watch: Guard(watch) }
    }

    fn ports(&self) -> Vec<u16> {
        self.ports.lock().expect("nobody panics with it").values().copied().collect()
    }
}
