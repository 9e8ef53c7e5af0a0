//! Generates the server of the Container Storage Interface from the file that kelson-volumes has.

const FOLDER: &str = "../../helpers/volumes/proto";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let descriptors = protox::compile(["csi.proto"], [FOLDER])?;
    tonic_prost_build::configure()
        .build_client(false)
        .generate_default_stubs(true)
        .compile_fds(descriptors)?;
    println!("cargo:rerun-if-changed={FOLDER}/csi.proto");
    Ok(())
}
