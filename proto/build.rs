//! Generates the code of `kelson/*/v1/*.proto` without an installed protoc.

use std::path::PathBuf;

use prost::Message as _;

/// The records that PID 1 writes for itself, and the faults that tests ask for. They are no part of the API, so they are not
/// reflected.
const OTHERS: [&str; 2] = ["kelson/state/v1/records.proto", "kelson/test/v1/faults.proto"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files = [
        "services",
        "machine",
        "logs",
        "helper",
        "logd",
        "probe",
        "agenda",
        "exec",
        "images",
        "metrics",
        "health",
        "inspect",
        "inspector",
        "configuration",
        "secrets",
        "timers",
        "volumes",
        "volume_manager",
        "fleet",
        "fleet_plan",
        "fleet_member",
    ]
    .map(|name| format!("kelson/v1/{name}.proto"));
    let descriptors = protox::compile(&files, ["."])?;
    let mut reflected = descriptors.clone();
    for file in &mut reflected.file {
        // The comments are for readers of the files; in memory they would be two thirds of it.
        file.source_code_info = None;
    }
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    let mut streams = Vec::new();
    for file in &descriptors.file {
        for service in &file.service {
            let of_streams = service.method.iter().filter(|m| m.client_streaming() || m.server_streaming());
            streams
                .extend(of_streams.map(|m| format!("/{}.{}/{}", file.package(), service.name(), m.name())));
        }
    }
    std::fs::write(out.join("streams.rs"), format!("&{streams:?}"))?;
    std::fs::write(out.join("kelson.v1.bin"), reflected.encode_to_vec())?;
    tonic_prost_build::configure()
        .generate_default_stubs(true)
        .skip_debug([
            ".kelson.v1.UnlockDiskRequest",
            ".kelson.v1.RecoveryKeyResponse",
            ".kelson.v1.SetSecretRequest",
        ])
        .compile_fds(descriptors)?;
    let generated = out.join("kelson.v1.rs");
    // Once for all methods instead of once for each: src/server.rs.
    let code = std::fs::read_to_string(&generated)?
        .replace("tonic::server::Grpc::new(", "crate::server::Grpc::new(");
    std::fs::write(generated, code)?;
    tonic_prost_build::configure().compile_fds(protox::compile(OTHERS, ["."])?)?;
    for file in files.iter().map(String::as_str).chain(OTHERS) {
        println!("cargo:rerun-if-changed={file}");
    }
    Ok(())
}
