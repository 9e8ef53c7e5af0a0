//! Whole files: every key read with its value and its default, written as text and read again, handed over and back.
use std::path::PathBuf;
use std::time::Duration;

use crate::folder::Folder;
use kelson_load::written;
use kelson_spec::container_network::ContainerNetworkSpec;
use kelson_spec::devices::{DeviceRule, DevicesSpec};
use kelson_spec::encryption::{EncryptionSpec, Tpm2Spec};
use kelson_spec::facts::FactTest;
use kelson_spec::fleet::{Disconnect, FleetSpec, Instances, OnReconnect, Registration};
use kelson_spec::machine::{
    ApiSpec, BuiltinSpec, ConsoleShow, ConsoleSpec, Format, KexecSpec, MachineSpec, MountSpec,
    NodeHealthSpec, SwapPlace, SwapSpec, TimeSpec, WatchdogSpec,
};
use kelson_spec::network::{
    BondMode, BondSpec, BridgeSpec, Dhcp6Spec, DhcpSpec, InterfaceSpec, LinkKind, Matches, RouteSpec,
    RuleSpec, VlanSpec,
};
use kelson_spec::partitions::{DiskPartitionsSpec, PartitionSpec};
use kelson_spec::registries::{PullPolicy, RegistriesSpec};
use kelson_spec::secrets::{OnChange, SecretUse};
use kelson_spec::service::*;
use kelson_spec::sources::{SourceKind, SourcesSpec};
use kelson_spec::verify::{Demand, VerifyRule};
use kelson_spec::{Loaded, wire};

const WEB: &str = r#"
name: web                       # [a-z0-9][a-z0-9-]{0,62}; must equal the file's name
description: the web front end
process:                        # exactly one of process | container
  command: [/usr/sbin/nginx, -g, "daemon off;"]
  workingDirectory: /srv
  stdin: {text: "yes\n"}
environment: {inherit: [HTTP_PROXY], LANG: C, PORT: 80, DEBUG: true, QUOTED: "a \"b\" \\ c: #d", EMPTY: ""}
environmentFiles: [/etc/web.env, -/etc/not-there.env]
secrets: [db-password, {name: tls-key, file: tls/key.pem, mode: 0440, onChange: HUP}, {name: API_KEY, onChange: restart}]
type: service
start: manual
when: [{path: /dev/ttyS1}]
depends:
  - service: db
  - service: migrate
    event: finished
  - {service: cache, event: running, whenDown: restart}
  - {service: cache, whenDown: stop}
  - {service: db, event: running, whenDown: ignore}
  - {service: old, event: down}
  - path: /run/db.sock
  - network: [addresses, connectivity, hostname, {interface: eth2, up: true}]
  - any: [{path: /a}, {service: db}, {any: [{time: synced}]}]
  - mount: /srv
  - kernelArgument: console=ttyS0
  - fact: boot.id
  - fact: {name: platform, is: [aws, "gc?"]}
  - fact: {name: memory.total, is: "*", atLeast: 2Gi}
  - device: /dev/disk/by-label/DATA
  - interface: eth1
  - time: synced
  - not: {path: /run/nologin}
  - {registered: postgres, tag: "role:primary", min: 2, staleFor: 1m, whenDown: restart}
restart: {policy: untilSuccess, delay: 2s, maxDelay: 1m, attempts: 5, interval: 10m, exhausted: delay, scope: group, preventOn: [255, SIGSEGV], forceOn: [0]}
success: [3, TERM, RTMIN+1]
group: shop-1
lifecycle: {sidecar: false}
required: false
readiness: {fd: 3}
startTimeout: 1m30s500ms
health:
  - name: front
    http: {port: 80, path: /healthz}
    initialDelay: 2s
    interval: 10s
    timeout: 3s
    successThreshold: 2
    failureThreshold: 4
    restartAfter: 6
    grace: 20s
  - tcp: {port: 443}
  - grpc: {port: 50051, service: web.v1}
  - csi: /run/csi.sock
  - exec: {command: [/bin/check, -v]}
  - {volume: cache, freeAtLeast: 5%}
  - {name: room, volume: data, freeAtLeast: 1Gi, interval: 1m}
hooks:
  pre: [{command: [/bin/a, "b c"]}, {command: [d], timeout: 1m, asRoot: true, mayFail: true, condition: true}]
  postStart: {command: [/bin/tell], timeout: 2s}
  preStop: []
  post: [{command: [rm, -rf, "/run/{web}"]}]
reload: {hooks: [{command: [/bin/check]}], signal: SIGHUP, with: [cache]}
partOf: [db]
conflicts: [old]
refuses: [stop]
resumed: {signal: USR1, hooks: {command: [/bin/renew], timeout: 3s}}
after: [log-shipper, db]
expand: true
environmentFacts: {NODE: hostName, CORES: cpus}
onFailure: [notify]
onSuccess: [next]
onExit: stop
stop: {signal: SIGRTMIN+3, timeout: 20s, delay: 500ms, mode: cgroup, hangUp: true, finalSignal: ABRT}
user: www-data:adm
resources: {memoryMax: 64Mi, memoryHigh: 48Mi, cpuMax: 0.5, cpuWeight: 100, ioWeight: 200, pidsMax: 64}
umask: 0027
nice: -5
oomScoreAdjust: 500
cpuAffinity: [0, 1, 4-7, 64]
volumes:
  - {name: data, source: {path: /srv/web, create: {owner: www-data, mode: "0750"}}, target: /var/www, options: [noexec]}
  - {name: certs, source: {path: /etc/ssl}, target: /certs, readOnly: true}
  - {name: cache, source: {tmpfs: {size: 64Mi, mode: "0700"}}, target: /var/www/cache}
  - {name: media, source: {csi: pictures}, target: /media, usage: {access: multiNodeReader, mountFlags: [ro]}}
  - {name: archive, source: {disk: {device: LABEL=ARCHIVE, type: xfs, options: [ro], wait: 1m}}, target: /archive}
  - {name: themes, source: {overlay: {lower: [/srv/own, /usr/share/themes], upper: /srv/themes/upper, work: /srv/themes/work}, create: {mode: "0750"}}, target: /themes}
  - {name: scratch, source: {overlay: {lower: [/srv/base], size: 64Mi}}, target: /scratch}
  - {name: models, source: {image: "registry.example/models:1", pull: always}, target: /models}
removeIpc: true
limits: {nofile: 65536, core: unlimited, memlock: {soft: 64Ki, hard: 1Mi}}
security: {noNewPrivileges: false, readOnlyRoot: true, capabilities: {drop: [all], add: [net_bind_service, CAP_CHOWN]}, seccomp: unconfined, readOnlyPaths: [/etc], writablePaths: [-/var/lib/web], hiddenPaths: [/home], privateTmp: true, privateDevices: true, privateNetwork: true, privateUsers: true, noExecPaths: [/], execPaths: [/usr], bindPaths: [/srv:/mnt], bindReadOnlyPaths: ["-/dev/log:/srv/log"], devices: {usual: false, allow: [/dev/net/tun, "char-rtc:r"]}, protect: [clock, hostname], restrict: [realtime], namespaces: {deny: [user, net]}, addressFamilies: {allow: [unix, inet]}}
register: {name: www, port: 443, tags: [blue, "v:2"], address: 192.0.2.7, meta: {path: /shop}, required: true, checks: [{name: shop, tcp: {port: 443}, failureThreshold: 2}]}
disconnect: {stopAfter: 10m, startupGrace: 5m, onReconnect: leave}
templates: [{source: /etc/kelson/templates/www.cfg, target: /run/www/www.cfg, onChange: restart, mode: 0640}]
api: operator
logs: {maxSize: 10Mi, maxFiles: 5, rateLimit: 1000, console: true, stdout: prefix}
"#;

fn service(name: &str, event: ServiceEvent) -> Requirement {
    Requirement::service(name, event)
}

fn minding(name: &str, event: ServiceEvent, when_down: WhenDown) -> Requirement {
    Requirement::Service { name: name.to_owned(), event, when_down }
}

fn hook(command: &[&str], timeout: u64) -> Hook {
    Hook::new(command.iter().copied(), Duration::from_secs(timeout))
}

fn free(volume: &str, free_at_least: Share) -> Probe {
    Probe::Volume(VolumeProbe { volume: volume.to_owned(), free_at_least })
}

fn http(port: u16, path: &str) -> Probe {
    let asks = Asks::Http(HttpProbe {
        path: path.to_owned(),
        host: None,
        headers: Vec::new(),
        status: Vec::new(),
        body: None,
        tls: None,
    });
    Probe::Network(NetworkProbe { address: NetworkProbe::ADDRESS, port, asks })
}

fn grpc(port: u16, service: &str) -> Probe {
    let asks = Asks::Grpc(GrpcProbe { service: service.to_owned(), host: None, tls: None });
    Probe::Network(NetworkProbe { address: NetworkProbe::ADDRESS, port, asks })
}

fn pair(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

fn folder() -> Folder {
    let folder = Folder::new().with_plugin("pictures", "nfs");
    folder.root_file("etc/passwd", "root:x:0:0::/root:/bin/sh\nwww-data:x:33:33::/var/www:/bin/sh\n");
    folder.root_file("etc/group", "adm:x:4:\nssl:x:110:www-data\nkelson:x:990:\n");
    folder.root_file("etc/web.env", "# first\nLANG=de\nFROM_FILE='x y'\n");
    for other in ["db", "cache", "old"] {
        folder.service(other, format!("name: {other}\nprocess: {{command: [/bin/{other}]}}\n"));
    }
    folder.machine("fleet: {endpoints: [\"http://192.0.2.1:2379\"]}\n");
    folder.service("migrate", "name: migrate\nprocess: {command: [/bin/m]}\ntype: oneshot\n");
    folder
}

#[test]
fn every_key_of_a_service_file_is_read() {
    let folder = folder();
    folder.service("web", WEB);
    let loaded = folder.load();
    assert_eq!(loaded.diagnostics, []);
    let spec = loaded.services.iter().find(|spec| spec.name == "web").unwrap();
    let expected = ServiceSpec {
        name: "web".into(),
        description: "the web front end".into(),
        file: folder.config().join("services/web.yaml"),
        workload: Workload::Process(ProcessSpec {
            command: vec!["/usr/sbin/nginx".into(), "-g".into(), "daemon off;".into()],
            working_directory: "/srv".into(),
            input: Input::Text("yes\n".into()),
        }),
        environment: vec![
            pair("LANG", "C"),
            pair("FROM_FILE", "x y"),
            pair("PORT", "80"),
            pair("DEBUG", "true"),
            pair("QUOTED", "a \"b\" \\ c: #d"),
            pair("EMPTY", ""),
        ],
        inherit: Inherit::Names(vec!["HTTP_PROXY".to_owned()]),
        environment_facts: vec![("NODE".to_owned(), Fact::HostName), ("CORES".to_owned(), Fact::Cpus)],
        expand: true,
        secrets: vec![
            SecretUse::of("db-password"),
            SecretUse {
                file: "tls/key.pem".into(),
                mode: 0o440,
                on_change: Some(OnChange::Signal(1)),
                ..SecretUse::of("tls-key")
            },
            SecretUse { on_change: Some(OnChange::Restart), ..SecretUse::of("API_KEY") },
        ],
        kind: ServiceKind::Service,
        start: StartMode::Manual,
        on_demand: false,
        schedule: None,
        when: vec![Requirement::Path("/dev/ttyS1".into())],
        depends: vec![
            service("nfs", ServiceEvent::Up),
            service("db", ServiceEvent::Up),
            service("migrate", ServiceEvent::Finished),
            minding("cache", ServiceEvent::Running, WhenDown::Restart),
            minding("cache", ServiceEvent::Up, WhenDown::Stop),
            service("db", ServiceEvent::Running),
            service("old", ServiceEvent::Down),
            Requirement::Path("/run/db.sock".into()),
            Requirement::Network(vec![
                NetworkAspect::Addresses,
                NetworkAspect::Connectivity,
                NetworkAspect::Hostname,
                NetworkAspect::Interface("eth2".into()),
            ]),
            Requirement::Any(vec![
                Requirement::Path("/a".into()),
                service("db", ServiceEvent::Up),
                Requirement::Any(vec![Requirement::TimeSynced]),
            ]),
            Requirement::Mount("/srv".into()),
            Requirement::KernelArgument("console=ttyS0".to_owned()),
            Requirement::Fact(FactTest { name: "boot.id".to_owned(), ..FactTest::default() }),
            Requirement::Fact(FactTest {
                name: "platform".to_owned(),
                is: vec!["aws".to_owned(), "gc?".to_owned()],
                at_least: None,
            }),
            Requirement::Fact(FactTest {
                name: "memory.total".to_owned(),
                is: vec!["*".to_owned()],
                at_least: Some(2 << 30),
            }),
            Requirement::Device("/dev/disk/by-label/DATA".into()),
            Requirement::Interface("eth1".into()),
            Requirement::TimeSynced,
            Requirement::Not(Box::new(Requirement::Path("/run/nologin".into()))),
            Requirement::Registered {
                instances: Instances {
                    name: "postgres".into(),
                    tag: Some("role:primary".into()),
                    min: 2,
                    stale_for: Duration::from_secs(60),
                },
                when_down: WhenDown::Restart,
            },
            service("log-shipper", ServiceEvent::Settled),
            service("db", ServiceEvent::Settled),
        ],
        restart: RestartSpec {
            policy: RestartPolicy::UntilSuccess,
            delay: Duration::from_secs(2),
            max_delay: Duration::from_secs(60),
            attempts: 5,
            interval: Duration::from_secs(600),
            exhausted: Exhausted::Delay,
            scope: RestartScope::Group,
            success: vec![
                ExitMatch::Status(3),
                ExitMatch::Signal(15),
                ExitMatch::Signal(u8::try_from(libc::SIGRTMIN() + 1).unwrap()),
            ],
            prevent_on: vec![ExitMatch::Status(255), ExitMatch::Signal(11)],
            force_on: vec![ExitMatch::Status(0)],
        },
        group: Some("shop-1".into()),
        lifecycle: Lifecycle::default(),
        required: false,
        part_of: vec!["db".into()],
        conflicts: vec!["old".into()],
        on_failure: vec!["notify".into()],
        on_success: vec!["next".into()],
        refuses: vec![RefusedRequest::Stop],
        hooks: Hooks {
            pre: vec![
                hook(&["/bin/a", "b c"], 30),
                Hook { as_root: true, may_fail: true, condition: true, ..hook(&["d"], 60) },
            ],
            post_start: vec![hook(&["/bin/tell"], 2)],
            pre_stop: vec![],
            post: vec![hook(&["rm", "-rf", "/run/{web}"], 30)],
            undo: vec![],
        },
        reload: Reload {
            hooks: vec![hook(&["/bin/check"], 30)],
            signal: Some(libc::SIGHUP),
            with: vec!["cache".into()],
        },
        resumed: Resumed {
            signal: Some(libc::SIGUSR1),
            hooks: vec![hook(&["/bin/renew"], 3)],
            restart: false,
        },
        on_exit: OnExit::Stop,
        readiness: Readiness::Descriptor(3),
        pid_file: None,
        watchdog: None,
        start_timeout: Duration::from_millis(90_500),
        health: vec![
            Check {
                name: "front".into(),
                probe: http(80, "/healthz"),
                initial_delay: Duration::from_secs(2),
                interval: Duration::from_secs(10),
                timeout: Duration::from_secs(3),
                success_threshold: 2,
                failure_threshold: 4,
                restart_after: 6,
                startup: false,
                grace: Duration::from_secs(20),
            },
            Check::new("tcp", Probe::tcp(443)),
            Check::new("grpc", grpc(50051, "web.v1")),
            Check::new("csi", Probe::Csi { socket: "/run/csi.sock".into() }),
            Check::new("exec", Probe::Exec { command: vec!["/bin/check".into(), "-v".into()] }),
            Check::new("volume", free("cache", Share::Percent(5))),
            Check {
                interval: Duration::from_secs(60),
                ..Check::new("room", free("data", Share::Bytes(1 << 30)))
            },
        ],
        stop: StopSpec {
            signal: libc::SIGRTMIN() + 3,
            timeout: Duration::from_secs(20),
            delay: Duration::from_millis(500),
            mode: StopMode::Cgroup,
            hang_up: true,
            final_signal: Some(libc::SIGABRT),
        },
        user: Some(Credentials {
            uid: 33,
            gid: 4,
            groups: vec![110],
            name: "www-data".into(),
            home: Some("/var/www".into()),
        }),
        resources: Resources {
            memory_max: Some(64 << 20),
            memory_high: Some(48 << 20),
            cpu_max_millis: Some(500),
            cpu_weight: Some(100),
            io_weight: Some(200),
            pids_max: Some(64),
        },
        delegate: false,
        limits: vec![
            ResourceLimit { resource: libc::RLIMIT_CORE, soft: u64::MAX, hard: u64::MAX },
            ResourceLimit { resource: libc::RLIMIT_NOFILE, soft: 65536, hard: 65536 },
            ResourceLimit { resource: libc::RLIMIT_MEMLOCK, soft: 64 << 10, hard: 1 << 20 },
        ],
        attributes: Attributes {
            umask: 0o027,
            nice: Some(-5),
            oom_score: Some(500),
            cpus: vec![0b1111_0011, 1],
        },
        directories: Directories::default(),
        volumes: vec![
            Volume {
                name: "data".into(),
                source: VolumeSource::Path(PathSource {
                    path: "/srv/web".into(),
                    create: Some(NewFolder { owner: Some((33, 33)), mode: 0o750 }),
                }),
                target: "/var/www".into(),
                options: vec!["noexec".into()],
                ..Volume::default()
            },
            Volume {
                name: "certs".into(),
                source: VolumeSource::Path(PathSource { path: "/etc/ssl".into(), create: None }),
                target: "/certs".into(),
                read_only: true,
                ..Volume::default()
            },
            Volume {
                name: "cache".into(),
                source: VolumeSource::Tmpfs(TmpfsSource { size: Some(64 << 20), mode: 0o700 }),
                target: "/var/www/cache".into(),
                ..Volume::default()
            },
            Volume {
                name: "media".into(),
                source: VolumeSource::Csi(CsiSource {
                    volume: "pictures".into(),
                    plugin: "nfs".into(),
                    usage: Usage {
                        access: Access::MultiNodeReader,
                        attachment: Attachment::Filesystem,
                        mount_flags: Some(vec!["ro".into()]),
                    },
                    published: "/run/kelson/csi/nfs/published/web/media".into(),
                }),
                target: "/media".into(),
                ..Volume::default()
            },
            Volume {
                name: "archive".into(),
                source: VolumeSource::Disk(DiskSource {
                    device: "LABEL=ARCHIVE".into(),
                    fs_type: "xfs".into(),
                    options: vec!["ro".into()],
                    wait: Duration::from_secs(60),
                }),
                target: "/archive".into(),
                ..Volume::default()
            },
            Volume {
                name: "themes".into(),
                source: VolumeSource::Overlay(OverlaySource {
                    lower: vec!["/srv/own".into(), "/usr/share/themes".into()],
                    upper: Some(Upper { upper: "/srv/themes/upper".into(), work: "/srv/themes/work".into() }),
                    create: Some(NewFolder { owner: None, mode: 0o750 }),
                    size: None,
                }),
                target: "/themes".into(),
                ..Volume::default()
            },
            Volume {
                name: "scratch".into(),
                source: VolumeSource::Overlay(OverlaySource {
                    lower: vec!["/srv/base".into()],
                    size: Some(64 << 20),
                    ..OverlaySource::default()
                }),
                target: "/scratch".into(),
                ..Volume::default()
            },
            Volume {
                name: "models".into(),
                source: VolumeSource::Image(ImageSource {
                    image: "registry.example/models:1".into(),
                    pull: PullPolicy::Always,
                    layers: Vec::new(),
                }),
                target: "/models".into(),
                ..Volume::default()
            },
        ],
        provides: None,
        register: Some(Registration {
            name: "www".into(),
            port: Some(443),
            tags: vec!["blue".into(), "v:2".into()],
            address: Some("192.0.2.7".into()),
            meta: [pair("path", "/shop")].into(),
            required: true,
            checks: vec![Check { failure_threshold: 2, ..Check::new("shop", Probe::tcp(443)) }],
        }),
        disconnect: Some(Disconnect {
            stop_after: Duration::from_secs(600),
            startup_grace: Duration::from_secs(300),
            on_reconnect: OnReconnect::Leave,
        }),
        templates: vec![kelson_spec::templates::Template {
            source: "/etc/kelson/templates/www.cfg".into(),
            target: "/run/www/www.cfg".into(),
            mode: 0o640,
            on_change: kelson_spec::templates::OnChange::Restart,
        }],
        sockets: Vec::new(),
        paths: Vec::new(),
        remove_ipc: true,
        security: Security {
            own: kelson_spec::service::OwnNamespaces { network: true, users: true },
            no_new_privileges: false,
            read_only_root: true,
            capabilities: Some(1 << 10 | 1),
            ambient: 1 << 10 | 1,
            seccomp: Seccomp::Unconfined,
            view: FileView {
                read_only: vec!["/etc".into()],
                writable: vec!["-/var/lib/web".into()],
                hidden: vec!["/home".into()],
                private_tmp: true,
                private_devices: true,
                no_exec: vec!["/".into()],
                exec: vec!["/usr".into()],
                bind: vec!["/srv:/mnt".into()],
                bind_read_only: vec!["-/dev/log:/srv/log".into()],
            },
            devices: Some(DeviceAccess {
                no_usual: true,
                allow: vec!["/dev/net/tun".into(), "char-rtc:r".into()],
            }),
            sandbox: Sandbox {
                protect: vec![Protection::Clock, Protection::Hostname],
                restrict: vec![Restriction::Realtime],
                namespaces: Selection::Deny(0x5000_0000),
                address_families: Selection::Allow(0b110),
                system_calls: SystemCalls::default(),
                filter: spec.security.sandbox.filter.clone(),
            },
        },
        api: ApiAccess::Operator,
        logs: LogSpec {
            max_size: 10 << 20,
            max_files: 5,
            rate_limit: Some(1000),
            console: true,
            stdout: Some(Stdout::Named),
        },
    };
    assert_eq!(spec, &expected);
    assert!(spec.security.sandbox.filter.len() > 20, "there is a program for the kernel");
    assert_eq!(loaded.api_group, Some(990));

    assert_eq!(wire::decode::<Loaded>(&wire::encode(&loaded).unwrap()).unwrap(), loaded);
}

#[test]
fn what_a_file_does_not_say_has_its_default() {
    let folder = Folder::new();
    folder.service("plain", "name: plain\nprocess: {command: [sleep, 1000]}\n");
    folder.service(
        "once",
        "name: once\nprocess: {command: [/bin/true]}\ntype: oneshot\nrestart: {delay: 45s}\n",
    );
    let loaded = folder.load();
    assert_eq!(loaded.diagnostics, []);
    let [once, plain] = loaded.services.as_slice() else { panic!("{:?}", loaded.services) };
    let mut expected = ServiceSpec::process("plain", ["sleep", "1000"]);
    expected.file = folder.config().join("services/plain.yaml");
    assert_eq!(plain, &expected);
    assert_eq!(plain.restart.policy, RestartPolicy::Forever);
    assert_eq!(
        (plain.restart.delay, plain.restart.max_delay),
        (Duration::from_secs(1), Duration::from_secs(30))
    );
    assert_eq!((plain.restart.attempts, plain.restart.interval), (0, Duration::from_secs(300)));
    assert_eq!(
        (plain.stop.signal, plain.stop.timeout, plain.stop.delay.as_millis()),
        (15, Duration::from_secs(10), 0)
    );
    assert_eq!((plain.start_timeout, plain.on_exit), (Duration::from_secs(90), OnExit::Ignore));
    assert_eq!((plain.logs.max_size, plain.logs.max_files, plain.logs.console), (1 << 20, 3, false));
    assert!(plain.security.no_new_privileges && plain.security.capabilities.is_none());

    assert_eq!(once.restart.policy, RestartPolicy::Once);
    // The default of maxDelay gives way to a longer delay.
    assert_eq!(
        (once.restart.delay, once.restart.max_delay),
        (Duration::from_secs(45), Duration::from_secs(45))
    );
    assert_eq!(loaded.machine, MachineSpec::default());
    assert_eq!(loaded.machine.shutdown_timeout, Duration::from_secs(60));
    assert_eq!(loaded.machine.images, [PathBuf::from("/usr/share/kelson/images")]);
}

#[test]
fn the_example_of_the_handbook_is_read() {
    let folder = folder();
    folder.service("web", include_str!("../example.yaml"));
    let loaded = folder.load();
    assert_eq!(loaded.diagnostics, []);
    let spec = loaded.services.iter().find(|spec| spec.name == "web").unwrap();
    // Most of what it says is the default.
    let mut expected = ServiceSpec::process("web", ["/usr/sbin/nginx", "-g", "daemon off;"]);
    expected.description = "the web front end".into();
    expected.file = folder.config().join("services/web.yaml");
    expected.environment = vec![pair("LANG", "C"), pair("FROM_FILE", "x y")];
    expected.when = vec![Requirement::Path("/dev/ttyS1".into())];
    expected.depends = vec![
        service("db", ServiceEvent::Up),
        service("migrate", ServiceEvent::Finished),
        Requirement::Path("/run/db.sock".into()),
        Requirement::Network(vec![NetworkAspect::Addresses]),
        Requirement::Any(vec![Requirement::Path("/a".into()), Requirement::Path("/b".into())]),
        Requirement::TimeSynced,
    ];
    expected.readiness = Readiness::Notify;
    expected.health = vec![Check::new("http", http(80, "/healthz"))];
    let (gid, groups, home) = (33, vec![110], Some("/var/www".into()));
    expected.user = Some(Credentials { uid: 33, gid, groups, name: "www-data".into(), home });
    expected.resources = Resources {
        memory_max: Some(64 << 20),
        memory_high: Some(48 << 20),
        cpu_max_millis: Some(500),
        cpu_weight: Some(100),
        io_weight: None,
        pids_max: Some(64),
    };
    expected.limits = vec![ResourceLimit { resource: libc::RLIMIT_NOFILE, soft: 65536, hard: 65536 }];
    expected.security.capabilities = Some(1 << 10);
    expected.security.ambient = 1 << 10;
    assert_eq!(spec, &expected);
}

#[test]
fn what_is_rendered_is_read_again() {
    let folder = folder();
    folder.service("web", WEB);
    folder.service(
        "box",
        "name: box\ndescription: \"- [odd]: \\n\\t\\u2028\\e \"\ncontainer: {image: 'a:b', network: none, mounts: [{source: /a b, target: /c, options: [ro]}]}\nsecurity: {capabilities: {drop: [net_raw]}}\ntype: oneshot\nreadiness: notify\ndelegate: true\n",
    );
    folder.service("all", "name: all\nprocess: {command: [/bin/all]}\nenvironment: {inherit: all, A: b}\nlogs: {stdout: false}\n");
    let first = folder.load();
    assert_eq!(first.diagnostics, []);
    for spec in &first.services {
        folder.service(&spec.name, written(spec).file());
    }
    let second = folder.load();
    assert_eq!(second.diagnostics, []);
    assert_eq!(second.services, first.services);
}

#[test]
fn only_what_differs_is_rendered() {
    assert_eq!(
        written(&ServiceSpec::process("plain", ["sleep", "1000"])).file(),
        "name: plain\nprocess:\n  command: [sleep, 1000]\n"
    );
    let mut spec = ServiceSpec::process("web", ["/bin/web", "-x", "a b", "", "null"]);
    spec.environment = vec![pair("TOKEN", "s3cret: #1"), pair("LANG", "C")];
    spec.depends = vec![service("db", ServiceEvent::Up), service("m", ServiceEvent::Finished)];
    spec.stop.timeout = Duration::from_secs(90);
    spec.resources.memory_max = Some(64 << 20);
    let expected = r#"name: web
process:
  command: [/bin/web, "-x", a b, "", "null"]
environment:
  TOKEN: "s3cret: #1"
  LANG: C
depends:
  - {service: db}
  - {service: m, event: finished}
stop: {timeout: 1m30s}
resources: {memoryMax: 64Mi}
"#;
    assert_eq!(written(&spec).file(), expected);
}

#[test]
fn every_key_of_the_machine_file_is_read() {
    let folder = Folder::new();
    folder.machine(
        r#"
hostname: edge-1
modules: [overlay, virtio_net]
sysctl: {net.ipv4.ip_forward: "1", vm.swappiness: 10}
network:
  - {interface: eth0, address: 10.0.2.15/24, gateway: 10.0.2.2, dns: [10.0.2.3, "fd00::1"]}
  - {interface: eth1, address: "fd00::2/64", gateway: "fe80::1"}
  - {interface: eth2, dhcp: true, dhcp6: true}
  - {interface: "eth?", dhcp: {probe: false, hostname: true}, dhcp6: {auto: true, delegate: [lan0], prefixLength: 56}, mtu: 9000, addresses: [192.0.2.1/32]}
  - {mac: "52:54:00:12:34:aB", dhcp: false, routerAdvertisements: true}
  - {driver: igb, routes: [{to: 198.51.100.0/24, via: 192.0.2.1, metric: 5, table: 1000}, {to: default, via: "fe80::1"}]}
  - {interface: lan5, vlan: {id: 5, on: eth0}, rules: [{from: 192.0.2.0/24, table: 1000}, {to: "fd00::/8", table: 7, priority: 9}]}
  - {interface: bond0, bond: {mode: 802.3ad, members: [eth1, eth2]}}
  - {interface: br0, bridge: {members: [bond0], stp: true}}
  - {interface: local, dummy: {}}
nftables: /etc/nftables.conf
partitions: [{disk: SERIAL=4, create: [{label: A 1, size: 10Mi, type: esp}, {label: B, type: 0FC63DAF-8483-4772-8E79-3D69D8477DE4}], wait: 2s}, {disk: /dev/vdd, create: [{label: C}]}]
encryption: [{name: data, source: SERIAL=2, tpm2: {pcrs: [0, 7]}, keyFile: /k, recoveryFile: /r, wait: 5s, format: ifBlank}, {name: more, source: /dev/vdc, tpm2: {}}]
mounts: [{source: LABEL=STATE, target: /var, type: ext4, options: [noatime], wait: 1m}, {source: SERIAL=1, target: /srv, type: xfs, format: ifBlank, grow: true}]
swap: [{source: PARTLABEL=swap, priority: 5, wait: 1s, format: ifBlank}, {zram: 50, algorithm: zstd}]
api: {listen: ["0.0.0.0:50000", "[::]:50000"], ca: /etc/kelson/pki/ca.pem, certificate: /etc/kelson/pki/c.pem, key: /etc/kelson/pki/k.pem, connectionLifetime: 30m}
builtins:
  containerd:
    enabled: true
    environment: {A: b}
    depends: [{path: /dev/vda}]
    restart: {delay: 3s}
    required: false
    startTimeout: 5s
    health: [{exec: {command: [ctr, version]}}]
    hooks: {pre: {command: [/bin/prepare]}}
    stop: {timeout: 4s}
    resources: {memoryMax: 512Mi}
    limits: {nofile: 1024}
    logs: {maxFiles: 2}
  apid: {enabled: false}
  logd: {resources: {memoryMax: 32Mi}}
health: {minimum: 3s, deadline: 2m}
shutdown: {timeout: 2m}
watchdog: {device: /dev/watchdog1, timeout: 1m}
images: {folders: [/images, /more], verify: [{match: "registry.example/*", cosignKey: /release.pem, signedAs: "dev.example/*"}, {match: "app:*", minisignKey: /release.pub}, {match: "a*", reject: true}, {match: "b*", accept: true}, {digestOnly: true}]}
containerNetwork: {bridge: containers, subnet: 172.20.0.0/24, subnet6: "fd00:20::/64"}
registries: {mirrors: {docker.io: [mirror.example, "other:5000"]}, ca: /ca.pem, proxy: "http://proxy:3128", insecure: ["lab:5000"], maxSize: 2Gi, credentials: /auth.json, secret: registries}
main: web
time: {servers: [ntp.example.com, "[2001:db8::7]:1123"]}
devices:
  rules:
    - {subsystem: tty, name: "ttyUSB*", attributes: {idVendor: "0403", device/model: a}, owner: "7", group: "20", mode: "0660", link: serial/gps}
    - {subsystem: block, mode: 640}
console: {show: dashboard, tty: tty1}
sources: {from: [commandLine, disk], wait: 3s, server: "[fd00:ec2::254]:80"}
fleet: {endpoints: ["https://etcd-1.example:2379", "https://[fd00::2]:2379"], ca: /ca.pem, certificate: /c.pem, key: /k.pem, prefix: /site-1/kelson, name: Edge-1.example, labels: {role: edge, example.com/rack: 7}}
kexec: {kernel: /boot/vmlinuz, initramfs: /boot/initramfs, commandLine: quiet ro}
logs: {stdout: only}
"#,
    );
    folder.service("web", "name: web\nprocess: {command: [/bin/web]}\n");
    let loaded = folder.load();
    assert_eq!(loaded.diagnostics, []);
    let named = |name: &str| InterfaceSpec::new(Matches::Name(name.into()));
    let made = |name: &str, kind| InterfaceSpec { kind: Some(kind), ..named(name) };
    let interface = |name: &str, address: &str, gateway: &str, dns: &[&str]| InterfaceSpec {
        addresses: vec![address.parse().unwrap()],
        gateway: Some(gateway.parse().unwrap()),
        dns: dns.iter().map(|ip| ip.parse().unwrap()).collect(),
        ..named(name)
    };
    let route = |to: &str, via: &str, metric, table| RouteSpec {
        to: to.parse().unwrap(),
        via: Some(via.parse().unwrap()),
        metric,
        table,
    };
    let rule = |from: Option<&str>, to: Option<&str>, table, priority| RuleSpec {
        from: from.map(|from| from.parse().unwrap()),
        to: to.map(|to| to.parse().unwrap()),
        table,
        priority,
    };
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let expected = MachineSpec {
        hostname: Some("edge-1".into()),
        modules: vec!["overlay".into(), "virtio_net".into()],
        sysctl: vec![pair("net.ipv4.ip_forward", "1"), pair("vm.swappiness", "10")],
        network: vec![
            interface("eth0", "10.0.2.15/24", "10.0.2.2", &["10.0.2.3", "fd00::1"]),
            interface("eth1", "fd00::2/64", "fe80::1", &[]),
            InterfaceSpec {
                dhcp: Some(DhcpSpec::default()),
                dhcp6: Some(Dhcp6Spec::default()),
                ..named("eth2")
            },
            InterfaceSpec {
                dhcp: Some(DhcpSpec { probe: false, host_name: true }),
                dhcp6: Some(Dhcp6Spec {
                    always: false,
                    delegate: vec!["lan0".to_owned()],
                    prefix_length: Some(56),
                }),
                mtu: Some(9000),
                addresses: vec!["192.0.2.1/32".parse().unwrap()],
                ..named("eth?")
            },
            InterfaceSpec {
                router_advertisements: Some(true),
                ..InterfaceSpec::new(Matches::Mac([0x52, 0x54, 0, 0x12, 0x34, 0xab]))
            },
            InterfaceSpec {
                routes: vec![
                    route("198.51.100.0/24", "192.0.2.1", 5, 1000),
                    route("::/0", "fe80::1", 0, 254),
                ],
                ..InterfaceSpec::new(Matches::Driver("igb".into()))
            },
            InterfaceSpec {
                rules: vec![rule(Some("192.0.2.0/24"), None, 1000, 1000), rule(None, Some("fd00::/8"), 7, 9)],
                ..made("lan5", LinkKind::Vlan(VlanSpec { id: 5, on: "eth0".into() }))
            },
            made(
                "bond0",
                LinkKind::Bond(BondSpec { mode: BondMode::Lacp, members: names(&["eth1", "eth2"]) }),
            ),
            made("br0", LinkKind::Bridge(BridgeSpec { members: names(&["bond0"]), stp: true })),
            made("local", LinkKind::Dummy),
        ],
        nftables: Some("/etc/nftables.conf".into()),
        partitions: vec![
            DiskPartitionsSpec {
                disk: "SERIAL=4".into(),
                create: vec![
                    PartitionSpec { label: "A 1".into(), size: Some(10 << 20), kind: "esp".into() },
                    PartitionSpec {
                        label: "B".into(),
                        size: None,
                        kind: "0FC63DAF-8483-4772-8E79-3D69D8477DE4".into(),
                    },
                ],
                wait: Duration::from_secs(2),
            },
            DiskPartitionsSpec {
                disk: "/dev/vdd".into(),
                create: vec![PartitionSpec { label: "C".into(), ..PartitionSpec::default() }],
                ..DiskPartitionsSpec::default()
            },
        ],
        encryption: vec![
            EncryptionSpec {
                name: "data".into(),
                source: "SERIAL=2".into(),
                tpm2: Some(Tpm2Spec { pcrs: vec![0, 7] }),
                key_file: Some("/k".into()),
                recovery_file: Some("/r".into()),
                wait: Duration::from_secs(5),
                format: Format::IfBlank,
            },
            EncryptionSpec {
                name: "more".into(),
                source: "/dev/vdc".into(),
                tpm2: Some(Tpm2Spec { pcrs: vec![7] }),
                ..EncryptionSpec::default()
            },
        ],
        mounts: vec![
            MountSpec {
                source: "LABEL=STATE".into(),
                target: "/var".into(),
                fs_type: "ext4".into(),
                options: vec!["noatime".into()],
                wait: Duration::from_secs(60),
                format: Format::Never,
                grow: false,
            },
            MountSpec {
                source: "SERIAL=1".into(),
                target: "/srv".into(),
                fs_type: "xfs".into(),
                format: Format::IfBlank,
                grow: true,
                ..MountSpec::default()
            },
        ],
        swap: vec![
            SwapSpec {
                place: SwapPlace::Disk("PARTLABEL=swap".into()),
                priority: Some(5),
                wait: Duration::from_secs(1),
                format: Format::IfBlank,
            },
            SwapSpec {
                place: SwapPlace::Zram { percent: 50, algorithm: Some("zstd".into()) },
                ..SwapSpec::default()
            },
        ],
        api: Some(ApiSpec {
            listen: vec!["0.0.0.0:50000".into(), "[::]:50000".into()],
            ca: "/etc/kelson/pki/ca.pem".into(),
            certificate: "/etc/kelson/pki/c.pem".into(),
            key: "/etc/kelson/pki/k.pem".into(),
            connection_lifetime: Duration::from_secs(1800),
        }),
        builtins: vec![
            BuiltinSpec {
                enabled: Some(true),
                environment: vec![pair("A", "b")],
                depends: vec![Requirement::Path("/dev/vda".into())],
                required: Some(false),
                start_timeout: Some(Duration::from_secs(5)),
                health: vec![Check::new(
                    "exec",
                    Probe::Exec { command: vec!["ctr".into(), "version".into()] },
                )],
                hooks: Hooks { pre: vec![Hook::new(["/bin/prepare"], Hook::TIMEOUT)], ..Hooks::default() },
                stop: Some(StopSpec { timeout: Duration::from_secs(4), ..StopSpec::default() }),
                limits: vec![ResourceLimit { resource: libc::RLIMIT_NOFILE, soft: 1024, hard: 1024 }],
                logs: Some(LogSpec { max_files: 2, ..LogSpec::default() }),
                restart: Some(RestartSpec {
                    delay: Duration::from_secs(3),
                    ..RestartSpec::for_kind(ServiceKind::Service)
                }),
                resources: Some(Resources { memory_max: Some(512 << 20), ..Resources::default() }),
                ..BuiltinSpec::new("containerd")
            },
            BuiltinSpec { enabled: Some(false), ..BuiltinSpec::new("apid") },
            BuiltinSpec {
                resources: Some(Resources { memory_max: Some(32 << 20), ..Resources::default() }),
                ..BuiltinSpec::new("logd")
            },
        ],
        health: NodeHealthSpec { minimum: Duration::from_secs(3), deadline: Duration::from_secs(120) },
        shutdown_timeout: Duration::from_secs(120),
        watchdog: Some(WatchdogSpec {
            device: "/dev/watchdog1".into(),
            timeout: Duration::from_secs(60),
            expected: true,
        }),
        images: vec!["/images".into(), "/more".into()],
        verify: vec![
            VerifyRule {
                pattern: Some("registry.example/*".into()),
                demand: Demand::CosignKey("/release.pem".into()),
                signed_as: Some("dev.example/*".into()),
            },
            verify("app:*", Demand::MinisignKey("/release.pub".into())),
            verify("a*", Demand::Reject),
            verify("b*", Demand::Accept),
            VerifyRule { pattern: None, demand: Demand::DigestOnly, signed_as: None },
        ],
        container_network: ContainerNetworkSpec {
            bridge: "containers".into(),
            subnet: "172.20.0.0/24".parse().unwrap(),
            subnet6: "fd00:20::/64".parse().unwrap(),
        },
        registries: RegistriesSpec {
            mirrors: vec![(
                "docker.io".to_owned(),
                vec!["mirror.example".to_owned(), "other:5000".to_owned()],
            )],
            ca: Some("/ca.pem".into()),
            proxy: Some("proxy:3128".to_owned()),
            insecure: vec!["lab:5000".to_owned()],
            max_size: Some(2 << 30),
            credentials: Some("/auth.json".into()),
            secret: Some("registries".into()),
        },
        main: Some("web".into()),
        stdout: Stdout::Only,
        sources: Some(SourcesSpec {
            from: vec![SourceKind::CommandLine, SourceKind::Disk],
            wait: Duration::from_secs(3),
            server: "[fd00:ec2::254]:80".parse().unwrap(),
        }),
        fleet: Some(FleetSpec {
            endpoints: names(&["https://etcd-1.example:2379", "https://[fd00::2]:2379"]),
            consul: None,
            ca: Some("/ca.pem".into()),
            certificate: Some("/c.pem".into()),
            key: Some("/k.pem".into()),
            join: None,
            prefix: "/site-1/kelson".into(),
            name: Some("Edge-1.example".into()),
            labels: [pair("example.com/rack", "7"), pair("role", "edge")].into(),
        }),
        console: Some(ConsoleSpec { show: ConsoleShow::Dashboard, tty: Some("tty1".to_owned()) }),
        kexec: Some(KexecSpec {
            kernel: "/boot/vmlinuz".into(),
            initramfs: Some("/boot/initramfs".into()),
            command_line: Some("quiet ro".to_owned()),
        }),
        devices: Some(DevicesSpec {
            rules: vec![
                DeviceRule {
                    subsystem: "tty".into(),
                    name: Some("ttyUSB*".into()),
                    attributes: vec![pair("idVendor", "0403"), pair("device/model", "a")],
                    owner: Some(7),
                    group: Some(20),
                    mode: Some(0o660),
                    link: Some("serial/gps".into()),
                },
                DeviceRule { subsystem: "block".into(), mode: Some(0o640), ..DeviceRule::default() },
            ],
        }),
        time: Some(TimeSpec { servers: vec!["ntp.example.com".into(), "[2001:db8::7]:1123".into()] }),
    };
    assert_eq!(loaded.machine, expected);
    assert_eq!(wire::decode::<Loaded>(&wire::encode(&loaded).unwrap()).unwrap(), loaded);
}

#[test]
fn the_watchdog_is_used_where_there_is_one_unless_it_is_off() {
    let read = |text: &str| {
        let folder = Folder::new();
        folder.machine(text);
        let loaded = folder.load();
        let told = loaded.diagnostics.iter().map(|d| format!("{}:{} {}", d.line, d.column, d.message));
        (loaded.machine.watchdog, told.collect::<Vec<String>>())
    };
    let usual = WatchdogSpec::default();
    assert_eq!((usual.device.to_str(), usual.timeout.as_secs()), (Some("/dev/watchdog"), 30));
    assert!(!usual.expected);
    assert_eq!(read("{}\n"), (Some(usual.clone()), vec![]));
    assert_eq!(read("watchdog: off\n"), (None, vec![]));
    let asked = |timeout| WatchdogSpec { timeout, expected: true, ..WatchdogSpec::default() };
    assert_eq!(read("watchdog: {timeout: 5s}\n"), (Some(asked(Duration::from_secs(5))), vec![]));
    let wrong = |text: &str, left: &WatchdogSpec, told: &str| {
        assert_eq!(read(&format!("watchdog: {text}\n")), (Some(left.clone()), vec![told.to_owned()]));
    };
    wrong("no", &usual, "1:11 watchdog: \"no\" is not off; write off, or keys such as {timeout: 30s}");
    wrong(
        "{timeout: 1s}",
        &asked(usual.timeout),
        "1:21 watchdog.timeout: 1s is out of range; write a duration from 5s to 1h",
    );
    wrong(
        "{timeout: 2h}",
        &asked(usual.timeout),
        "1:21 watchdog.timeout: 2h is out of range; write a duration from 5s to 1h",
    );
    wrong(
        "{timeout: 7500ms}",
        &asked(usual.timeout),
        "1:21 watchdog.timeout: the device counts whole seconds; write such as 30s",
    );
    wrong(
        "{devise: /dev/watchdog1}",
        &asked(usual.timeout),
        "1:12 watchdog.devise: this key is not known; did you mean device? Allowed here: device, timeout",
    );
}

#[test]
fn what_is_said_of_the_hosts_health_moves_the_default_of_the_rest() {
    let read = |text: &str| {
        let folder = Folder::new();
        folder.machine(&format!("health: {text}\n"));
        let loaded = folder.load();
        let told = loaded.diagnostics.iter().map(|d| format!("{}:{} {}", d.line, d.column, d.message));
        let told: Vec<String> = told.collect();
        let health = loaded.machine.health;
        ((health.minimum.as_secs(), health.deadline.as_secs()), told)
    };
    let sound = |minimum, deadline| ((minimum, deadline), Vec::<String>::new());
    assert_eq!(read("{}"), sound(10, 300));
    assert_eq!(read("{minimum: 0}"), sound(0, 300));
    assert_eq!(read("{minimum: 4m}"), sound(240, 480));
    assert_eq!(read("{deadline: 4s}"), sound(4, 4));
    assert_eq!(read("{minimum: 1m, deadline: 1m}"), sound(60, 60));
    assert_eq!(
        read("{minimum: 1m, deadline: 59s}"),
        (
            (10, 300),
            vec![
                "1:33 health.deadline: deadline is less than minimum, so the host could never be healthy"
                    .to_owned()
            ]
        )
    );
    assert_eq!(
        read("{deadline: 0s}").1,
        ["1:20 health.deadline: 0s is out of range; write a duration from 1s to 365d"]
    );
}

#[test]
fn the_commands_at_one_place_are_counted() {
    let told = |count: usize| {
        let folder = Folder::new();
        let list = "{command: [a]}, ".repeat(count);
        folder
            .service("web", format!("name: web\nprocess: {{command: [a]}}\nhooks:\n  pre:\n    [{list}]\n"));
        let hooks = folder.load().services.first().map_or(0, |spec| spec.hooks.pre.len());
        (hooks, folder.messages())
    };
    assert_eq!(told(32), (32, vec![]));
    let message = "services/web.yaml:5:518: hooks.pre: these are 33 commands; at most 32 can stand here";
    assert_eq!(told(33), (0, vec![message.to_owned()]));
}

#[test]
fn a_hook_that_cannot_run_as_root_is_refused() {
    let mistake = |workload: &str, place: &str| {
        let folder = Folder::new();
        let hooks = format!("hooks: {{{place}: {{command: [a], asRoot: true}}}}");
        folder.service("web", format!("name: web\n{workload}\n{hooks}\n"));
        folder.load();
        folder.messages()
    };
    for place in ["pre", "postStart", "preStop", "post"] {
        assert_eq!(mistake("process: {command: [a]}", place), [""; 0]);
        assert_eq!(
            mistake("container: {image: a}", place),
            [format!(
                "services/web.yaml:3:{}: hooks.{place}.asRoot: a hook of a container runs as the user of the container; leave \
                 it out",
                place.len() + 34
            )]
        );
    }
}

#[test]
fn words_of_other_tools_and_limits_that_are_none_are_read() {
    use kelson_spec::units::NEVER;
    let folder = folder();
    let policies = [
        ("always", RestartPolicy::Forever),
        ("forever", RestartPolicy::Forever),
        ("on-failure", RestartPolicy::UntilSuccess),
        ("untilSuccess", RestartPolicy::UntilSuccess),
        ("no", RestartPolicy::Once),
        ("once", RestartPolicy::Once),
    ];
    for (name, _) in policies {
        let stem = name.to_lowercase();
        let text = format!("name: {stem}\nprocess: {{command: [/a]}}\nrestart: {{policy: {name}}}\n");
        folder.service(&stem, &text);
    }
    folder.service(
        "endless",
        "name: endless\nprocess: {command: [/a]}\nstartTimeout: none\nstop: {timeout: none}\n",
    );
    folder.service("hasty", "name: hasty\nprocess: {command: [/a]}\nstop: {timeout: now}\n");
    let loaded = folder.load();
    assert_eq!((loaded.diagnostics, loaded.warnings), (vec![], vec![]));
    let spec = |name: &str| loaded.services.iter().find(|spec| spec.name == name).unwrap();
    for (name, policy) in policies {
        assert_eq!(spec(&name.to_lowercase()).restart.policy, policy, "{name}");
    }
    let (endless, hasty) = (spec("endless"), spec("hasty"));
    assert_eq!(
        (endless.start_timeout, endless.stop.timeout, hasty.stop.timeout),
        (NEVER, NEVER, Duration::ZERO)
    );
    // As they are written, so they are shown.
    for (spec, lines) in
        [(endless, &["startTimeout: none", "stop: {timeout: none}"][..]), (hasty, &["stop: {timeout: now}"])]
    {
        let text = written(spec).file();
        assert!(lines.iter().all(|line| text.contains(line)), "{text}");
    }
}

#[test]
fn a_variable_in_a_command_is_warned_of() {
    let folder = folder();
    let text = "name: web\nprocess: {command: [/web, --port=$PORT, plain]}\n\
                hooks: {pre: {command: [/before, \"${HOME}\"]}, post: {command: [sh, -c, \"rm $FILE\"]}}\n";
    folder.service("web", text);
    let loaded = folder.load();
    assert_eq!(loaded.diagnostics, []);
    assert!(loaded.services.iter().any(|spec| spec.name == "web"), "it is no mistake");
    let warnings: Vec<String> = loaded.warnings.iter().map(ToString::to_string).collect();
    let [port, home] = &warnings[..] else { panic!("{warnings:?}") };
    assert!(port.contains("services/web.yaml:2:27: process.command[1]: $PORT is not expanded"), "{port}");
    assert!(
        home.contains("services/web.yaml:3:") && home.contains("command[1]: ${HOME} is not expanded"),
        "{home}"
    );
}

fn verify(pattern: &str, demand: Demand) -> VerifyRule {
    VerifyRule { pattern: Some(pattern.to_owned()), demand, signed_as: None }
}
