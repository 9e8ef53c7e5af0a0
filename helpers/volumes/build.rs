//! Generates the messages of the Container Storage Interface from proto/csi.proto, which is that of version 1.13.0.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let descriptors = protox::compile(["csi.proto"], ["proto"])?;
    // The client has one call for all of them: src/csi.rs.
    tonic_prost_build::configure().build_server(false).build_client(false).compile_fds(descriptors)?;
    println!("cargo:rerun-if-changed=proto/csi.proto");
    Ok(())
}
