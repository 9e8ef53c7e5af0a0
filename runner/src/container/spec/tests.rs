use super::*;
use kelson_spec::container_network::{PortSpec, Protocol};
use kelson_spec::service::{ContainerDevice, ContainerMount, Fact, ResourceLimit, Security, Workload};

fn service() -> ServiceSpec {
    let mut service = ServiceSpec::process("web", ["x"]);
    service.workload = Workload::Container(ContainerSpec::new("demo/web:1"));
    service
}

fn change(service: &mut ServiceSpec) -> &mut ContainerSpec {
    match &mut service.workload {
        Workload::Container(container) => container,
        _ => unreachable!(),
    }
}

fn image() -> ImageConfig {
    ImageConfig {
        image: "demo/web:1".into(),
        entrypoint: vec!["/entry".into()],
        command: vec!["serve".into()],
        environment: vec!["A=image".into(), "B=image".into()],
        host_files: vec!["/etc/hosts".into()],
        ..ImageConfig::default()
    }
}

fn host() -> Host {
    Host {
        hostname: "edge-1".into(),
        capabilities: u64::MAX,
        oom_score: 0,
        files: 1 << 20,
        incarnation: "abc-1".into(),
        secrets: None,
        network: "/run/kelson/netns/web".into(),
        hosts: "/run/kelson/hosts".into(),
        cgroup: "/kelson/web".into(),
    }
}

fn made(service: &ServiceSpec, image: &ImageConfig) -> Spec {
    spec(service, image, &host(), &Run { number: 7, ..Run::default() }).unwrap()
}

/// The whole of it stands in a file, to be read and compared. `KELSON_BLESS=1` writes it again.
#[test]
fn the_specification_is_what_the_file_says() {
    let mut service = service();
    service.environment = vec![("B".into(), "service".into())];
    service.limits = vec![ResourceLimit { resource: 7, soft: 1024, hard: 4096 }];
    service.security.read_only_root = true;
    service.attributes = Attributes { umask: 0o027, oom_score: Some(-300), ..Attributes::default() };
    let container = change(&mut service);
    container.mounts = vec![ContainerMount {
        source: "/var/www".into(),
        target: "/srv".into(),
        options: vec!["ro".into(), "rbind".into()],
        ..ContainerMount::default()
    }];
    container.devices = vec![ContainerDevice {
        source: "/dev/null".into(),
        target: "/dev/sink".into(),
        permissions: "rw".into(),
    }];
    let image = ImageConfig { uid: 33, gid: 33, groups: vec![4], home: Some("/var/www".into()), ..image() };
    let run = Run {
        number: 7,
        environment: vec![("NOTIFY_SOCKET".into(), "/run/kelson/notify/web".into())],
        ..Run::default()
    };
    let mut spec = spec(&service, &image, &host(), &run).unwrap();
    // The sandbox that tests run in may have another owner and mode of it.
    spec.linux.devices.iter_mut().for_each(|device| {
        (device.file_mode, device.uid, device.gid) = (0o666, 0, 0);
    });
    // Its list of calls has a test of its own.
    spec.linux.seccomp = None;
    let text = serde_json::to_string_pretty(&spec).unwrap() + "\n";
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/containerd/web.json");
    if std::env::var_os("KELSON_BLESS").is_some() {
        fs::write(file, &text).unwrap();
    }
    assert_eq!(text, fs::read_to_string(file).unwrap());
}

#[test]
fn a_container_is_told_its_ports_and_joins_the_network_that_was_made_for_it() {
    let port = |name: &str, container, host| PortSpec {
        name: name.into(),
        container,
        host,
        protocol: Protocol::Tcp,
        address: None,
    };
    let mut service = service();
    change(&mut service).ports = vec![port("http", 80, Some(8080)), port("admin-ui", 9000, None)];
    let variables = |service: &ServiceSpec| {
        let mut all = made(service, &image()).process.env;
        all.retain(|entry| entry.contains("PORT_"));
        all
    };
    let rest = ["KELSON_HOST_PORT_HTTP=8080", "KELSON_PORT_ADMIN_UI=9000"];
    assert_eq!(variables(&service), [["KELSON_PORT_HTTP=8080"].as_slice(), &rest].concat());
    change(&mut service).network = ContainerNetwork::Bridge;
    assert_eq!(variables(&service), [["KELSON_PORT_HTTP=80"].as_slice(), &rest].concat());
    let made = made(&service, &image());
    let network = Namespace { kind: "network".into(), path: Some("/run/kelson/netns/web".into()) };
    assert_eq!((made.linux.namespaces.last(), made.hostname.as_str()), (Some(&network), "web"));
}

#[test]
fn the_service_file_is_on_top_of_the_image() {
    let plain = made(&service(), &image());
    assert_eq!(plain.process.args, ["/entry", "serve"]);
    assert_eq!((plain.process.cwd.as_str(), plain.hostname.as_str()), ("/", "edge-1"));
    assert_eq!(plain.process.capabilities.bounding.len(), 14);
    assert!(plain.process.no_new_privileges && !plain.root.readonly);
    assert!(plain.linux.seccomp.is_some());
    assert_eq!(plain.linux.namespaces.len(), 5);
    let mut changed = service();
    changed.security = Security {
        no_new_privileges: false,
        capabilities: Some(1),
        seccomp: Seccomp::Unconfined,
        ..Security::default()
    };
    let container = change(&mut changed);
    container.command = vec!["own".into()];
    container.working_directory = Some("/srv".into());
    container.network = ContainerNetwork::None;
    let changed = made(&changed, &ImageConfig { working_directory: "/app".into(), ..image() });
    assert_eq!(changed.process.args, ["own"], "a command replaces the entrypoint too");
    assert_eq!((changed.process.cwd.as_str(), changed.hostname.as_str()), ("/srv", "web"));
    assert_eq!(changed.process.capabilities.bounding, ["CAP_CHOWN"]);
    assert!(!changed.process.no_new_privileges && changed.linux.seccomp.is_none());
    assert_eq!(changed.linux.namespaces.last(), Some(&Namespace { kind: "network".into(), path: None }));
    assert!(!changed.mounts.iter().any(|mount| mount.destination == "/etc/hosts"));
}

#[test]
fn arguments_replace_the_command_of_the_image_alone() {
    let mut service = service();
    change(&mut service).arguments = vec!["--quiet".into()];
    assert_eq!(made(&service, &image()).process.args, ["/entry", "--quiet"]);
}

#[test]
fn a_hook_differs_in_its_words_alone() {
    let mut service = service();
    change(&mut service).command = vec!["own".into()];
    let run = Run { number: 7, command: Some(vec!["/hook".into(), "now".into()]), ..Run::default() };
    let mut hook = spec(&service, &image(), &host(), &run).unwrap();
    assert_eq!(hook.process.args, ["/hook", "now"]);
    hook.process.args = vec!["own".into()];
    assert_eq!(hook, made(&service, &image()));
}

#[test]
fn later_variables_replace_earlier_ones() {
    let mut service = service();
    service.environment = vec![("B".into(), "service".into()), ("PATH".into(), "/mine".into())];
    service.environment_facts = vec![("A".into(), Fact::Service), ("B".into(), Fact::Service)];
    let image = ImageConfig { home: Some("/h".into()), ..image() };
    assert_eq!(
        made(&service, &image).process.env,
        [
            "PATH=/mine",
            "HOSTNAME=edge-1",
            "HOME=/h",
            "A=web",
            "B=service",
            "KELSON_SERVICE=web",
            "KELSON_RUN=abc-1:web:7"
        ]
    );
}

#[test]
fn an_image_without_a_command_is_told_plainly() {
    let image = ImageConfig { entrypoint: Vec::new(), command: Vec::new(), ..image() };
    let error = spec(&service(), &image, &host(), &Run::default()).unwrap_err();
    assert_eq!(
        error.message,
        "image demo/web:1 has no command of its own; give service web one with container: {command: […]}"
    );
    assert!(container(&ServiceSpec::process("web", ["x"])).is_err());
}

#[test]
fn a_process_can_be_read_back() {
    let spec = made(&service(), &image());
    let text = serde_json::to_vec(&spec).unwrap();
    let back: super::super::oci::Running = serde_json::from_slice(&text).unwrap();
    assert_eq!(back.process, spec.process);
}
