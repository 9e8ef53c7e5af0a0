//! Services from images, with a real containerd in the namespaces of the host.

mod c1_leftovers;
mod c2_shared_layers;
mod c3_hostile_archives;
mod c4_containerd_dies;
mod c5_one_container_a_task_each_run;
mod engine;
mod images;
mod inside;
mod refused;
mod stopping;

use kelson_tests::{Host, HostBuilder, Image, archive};

/// A host with these images, each in an archive of its own.
fn host(images: &[Image]) -> HostBuilder {
    let mut builder = Host::builder().containers();
    for (number, image) in images.iter().enumerate() {
        builder = builder.archive(&format!("{number}.tar"), archive(std::slice::from_ref(image)));
    }
    builder
}

/// The file of a service that runs an image as it is.
fn service(image: &str) -> String {
    format!("container: {{image: '{image}'}}\n")
}

/// The file of a service that runs these steps in the image `test:1`.
fn steps(steps: &str) -> String {
    format!("container: {{image: 'test:1', command: [/program, {steps}]}}\n")
}

/// The image of [`steps`].
fn test_image() -> Image {
    Image::new("test:1", &["serve"])
}
