//! Services from images, with a real containerd in the namespaces of the host, and without one.

/// Makes a test of a function for each of these runtimes.
macro_rules! by {
    ($test:ident: $($name:ident $runtime:ident),+) => {
        mod $test {
            $(
                #[test]
                fn $name() {
                    super::super::run_by(super::super::Runtime::$runtime, super::$test);
                }
            )+
        }
    };
}

/// Makes two tests of a function: one with containerd, one in which Kelson runs the containers itself.
macro_rules! both {
    ($test:ident) => {
        by!($test: containerd Containerd, kelson Kelson);
    };
}

/// As [`both!`], and a third one: Kelson runs the containers, whose root is no user of the host.
macro_rules! all {
    ($test:ident) => {
        by!($test: containerd Containerd, kelson Kelson, users Users);
    };
}

mod applications;
mod c1_leftovers;
mod c2_shared_layers;
mod c3_hostile_archives;
mod c4_containerd_dies;
mod c5_one_container_a_task_each_run;
mod compose;
mod docker_registry;
mod engine;
mod image_volumes;
mod images;
mod inside;
mod network;
mod plugins;
mod refused;
mod registry;
mod stopping;
mod talos;
mod trust;
mod users;
mod v1_crashes;
mod volume_space;
mod volumes;
mod x1_what_a_process_sees;
mod x2_ways_out;

use std::cell::Cell;
use std::path::Path;

use kelson_tests::{Host, HostBuilder, Image, archive};

/// Who runs the containers of a test.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Runtime {
    Containerd,
    Kelson,
    /// With a user namespace.
    Users,
}

thread_local! {
    /// Of the test of this thread.
    static RUNTIME: Cell<Runtime> = const { Cell::new(Runtime::Containerd) };
}

fn run_by(runtime: Runtime, test: impl FnOnce()) {
    RUNTIME.set(runtime);
    test();
}

/// Nothing of a container is left.
#[track_caller]
fn assert_no_container(host: &Host) {
    assert_eq!(host.processes_with("/program").len(), 0, "{:?}", host.processes());
    if RUNTIME.get() == Runtime::Containerd {
        assert!(host.containers().is_empty() && host.tasks().is_empty());
    }
}

/// A host that can run containers.
fn builder() -> HostBuilder {
    match RUNTIME.get() {
        Runtime::Containerd => Host::builder().containers(),
        Runtime::Kelson | Runtime::Users => Host::builder().without_containerd(),
    }
}

/// How many layers are unpacked.
#[track_caller]
fn layers(host: &Host) -> usize {
    match RUNTIME.get() {
        Runtime::Containerd => host.layers().len(),
        Runtime::Kelson | Runtime::Users => {
            let folder = host.path("lib/containers/layers");
            std::fs::read_dir(host.inside(&folder.display().to_string()))
                .expect("the folder of layers")
                .count()
        }
    }
}

/// The services whose containers have files of their own, below the state folder of their host.
#[track_caller]
fn kept(host: &Host, state: &Path) -> Vec<String> {
    if RUNTIME.get() == Runtime::Containerd {
        return host.active_snapshots();
    }
    let folder = host.inside(&state.join("containers/writable").display().to_string());
    let entries = std::fs::read_dir(folder).expect("the folder of what containers write").flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// A host with these images, each in an archive of its own.
fn host(images: &[Image]) -> HostBuilder {
    let mut builder = builder();
    for (number, image) in images.iter().enumerate() {
        builder = builder.archive(&format!("{number}.tar"), archive(std::slice::from_ref(image)));
    }
    builder
}

/// The key for who runs a container, to stand among others.
fn runtime() -> &'static str {
    match RUNTIME.get() {
        Runtime::Containerd => "",
        Runtime::Kelson => "runtime: kelson, ",
        Runtime::Users => "runtime: kelson, userNamespace: true, ",
    }
}

/// The file of a service that runs an image as it is.
fn service(image: &str) -> String {
    format!("container: {{{}image: '{image}'}}\n", runtime())
}

/// The file of a service that runs these steps in the image `test:1`.
fn steps(steps: &str) -> String {
    format!("container: {{{}image: 'test:1', command: [/program, {steps}]}}\n", runtime())
}

/// The image of [`steps`].
fn test_image() -> Image {
    Image::new("test:1", &["serve"])
}
