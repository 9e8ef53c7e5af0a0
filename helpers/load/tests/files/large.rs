//! A graph of 10,000 services and 100,000 dependencies.

use std::time::{Duration, Instant};

use kelson_spec::graph::{Graph, check};
use kelson_spec::service::{Requirement, ServiceEvent};
use kelson_spec::{Loaded, ServiceSpec};

use crate::folder::Folder;

const SERVICES: usize = 10_000;
const NEEDED: usize = 10;
/// How many of the files are read.
const READ: usize = 500;

fn name(n: usize) -> String {
    format!("n-{n:05}")
}

/// What each service needs: those before it, so that all are a chain, too.
fn needed(n: usize) -> impl Iterator<Item = String> {
    (n.saturating_sub(NEEDED)..n).map(name)
}

fn timed<T>(what: impl FnOnce() -> T) -> (Duration, T) {
    let begun = Instant::now();
    let result = what();
    (begun.elapsed(), result)
}

#[test]
fn a_graph_is_checked_and_ordered_faster_than_its_files_are_read() {
    let folder = Folder::new();
    for n in 0..READ {
        let depends: Vec<String> = needed(n).map(|name| format!("{{service: {name}}}")).collect();
        folder.service(
            &name(n),
            format!("name: {}\ntarget: {{}}\ndepends: [{}]\n", name(n), depends.join(", ")),
        );
    }
    let (read, loaded): (Duration, Loaded) = timed(|| folder.load());
    assert_eq!((loaded.services.len(), loaded.diagnostics.len()), (READ, 0));
    let specs: Vec<ServiceSpec> = (0..SERVICES)
        .map(|n| {
            let mut spec = ServiceSpec::process(&name(n), ["/"]);
            spec.depends = needed(n).map(|name| Requirement::service(&name, ServiceEvent::Up)).collect();
            spec
        })
        .collect();
    let whole = read * u32::try_from(SERVICES / READ).unwrap();
    // A computer that is busy with something else for a moment does not count.
    let graph = (0..3).map(|_| {
        let (took, layers) = timed(|| {
            assert_eq!(check(&specs, &Default::default(), &[]), []);
            Graph::new(&specs).stop_order().len()
        });
        assert_eq!(layers, SERVICES, "each stops after the one that follows it");
        took
    });
    let graph = graph.min().unwrap();
    println!("the graph: {graph:?}, its files: {whole:?}");
    assert!(graph < whole, "the graph takes {graph:?}, and its files {whole:?}");
}
