//! Generates the server of the Container Storage Interface.

const PROTO: &str = "../../../helpers/volumes/proto";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let descriptors = protox::compile(["csi.proto"], [PROTO])?;
    tonic_prost_build::configure()
        .generate_default_stubs(true)
        .build_client(false)
        .compile_fds(descriptors)?;
    println!("cargo:rerun-if-changed={PROTO}/csi.proto");
    Ok(())
}
