//! Services that are plugins for volumes, and what services that use their volumes wait for.

use crate::folder::{Folder, each_case};
use kelson_load::written;
use kelson_spec::service::{CsiSource, PluginKind, Probe, Requirement, ServiceEvent, VolumeSource};
use kelson_spec::{Loaded, ServiceSpec};

const MISTAKES: &str = r#"
process: {command: [/p]}
provides: {}
=> 3:11: provides.csi: this key is missing; write csi: {id: ID}

process: {command: [/p]}
provides: {csi: {type: node}}
=> 3:17: provides.csi.id: this key is missing; write id: ID

process: {command: [/p]}
provides: {csi: {id: NFS}}
=> 3:22: provides.csi.id: "NFS" is not a name; use small letters, digits and -, no - first, at most 63

process: {command: [/p]}
provides: {csi: {id: nfs, type: both}}
=> 3:33: provides.csi.type: "both" is not one of node, controller, monolith

process: {command: [/p]}
provides: {csi: {id: nfs, socket: a/csi.sock}}
=> 3:35: provides.csi.socket: "a/csi.sock" is not the name of a file; write such as csi.sock

process: {command: [/p]}
provides: {csi: {id: nfs, socket: ..}}
=> 3:35: provides.csi.socket: ".." is not the name of a file; write such as csi.sock

process: {command: [/p]}
provides: {csi: {id: nfs, mountDir: /plugin}}
=> 3:1: provides: a process sees the folder of its plugin where it is, in /run/kelson/csi; leave mountDir out

process: {command: [/p]}
type: oneshot
provides: {csi: {id: nfs}}
=> 4:1: provides: a plugin has to run while its volumes are in use; write type: service

process: {command: [/p]}
user: "7:7"
provides: {csi: {id: nfs}}
=> 4:1: provides: the folder of a plugin belongs to root, and so do the mounts in it; leave user out

process: {command: [/p]}
security: {privateTmp: true}
provides: {csi: {id: nfs}}
=> 4:1: provides: this service has a view of the file system of its own (by volumes, directories or security), and mounts that a plugin makes in it do not reach the host; leave that view out, or run the plugin as a container

process: {command: [/p]}
security: {readOnlyRoot: true}
provides: {csi: {id: nfs}}
=> 4:1: provides: this service has a view of the file system of its own (by volumes, directories or security), and mounts that a plugin makes in it do not reach the host; leave that view out, or run the plugin as a container

target: {}
provides: {csi: {id: nfs}}
=> 3:1: provides: a target runs no program, so provides means nothing; leave it out

container: {image: nfs, runtime: kelson, userNamespace: true}
provides: {csi: {id: nfs}}
=> 3:1: provides: a user namespace keeps the mounts that are made in it from the host; leave userNamespace out

container: {image: nfs, mounts: [{source: /s, target: /csi}]}
provides: {csi: {id: nfs}}
=> 3:1: provides: something else of this service is at /csi already; write another path as mountDir

container: {image: nfs, mounts: [{source: /s, target: /a}]}
provides: {csi: {id: nfs, mountDir: /a/}}
=> 3:37: provides.csi.mountDir: something else of this service is there already; write another path

container: {image: a}
volumes: [{name: a, source: {csi: db}, target: /a, usage: {attachment: block}}]
=> 3:10: volumes: a container has the devices of container.devices alone; attachment: block is for a process
"#;

fn said(text: &str) -> Vec<String> {
    let folder = Folder::of("shop", text);
    let config = format!("{}/", folder.config().display());
    let short = |message: String| message.trim_start_matches("services/shop.yaml:").replace(&config, "");
    folder.messages().into_iter().map(short).collect()
}

#[test]
fn mistakes_say_what_to_do() {
    assert_eq!(each_case(MISTAKES, said), 16);
    let long = "s".repeat(90);
    let text = said(&format!("process: {{command: [/p]}}\nprovides: {{csi: {{id: nfs, socket: {long}}}}}\n"));
    let expected = "3:17: provides.csi: the path of the socket has 110 bytes; that of a Unix socket has at most 107; \
                    write shorter names";
    assert_eq!(text, [expected]);
}

fn spec<'l>(loaded: &'l Loaded, name: &str) -> &'l ServiceSpec {
    loaded
        .services
        .iter()
        .find(|spec| spec.name == name)
        .unwrap_or_else(|| panic!("{:?}", loaded.diagnostics))
}

fn endpoint(spec: &ServiceSpec) -> Option<&str> {
    spec.environment.iter().find(|(name, _)| name == "CSI_ENDPOINT").map(|(_, value)| value.as_str())
}

#[test]
fn a_plugin_gets_its_endpoint_and_its_check() {
    let folder = Folder::new();
    folder.service("a", "name: a\nprocess: {command: [/p]}\nprovides: {csi: {id: nfs, type: node}}\n");
    folder.service(
        "b",
        "name: b\ncontainer: {image: b}\nprovides: {csi: {id: nfs, type: controller, mountDir: /plugin, socket: b.sock}}\n\
         health: [{name: csi, tcp: {port: 80}}]\n",
    );
    folder.service(
        "c",
        "name: c\nprocess: {command: [/p]}\nenvironment: {CSI_ENDPOINT: /mine}\nprovides: {csi: {id: c}}\n\
         health: [{csi: /run/kelson/csi/c/csi.sock, restartAfter: 3}]\n",
    );
    let loaded = folder.load();
    assert_eq!(loaded.diagnostics, []);
    let (a, b, c) = (spec(&loaded, "a"), spec(&loaded, "b"), spec(&loaded, "c"));
    assert_eq!(a.provides.as_ref().unwrap().kind, PluginKind::Node);
    assert_eq!(endpoint(a), Some("unix:///run/kelson/csi/nfs/csi.sock"));
    assert_eq!(endpoint(b), Some("unix:///plugin/b.sock"));
    assert_eq!(endpoint(c), Some("/mine"));
    let checks = |spec: &ServiceSpec| -> Vec<String> {
        let one = |check: &kelson_spec::service::Check| match &check.probe {
            Probe::Csi { socket } => format!("{} {} {}", check.name, socket.display(), check.restart_after),
            other => format!("{} {}", check.name, other.kind()),
        };
        spec.health.iter().map(one).collect()
    };
    assert_eq!(checks(a), ["csi /run/kelson/csi/nfs/csi.sock 0"]);
    assert_eq!(checks(b), ["csi tcp", "csi-2 /run/kelson/csi/nfs/b.sock 0"]);
    assert_eq!(checks(c), ["csi /run/kelson/csi/c/csi.sock 3"]);
    // As a file it gives the same spec.
    for spec in [a, b] {
        let again = Folder::new();
        again.service(&spec.name, written(spec).to_string());
        let loaded = again.load();
        assert_eq!(loaded.diagnostics, []);
        assert_eq!(loaded.services[0].health, spec.health);
        assert_eq!(
            (&loaded.services[0].provides, endpoint(&loaded.services[0])),
            (&spec.provides, endpoint(spec))
        );
    }
}

const USER: &str =
    "process: {command: [/u]}\nvolumes: [{name: data, source: {csi: pictures}, target: /data}]\n";

fn provider(folder: &Folder, name: &str, kind: &str) {
    let text = format!(
        "name: {name}\nprocess: {{command: [/p]}}\nprovides: {{csi: {{id: nfs, type: {kind}, socket: {name}.sock}}}}\n"
    );
    folder.service(name, text);
}

fn up(name: &str) -> Requirement {
    Requirement::service(name, ServiceEvent::Up)
}

#[test]
fn a_service_waits_for_the_plugins_of_its_volumes() {
    let depends = |providers: &[(&str, &str)], more: &str| {
        let folder = Folder::of("web", &format!("{USER}{more}"));
        folder.volume("pictures", "plugin: nfs\n");
        providers.iter().for_each(|(name, kind)| provider(&folder, name, kind));
        let loaded = folder.load();
        let web = spec(&loaded, "web");
        let VolumeSource::Csi(source) = &web.volumes[0].source else { panic!() };
        let published = "/run/kelson/csi/nfs/published/web/data".into();
        let expected = CsiSource {
            volume: "pictures".to_owned(),
            plugin: "nfs".to_owned(),
            published,
            ..CsiSource::default()
        };
        assert_eq!(*source, expected);
        web.depends.clone()
    };
    assert_eq!(depends(&[("a", "monolith")], ""), [up("a")]);
    assert_eq!(depends(&[("a", "node")], ""), [up("a")]);
    assert_eq!(depends(&[("a", "node"), ("b", "controller")], ""), [up("a"), up("b")]);
    let any = |names: &[&str]| Requirement::Any(names.iter().map(|name| up(name)).collect());
    let all = [("a", "node"), ("b", "monolith"), ("c", "controller"), ("d", "node")];
    assert_eq!(depends(&all, ""), [any(&["a", "b", "d"]), any(&["b", "c"])]);
    assert_eq!(depends(&[("a", "monolith"), ("b", "monolith")], ""), [any(&["a", "b"])]);
    assert_eq!(depends(&[("a", "node")], "depends: [{service: a}]\n"), [up("a")], "its file says so");
    let other = "depends: [{service: a, event: running}, {path: /x}]\n";
    let running = Requirement::service("a", ServiceEvent::Running);
    assert_eq!(depends(&[("a", "node")], other), [up("a"), running, Requirement::Path("/x".into())]);
}

#[test]
fn a_mistake_of_a_dependency_is_at_its_own_place() {
    let folder =
        Folder::of("web", &format!("{USER}depends: [{{service: nobody}}]\n")).with_plugin("pictures", "nfs");
    assert_eq!(folder.messages(), ["services/web.yaml:4:21: depends: there is no service nobody"]);
}

#[test]
fn a_volume_without_its_file_or_its_plugin_makes_its_services_faulty() {
    let folder = Folder::of("web", USER);
    folder.service("old", "name: old\nprocess: {command: [/p]}\n");
    let message = |folder: &Folder| {
        let config = format!("{}/", folder.config().display());
        let loaded = folder.load();
        assert_eq!(loaded.faulty(), ["web"]);
        folder.messages().iter().map(|text| text.replace(&config, "")).collect::<Vec<_>>()
    };
    let at = "services/web.yaml:3:38: volumes: volume data: ";
    assert_eq!(message(&folder), [format!("{at}there is no file volumes/pictures.yaml")]);
    folder.volume("picture", "plugin: nfs\n");
    let near = format!("{at}there is no file volumes/pictures.yaml; did you mean picture?");
    assert_eq!(message(&folder), [near]);
    folder.volume("pictures", "plugin: NFS\n");
    let [of_web, of_file] = &message(&folder)[..] else { panic!() };
    assert_eq!(*of_web, format!("{at}volumes/pictures.yaml has mistakes; mend that file"));
    assert!(of_file.starts_with("volumes/pictures.yaml:1:9: plugin: \"NFS\" is not a name"), "{of_file}");
    folder.volume("pictures", "plugin: nfs\n");
    let provides = "a service provides it by provides: {csi: {id: nfs}}";
    let none = format!(
        "{at}its plugin is nfs (volumes/pictures.yaml), and no service without a mistake provides it; {provides}"
    );
    assert_eq!(message(&folder), [none]);
    provider(&folder, "a", "controller");
    let none = format!(
        "{at}its plugin is nfs (volumes/pictures.yaml), and only a controller of it is provided, which mounts nothing; \
         {provides}"
    );
    assert_eq!(message(&folder), [none]);
    provider(&folder, "a", "node");
    assert_eq!(folder.messages(), [""; 0]);
}

#[test]
fn two_plugins_of_one_id_have_sockets_of_their_own() {
    let folder = Folder::new();
    for name in ["a", "b"] {
        folder.service(
            name,
            format!("name: {name}\nprocess: {{command: [/p]}}\nprovides: {{csi: {{id: nfs}}}}\n"),
        );
    }
    let of = |name: &str, other: &str| {
        format!(
            "services/{name}.yaml:3:1: provides.csi: service {other} provides the plugin nfs with the socket csi.sock \
             too; write another name as socket in one of the files"
        )
    };
    assert_eq!(folder.messages(), [of("a", "b"), of("b", "a")]);
    folder.service("b", "name: b\nprocess: {command: [/p]}\nprovides: {csi: {id: nfs, socket: b.sock}}\n");
    folder.service("c", "name: c\nprocess: {command: [/p]}\nprovides: {csi: {id: smb}}\n");
    assert_eq!(folder.messages(), [""; 0]);
}

#[test]
fn files_of_volumes_are_checked_whether_or_not_a_service_uses_them() {
    let folder = Folder::new();
    folder.volume("machine", "plugin: nfs\n");
    assert_eq!(folder.messages(), [""; 0]);
    folder.volume("machine", "plugin: nfs\nsize: 3\n");
    folder.volume("Data", "plugin: nfs\n");
    let allowed = "allowed here: name, plugin, id, fsType, mountFlags, context, parameters, secrets";
    assert_eq!(
        folder.messages(),
        [
            "volumes/Data.yaml: Data is not the name of a volume; use a-z, 0-9 and -".to_owned(),
            format!("volumes/machine.yaml:2:1: size: this key is not known; {allowed}"),
        ]
    );
    assert!(!folder.load().machine_is_faulty());
}
