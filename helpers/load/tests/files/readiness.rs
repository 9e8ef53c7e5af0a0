//! `readiness` of services that fork, and what cannot.
use crate::folder::Folder;
use kelson_load::written;
use kelson_spec::service::{Readiness, StopMode};

fn folder(text: &str) -> Folder {
    Folder::of("web", text)
}

const PROCESS: &str = "process: {command: [/bin/web]}\n";

#[test]
fn a_service_may_fork_and_name_its_main_process_in_a_file() {
    for (text, path) in [("{forks: true}", None), ("{pidFile: /run/web.pid}", Some("/run/web.pid"))] {
        let folder = folder(&format!("{PROCESS}readiness: {text}\nstop: {{mode: process}}\n"));
        let loaded = folder.load();
        assert_eq!(loaded.diagnostics, []);
        let spec = &loaded.services[0];
        assert_eq!((spec.readiness, spec.stop.mode), (Readiness::Forks, StopMode::Process));
        assert_eq!(spec.pid_file.as_deref(), path.map(std::path::Path::new));
        folder.service("web", written(spec).file());
        assert_eq!(folder.load().services, loaded.services);
    }
}

#[test]
fn who_cannot_fork_is_told_why() {
    for (text, why) in [
        ("{forks: false}", "readiness.forks: write true, or leave readiness out"),
        ("{pidFile: run}", "readiness.pidFile: \"run\" is not a path from the root; write it with / first"),
        ("{forks: true, pidFile: /a}", "readiness"),
        (
            "{forks: true}\ntype: oneshot",
            "readiness: a one-shot has no processes once its command has ended; write type: service, or leave readiness out",
        ),
    ] {
        let loaded = folder(&format!("{PROCESS}readiness: {text}\n")).load();
        let found: Vec<&str> = loaded.diagnostics.iter().map(|found| found.message.as_str()).collect();
        assert!(found.len() == 1 && found[0].starts_with(why), "{text}: {found:?}");
    }
    let loaded = folder("container: {image: web}\nreadiness: {forks: true}\n").load();
    let text =
        "readiness: the first process of a container is its main one; run the program in the foreground";
    assert!(loaded.diagnostics.iter().any(|found| found.message == text), "{:?}", loaded.diagnostics);
}
