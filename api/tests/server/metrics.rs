//! Metrics of a host whose services are made up.

use std::collections::BTreeMap;
use std::time::Duration;

use kelson_apid::openmetrics;
use kelson_proto::v1;
use kelson_proto::v1::metric_sample::Value;
use kelson_services::host::{BootReport, PhaseRecord};
use kelson_services::spec::ServiceSpec;
use std::sync::Arc;
use tonic::Code;

use super::{World, names};

pub async fn get(world: &World, services: &[&str]) -> Result<Vec<v1::GetMetricsResponse>, tonic::Status> {
    let request = v1::GetMetricsRequest { names: names(services) };
    let mut stream = world.client().metrics().get(request).await?.into_inner();
    let mut pages = Vec::new();
    while let Some(page) = stream.message().await? {
        pages.push(page);
    }
    Ok(pages)
}

/// Name and labels to value, such as `kelson_service_up db`.
pub fn samples(pages: &[v1::GetMetricsResponse]) -> BTreeMap<String, f64> {
    let mut found = BTreeMap::new();
    for family in pages.iter().flat_map(|page| &page.families) {
        assert!(!family.help.is_empty() && family.help.ends_with('.'), "{family:?}");
        for sample in &family.samples {
            assert_eq!(sample.labels.len(), family.labels.len(), "{family:?}");
            let name = format!("{} {}", family.name, sample.labels.join(" "));
            let value = match sample.value.as_ref().unwrap() {
                Value::Number(number) => *number,
                Value::Summary(summary) => {
                    assert!(summary.count > 0 || summary.sum == 0.0);
                    summary.sum
                }
            };
            assert_eq!(found.insert(name.trim().to_owned(), value), None, "{name} is told twice");
        }
    }
    found
}

#[tokio::test]
async fn what_is_told_is_so() {
    let world = World::new().await;
    let phase = |name: &str, duration| PhaseRecord { name: name.into(), duration, ..PhaseRecord::default() };
    world.boot.send_replace(BootReport {
        phases: vec![phase("mounts", Some(Duration::from_millis(250))), phase("services", None)],
        kernel: Some(Duration::from_millis(1500)),
        ..BootReport::default()
    });
    world.manager.start(&names(&["db"]), true).await;
    world.manager.restart(&names(&["db"]), true).await;
    let told = samples(&get(&world, &[]).await.unwrap());
    let value = |name: &str| told.get(name).copied();
    assert_eq!(value(&format!("kelson_build_info {} container", env!("CARGO_PKG_VERSION"))), Some(1.0));
    assert_eq!(value("kelson_boot_kernel_duration_seconds"), Some(1.5));
    assert_eq!(value("kelson_boot_duration_seconds"), None, "the boot is not over");
    assert_eq!(value("kelson_boot_phase_duration_seconds mounts"), Some(0.25));
    assert_eq!(value("kelson_boot_phase_duration_seconds services"), None);
    assert_eq!(value("kelson_service_state db running"), Some(1.0));
    assert_eq!(value("kelson_service_state web running"), None);
    assert_eq!(value("kelson_service_up db"), Some(1.0));
    assert_eq!(value("kelson_service_up web"), Some(0.0));
    assert_eq!(value("kelson_service_healthy db"), None, "it has no checks");
    assert_eq!(value("kelson_service_runs db"), Some(2.0));
    assert_eq!(value("kelson_service_runs web"), Some(0.0));
    assert_eq!(value("kelson_service_restarts db operator"), Some(1.0));
    assert_eq!(value("kelson_service_restarts db exit"), None);
    assert!(value("kelson_service_start_duration_seconds db").unwrap() < 5.0);
    assert!(value("kelson_service_last_start_duration_seconds db").is_some());
    assert_eq!(value("kelson_service_last_start_duration_seconds web"), None);
    assert_eq!(value("kelson_service_memory_bytes db"), Some(f64::from(1 << 20)));
    assert_eq!(value("kelson_service_cpu_seconds db"), Some(1.5));
    assert_eq!(value("kelson_service_processes db"), Some(2.0));
    assert_eq!(value("kelson_node_healthy"), Some(0.0), "not all is up");
    assert_eq!(value("kelson_services running"), Some(1.0));
    assert_eq!(value("kelson_services initialized"), Some(1.0));
    assert_eq!(value("kelson_services failed"), Some(0.0));
    assert!(value("kelson_events").unwrap() >= 4.0, "{told:?}");
    assert!(value("kelson_init_memory_bytes").unwrap() > 100_000.0);
    assert!(value("kelson_init_cpu_seconds").unwrap() > 0.0);
    assert!(value("kelson_init_descriptors").unwrap() > 3.0);
    assert!(value("kelson_start_time_seconds").unwrap() > 1.7e9);
    world.end().await;
}

#[tokio::test]
async fn a_name_picks_its_service_alone() {
    let world = World::new().await;
    let told = samples(&get(&world, &["web"]).await.unwrap());
    assert!(told.contains_key("kelson_service_up web"), "{told:?}");
    assert!(told.keys().all(|name| name.contains(" web")), "{told:?}");
    let unknown = get(&world, &["web", "bd"]).await.unwrap_err();
    assert_eq!(unknown.code(), Code::NotFound);
    assert!(unknown.message().contains("did you mean \"db\""), "{unknown}");
    world.end().await;
}

#[tokio::test]
async fn a_thousand_services_come_page_by_page() {
    let world = World::new().await;
    for number in 0..1000 {
        world.manager.add(Arc::new(ServiceSpec::process(&format!("s{number:03}"), ["/bin/s"])), false);
    }
    let pages = get(&world, &[]).await.unwrap();
    assert!(pages.len() > 20, "{}", pages.len());
    let mut text = openmetrics::Text::default();
    let mut told = 0;
    for page in &pages {
        let samples: usize = page.families.iter().map(|family| family.samples.len()).sum();
        assert!(samples <= 300, "a page of {samples}");
        page.families.iter().for_each(|family| text.family(family));
        told += samples;
    }
    assert!(told > 7000, "{told}");
    let text = text.take();
    assert_eq!(text.matches("# TYPE kelson_service_up gauge\n").count(), 1);
    assert_eq!(text.matches("\nkelson_service_up{").count(), 1002);
    world.end().await;
}

/// A client that takes nothing keeps a place, and no more than its place.
#[tokio::test]
async fn few_read_at_the_same_time() {
    let world = World::new().await;
    // 3 MiB of samples: a client takes 2 MiB ahead, and the server has 64 KiB of a connection in its buffer.
    let long = "s".repeat(59);
    for number in 0..6000 {
        let name = format!("{long}{number:04}");
        world.manager.add(Arc::new(ServiceSpec::process(&name, ["/bin/s"])), false);
    }
    let mut readers = Vec::new();
    for _ in 0..4 {
        let request = v1::GetMetricsRequest::default();
        readers.push(world.client().metrics().get(request).await.unwrap().into_inner());
    }
    let refused = get(&world, &["web"]).await.map(|_| ()).unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(refused.message().contains("ask again"), "{refused}");
    readers.pop();
    // That it has gone is heard a moment later.
    let read = async {
        while get(&world, &["web"]).await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), read).await.expect("its place is free again");
    world.end().await;
}
