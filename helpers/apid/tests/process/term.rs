//! The term of a connection: the end of the client's certificate, another CA, and the lifetime.

use std::time::{Duration, SystemTime};

use kelson_api::client::{Client, Failure};
use kelson_proto::v1;
use tonic::{Code, Status, Streaming};

use super::world::{self, Echo, Pki};
use super::{Apid, VALID, version};

async fn follow(client: &Client) -> Streaming<v1::ReadResponse> {
    let request = v1::ReadRequest { names: vec!["web".into()], follow: true, ..Default::default() };
    let mut lines = client.logs().read(request).await.unwrap().into_inner();
    assert!(lines.message().await.unwrap().is_some());
    lines
}

/// Returns the status that ends a stream without further messages.
async fn end(mut lines: Streaming<v1::ReadResponse>) -> Status {
    let end = tokio::time::timeout(Duration::from_secs(20), lines.message()).await;
    end.expect("the stream is cut").unwrap_err()
}

fn serve(apid: &Apid) {
    world::serve(&apid.socket("init.sock"), Echo::new("init").machine());
    world::serve(&apid.socket("log.sock"), Echo::new("logd").logs());
}

/// Whether the stream is still there.
async fn goes_on(lines: &mut Streaming<v1::ReadResponse>) -> bool {
    tokio::time::timeout(Duration::from_millis(100), lines.message()).await.is_err()
}

#[tokio::test]
async fn at_the_end_of_the_certificate_calls_are_cut_and_no_handshake_succeeds() {
    let mut apid = Apid::open();
    serve(&apid);
    let until = SystemTime::now() + Duration::from_secs(4);
    let ann = apid.client(&apid.pki.client_for("ann", Duration::from_secs(4)));
    let lines = follow(&ann).await;
    let mut machine = ann.machine();
    // This one is never answered.
    let boot = tokio::spawn(async move { machine.boot(v1::BootRequest {}).await });
    let left = ann.machine().version(v1::VersionRequest {}).await.unwrap();
    let left: u64 = left.metadata().get("kelson-ends-in").unwrap().to_str().unwrap().parse().unwrap();
    assert!((1..=4).contains(&left), "{left}");

    for end in [end(lines).await, boot.await.unwrap().unwrap_err()] {
        assert_eq!(end.code(), Code::Unauthenticated, "{end:?}");
        assert!(end.message().starts_with("the client's certificate ended at 20"), "{end:?}");
        assert!(end.message().contains("kelsonctl gen"), "{end:?}");
    }
    // The last second of a certificate belongs to it, and a certificate knows whole seconds.
    let after = SystemTime::now().duration_since(until - Duration::from_secs(1)).expect("not before");
    assert!(after < Duration::from_secs(5), "{after:?}");
    assert!(apid.logged("the client's certificate ended").starts_with("CN=ann sha256:"));
    let refused = version(&ann).await.unwrap_err();
    assert!(matches!(&refused, Failure::Denied(said) if said.contains("expired")), "{refused:?}");
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_cut_too() {
    let apid = Apid::open();
    let echo = Echo::new("init");
    world::serve(&apid.socket("init.sock"), echo.machine());
    let ann = apid.client(&apid.pki.client_for("ann", Duration::from_secs(3)));
    // More comes than fits on the way.
    let mut messages = ann.machine().dmesg(v1::DmesgRequest { follow: true }).await.unwrap().into_inner();
    assert!(messages.message().await.unwrap().is_some());
    echo.opened(1).await;
    tokio::time::timeout(Duration::from_secs(20), echo.opened(0)).await.expect("it is cut");
}

#[tokio::test]
async fn when_another_ca_is_trusted_calls_are_cut_at_once() {
    let mut apid = Apid::open();
    serve(&apid);
    let (ann, others) = (apid.ann(), Pki::new());
    let bob = apid.client(&{
        // He trusts the machine's certificate, which is that of the old CA.
        let mut bob = others.client("bob", VALID);
        bob.ca = apid.pki.ca().into();
        bob
    });
    let mut lines = follow(&ann).await;
    assert!(matches!(version(&bob).await, Err(Failure::Denied(_))));

    // Both, as at a change of the CA that nobody is to notice.
    std::fs::write(apid.socket("ca.pem"), apid.pki.ca() + &others.ca()).unwrap();
    apid.logged("certificate files have changed");
    let bobs = follow(&bob).await;
    assert!(goes_on(&mut lines).await);

    std::fs::write(apid.socket("ca.pem"), others.ca()).unwrap();
    let end = end(lines).await;
    assert_eq!(end.code(), Code::Unauthenticated, "{end:?}");
    assert!(end.message().contains("no longer trusts the CA"), "{end:?}");
    apid.logged("no longer trusts the CA");
    let refused = version(&ann).await.unwrap_err();
    assert!(matches!(&refused, Failure::Denied(said) if said.contains("CA")), "{refused:?}");
    let mut bobs = bobs;
    assert!(goes_on(&mut bobs).await);
    assert_eq!(version(&bob).await.unwrap().version, "init");
}

#[tokio::test]
async fn a_connection_has_a_lifetime_and_nobody_notices() {
    let mut apid = Apid::open_with(&["--connection-lifetime", "300"]);
    serve(&apid);
    let ann = apid.ann();
    // A stream keeps its connection, so that calls meet one that takes no more of them.
    let mut streams = vec![follow(&ann).await];
    let opened = tokio::time::Instant::now();
    for connection in 1u32..=4 {
        while opened.elapsed() < Duration::from_millis(300) * connection {
            assert_eq!(version(&ann).await.unwrap().version, "init");
        }
        streams.push(follow(&ann).await);
    }
    for stream in &mut streams {
        assert!(goes_on(stream).await, "open streams go on");
    }
    // Each connection was one of the same client.
    let ports: std::collections::HashSet<String> = (0..4)
        .map(|_| {
            let line = apid.logged("has connected");
            line.split("from 127.0.0.1:").nth(1).unwrap().to_owned()
        })
        .collect();
    assert_eq!(ports.len(), 4);
    // A connection that has ended gives up its place.
    let places = || std::fs::read_dir(format!("/proc/{}/fd", apid.worker())).unwrap().count();
    let before = places();
    drop(streams);
    let end = tokio::time::Instant::now() + Duration::from_secs(10);
    while places() > before - 6 {
        assert!(tokio::time::Instant::now() < end, "{} of {before}", places());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
