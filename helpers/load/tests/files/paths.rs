//! `paths` and `start: onDemand`: read, written again, and refused where they cannot be.
use crate::folder::Folder;
use kelson_load::written;
use kelson_spec::service::{PathEvent, PathTrigger, ServiceKind, StartMode};

const PROCESS: &str = "process: {command: [/bin/web]}\n";

#[test]
fn they_are_read_and_written_as_they_were() {
    let folder = Folder::of(
        "web",
        &format!(
            "{PROCESS}type: oneshot\npaths:\n  - exists: /run/a*.job\n  - {{notEmpty: /var/spool/in}}\n  \
             - {{changed: /etc/a}}\n  - {{modified: '/etc/*'}}\n"
        ),
    );
    let loaded = folder.load();
    assert_eq!(loaded.diagnostics, []);
    let spec = &loaded.services[0];
    let trigger = |event, path: &str| PathTrigger { event, path: path.into() };
    let expected = [
        trigger(PathEvent::Exists, "/run/a*.job"),
        trigger(PathEvent::NotEmpty, "/var/spool/in"),
        trigger(PathEvent::Changed, "/etc/a"),
        trigger(PathEvent::Modified, "/etc/*"),
    ];
    assert_eq!(spec.paths, expected);
    assert_eq!(spec.paths[0].pattern(), Some(("/run", "a*.job")));
    assert_eq!((spec.start, spec.on_demand, spec.kind), (StartMode::Auto, true, ServiceKind::Oneshot));
    let before = loaded.services.clone();
    folder.service("web", written(spec).file());
    assert_eq!(folder.load().services, before);
}

#[test]
fn who_cannot_have_them_is_told_why() {
    for (text, why) in [
        (
            format!("{PROCESS}start: auto\npaths: [{{exists: /a}}]\n"),
            "start: the paths start it; write onDemand, or leave start out",
        ),
        (
            format!("{PROCESS}type: oneshot\nschedule: daily\npaths: [{{exists: /a}}]\n"),
            "paths: the schedule starts it; leave schedule or paths out",
        ),
        (
            "target: {}\npaths: [{exists: /a}]\n".to_owned(),
            "paths: a target runs no program, so paths means nothing; leave it out",
        ),
        (
            format!("{PROCESS}paths: [{{exists: '/a/*/b'}}]\n"),
            "paths[0].exists: a pattern stands in the last part of a path alone; name the folder",
        ),
        (
            format!("{PROCESS}paths: [{{exists: a}}]\n"),
            "paths[0].exists: \"a\" is not a path from the root; write it with / first",
        ),
        (
            format!("{PROCESS}paths: [{{exists: /a, changed: /a}}]\n"),
            "paths[0]: exists and changed exclude each other; keep one",
        ),
    ] {
        let loaded = Folder::of("web", &text).load();
        let found: Vec<&str> = loaded.diagnostics.iter().map(|found| found.message.as_str()).collect();
        assert_eq!(found, [why], "{text}");
    }
}
