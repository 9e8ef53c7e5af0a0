//! Server reflection, in both versions that clients speak.
//!
//! The index of all symbols weighs more than the rest of an idle server, and is asked for once in a blue moon: it is
//! made for each call and dropped with it.

use hyper::body::Incoming;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::codegen::http::{Request, Response};
use tonic_reflection::server::{Builder, Error};

pub const V1: &str = "grpc.reflection.v1.ServerReflection";
pub const V1_ALPHA: &str = "grpc.reflection.v1alpha.ServerReflection";

fn index() -> Builder<'static> {
    Builder::configure()
        .register_encoded_file_descriptor_set(kelson_proto::v1::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
}

fn broken(error: &Error) -> Response<Body> {
    Status::internal(format!("the built-in descriptors are damaged: {error}")).into_http()
}

pub async fn v1(request: Request<Incoming>) -> Response<Body> {
    match index().build_v1() {
        Ok(server) => call(server, request).await,
        Err(error) => broken(&error),
    }
}

pub async fn v1alpha(request: Request<Incoming>) -> Response<Body> {
    match index().build_v1alpha() {
        Ok(server) => call(server, request).await,
        Err(error) => broken(&error),
    }
}

async fn call<S>(mut server: S, request: Request<Incoming>) -> Response<Body>
where
    S: Service<Request<Incoming>, Response = Response<Body>, Error = std::convert::Infallible>,
{
    match server.call(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}
