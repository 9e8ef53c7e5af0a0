//! A service of the API behind its name.

use std::convert::Infallible;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use hyper::body::Incoming;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::codegen::http::{Request, Response};
use tonic::server::NamedService;

/// A service and its name. Cheap to clone.
#[derive(Clone)]
pub struct Route {
    pub name: &'static str,
    serve: Arc<dyn Fn(Request<Incoming>) -> BoxFuture<'static, Response<Body>> + Send + Sync>,
}

impl Route {
    pub fn to<S>(service: S) -> Route
    where
        S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>
            + NamedService
            + Clone
            + Send
            + Sync
            + 'static,
        S::Future: Send + 'static,
    {
        let serve = move |request| -> BoxFuture<'static, Response<Body>> {
            let answer = service.clone().call(request);
            Box::pin(async move {
                match answer.await {
                    Ok(response) => response,
                    Err(never) => match never {},
                }
            })
        };
        Route { name: S::NAME, serve: Arc::new(serve) }
    }

    /// A service that is made for each call.
    pub fn to_each<F>(name: &'static str, serve: fn(Request<Incoming>) -> F) -> Route
    where
        F: Future<Output = Response<Body>> + Send + 'static,
    {
        Route { name, serve: Arc::new(move |request| Box::pin(serve(request))) }
    }

    /// Boxed, so that a waiting call is as large as itself and not as the largest of them all.
    pub fn call(&self, request: Request<Incoming>) -> BoxFuture<'static, Response<Body>> {
        (self.serve)(request)
    }
}
