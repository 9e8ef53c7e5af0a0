//! Requests of clients to PID 1 over its socket.

use std::cell::OnceCell;
use std::time::Duration;

use crate::grpc::{self, Call};
use crate::input::Input;
use crate::place::{self, Place};
use crate::{played, time};

thread_local! {
    static FOLDER: OnceCell<Place> = const { OnceCell::new() };
}

/// All but `dmesg`, which reads the kernel log of the machine that fuzzes.
const CALLS: [&str; 25] = [
    "/kelson.v1.Services/List",
    "/kelson.v1.Services/Status",
    "/kelson.v1.Services/Start",
    "/kelson.v1.Services/Stop",
    "/kelson.v1.Services/Restart",
    "/kelson.v1.Services/Wait",
    "/kelson.v1.Services/Why",
    "/kelson.v1.Services/Graph",
    "/kelson.v1.Services/Reload",
    "/kelson.v1.Services/Events",
    "/kelson.v1.Machine/Version",
    "/kelson.v1.Machine/Boot",
    "/kelson.v1.Machine/Shutdown",
    "/kelson.v1.Machine/Reexec",
    "/kelson.v1.Images/List",
    "/kelson.v1.Images/Prune",
    "/kelson.v1.Exec/Run",
    "/kelson.v1.Metrics/Get",
    "/kelson.v1.Health/Get",
    "/kelson.v1.Health/Watch",
    "/kelson.v1.Health/List",
    "/grpc.health.v1.Health/Check",
    "/grpc.health.v1.Health/Watch",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/kelson.v1.Services/ReloadServices",
];

/// Calls one after the other: which one, how many messages (with the highest bit an identity goes before them), and these,
/// each with its length before it.
pub fn requests(data: &[u8]) {
    const MOST_CALLS: usize = 6;
    place::with(&FOLDER, |place| {
        let socket = place.path().join("init.sock");
        time::within(Duration::from_secs(120), async {
            played::host(place.path(), &socket).await;
            let sender = grpc::connect(&socket).await;
            let mut input = Input(data);
            for _ in 0..MOST_CALLS {
                if input.is_empty() {
                    break;
                }
                let path = CALLS[usize::from(input.byte()) % CALLS.len()];
                let count = input.byte();
                let identity = (count & 0x80 != 0).then(|| input.piece());
                let messages = (0..=count & 0x7).map(|_| input.piece()).collect();
                let call = Call { path, identity, messages };
                let ended = tokio::time::timeout(Duration::from_secs(15), grpc::call(&sender, &call)).await;
                assert!(ended.is_ok(), "{path} did not end with its caller's time");
            }
        })
        .expect("all calls end");
    });
}
