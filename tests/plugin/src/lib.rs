//! A storage plugin that binds folders for real, and has faults on demand.
//!
//! `kelson-fault-plugin SOCKET FOLDER`. The folder is that of a test, and outlives the plugin:
//!
//! - `volumes/ID` is what a volume has. It is made when it is staged or published first.
//! - `calls` gets a line for each call: its name, the volume, and its paths.
//! - `faults` has what goes wrong, a line for each call: `NodeStageVolume code 14 3` (three times), `… hang`,
//!   `… die-before`, `… die-after`. Without a count it is so each time.
//! - `secret` has a password, without which no call is answered that takes secrets.
//! - `capabilities` has words: `stage`, `attach`, `create`, `snapshot`, `statistics`, `condition`. Without the file it is `stage`.
//! - `condition` is what is wrong with its volumes. Without the file it is nothing.

mod faults;
mod mount;
mod service;
mod snapshots;

use std::path::PathBuf;

use tokio_stream::wrappers::UnixListenerStream;

/// Version 1 of the interface.
#[allow(clippy::all, missing_docs, rustdoc::all)]
pub mod csi {
    tonic::include_proto!("csi.v1");
}

/// Serves until it is ended.
pub fn main(mut words: impl Iterator<Item = String>) {
    let (socket, folder) = match (words.next(), words.next()) {
        (Some(socket), Some(folder)) => (PathBuf::from(socket), PathBuf::from(folder)),
        _ => panic!("usage: kelson-fault-plugin SOCKET FOLDER"),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let _ = std::fs::remove_file(&socket);
        if let Some(parent) = socket.parent() {
            std::fs::create_dir_all(parent).expect("the folder of the socket");
        }
        let listener = tokio::net::UnixListener::bind(&socket).expect("the socket");
        let plugin = service::Plugin::new(folder);
        tonic::transport::Server::builder()
            .add_service(csi::identity_server::IdentityServer::new(plugin.clone()))
            .add_service(csi::node_server::NodeServer::new(plugin.clone()))
            .add_service(csi::controller_server::ControllerServer::new(plugin))
            .serve_with_incoming(UnixListenerStream::new(listener))
            .await
            .expect("it serves");
    });
}
