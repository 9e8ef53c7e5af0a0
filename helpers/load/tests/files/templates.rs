//! `templates`: files that a service gets with what is registered in the fleet.

use crate::folder::{Folder, each_case};
use kelson_spec::templates::{OnChange, Template};

const FLEET: &str = "fleet: {endpoints: [\"http://192.0.2.1:2379\"]}\n";

/// Entries of `templates`, in line 3 from column 13 on.
const ENTRIES: &str = r#"
{target: /run/web.cfg}
=> 3:13: templates[0].source: this key is missing; write source: /etc/kelson/templates/web.cfg

{source: /etc/a}
=> 3:13: templates[0].target: this key is missing; write target: /run/web/web.cfg

{source: etc/a, target: /run/a}
=> 3:22: templates[0].source: "etc/a" is not a path from the root; write it with / first

{source: /etc/../a, target: /run/a}
=> 3:22: templates[0].source: "/etc/../a" is no path of a template; write one without .., of at most 120 bytes

{source: /etc/a, target: /run/../a}
=> 3:38: templates[0].target: "/run/../a" is no path of a file; write a target without .., such as /run/web/web.cfg

{source: /etc/a, target: /usr/bin/a}
=> 3:38: templates[0].target: no file of a service is made in /usr; write a target such as /run/web/web.cfg

{source: /etc/a, target: /run/kelson/a}
=> 3:38: templates[0].target: no file of a service is made in /run/kelson; write a target such as /run/web/web.cfg

{source: /etc/a, target: /run/a, mode: "4755"}
=> 3:52: templates[0].mode: "4755" are not permissions of a file; write such as 0640

{source: /etc/a, target: /run/a, onChange: HUP}
=> 3:56: templates[0].onChange: "HUP" is not one of reload, restart, none

{source: /etc/a, target: /run/a, onChange: reload}
=> 3:1: templates: onChange: reload needs a reload; add one, such as reload: {signal: SIGHUP}, or write onChange: restart

{source: /etc/a, target: /run/a}, {source: /etc/b, target: /run/a}
=> 3:12: templates: another template makes "/run/a" already; write another target
"#;

fn folder(entries: &str) -> Folder {
    let folder = Folder::new();
    folder.service("app", format!("name: app\nprocess: {{command: [/bin/app]}}\ntemplates: [{entries}]\n"));
    folder
}

#[test]
fn mistakes_say_what_to_do() {
    let said = |entries: &str| {
        let folder = folder(entries);
        folder.machine(FLEET);
        let short = |text: String| text.trim_start_matches("services/app.yaml:").trim_start().to_owned();
        folder.messages().into_iter().map(short).collect()
    };
    assert_eq!(each_case(ENTRIES, said), 11);
}

#[test]
fn a_change_does_nothing_unless_the_file_says_so() {
    let folder = folder(
        "{source: /etc/a, target: /run/a}, {source: /etc/a, target: /srv/b, onChange: restart, mode: 0600}",
    );
    folder.machine(FLEET);
    let loaded = folder.load();
    assert_eq!((&loaded.diagnostics, &loaded.warnings), (&vec![], &vec![]));
    let first =
        Template { source: "/etc/a".into(), target: "/run/a".into(), mode: 0o644, on_change: OnChange::None };
    let second =
        Template { target: "/srv/b".into(), mode: 0o600, on_change: OnChange::Restart, ..first.clone() };
    assert_eq!(loaded.services[0].templates, [first, second]);
}

#[test]
fn without_a_fleet_the_service_is_faulty() {
    let text = "services/app.yaml:3:12: machine.yaml names no fleet, so no template is rendered; write fleet there, or \
                leave templates out";
    assert_eq!(folder("{source: /etc/a, target: /run/a}").messages(), [text]);
}
