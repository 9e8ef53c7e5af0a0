//! `instances`: several services of one file.
use crate::folder::Folder;

const FILE: &str = "description: worker of $(instance)\ninstances: [mail, web-1]\n\
                    process: {command: [/bin/worker, '--queue=$(instance)', '$(date)', '$$(instance)']}\n\
                    depends: [{path: /srv/$(instance)}]\nenvironment: {NAME: $(service)}\n";

#[test]
fn each_is_a_service_with_its_own_values() {
    let folder = Folder::of("worker", FILE);
    folder.service("after", "name: after\nprocess: {command: [/bin/a]}\ndepends: [{service: worker-mail}]\n");
    let loaded = folder.load();
    assert_eq!(loaded.diagnostics, []);
    let names: Vec<&str> = loaded.services.iter().map(|service| service.name.as_str()).collect();
    assert_eq!(names, ["after", "worker-mail", "worker-web-1"]);
    let web = &loaded.services[2];
    assert_eq!(web.description, "worker of web-1");
    let kelson_spec::service::Workload::Process(process) = &web.workload else { panic!("{web:?}") };
    assert_eq!(process.command, ["/bin/worker", "--queue=web-1", "$(date)", "$(instance)"]);
    assert_eq!(web.environment, [("NAME".to_owned(), "worker-web-1".to_owned())]);
    assert!(web.file.ends_with("worker.yaml"));
}

#[test]
fn a_mistake_is_one_of_each_of_them_and_none_is_taken_for_removed() {
    for (text, mistakes) in [
        (
            FILE.replace("path: /srv", "path: srv"),
            &["depends[0].path: \"srv/mail\" is not a path from the root; write it with / first"][..],
        ),
        (FILE.replace("depends", "\tx: y\ndepends"), &[]),
        (FILE.replace("process", "proces"), &[]),
    ] {
        let loaded = Folder::of("worker", &text).load();
        let found: Vec<&str> = loaded.diagnostics.iter().map(|found| found.message.as_str()).collect();
        assert!(mistakes.iter().all(|mistake| found.contains(mistake)), "{found:?}");
        assert_eq!(loaded.services, []);
        let refused: Vec<&str> = loaded.refused.iter().map(|refused| refused.name.as_str()).collect();
        assert_eq!(refused, ["worker-mail", "worker-web-1"], "{text}");
    }
}

#[test]
fn what_cannot_be_instances_is_named() {
    let one = |list: &str| FILE.replace("[mail, web-1]", list);
    for (text, why) in [
        (one("[]"), "instances: this list is empty; leave it out for one service"),
        (one("mail"), "instances: found \"mail\" where a list of names such as [a, b] belongs"),
        (
            one("[a, B]"),
            "instances[1]: \"B\" is not a name; use small letters, digits and -, no - first, at most 63",
        ),
        (one("[a, a]"), "instances: \"a\" is in it twice; leave one out"),
    ] {
        let loaded = Folder::of("worker", &text).load();
        let found: Vec<&str> = loaded.diagnostics.iter().map(|found| found.message.as_str()).collect();
        assert!(found.contains(&why), "{found:?}");
        assert_eq!(loaded.services, []);
    }
    let folder = Folder::of("worker", FILE);
    folder.service("worker-mail", "name: worker-mail\nprocess: {command: [/bin/a]}\n");
    let loaded = folder.load();
    let found: Vec<&str> = loaded.diagnostics.iter().map(|found| found.message.as_str()).collect();
    assert!(
        matches!(&*found, [one] if one.ends_with("has a service of the name worker-mail too; rename one of them")),
        "{found:?}"
    );
    let names: Vec<&str> = loaded.services.iter().map(|service| service.name.as_str()).collect();
    assert_eq!(names, ["worker-web-1"]);
}
