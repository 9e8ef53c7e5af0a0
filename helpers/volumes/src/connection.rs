//! A connection to a plugin, for one call: what answers belongs to the service that provides the plugin.

use std::path::Path;

use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kelson_proto::v1::VolumePlugin;
use kelson_sys::{process, text};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use prost::bytes::{Buf as _, BufMut as _};
use tokio::net::UnixStream;
use tokio::task::AbortHandle;
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::http::{self, Uri};
use tonic::codegen::{BoxFuture, Context, Poll, Service};
use tonic::{Request, Response, Status};

/// Carries calls of a generated client. It is closed when it is dropped.
pub struct Connection {
    sender: SendRequest<Body>,
    task: AbortHandle,
}

impl Connection {
    /// # Errors
    /// A sentence with the error of the system, or with the process that has the socket in the plugin's place.
    pub async fn new(plugin: &VolumePlugin) -> Result<Connection, String> {
        let (socket, service) = (&plugin.socket, &plugin.service);
        let failed = |why: &str| format!("{socket} of the service {service}: {why}");
        let stream = UnixStream::connect(socket).await.map_err(|error| failed(&text::of_error(&error)))?;
        check_owner(&stream, plugin).map_err(|error| failed(&error))?;
        let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
        let (sender, connection) = handshake.map_err(|error| failed(&error.to_string()))?;
        // Its errors are those of the call.
        let task = tokio::spawn(async move { drop(connection.await) }).abort_handle();
        Ok(Connection { sender, task })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Connection {
    /// One call, by the path of its method.
    ///
    /// # Errors
    /// What the plugin answered, or what broke the connection.
    pub async fn ask(&mut self, path: &'static str, request: Vec<u8>) -> Result<Vec<u8>, Status> {
        let mut client = Grpc::with_origin(self, Uri::from_static("http://localhost"));
        let path = PathAndQuery::from_static(path);
        client.ready().await.map_err(|error| Status::from_error(error.into()))?;
        client.unary(Request::new(request), path, Bytes).await.map(Response::into_inner)
    }
}

impl Service<http::Request<Body>> for &mut Connection {
    type Response = http::Response<Incoming>;
    type Error = hyper::Error;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.sender.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(self.sender.send_request(request))
    }
}

/// Leaves messages as they are: those who ask encode and decode them.
struct Bytes;

impl Codec for Bytes {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Bytes;
    type Decoder = Bytes;

    fn encoder(&mut self) -> Bytes {
        Bytes
    }

    fn decoder(&mut self) -> Bytes {
        Bytes
    }
}

impl Encoder for Bytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Bytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        let mut item = vec![0; from.remaining()];
        from.copy_to_slice(&mut item);
        Ok(Some(item))
    }
}

/// After a re-exec of PID 1, or an end of the service, the socket may belong to another process.
fn check_owner(stream: &UnixStream, plugin: &VolumePlugin) -> Result<(), String> {
    if plugin.cgroup.is_empty() {
        return Ok(());
    }
    let pid = getsockopt(stream, PeerCredentials).map_err(|errno| errno.desc().to_lowercase())?.pid();
    let membership = process::membership(pid).unwrap_or_default();
    if is_within(&membership, &plugin.cgroup) {
        return Ok(());
    }
    let name = process::stat(pid, |stat| Some(stat.name())).ok().flatten();
    let owner = match name {
        Some(name) => format!("process {pid} ({name})"),
        None => format!("process {pid}, which has ended,"),
    };
    Err(format!(
        "{owner} owns the socket and is none of the service, whose cgroup is {}: it is not used; restart the service",
        plugin.cgroup
    ))
}

/// Whether a process of this `/proc/PID/cgroup` is in the cgroup or below it.
fn is_within(membership: &str, cgroup: &str) -> bool {
    membership.lines().any(|line| {
        let path = line.splitn(3, ':').nth(2).unwrap_or_default();
        Path::new(path).starts_with(cgroup)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_in_a_cgroup_or_below_it() {
        for (membership, is) in [
            ("0::/kelson/nfs\n", true),
            ("0::/kelson/nfs/main\n", true),
            ("12:cpu:/\n1:name=systemd:/kelson/nfs\n0::/\n", true),
            ("0::/kelson/nfs2\n", false),
            ("0::/kelson\n", false),
            ("", false),
        ] {
            assert_eq!(is_within(membership, "/kelson/nfs"), is, "{membership:?}");
        }
    }
}
