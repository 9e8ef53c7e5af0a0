//! Seeds of what PID 1 and its helpers write for each other.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use kelson_load::{Sources, load_with};
use kelson_services::host::{BootReport, PhaseRecord, TaskRecord};
use kelson_services::model::{Event, State};
use kelson_services::service_runner::table::{
    Active, After, Down, Hold, Outcome, Phase, ReadySignal, ServiceState, Stage, Watchdog,
};
use kelson_services::state_store::{Incarnation, Kind, Record, StateStore};
use kelson_spec::{Loaded, wire};

use super::{Seeds, piece};

fn record(name: &str, phase: Phase) -> Record {
    let mut service = ServiceState::new(true);
    service.phase = phase;
    service.run = 3;
    service.restarts = 2;
    service.exit = Some(kelson_runner::Exit::Signal { signal: 9, core: false });
    Record {
        name: name.to_owned(),
        builtin: false,
        service,
        start_time: 7,
        since: 1_800_000_000_000_000_000,
        entered: Some(Duration::from_secs(6)),
        status_text: Some("all well".to_owned()),
        spawned_after: Some(Duration::from_millis(5)),
        up_after: None,
        start_took: None,
        start_took_run: 0,
        noted_runs: vec![],
    }
}

/// What a life leaves: the files, and in the form of `state_records` what stands in them.
fn state(folder: &Path) -> (Vec<u8>, Vec<u8>) {
    let life = Incarnation { boot: "seed".to_owned(), start_time: 7 };
    let store = StateStore::create(folder, &life).expect("a state");
    let until = Some(Duration::from_secs(9));
    let active = Active {
        pid: 42,
        readiness: ReadySignal::Given,
        healthy: Some(true),
        proven: true,
        start: None,
        watchdog: Some(Watchdog { interval: Duration::from_secs(1), until: Duration::from_secs(9) }),
        owes_post: true,
    };
    let down = Down {
        stage: Stage::Ending { until, forced: false, pid: Some(42) },
        after: After::Rest {
            outcome: Outcome::Stopped { asked: true },
            text: "stopped by an operator".to_owned(),
        },
        hold: Hold::Free,
        shown: State::Stopping,
        owes_post: true,
    };
    let phases = [
        ("web", Phase::Active(active)),
        ("db", Phase::Backoff { until, opened: true }),
        ("web", Phase::Down(down)),
    ];
    for (name, phase) in phases {
        store.record(&Arc::from(name), &record(name, phase));
    }
    for seq in 1..=3 {
        store.event(
            seq,
            &Event {
                seq,
                time: SystemTime::UNIX_EPOCH + Duration::from_secs(seq),
                service: Arc::from("web"),
                state: State::Failed,
                message: Arc::from("exited with status 3"),
                run: 1,
            },
        );
    }
    store.exit(42, kelson_runner::Exit::Status(3));
    store.exit(43, kelson_runner::Exit::Lost);
    store.write(Kind::Boot, "", &boot());
    let (mut files, mut records) = (Vec::new(), Vec::new());
    for (which, (name, slot)) in [("services", 1024), ("events", 256), ("exits", 32)].into_iter().enumerate()
    {
        let which = u8::try_from(which).expect("few files");
        let bytes = std::fs::read(folder.join(name)).expect("a file of the state");
        let slots = &bytes[4096..];
        files.push(which);
        files.extend(piece(slots));
        for slot in slots.chunks(slot).filter(|slot| slot.iter().any(|byte| *byte != 0)) {
            let length = u32::from_le_bytes(slot[4..8].try_into().expect("four bytes"));
            records.extend([which, slot[8]]);
            records.extend(piece(&slot[16..16 + usize::try_from(length).expect("short")]));
        }
    }
    (files, records)
}

fn boot() -> BootReport {
    let task = TaskRecord { name: "mount".into(), message: "/var".into(), ..TaskRecord::default() };
    let phase = PhaseRecord { name: "mounts".into(), tasks: vec![task], ..PhaseRecord::default() };
    BootReport { phases: vec![phase], kernel: Some(Duration::from_millis(900)), total: None }
}

fn loaded(folder: &Path, text: &str) -> Loaded {
    let services = folder.join("services");
    std::fs::create_dir_all(&services).expect("a folder");
    std::fs::write(services.join("web.yaml"), text).expect("a file");
    load_with(folder, &Sources::default())
}

/// A frame of `kelson-probe`: what leads it, and what follows.
fn frame(parts: &[Vec<u8>]) -> Vec<u8> {
    let body = parts.concat();
    let length = u32::try_from(body.len()).expect("short");
    [&length.to_le_bytes()[..], &body].concat()
}

fn packed(value: impl serde::Serialize) -> Vec<u8> {
    postcard::to_allocvec(&value).expect("memory")
}

pub fn seeds() -> Seeds {
    let folder = std::env::temp_dir().join(format!("kelson-seeds-{}", std::process::id()));
    let (files, records) = state(&folder.join("state"));
    let config = folder.join("config");
    let whole = loaded(&config, include_str!("../../../../helpers/load/tests/whole.yaml"));
    let broken = loaded(&config, "name: web\nprocess: {}\nnothing: 1\n");
    let mut papers = Vec::new();
    for (which, bytes) in [
        (4, serde_json::to_vec(&whole.services[0])),
        (4 | 2 << 3, serde_json::to_vec(&broken)),
        (4 | 3 << 3, serde_json::to_vec(&boot())),
    ] {
        papers.extend([which, 0]);
        papers.extend(piece(&bytes.expect("memory")));
    }
    let took = Duration::from_millis(3);
    let results = frame(&[
        packed(0_u8),
        packed((0_u64, 1_800_000_000_000_000_u64, took, 0_u8, Some("200 OK"))),
        packed((1_u64, 1_u64, took, 1_u8, Some("connection refused"))),
        packed((2_u64, 2_u64, took, 2_u8, None::<&str>)),
    ]);
    let others = [
        frame(&[packed((1_u8, 1_u64))]),
        frame(&[packed((2_u8, "no room"))]),
        frame(&[packed((3_u8, 7_u64))]),
    ];
    let mut report = kelson_image::Unpacked { image: "demo/app:1".into(), ..Default::default() };
    report.environment.push("A=1".to_owned());
    let progress = kelson_image::Progress { bytes_done: 1, bytes_total: 2, layer: 1, layers: 1 };
    let said = |what: u8, reports: &[kelson_image::Report]| {
        [vec![what], reports.iter().flat_map(kelson_image::encode).collect()].concat()
    };
    use kelson_image::Report;
    let path_frame = |id: u64, found: &[u8]| {
        let body = [&[3][..], &id.to_le_bytes(), found].concat();
        [&u16::try_from(body.len()).expect("short").to_le_bytes()[..], &body].concat()
    };
    let seeds = vec![
        ("state_files", "slots".into(), files),
        ("state_records", "slots".into(), records),
        ("state_records", "papers".into(), papers),
        ("spawns", "three".into(), spawns()),
        ("load_wire", "whole".into(), wire::encode(&whole).expect("memory")),
        ("load_wire", "broken".into(), wire::encode(&broken).expect("memory")),
        ("probe_frames", "results".into(), results.clone()),
        ("probe_frames", "all".into(), [results, others.concat()].concat()),
        (
            "unpack_reports",
            "unpacked".into(),
            said(
                0,
                &[Report::Progress(progress), Report::Note("odd".into()), Report::Unpacked(Box::new(report))],
            ),
        ),
        ("unpack_reports", "list".into(), said(1, &[Report::Image(Default::default()), Report::Done])),
        ("unpack_reports", "prune".into(), said(2, &[Report::Pruned(Default::default()), Report::Done])),
        ("unpack_reports", "failed".into(), said(0, &[Report::Failed("no image".into())])),
        (
            "path_frames",
            "found".into(),
            [path_frame(1, &[1]), path_frame(2, &[0]), path_frame(1, &[2, 9, 0, 0, 0])].concat(),
        ),
    ];
    let _ = std::fs::remove_dir_all(folder);
    seeds
}

/// Children that are being made, between slots that are free.
fn spawns() -> Vec<u8> {
    let slot = |pid: i32, service: u32, run: u64| {
        [&pid.to_le_bytes()[..], &service.to_le_bytes(), &run.to_le_bytes(), &[0; 16]].concat()
    };
    let free = slot(0, 0, 0);
    [slot(42, 1, 3), free.clone(), slot(43, 2, 1), free.repeat(70), slot(-1, u32::MAX, u64::MAX)].concat()
}
