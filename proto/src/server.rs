//! The calls of a server behind one type of message.
//!
//! tonic's server is generic over the messages of a method: a program has its framing, its body and its answer once for
//! each method. Behind these types it has them once for all methods, and a copy of each only decodes and encodes
//! (docs/performance.md).

use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use prost::Message;
use prost::bytes::{Buf as _, Bytes};
use tonic::body::Body;
use tonic::codec::{Codec, DecodeBuf, Decoder, EnabledCompressionEncodings, EncodeBuf, Encoder};
use tonic::codegen::tokio_stream::{Stream, StreamExt as _};
use tonic::codegen::{Body as HttpBody, BoxFuture, BoxStream, StdError, http};
use tonic::server::{ClientStreamingService, ServerStreamingService, StreamingService, UnaryService};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

/// What the generated code uses in place of `tonic::server::Grpc`.
pub struct Grpc<Sent, Received> {
    messages: PhantomData<ProstCodec<Sent, Received>>,
    limits: Limits,
}

/// What a server accepts, as tonic has it.
#[derive(Clone, Copy, Default)]
struct Limits {
    accepts: EnabledCompressionEncodings,
    sends: EnabledCompressionEncodings,
    longest_received: Option<usize>,
    longest_sent: Option<usize>,
}

impl Limits {
    fn apply<C: Codec>(self, codec: C) -> tonic::server::Grpc<C> {
        tonic::server::Grpc::new(codec)
            .apply_compression_config(self.accepts, self.sends)
            .apply_max_message_size_config(self.longest_received, self.longest_sent)
    }
}

impl<Sent, Received> Grpc<Sent, Received>
where
    Sent: Message + 'static,
    Received: Message + Default + 'static,
{
    pub fn new(_codec: ProstCodec<Sent, Received>) -> Self {
        Grpc { messages: PhantomData, limits: Limits::default() }
    }

    pub fn apply_compression_config(
        mut self,
        accepts: EnabledCompressionEncodings,
        sends: EnabledCompressionEncodings,
    ) -> Self {
        (self.limits.accepts, self.limits.sends) = (accepts, sends);
        self
    }

    pub fn apply_max_message_size_config(mut self, received: Option<usize>, sent: Option<usize>) -> Self {
        (self.limits.longest_received, self.limits.longest_sent) = (received, sent);
        self
    }

    /// One message each way.
    pub fn unary<S, B>(&mut self, mut service: S, request: http::Request<B>) -> Answer
    where
        S: UnaryService<Received, Response = Sent, Future: Send + 'static> + Send + 'static,
        B: HttpBody<Error: Into<StdError> + Send> + Send + 'static,
    {
        let method = move |request| -> Called<One> {
            let answer = decoded(request).map(|request| service.call(request));
            Box::pin(async move { Ok(answer?.await?.map(|message| One(Box::new(message)))) })
        };
        Box::pin(unary(self.limits, Method(Box::new(method)), request))
    }

    /// One message, and a stream of answers.
    pub fn server_streaming<S, B>(&mut self, mut service: S, request: http::Request<B>) -> Answer
    where
        S: ServerStreamingService<Received, Response = Sent, Future: Send + 'static> + Send + 'static,
        S::ResponseStream: Stream<Item = Result<Sent, Status>> + Send + 'static,
        B: HttpBody<Error: Into<StdError> + Send> + Send + 'static,
    {
        let method = move |request| -> Called<Many> {
            let answer = decoded(request).map(|request| service.call(request));
            Box::pin(async move {
                Ok(answer?.await?.map(|messages| {
                    Many(Box::pin(messages.map(|message| message.map(|message| One(Box::new(message))))))
                }))
            })
        };
        Box::pin(server_streaming(self.limits, Method(Box::new(method)), request))
    }

    /// A stream of messages, and one answer.
    pub async fn client_streaming<S, B>(
        &mut self,
        service: S,
        request: http::Request<B>,
    ) -> http::Response<Body>
    where
        S: ClientStreamingService<Received, Response = Sent>,
        B: HttpBody<Error: Into<StdError> + Send> + Send + 'static,
    {
        self.limits.apply(ProstCodec::<Sent, Received>::default()).client_streaming(service, request).await
    }

    /// A stream each way.
    pub async fn streaming<S, B>(&mut self, service: S, request: http::Request<B>) -> http::Response<Body>
    where
        S: StreamingService<Received, Response = Sent> + Send,
        S::ResponseStream: Send + 'static,
        B: HttpBody<Error: Into<StdError> + Send> + Send + 'static,
    {
        self.limits.apply(ProstCodec::<Sent, Received>::default()).streaming(service, request).await
    }
}

/// The response of a call.
type Answer = Pin<Box<dyn Future<Output = http::Response<Body>> + Send>>;

async fn unary<B>(limits: Limits, method: Method<One>, request: http::Request<B>) -> http::Response<Body>
where
    B: HttpBody<Error: Into<StdError> + Send> + Send + 'static,
{
    limits.apply(AnyMessage).unary(method, request).await
}

async fn server_streaming<B>(
    limits: Limits,
    method: Method<Many>,
    request: http::Request<B>,
) -> http::Response<Body>
where
    B: HttpBody<Error: Into<StdError> + Send> + Send + 'static,
{
    limits.apply(AnyMessage).server_streaming(method, request).await
}

fn decoded<Received: Message + Default>(request: Request<Bytes>) -> Result<Request<Received>, Status> {
    let (metadata, extensions, bytes) = request.into_parts();
    match Received::decode(bytes) {
        Ok(message) => Ok(Request::from_parts(metadata, extensions, message)),
        Err(error) => Err(Status::internal(error.to_string())),
    }
}

/// A message to send.
struct One(Box<dyn Outgoing>);

/// Messages to send.
struct Many(BoxStream<One>);

impl Stream for Many {
    type Item = Result<One, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.as_mut().poll_next(context)
    }
}

trait Outgoing: Send {
    fn put(&self, into: &mut EncodeBuf<'_>) -> Result<(), prost::EncodeError>;
}

impl<M: Message> Outgoing for M {
    fn put(&self, into: &mut EncodeBuf<'_>) -> Result<(), prost::EncodeError> {
        self.encode(into)
    }
}

/// A method of a service, from the bytes of its request to what it sends.
struct Method<Sent>(Box<dyn FnMut(Request<Bytes>) -> Called<Sent> + Send>);

type Called<Sent> = BoxFuture<Response<Sent>, Status>;

impl UnaryService<Bytes> for Method<One> {
    type Response = One;
    type Future = Called<One>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        (self.0)(request)
    }
}

impl ServerStreamingService<Bytes> for Method<Many> {
    type Response = One;
    type ResponseStream = Many;
    type Future = Called<Many>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        (self.0)(request)
    }
}

/// Passes the bytes of a message on, and lets a message write itself.
struct AnyMessage;

impl Codec for AnyMessage {
    type Encode = One;
    type Decode = Bytes;
    type Encoder = AnyMessage;
    type Decoder = AnyMessage;

    fn encoder(&mut self) -> AnyMessage {
        AnyMessage
    }

    fn decoder(&mut self) -> AnyMessage {
        AnyMessage
    }
}

impl Encoder for AnyMessage {
    type Item = One;
    type Error = Status;

    fn encode(&mut self, message: One, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        message.0.put(into).map_err(|error| Status::internal(error.to_string()))
    }
}

impl Decoder for AnyMessage {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}
