//! Services that get files with what is registered in the fleet.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use kelson_tests::{Etcd, Host, HostBuilder, eventually};
use tempfile::TempDir;

use super::{member, status};

const DB: &str = "register: {name: postgres, port: 5432, tags: [primary]}";
const TEXT: &str = "{% for db in registered('postgres', tag='primary') %}\nserver {{ db.host }}/{{ db.service }} {{ db.port }}\n{% endfor %}\n";
const ONE: &str = "server edge-1/db 5432\n";
const TWO: &str = "server edge-1/db 5432\nserver edge-1/db2 5432\n";

/// The folder with the template of a service, the file that it gets, and a line for each reload.
struct Files(TempDir);

impl Files {
    fn new() -> Files {
        let files = Files(tempfile::tempdir().expect("a folder"));
        files.template(TEXT);
        files
    }

    fn path(&self, name: &str) -> String {
        Path::join(self.0.path(), name).to_string_lossy().into_owned()
    }

    fn template(&self, text: &str) {
        fs::write(self.path("template"), text).expect("a file");
    }

    fn text(&self) -> String {
        fs::read_to_string(self.path("target")).unwrap_or_default()
    }

    fn reloads(&self) -> usize {
        fs::read_to_string(self.path("reloads")).unwrap_or_default().lines().count()
    }

    /// A host with a service that gets the file.
    fn proxy(&self, etcd: &Etcd, on_change: &str) -> HostBuilder {
        let more = format!(
            "templates: [{{source: {}, target: {}, onChange: {on_change}, mode: 0640}}]\n\
             user: '1234:1235'\n\
             reload: {{hooks: {{command: [$PROGRAM, 'append={}']}}}}",
            self.path("template"),
            self.path("target"),
            self.path("reloads")
        );
        fs::write(self.path("reloads"), "").expect("a file");
        std::os::unix::fs::chown(self.path("reloads"), Some(1234), Some(1235)).expect("root");
        member("edge-2", &etcd.endpoint()).crash_limit("100/1m").runs_with("proxy", "serve", &more)
    }
}

fn wait_message(host: &Host, text: &str) {
    host.wait_for("proxy", text, |now| now.message.contains(text));
}

fn dbs(etcd: &Etcd) -> Host {
    let manual = format!("start: manual\n{DB}");
    member("edge-1", &etcd.endpoint())
        .runs_with("db", "serve", &manual)
        .runs_with("db2", "serve", &manual)
        .start()
}

#[test]
fn a_service_waits_for_its_file_and_is_reloaded_once_for_each_change() {
    let Some(etcd) = Etcd::start() else { return };
    let files = Files::new();
    let mut host = files.proxy(&etcd, "reload").start();
    wait_message(&host, "to be rendered (no instance of postgres with tag primary)");
    let why = host.ctl(&["why", "proxy"]).ok().stdout;
    assert!(why.contains("no instance of postgres with tag primary"), "{why}");
    let mut dbs = dbs(&etcd);
    dbs.ctl(&["start", "db", "--wait"]).ok();
    host.wait_up("proxy");
    assert_eq!((files.text().as_str(), files.reloads()), (ONE, 0));
    let found = fs::metadata(files.path("target")).expect("a file");
    assert_eq!((found.uid(), found.gid(), found.mode() & 0o7777), (1234, 1235, 0o640));

    // The same text makes no reload.
    dbs.ctl(&["restart", "db", "--wait"]).ok();
    let pid = host.pid_of("proxy");
    dbs.ctl(&["start", "db2", "--wait"]).ok();
    eventually("the file to have both", || files.text() == TWO);
    eventually("the reload", || files.reloads() == 1);

    // With none the file stays, and Kelson says so.
    dbs.ctl(&["stop", "db", "db2", "--wait"]).ok();
    let stays = "no instance of postgres with tag primary; its file stays as it is";
    eventually("an event", || host.events_of("proxy").iter().any(|event| event.message.contains(stays)));
    assert_eq!((files.text().as_str(), host.pid_of("proxy")), (TWO, pid));
    host.poweroff();
    assert_eq!(files.reloads(), 1);
    dbs.poweroff();
}

#[test]
fn neither_a_new_pid_1_nor_a_new_helper_nor_an_absent_store_reloads() {
    let Some(mut etcd) = Etcd::start() else { return };
    let files = Files::new();
    let mut dbs = dbs(&etcd);
    dbs.ctl(&["start", "db", "--wait"]).ok();
    let mut host = files.proxy(&etcd, "reload").up(&["proxy"]);
    let pid = host.pid_of("proxy");
    for is_there in [true, false] {
        if !is_there {
            etcd.stop();
        }
        host.ctl(&["reexec"]).ok();
        host.wait_up("fleet");
        host.crash(|| host.signal(libc::SIGSEGV));
        host.wait_up("fleet");
        let helper = host.pid_of("fleet");
        host.kill(helper, libc::SIGKILL);
        host.wait_for("fleet", "another helper", |now| now.up && now.pid.is_some_and(|pid| pid != helper));
        assert_eq!((files.text().as_str(), host.pid_of("proxy")), (ONE, pid));
    }
    // The last text lets it start, too.
    host.ctl(&["restart", "proxy", "--wait"]).ok();
    host.wait_up("proxy");
    etcd.restart();
    eventually("the store to be connected", || status(&host)["connected"] == true);
    dbs.ctl(&["start", "db2", "--wait"]).ok();
    eventually("the reload", || files.reloads() == 1);
    assert_eq!(files.text(), TWO);
    host.poweroff();
    assert_eq!(files.reloads(), 1);
    dbs.poweroff();
}

#[test]
fn a_template_that_takes_all_memory_costs_no_registration() {
    let Some(etcd) = Etcd::start() else { return };
    let files = Files::new();
    let doubles = "{% set all = namespace(text='0123456789abcdef') %}\n\
                   {% for _ in range(60) %}\n{% set all.text = all.text ~ all.text %}\n{% endfor %}\n{{ all.text }}\n";
    files.template("# {{ host.name }}\n");
    let mut host = files.proxy(&etcd, "none").runs_with("db", "serve", DB).up(&["proxy"]);
    let registered = "/kelson/v1/services/postgres/edge-2/db";
    eventually("the registration", || etcd.keys("/kelson/v1/services/") == [registered]);
    let before = etcd.revision();
    files.template(doubles);
    let problem = "kelson-fleet ended 3 times while it rendered this template";
    eventually("an event", || host.events_of("proxy").iter().any(|event| event.message.contains(problem)));
    assert_eq!((etcd.revision(), files.text().as_str()), (before, "# edge-2\n"));
    files.template("# another one of {{ host.name }}\n");
    eventually("the text", || files.text() == "# another one of edge-2\n");
    host.poweroff();
}

#[test]
fn a_template_with_a_mistake_stops_nothing_that_runs_and_another_one_restarts_it() {
    let Some(etcd) = Etcd::start() else { return };
    let files = Files::new();
    let mut dbs = dbs(&etcd);
    dbs.ctl(&["start", "db", "--wait"]).ok();
    let mut host = files.proxy(&etcd, "restart").up(&["proxy"]);
    let pid = host.pid_of("proxy");
    files.template("a\n{{ nothing }}\n");
    let mistake = "line 2, column 4: ";
    eventually("an event", || host.events_of("proxy").iter().any(|event| event.message.contains(mistake)));
    assert_eq!((files.text().as_str(), host.pid_of("proxy")), (ONE, pid));
    // It starts only once the mistake is gone.
    host.ctl(&["restart", "proxy"]).ok();
    wait_message(&host, mistake);
    files.template(TEXT);
    host.wait_up("proxy");
    let pid = host.pid_of("proxy");
    files.template("# {{ host.name }} {{ labels.role }} {{ fact('architecture') }}\n");
    host.wait_for("proxy", "another run", |now| now.up && now.pid.is_some_and(|other| other != pid));
    assert_eq!(files.text(), format!("# edge-2 edge {}\n", std::env::consts::ARCH));
    host.poweroff();
    dbs.poweroff();
}
