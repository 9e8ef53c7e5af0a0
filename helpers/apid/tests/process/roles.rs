//! Every method as an administrator, an operator, a reader and somebody without a role: what comes of it is the table of
//! docs/api.md.

use std::time::Duration;

use kelson_api::client::TlsMaterial;
use kelson_proto::access::{self, Role};
use tonic::Code;
use tonic::body::Body;
use tonic::codegen::http::Request;

use super::world::{self, Echo};
use super::{Apid, VALID, metrics};

/// A client that knows nothing of the interface.
struct Raw(hyper::client::conn::http2::SendRequest<Body>);

impl Raw {
    async fn connect(apid: &Apid, material: &TlsMaterial) -> Raw {
        Raw(metrics::speak(metrics::connect_as(apid, material, "h2").await).await)
    }

    /// Makes a call with an empty message, and returns its status. `None`: it was taken, and is under way.
    async fn call(&mut self, path: &str) -> Option<Code> {
        let message = Body::new("\0\0\0\0\0".to_owned());
        let request = Request::post(format!("https://127.0.0.1{path}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            // A client's own description of itself does not count.
            .header("kelson-role", "os:admin")
            .body(message)
            .unwrap();
        let answer = tokio::time::timeout(Duration::from_secs(20), self.0.send_request(request));
        let answer = answer.await.expect("no answer").unwrap();
        let status = answer.headers().get("grpc-status")?.to_str().unwrap().parse().unwrap();
        Some(Code::from_i32(status))
    }
}

/// The lines of docs/api.md between its marks.
fn documented() -> String {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/api.md")).unwrap();
    let (_, rest) = page.split_once("<!-- roles -->\n").expect("the table has a mark before it");
    rest.split_once("<!-- /roles -->").expect("and one behind it").0.trim_end().to_owned()
}

#[tokio::test]
async fn every_method_as_each_role_is_what_the_docs_say() {
    let mut apid = Apid::open();
    // The stand-in for PID 1 serves one of the services. For the others it answers that it does not know
    // them, to each caller that gets as far as that.
    world::serve(&apid.socket("init.sock"), Echo::new("init").metrics());
    world::serve(&apid.socket("log.sock"), Echo::new("logd").logs());
    let mut clients = Vec::new();
    for role in [None, Some(Role::Reader), Some(Role::Operator), Some(Role::Admin)] {
        let material = apid.pki.member("ann", role.map(Role::name), VALID);
        clients.push(Raw::connect(&apid, &material).await);
    }
    let mut table =
        "| method | no role | `os:reader` | `os:operator` | `os:admin` |\n|---|---|---|---|---|".to_owned();
    let of_tests = |access: &&access::Access| access.path.starts_with("/kelson.test.");
    for access in access::TABLE.iter().filter(|access| !of_tests(access)) {
        table.push_str(&format!("\n| `{}` |", access::method(access.path)));
        for client in &mut clients {
            let denied = client.call(access.path).await == Some(Code::PermissionDenied);
            table.push_str(if denied { " denied |" } else { " yes |" });
        }
    }
    let told = apid.logged("was denied Services.List");
    assert!(told.starts_with("CN=ann sha256:") && told.contains("(no role)"), "{told}");
    assert_eq!(documented(), table, "docs/api.md has another table than\n{table}\n");
    for client in &mut clients {
        for path in ["/kelson.v1.Services/Nothing", "/kelson.v1.Other/List", "/x"] {
            assert_eq!(client.call(path).await, Some(Code::PermissionDenied), "{path}");
        }
    }
}

#[tokio::test]
async fn metrics_are_read_by_readers() {
    let mut apid = Apid::open();
    world::serve(&apid.socket("init.sock"), Echo::new("init").metrics());
    let nobody = apid.pki.member("eve", Some("Harbour"), VALID);
    let mut raw = Raw::connect(&apid, &nobody).await;
    let request = Request::get("https://127.0.0.1/metrics").body(Body::empty()).unwrap();
    let refused = raw.0.send_request(request).await.unwrap();
    assert_eq!(refused.status().as_u16(), 403);
    assert!(apid.logged("has connected").contains("(no role)"));
    let reader = apid.pki.member("ann", Some("os:reader"), VALID);
    let mut raw = Raw::connect(&apid, &reader).await;
    let request = Request::get("https://127.0.0.1/metrics").body(Body::empty()).unwrap();
    assert_eq!(raw.0.send_request(request).await.unwrap().status().as_u16(), 200);
}
