//! Seeds of protobuf, netlink, and disks.

use kelson_proto::v1;
use prost::Message;

use super::{Seeds, piece};

/// A call of `api_requests`: its number there, and its messages.
fn call(which: u8, messages: &[&dyn ErasedMessage]) -> Vec<u8> {
    let count = u8::try_from(messages.len()).expect("few").saturating_sub(1);
    let pieces = messages.iter().flat_map(|message| piece(&message.bytes()));
    [which, count].into_iter().chain(pieces).collect()
}

trait ErasedMessage {
    fn bytes(&self) -> Vec<u8>;
}

impl<M: Message> ErasedMessage for M {
    fn bytes(&self) -> Vec<u8> {
        self.encode_to_vec()
    }
}

fn service(name: &str) -> v1::Service {
    v1::Service {
        name: name.into(),
        state: 5,
        up: true,
        healthy: Some(true),
        pid: Some(812),
        since: Some(prost_types::Timestamp { seconds: 1000, nanos: 5 }),
        waiting_for: vec!["path \"/a\" to exist".into()],
        message: "ready".into(),
        status_text: "all \x1b[2J well".into(),
        run: 4,
        restarts_by: vec![v1::RestartCount { reason: "check".into(), count: 1 }],
        group: "shop".into(),
        retry: Some(v1::Retry {
            ended: "exited\n".into(),
            restart_in: None,
            budget: "(1 of 5 in 5m)".into(),
        }),
        ..v1::Service::default()
    }
}

fn event(seq: u64) -> v1::Event {
    let time = Some(prost_types::Timestamp { seconds: 1000, nanos: 0 });
    v1::Event { seq, time, service: "web".into(), state: 8, message: "exited\n".into(), run: 1 }
}

/// Answers of a host, with the number of the command in `ctl_responses`.
fn responses() -> Vec<(u8, &'static str, Vec<u8>)> {
    let duration = Some(prost_types::Duration { seconds: 1, nanos: 500_000_000 });
    let since = Some(prost_types::Timestamp { seconds: 1000, nanos: 0 });
    let output = "200 OK\nx".into();
    let result = v1::CheckResult { time: since, duration, passed: true, output, ago: duration };
    let check = v1::Check {
        name: "http".into(),
        kind: "http".into(),
        standing: 2,
        since,
        results: vec![result],
        late: duration,
        startup: false,
        lasts: duration,
    };
    let status = v1::StatusResponse {
        service: Some(service("web")),
        spec: "name: web\nprocess:\n  command: [a]\n".into(),
        events: vec![event(1)],
        memory_bytes: Some(1 << 20),
        cpu: duration,
        processes: Some(2),
        needed_by: vec!["proxy".into()],
        file: "/etc/kelson/services/web.yaml".into(),
        checks: vec![check],
    };
    let action = v1::ActionResult {
        name: "web".into(),
        outcome: 1,
        message: "started".into(),
        service: Some(service("web")),
    };
    let mistake =
        v1::FileMistake { file: "/a/web.yaml".into(), line: 2, column: 1, message: "unknown\x1b[0m".into() };
    let faulty = v1::FaultyFile { mistakes: vec![mistake], earlier_in_use: true, earlier_read: since };
    let cause = v1::Reason { subject: "path \"/a\"".into(), text: "is missing".into(), ..Default::default() };
    let reason = v1::Reason {
        subject: "service \"web\"".into(),
        text: "waits".into(),
        state: 2,
        holds: false,
        causes: vec![cause],
        missing: None,
        faulty_file: Some(faulty.clone()),
        retry: None,
    };
    let node = |id: &str| v1::GraphNode { id: id.into(), is_service: true, state: 5, up: true };
    let edge = v1::GraphEdge {
        from: "web".into(),
        to: "db".into(),
        event: "up".into(),
        holds: true,
        alternative: false,
    };
    let graph = v1::GraphResponse { nodes: vec![node("web"), node("db")], edges: vec![edge] };
    let line = v1::Line {
        service: "web".into(),
        time: since,
        stream: 1,
        text: b"x\xff\x1b[1m".to_vec(),
        partial: true,
        run: 7,
        boot: 0x3fa9,
    };
    let family = family();
    let task = v1::BootTask {
        name: "mount".into(),
        start: duration,
        duration,
        error: "busy".into(),
        message: "m".into(),
    };
    let phase = v1::BootPhase { name: "mounts".into(), start: duration, duration: None, tasks: vec![task] };
    let started =
        v1::BootService { name: "web".into(), spawned: duration, up: duration, after: vec!["db".into()] };
    let boot =
        v1::BootResponse { phases: vec![phase], kernel: duration, total: duration, services: vec![started] };
    let image = v1::Image {
        reference: "demo/app:1".into(),
        archive: "/a/b.tar".into(),
        size: 7,
        ..Default::default()
    };
    let culprit = v1::Culprit {
        service: "web".into(),
        state: 8,
        reason: "failed".into(),
        since,
        check: "a".into(),
        lasts: duration,
    };
    let health = v1::HealthReport {
        group: "shop".into(),
        state: 3,
        lasts: duration,
        culprits: vec![culprit],
        warnings: vec![v1::FileWarning { service: "web".into(), file: Some(faulty) }],
        ..Default::default()
    };
    let message = v1::KernelMessage { seq: 1, time: duration, level: 3, text: "I/O error\x1b[0m".into() };
    vec![
        (0, "services", v1::ListResponse { services: vec![service("web"), service("db")] }.encode_to_vec()),
        (1, "status", status.encode_to_vec()),
        (2, "start", v1::ActionResponse { results: vec![action] }.encode_to_vec()),
        (5, "wait", v1::WaitResponse { reached: true, services: vec![service("web")] }.encode_to_vec()),
        (6, "why", v1::WhyResponse { reason: Some(reason) }.encode_to_vec()),
        (7, "graph", graph.encode_to_vec()),
        (8, "dot", graph.encode_to_vec()),
        (9, "mermaid", graph.encode_to_vec()),
        (10, "svg", graph.encode_to_vec()),
        (12, "events", v1::EventsResponse { events: vec![event(1), event(7)], missed: 3 }.encode_to_vec()),
        (14, "logs", v1::ReadResponse { lines: vec![line] }.encode_to_vec()),
        (16, "metrics", v1::GetMetricsResponse { families: vec![family.clone()] }.encode_to_vec()),
        (17, "metrics-table", v1::GetMetricsResponse { families: vec![family] }.encode_to_vec()),
        (19, "dmesg", v1::DmesgResponse { messages: vec![message] }.encode_to_vec()),
        (20, "boot", boot.encode_to_vec()),
        (21, "blame", boot.encode_to_vec()),
        (22, "chain", boot.encode_to_vec()),
        (23, "plot", boot.encode_to_vec()),
        (
            24,
            "images",
            v1::ListImagesResponse { images: vec![image], notes: vec!["odd".into()] }.encode_to_vec(),
        ),
        (
            26,
            "health",
            v1::ListHealthResponse { node: Some(health.clone()), groups: vec![health.clone()] }
                .encode_to_vec(),
        ),
        (27, "health-group", v1::GetHealthResponse { health: Some(health) }.encode_to_vec()),
        (
            29,
            "version",
            v1::VersionResponse {
                version: "1".into(),
                mode: "machine".into(),
                started: since,
                ..Default::default()
            }
            .encode_to_vec(),
        ),
    ]
}

fn family() -> v1::MetricFamily {
    use v1::metric_sample::Value;
    let sample = |value| v1::MetricSample { labels: vec!["web".into()], value: Some(value) };
    v1::MetricFamily {
        name: "kelson_service_up".into(),
        help: "Whether it is \"up\".\n".into(),
        r#type: 1,
        unit: "seconds".into(),
        labels: vec!["service".into()],
        samples: vec![
            sample(Value::Number(1.5)),
            sample(Value::Summary(v1::MetricSummary { count: 3, sum: 0.1 })),
        ],
    }
}

fn requests() -> Vec<(&'static str, Vec<u8>)> {
    let names = vec!["web".to_owned()];
    let start = v1::StartRequest { names: names.clone(), wait: true, with_dependencies: false };
    let stop = v1::StopRequest { names: vec!["db".into()], wait: true, cascade: true, ..Default::default() };
    let timeout = Some(prost_types::Duration { seconds: 1, nanos: 0 });
    let wait = v1::WaitRequest { names: names.clone(), event: 1, timeout };
    let events = v1::EventsRequest { since: 1, follow: true, names: names.clone(), last: timeout };
    let status = v1::StatusRequest { name: "web".into() };
    let shutdown = v1::ShutdownRequest { action: 1, reason: "why\nnot".into() };
    use v1::run_request::Request;
    let run = |request| v1::RunRequest { request: Some(request) };
    let command = v1::RunStart {
        name: "web".into(),
        command: vec!["/bin/a".into(), "b".into()],
        input: true,
        terminal: Some(v1::WindowSize { rows: 24, columns: 80 }),
        environment: vec!["A=b".into()],
    };
    let check = tonic_health::pb::HealthCheckRequest { service: "service/web".into() };
    let empty = v1::GraphRequest {};
    vec![
        ("list", call(0, &[&v1::ListRequest { names: names.clone() }])),
        ("status-why", [call(1, &[&status]), call(6, &[&v1::WhyRequest { name: "wep".into() }])].concat()),
        ("stop-start", [call(3, &[&stop]), call(2, &[&start])].concat()),
        ("restart-wait", [call(4, &[&v1::RestartRequest { names, wait: true }]), call(5, &[&wait])].concat()),
        ("graph-reload", [call(7, &[&empty]), call(8, &[&empty])].concat()),
        ("events", call(9, &[&events])),
        ("version-boot", [call(10, &[&empty]), call(11, &[&empty])].concat()),
        (
            "shutdown",
            [call(12, &[&shutdown]), call(13, &[&v1::ReexecRequest { reason: "x".into() }])].concat(),
        ),
        ("images", [call(14, &[&empty]), call(15, &[&v1::PruneImagesRequest { dry_run: true }])].concat()),
        (
            "exec",
            call(
                16,
                &[
                    &run(Request::Start(command)),
                    &run(Request::Input(b"hello".to_vec())),
                    &run(Request::Resize(v1::WindowSize { rows: 1, columns: 100_000 })),
                    &run(Request::Signal(15)),
                    &run(Request::InputEnd(v1::RunInputEnd {})),
                ],
            ),
        ),
        ("metrics", call(17, &[&v1::GetMetricsRequest { names: vec!["db".into()] }])),
        (
            "health",
            [call(18, &[&v1::GetHealthRequest { group: "shop".into() }]), call(20, &[&empty])].concat(),
        ),
        ("watch", call(19, &[&v1::WatchHealthRequest { group: String::new() }])),
        ("standard-health", [call(21, &[&check]), call(22, &[&check])].concat()),
        ("identity", [vec![0, 0x80], piece(b"CN=ann"), piece(b"")].concat()),
    ]
}

/// A netlink message.
fn netlink(kind: u16, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(16 + body.len()).expect("short");
    let mut bytes = length.to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend([0; 2]);
    bytes.extend(1_u32.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend(body);
    bytes
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = u16::try_from(4 + value.len()).expect("short").to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn datagrams() -> Vec<(&'static str, Vec<u8>)> {
    let link =
        [&[0; 4][..], &2_u32.to_ne_bytes(), &0x41_u32.to_ne_bytes(), &[0; 4], &attribute(3, b"eth0\0")]
            .concat();
    let address =
        [&[2, 24, 0, 0][..], &2_u32.to_ne_bytes(), &attribute(1, &[10, 0, 2, 15]), &attribute(8, &[0; 4])]
            .concat();
    let hops = [&16_u16.to_ne_bytes()[..], &[0; 2], &5_u32.to_ne_bytes(), &[0; 8]].concat();
    let route = [
        &[2, 0, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0][..],
        &attribute(15, &254_u32.to_ne_bytes()),
        &attribute(4, &2_u32.to_ne_bytes()),
        &attribute(9, &hops),
    ]
    .concat();
    vec![
        (
            "up",
            [netlink(16, &link), netlink(20, &address), netlink(24, &route), netlink(3, &[0; 4])].concat(),
        ),
        ("gone", [netlink(25, &route), netlink(21, &address), netlink(17, &link)].concat()),
        ("error", [netlink(2, &(-16_i32).to_ne_bytes()), netlink(4, &[])].concat()),
    ]
}

fn disk(parts: &[(usize, &[u8])], length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    for (at, part) in parts {
        bytes[*at..at + part.len()].copy_from_slice(part);
    }
    bytes
}

fn disks() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("squashfs", disk(&[(0, b"hsqs")], 512)),
        ("xfs", disk(&[(0, b"XFSB"), (32, &[0x22; 16]), (108, b"logs")], 512)),
        (
            "ext4",
            disk(&[(1024 + 0x38, &[0x53, 0xef]), (1024 + 0x68, &[0x11; 16]), (1024 + 0x78, b"STATE")], 1200),
        ),
        (
            "fat",
            disk(
                &[(0x43, &[0x78, 0x56, 0x34, 0x12]), (0x47, b"EFI        FAT32   "), (510, &[0x55, 0xaa])],
                512,
            ),
        ),
        ("swap", disk(&[(1024 + 12, &[0x33; 16]), (1024 + 28, b"SWAP"), (4086, b"SWAPSPACE2")], 4096)),
        (
            "btrfs",
            disk(
                &[(65536 + 0x20, &[0x11; 16]), (65536 + 0x40, b"_BHRfS_M"), (65536 + 0x12b, b"data")],
                66200,
            ),
        ),
    ]
}

pub fn seeds() -> Seeds {
    let mut seeds: Seeds = Vec::new();
    for (which, name, answer) in responses() {
        for looks in [0_u8, 0x99, 0x3a] {
            let bytes = [vec![which, looks, 0], piece(&answer)].concat();
            seeds.push(("ctl_responses", format!("{name}-{looks}"), bytes));
        }
    }
    seeds.push(("ctl_responses", "refused".into(), vec![0, 0, 250]));
    seeds.extend(requests().into_iter().map(|(name, bytes)| ("api_requests", name.to_owned(), bytes)));
    seeds.extend(datagrams().into_iter().map(|(name, bytes)| ("netlink", name.to_owned(), bytes)));
    seeds.extend(disks().into_iter().map(|(name, bytes)| ("superblock", name.to_owned(), bytes)));
    let page = v1::GetMetricsResponse { families: vec![family()] };
    seeds.push(("metrics_text", "page".into(), piece(&page.encode_to_vec())));
    use v1::logd_report::Report;
    let reports = [
        Report::Pong(v1::LogdPong { number: 1 }),
        Report::Ended(v1::LogdEnded { id: 1, stderr: true }),
        Report::Dropped(v1::LogdDropped { service: "web".into(), lines: 1, bytes: 2, reason: "full".into() }),
        Report::Trouble(v1::LogdTrouble { message: "no space".into() }),
    ];
    let packets = reports.map(|report| piece(&v1::LogdReport { report: Some(report) }.encode_to_vec()));
    seeds.push(("logd_packets", "all".into(), packets.concat()));
    seeds
}
