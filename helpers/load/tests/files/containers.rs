//! Services from images: every key of `container`, what other keys mean for one, and the wait for containerd.
use crate::folder::{Folder, each_case};
use kelson_load::written;
use kelson_load::{Mode, Sources, Switch, load_with};
use kelson_spec::container_network::{PortSpec, Protocol};
use kelson_spec::registries::PullPolicy;
use kelson_spec::service::*;
use kelson_spec::{CONTAINER_CAPABILITIES, Loaded, ServiceSpec, wire};

const FULL: &str = r#"name: box
container:
  image: demo/nginx:1
  pull: always
  command: [nginx, -g, "daemon off;"]
  workingDirectory: /srv
  hostname: web-1
  network: bridge
  ports:
    - {name: http, container: 80, host: 8080}
    - {name: dns-alt, container: 53, host: 53, protocol: udp, address: 192.0.2.7}
    - {name: admin, container: 9000}
  mounts:
    - {source: /var/www, target: /srv, options: [ro, rbind, nosuid, nodev, noexec, rslave]}
    - {source: /etc/hosts, target: /etc/hosts}
    - {source: tmpfs, target: /tmp, options: [nosuid, size=64Mi, mode=1777, uid=33]}
    - {source: tmpfs, target: /cache, options: [size=50%]}
  devices: [/dev/ttyS0, {source: /dev/fuse}, {source: /dev/sda, target: /dev/disk, permissions: mr}]
user: www-data:adm
readiness: notify
stop: {signal: SIGTERM, timeout: 5s}
security: {capabilities: {drop: [net_raw, sys_admin], add: [net_admin]}}
"#;

fn folder(files: &[(&str, &str)]) -> Folder {
    let folder = Folder::new();
    for (name, text) in files {
        folder.service(name, text);
    }
    folder
}

fn box_of(loaded: &Loaded) -> (&ServiceSpec, &ContainerSpec) {
    let spec = loaded.services.iter().find(|spec| spec.name == "box").unwrap();
    let Workload::Container(container) = &spec.workload else { panic!("no container") };
    (spec, container)
}

fn containerd() -> Requirement {
    Requirement::service("containerd", ServiceEvent::Up)
}

#[test]
fn a_container_that_kelson_runs_needs_no_containerd() {
    let folder = folder(&[("box", "name: box\ncontainer: {image: demo/web, runtime: kelson}\n")]);
    let loaded = folder.load();
    assert_eq!(loaded.diagnostics, []);
    assert!(!loaded.containerd);
    let (spec, container) = box_of(&loaded);
    assert_eq!((container.runtime, spec.depends.len()), (Some(ContainerRuntime::Kelson), 0));
}

#[test]
fn arguments_are_for_the_entrypoint_of_the_image() {
    let folder = folder(&[("box", "name: box\ncontainer: {image: a, arguments: [--port, '80']}\n")]);
    let loaded = folder.load();
    assert_eq!(loaded.diagnostics, []);
    assert_eq!(box_of(&loaded).1.arguments, ["--port", "80"]);
}

#[test]
fn a_container_is_kelsons_where_there_is_no_containerd() {
    let open = ("box", "name: box\ncontainer: {image: demo/web}\n");
    let strict = ("box", "name: box\ncontainer: {image: demo/web, runtime: containerd}\n");
    let made = |folder: Folder, machine: &str, mode| {
        if !machine.is_empty() {
            folder.machine(machine);
        }
        let loaded = folder.load_for(mode);
        assert_eq!(loaded.diagnostics, []);
        let runtime = box_of(&loaded).1.runtime;
        assert_eq!(loaded.containerd, runtime == Some(ContainerRuntime::Containerd), "{machine}");
        runtime
    };
    let (kelson, containerd) = (Some(ContainerRuntime::Kelson), Some(ContainerRuntime::Containerd));
    let without = || folder(&[open]).without_containerd();
    assert_eq!(made(folder(&[open]), "", Mode::Machine), containerd);
    assert_eq!(made(without(), "", Mode::Machine), kelson);
    assert_eq!(made(folder(&[strict]).without_containerd(), "", Mode::Machine), containerd);
    assert_eq!(made(folder(&[open]), "", Mode::Container), kelson);
    // The machine file counts more than what is there.
    let enabled = |enabled| format!("builtins: {{containerd: {{enabled: {enabled}}}}}\n");
    assert_eq!(made(folder(&[open]), &enabled(false), Mode::Machine), kelson);
    assert_eq!(made(without(), &enabled(true), Mode::Container), containerd);
    // Its program is looked for where the service looks for it.
    let elsewhere = "builtins: {containerd: {environment: {PATH: '/usr/sbin:/opt/containerd/bin'}}}\n";
    assert_eq!(made(folder(&[open]), elsewhere, Mode::Machine), kelson);
    let moved = without();
    moved.root_file("opt/containerd/bin/containerd", "");
    assert_eq!(made(moved, elsewhere, Mode::Machine), containerd);
}

#[test]
fn every_key_of_a_container_is_read() {
    let folder = folder(&[("box", FULL)]);
    let loaded = folder.load();
    assert_eq!(loaded.diagnostics, []);
    assert!(loaded.containerd);
    let (spec, container) = box_of(&loaded);
    let mount = |source: &str, target: &str, options: &[&str]| ContainerMount {
        source: source.into(),
        target: target.into(),
        options: options.iter().map(|option| (*option).to_owned()).collect(),
        ..ContainerMount::default()
    };
    let device = |source: &str, target: &str, permissions: &str| ContainerDevice {
        source: source.into(),
        target: target.into(),
        permissions: permissions.into(),
    };
    let port = |name: &str, container, host, protocol| PortSpec {
        name: name.to_owned(),
        container,
        host,
        protocol,
        address: None,
    };
    let dns = PortSpec {
        address: Some("192.0.2.7".parse().unwrap()),
        ..port("dns-alt", 53, Some(53), Protocol::Udp)
    };
    let expected = ContainerSpec {
        image: "demo/nginx:1".into(),
        runtime: Some(ContainerRuntime::Containerd),
        pull: PullPolicy::Always,
        command: vec!["nginx".into(), "-g".into(), "daemon off;".into()],
        arguments: Vec::new(),
        working_directory: Some("/srv".into()),
        hostname: Some("web-1".into()),
        network: ContainerNetwork::Bridge,
        ports: vec![
            port("http", 80, Some(8080), Protocol::Tcp),
            dns,
            port("admin", 9000, None, Protocol::Tcp),
        ],
        mounts: vec![
            mount("/var/www", "/srv", &["ro", "rbind", "nosuid", "nodev", "noexec", "rslave"]),
            mount("/etc/hosts", "/etc/hosts", &[]),
            mount("tmpfs", "/tmp", &["nosuid", "size=67108864", "mode=1777", "uid=33"]),
            mount("tmpfs", "/cache", &["size=50%"]),
        ],
        devices: vec![
            device("/dev/ttyS0", "/dev/ttyS0", "rw"),
            device("/dev/fuse", "/dev/fuse", "rw"),
            device("/dev/sda", "/dev/disk", "rm"),
        ],
        user_namespace: false,
        // Nobody of that name is on this host.
        user: Some("www-data:adm".into()),
        stop_signal_of_image: false,
    };
    assert_eq!(container, &expected);
    assert!(container.mounts[2].is_tmpfs() && !container.mounts[0].is_tmpfs());
    assert_eq!((&spec.user, spec.depends.as_slice()), (&None, [containerd()].as_slice()));
    assert_eq!(spec.security.capabilities, Some(CONTAINER_CAPABILITIES & !(1 << 13) | 1 << 12));
    assert_eq!(spec.security.ambient, 1 << 12);
    assert_eq!(wire::decode::<Loaded>(&wire::encode(&loaded).unwrap()).unwrap(), loaded);
}

#[test]
fn users_are_mapped_by_kelson_alone() {
    let file = |more: &str| format!("name: box\ncontainer: {{image: a, userNamespace: true{more}}}\n");
    let kelsons = folder(&[("box", &file(", runtime: kelson"))]).load();
    assert_eq!(kelsons.diagnostics, []);
    assert!(box_of(&kelsons).1.user_namespace);
    let chosen = folder(&[("box", &file(""))]).without_containerd().load();
    assert_eq!((chosen.diagnostics.as_slice(), box_of(&chosen).1.user_namespace), ([].as_slice(), true));
    let why = "container.userNamespace needs runtime: kelson, and containerd runs this container; \
               write runtime: kelson, or remove userNamespace";
    for containerds in [file(""), file(", runtime: containerd")] {
        let loaded = folder(&[("box", &containerds)]).load();
        let found: Vec<&str> = loaded.diagnostics.iter().map(|found| found.message.as_str()).collect();
        assert_eq!((found.as_slice(), loaded.services.len()), ([why].as_slice(), 0));
    }
}

#[test]
fn what_runc_cannot_set_needs_kelson() {
    let file = |key: &str, more: &str| format!("name: box\ncontainer: {{image: a{more}}}\n{key}\n");
    for (key, name) in [("nice: 5", "nice"), ("cpuAffinity: [1]", "cpuAffinity")] {
        let kelsons = folder(&[("box", &file(key, ", runtime: kelson"))]).load();
        assert_eq!((kelsons.diagnostics.len(), kelsons.services.len()), (0, 1));
        let loaded = folder(&[("box", &file(key, ""))]).load();
        let found: Vec<&str> = loaded.diagnostics.iter().map(|found| found.message.as_str()).collect();
        let why = format!(
            "{name} needs runtime: kelson, and containerd runs this container; write runtime: kelson, or remove {name}"
        );
        assert_eq!((found.as_slice(), loaded.services.len()), ([why.as_str()].as_slice(), 0));
    }
    let both = folder(&[("box", &file("umask: '0077'\noomScoreAdjust: -5", ""))]).load();
    assert_eq!((both.diagnostics.len(), both.services.len()), (0, 1));
}

#[test]
fn what_a_container_does_not_say_is_its_images() {
    let folder = folder(&[("box", "name: box\ncontainer: {image: demo/redis@sha256:00, command: []}\n")]);
    let loaded = folder.load();
    assert_eq!(loaded.diagnostics, []);
    let (spec, container) = box_of(&loaded);
    let runtime = Some(ContainerRuntime::Containerd);
    assert_eq!(container, &ContainerSpec { runtime, ..ContainerSpec::new("demo/redis@sha256:00") });
    assert_eq!((spec.security.capabilities, spec.security.ambient), (None, 0));
    folder.service("box", "name: box\ncontainer: {image: a}\nstop: {timeout: 5s}\n");
    assert!(box_of(&folder.load()).1.stop_signal_of_image);
}

#[test]
fn capabilities_count_from_the_usual_ones() {
    let held = |text: &str| {
        let text = format!("name: box\ncontainer: {{image: a}}\nsecurity: {{capabilities: {text}}}\n");
        let folder = folder(&[("box", &text)]);
        let loaded = folder.load();
        assert_eq!(loaded.diagnostics, []);
        let security = box_of(&loaded).0.security.clone();
        // The text that is shown means the same.
        folder.service("box", written(box_of(&loaded).0).file());
        assert_eq!(box_of(&folder.load()).0.security, security, "{text}");
        security.capabilities
    };
    assert_eq!(held("{}"), None);
    assert_eq!(held("{drop: [sys_admin]}"), None, "it was not held");
    assert_eq!(held("{drop: [all]}"), Some(0));
    assert_eq!(held("{drop: [all], add: [net_bind_service]}"), Some(1 << 10));
    assert_eq!(held("{drop: [all], add: [sys_admin]}"), Some(1 << 21));
    assert_eq!(held("{drop: [chown]}"), Some(CONTAINER_CAPABILITIES & !1));
    assert_eq!(held("{add: [net_admin]}"), Some(CONTAINER_CAPABILITIES | 1 << 12));
    assert_eq!(held("{add: [chown]}"), None, "it is held already");
}

#[test]
fn what_is_rendered_is_read_again() {
    let silent = "name: silent\ncontainer: {image: 'a:b'}\nsecurity: {capabilities: {drop: [all]}}\n";
    let folder = folder(&[("box", FULL), ("silent", silent)]);
    let first = folder.load();
    assert_eq!(first.diagnostics, []);
    for spec in &first.services {
        folder.service(&spec.name, written(spec).file());
    }
    let second = folder.load();
    assert_eq!(second.diagnostics, []);
    assert_eq!(second.services, first.services);
    let text = written(box_of(&first).0).file();
    for line in [
        "  workingDirectory: /srv\n",
        "  hostname: web-1\n",
        "    - {source: /dev/sda, target: /dev/disk, permissions: rm}\n",
        "  - {service: containerd}\n",
        "stop: {signal: SIGTERM, timeout: 5s}\n",
        "user: \"www-data:adm\"\n",
        "security: {capabilities: {drop: [net_raw], add: [net_admin]}}\n",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}

#[test]
fn services_that_want_one_port_of_the_host_are_mistakes_that_name_each_other() {
    let web = |ports: &str| format!("container: {{image: a, network: bridge, ports: [{ports}]}}");
    let named = |name: &str, text: String| format!("name: {name}\n{text}\n");
    let tcp = "{name: http, container: 80, host: 8080}";
    let folder = folder(&[
        ("one", &named("one", web(tcp))),
        ("two", &named("two", web(&format!("{tcp}, {{name: more, container: 80, host: 81}}")))),
        ("other", &named("other", web("{name: http, container: 80, host: 8080, protocol: udp}"))),
        ("inner", &named("inner", web("{name: http, container: 8080}"))),
        ("third", &named("third", web("{name: http, container: 80, host: 81}"))),
    ]);
    let loaded = folder.load();
    let mistakes: Vec<String> = loaded.diagnostics.iter().map(ToString::to_string).collect();
    let wants = |name: &str, port: u16| {
        format!(
            "container.ports: service \"{name}\" has port {port}/tcp of the host too; give one of both another port"
        )
    };
    assert_eq!(mistakes.len(), 3, "{mistakes:#?}");
    for (mistake, wanted) in mistakes.iter().zip([wants("two", 8080), wants("two", 81), wants("one", 8080)]) {
        assert!(mistake.ends_with(&wanted), "{mistake}");
    }
    let sound: Vec<&str> = loaded.services.iter().map(|spec| spec.name.as_str()).collect();
    assert_eq!((loaded.faulty(), sound), (vec!["one", "third", "two"], vec!["inner", "other"]));
}

#[test]
fn a_container_waits_for_containerd_by_itself_and_once() {
    let folder = folder(&[
        ("box", "name: box\ncontainer: {image: a}\ndepends: [{service: web}, {service: containerd}]\n"),
        ("early", "name: early\ncontainer: {image: a}\ndepends: [{service: containerd, event: running}]\n"),
        ("mind", "name: mind\ncontainer: {image: a}\ndepends: [{service: containerd, whenDown: stop}]\n"),
        ("web", "name: web\nprocess: {command: [/bin/web]}\n"),
    ]);
    let loaded = folder.load();
    assert_eq!(loaded.diagnostics, []);
    let web = Requirement::service("web", ServiceEvent::Up);
    let running = Requirement::service("containerd", ServiceEvent::Running);
    assert_eq!(loaded.services[0].depends, [web, containerd()]);
    assert_eq!(loaded.services[1].depends, [containerd(), running]);
    let minded = Requirement::Service {
        name: "containerd".into(),
        event: ServiceEvent::Up,
        when_down: kelson_spec::service::WhenDown::Stop,
    };
    assert_eq!(loaded.services[2].depends, [minded]);
    assert_eq!(loaded.services[3].depends, []);
    let graph = kelson_spec::Graph::new(&loaded.services);
    assert_eq!(graph.dependants("containerd"), ["box", "early", "mind"]);
}

#[test]
fn positions_of_what_is_written_hold_beside_what_is_added() {
    let text = "name: box\ncontainer: {image: a}\ndepends: [{service: nobody}]\nwhen: [{service: none}]\n";
    assert_eq!(
        folder(&[("box", text)]).messages(),
        [
            "services/box.yaml:3:21: depends: there is no service nobody",
            "services/box.yaml:4:18: when: there is no service none"
        ]
    );
}

#[test]
fn containerd_is_on_where_it_is_needed_or_asked_for() {
    let web = ("web", "name: web\nprocess: {command: [/bin/web]}\n");
    let container = ("box", "name: box\ncontainer:\n  image: a\n  runtime: containerd\n");
    let enabled = |enabled| format!("builtins: {{containerd: {{enabled: {enabled}}}}}\n");
    let load = |files: &[(&str, &str)], machine: &str, mode| {
        let folder = folder(files);
        if !machine.is_empty() {
            folder.machine(machine);
        }
        let loaded = folder.load_for(mode);
        let told: Vec<String> =
            loaded.diagnostics.iter().map(|d| format!("{}:{} {}", d.line, d.column, d.message)).collect();
        assert_eq!(loaded.faulty().is_empty(), told.is_empty());
        (loaded.containerd, loaded.services.len(), told)
    };
    let sound = |on, count| (on, count, Vec::new());
    assert_eq!(load(&[web], "", Mode::Machine), sound(false, 1));
    assert_eq!(load(&[web, container], "", Mode::Machine), sound(true, 2));
    assert_eq!(load(&[web], &enabled(true), Mode::Machine), sound(true, 1));
    assert_eq!(load(&[web, container], &enabled(true), Mode::Container), sound(true, 2));
    assert_eq!(load(&[web], "builtins: {containerd: {}}\n", Mode::Container), sound(false, 1));
    assert_eq!(
        load(&[web, container], &enabled(false), Mode::Machine),
        (
            false,
            1,
            vec!["2:1 container: machine.yaml switches containerd off; write builtins: {containerd: {enabled: true}} there, or remove enabled".to_owned()]
        )
    );
    assert_eq!(
        load(&[web, container], "", Mode::Container),
        (
            false,
            1,
            vec!["2:1 container: containerd is off in container mode; write builtins: {containerd: {enabled: true}} in machine.yaml".to_owned()]
        )
    );
}

#[test]
fn who_needs_a_container_that_cannot_run_waits_and_is_sound() {
    let folder = folder(&[
        ("box", "name: box\ncontainer: {image: a, runtime: containerd}\n"),
        ("web", "name: web\nprocess: {command: [/bin/web]}\ndepends: [{service: box}]\n"),
    ]);
    let loaded = folder.load_for(Mode::Container);
    assert_eq!((loaded.faulty(), loaded.services.len()), (vec!["box"], 1));
}

#[test]
fn containerd_itself_cannot_wait_for_a_container() {
    let folder = folder(&[
        ("box", "name: box\ncontainer: {image: a}\n"),
        ("disk", "name: disk\nprocess: {command: [/bin/disk]}\ntype: oneshot\n"),
    ]);
    let depends = |list: &str| folder.machine(&format!("builtins:\n  containerd: {{depends: {list}}}\n"));
    depends("[{service: disk, event: finished}]");
    let loaded = folder.load();
    assert_eq!((loaded.diagnostics.len(), loaded.machine.builtins[0].depends.len()), (0, 1));
    depends("[{path: /a}, {service: box}]");
    let loaded = folder.load();
    assert_eq!(
        folder.messages(),
        [
            "machine.yaml:2:48: builtins.containerd.depends: services wait for each other: containerd → box → containerd"
        ]
    );
    assert_eq!((loaded.machine.builtins[0].depends.as_slice(), loaded.services.len()), ([].as_slice(), 2));
    depends("[{service: dsk}, {service: containerd}]");
    assert_eq!(
        folder.messages(),
        [
            "machine.yaml:2:36: builtins.containerd.depends: there is no service dsk; did you mean disk?",
            "machine.yaml:2:52: builtins.containerd.depends: service containerd waits for itself"
        ]
    );
}

/// A service, and the mistakes that are reported.
const MISTAKES: &str = r#"
name: box
container: {image: a, command: nginx}
=> 2:32: container.command: found "nginx" where a list such as [/usr/bin/program, --flag] belongs

name: box
container: {image: a, command: [""]}
=> 2:32: container.command: the program's name is empty

name: box
container: {image: a, workingDirectory: srv}
=> 2:41: container.workingDirectory: "srv" is not a path from the root; write it with / first

name: box
container: {image: a, hostname: -a}
=> 2:33: container.hostname: "-a" is not a host name; use letters, digits, - and ., at most 64

name: box
container: {image: a, network: bridged}
=> 2:32: container.network: "bridged" is not one of host, none, bridge; did you mean bridge?

name: box
container: {image: a, network: none, ports: [{name: http, container: 80}]}
=> 2:38: container.ports: nothing reaches a port of a container with network: none; write network: bridge, or remove ports

name: box
container: {image: a, ports: [{name: http, container: 80}, {name: http, container: 81}]}
=> 2:30: container.ports: two ports have the name "http"; give each another one

name: box
container: {image: a, ports: [{name: a, container: 80, host: 80}, {name: b, container: 81, host: 80}]}
=> 2:30: container.ports: port 80 of the host stands here twice; keep one

name: box
container: {image: a, network: bridge, ports: [{name: a, container: 80, host: 80}, {name: b, container: 81, host: 80, address: 127.0.0.1}]}
=> 2:47: container.ports: port 80 of the host stands here twice; keep one

name: box
container: {image: a, network: bridge, ports: [{name: a, container: 80, host: 80, address: localhost}]}
=> 2:92: container.ports[0].address: "localhost" is not an IP address; write that of the host, such as 127.0.0.1

name: box
container: {image: a, network: bridge, ports: [{name: a, container: 80, host: 80, address: "::1"}]}
=> 2:83: container.ports[0].address: the kernel sends nothing from ::1 to a container; write 127.0.0.1

name: box
container: {image: a, network: bridge, ports: [{name: a, container: 80, host: 80, address: 0.0.0.0}]}
=> 2:83: container.ports[0].address: without this key the port leads there from every address; remove it

name: box
container: {image: a, network: bridge, ports: [{name: a, container: 80, address: 127.0.0.1}]}
=> 2:73: container.ports[0].address: no port of the host leads there; write host: PORT

name: box
container: {image: a, ports: [{name: a, container: 80, host: 80, address: 127.0.0.1}]}
=> 2:23: container.ports: with the network of the host the program chooses its address; write network: bridge, or remove address

name: box
container: {image: a, ports: [{name: a b, container: 0, host: 65536, protocol: sctp}]}
=> 2:38: container.ports[0].name: "a b" is not a name; use small letters, digits and -, no - first, at most 63
=> 2:54: container.ports[0].container: 0 is out of range; write a number from 1 to 65535
=> 2:63: container.ports[0].host: 65536 is out of range; write a number from 1 to 65535
=> 2:80: container.ports[0].protocol: "sctp" is not one of tcp, udp

name: box
container: {image: a, mount: []}
=> 2:23: container.mount: this key is not known; did you mean mounts? Allowed here: image, runtime, pull, command, arguments, workingDirectory, hostname, network, ports, mounts, userNamespace, devices

name: box
container: {image: a, mounts: [{source: data, target: /b}]}
=> 2:41: container.mounts[0].source: "data" is neither a path from the root nor tmpfs

name: box
container: {image: a, mounts: [{source: /a, target: /}]}
=> 2:53: container.mounts[0].target: the root of the container is its image; write a path below it

name: box
container: {image: a, mounts: [{source: /a, target: /b/../c}]}
=> 2:53: container.mounts[0].target: a path in the container cannot hold ..

name: box
container: {image: a, mounts: [{source: /a, target: /b}, {source: /c, target: /b/}]}
=> 2:79: container.mounts[1].target: something else of this container is there already; write another path

name: box
container: {image: a, mounts: [{source: /a, target: /b, options: [rw, r0]}]}
=> 2:71: container.mounts[0].options[1]: "r0" is not an option of a mount; did you mean ro?

name: box
container: {image: a, mounts: [{source: /a, target: /b, options: [user_id]}]}
=> 2:67: container.mounts[0].options[0]: "user_id" is not an option of a mount; such are ro, rw, bind, rbind, nosuid, nodev, noexec, noatime

name: box
container: {image: a, mounts: [{source: /a, target: /b, options: [ro, rw]}]}
=> 2:71: container.mounts[0].options[1]: ro and rw exclude each other; keep one

name: box
container: {image: a, mounts: [{source: /a, target: /b, options: [ro, ro]}]}
=> 2:71: container.mounts[0].options[1]: ro stands here a second time

name: box
container: {image: a, mounts: [{source: /a, target: /b, options: [shared, rslave]}]}
=> 2:75: container.mounts[0].options[1]: shared and rslave exclude each other; keep one

name: box
container: {image: a, mounts: [{source: /a, target: /b, options: [size=1Mi]}]}
=> 2:67: container.mounts[0].options[0]: size is an option of a tmpfs; write source: tmpfs, or leave it out

name: box
container: {image: a, mounts: [{source: tmpfs, target: /b, options: [bind]}]}
=> 2:70: container.mounts[0].options[0]: a tmpfs is not bound from anywhere; leave bind out

name: box
container: {image: a, mounts: [{source: tmpfs, target: /b, options: [size=64m]}]}
=> 2:70: container.mounts[0].options[0]: "size=64m" is not right; write such as size=64Mi or size=50%

name: box
container: {image: a, mounts: [{source: tmpfs, target: /b, options: [size=101%]}]}
=> 2:70: container.mounts[0].options[0]: "size=101%" is not right; write such as size=64Mi or size=50%

name: box
container: {image: a, mounts: [{source: tmpfs, target: /b, options: [mode=0999]}]}
=> 2:70: container.mounts[0].options[0]: "mode=0999" is not right; write such as mode=0755

name: box
container: {image: a, mounts: [{source: tmpfs, target: /b, options: [size=1Mi, size=2Mi]}]}
=> 2:80: container.mounts[0].options[1]: size stands here a second time

name: box
container: {image: a, devices: /dev/a}
=> 2:32: container.devices: found "/dev/a" where a list of devices such as [/dev/ttyS0] belongs

name: box
container: {image: a, devices: [ttyS0]}
=> 2:33: container.devices[0]: "ttyS0" is not a path from the root; write it with / first

name: box
container: {image: a, devices: [/etc/passwd]}
=> 2:33: container.devices[0]: a device is named by its path below /dev, such as /dev/ttyS0

name: box
container: {image: a, devices: [{source: /dev/../etc}]}
=> 2:42: container.devices[0].source: a device is named by its path below /dev, such as /dev/ttyS0

name: box
container: {image: a, devices: [/dev]}
=> 2:33: container.devices[0]: a device is named by its path below /dev, such as /dev/ttyS0

name: box
container: {image: a, devices: [{target: /dev/a}]}
=> 2:33: container.devices[0].source: this key is missing; write source: /dev/ttyS0

name: box
container: {image: a, devices: [{source: /dev/a, permissions: rx}]}
=> 2:63: container.devices[0].permissions: "rx" are not permissions; write r (read), w (write), m (make nodes of it), such as rw

name: box
container: {image: a, devices: [/dev/a, {source: /dev/b, target: /dev/a}]}
=> 2:66: container.devices[1].target: something else of this container is there already; write another path

name: box
container: {image: a}
user: "a:"
=> 3:7: user: "a:" is not a user; write a name or number, or user:group

name: box
container: {image: a}
user: a b
=> 3:7: user: "a b" is not a user; write a name or number, or user:group

name: box
container: {image: a}
readiness: {fd: 3}
=> 3:12: readiness: no descriptor reaches into a container; write readiness: notify
"#;

#[test]
fn mistakes_of_a_container_are_pointed_at() {
    each_case(MISTAKES, |text| {
        let messages = folder(&[("box", text)]).messages();
        messages.iter().map(|message| message.replacen("services/box.yaml:", "", 1)).collect()
    });
}

#[test]
fn the_shims_have_their_name_for_themselves() {
    let folder = folder(&[("shims", "name: shims\nprocess: {command: [/bin/a]}\n")]);
    assert_eq!(
        folder.messages(),
        ["services/shims.yaml:1:7: name: shims is the name of a part of Kelson; choose another"]
    );
}

/// A reload judges containers by what the host booted with.
#[test]
fn a_changed_switch_of_containerd_waits_for_the_next_boot() {
    let folder = Folder::new();
    folder.service("box", "name: box\ncontainer: {image: demo/box:1, runtime: containerd}\n");
    let load = |mode: Mode, word: &str| {
        let sources = Sources { mode, containerd: Switch::parse(word).unwrap(), ..Sources::default() };
        let loaded = load_with(&folder.config(), &sources);
        (loaded.containerd, loaded.diagnostics.into_iter().map(|found| found.message).collect::<Vec<_>>())
    };
    folder.machine("builtins: {containerd: {enabled: false}}\n");
    assert_eq!(load(Mode::Machine, "unset"), (true, vec![]));
    assert_eq!(load(Mode::Container, "on"), (true, vec![]));
    folder.machine("builtins: {containerd: {enabled: true}}\n");
    for (mode, word) in [(Mode::Machine, "off"), (Mode::Container, "unset")] {
        let (on, messages) = load(mode, word);
        assert!(!on && messages[0].contains("containerd is off since the boot; reboot"), "{messages:?}");
    }
    assert_eq!(Switch::parse("maybe"), None);
}
