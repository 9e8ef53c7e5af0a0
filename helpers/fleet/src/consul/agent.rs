//! Calls of the HTTP API of Consul's agent.

use std::sync::Arc;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, HOST, HeaderValue};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use kelson_spec::fleet::FleetSpec;
use kelson_sys::text::harmless;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::task::JoinSet;

use crate::connection::{in_thread, reach, read};

/// Bytes of an answer: a name may have thousands of instances.
const ANSWER_MAX: usize = 16 << 20;
/// Bytes of an answer that go into a problem.
const SHOWN: usize = 200;
const TOKEN: &str = "x-consul-token";
const INDEX: &str = "x-consul-index";

/// The agent. Each call has a connection of its own; clones are cheap.
#[derive(Clone)]
pub struct Agent {
    place: Arc<Place>,
}

struct Place {
    /// As the machine file has it.
    url: String,
    host: String,
    port: u16,
    token: Option<HeaderValue>,
}

/// What the agent has answered.
pub struct Answer {
    agent: Agent,
    status: StatusCode,
    /// The state that a question was answered from.
    pub index: u64,
    body: Bytes,
}

impl Agent {
    /// The file with the token is read again each time.
    ///
    /// # Errors
    /// For an operator.
    pub async fn new(spec: &FleetSpec) -> Result<Agent, String> {
        let consul = spec.consul.clone().ok_or("fleet.consul of the machine file is missing")?;
        let uri: Uri = consul.address.parse().map_err(|error| format!("{}: {error}", consul.address))?;
        let authority = uri.authority().ok_or_else(|| format!("{} names no host", consul.address))?;
        let token = match consul.token {
            None => None,
            Some(file) => {
                let shown = file.display().to_string();
                let bytes = in_thread(move || read(&file)).await??;
                let text = String::from_utf8_lossy(&bytes);
                let mut token = HeaderValue::from_str(text.trim())
                    .map_err(|_| format!("{shown} has characters that no token of Consul has"))?;
                token.set_sensitive(true);
                Some(token)
            }
        };
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        let port = authority.port_u16().unwrap_or(80);
        Ok(Agent { place: Arc::new(Place { url: consul.address, host, port, token }) })
    }

    /// # Errors
    /// For an operator: why there is no answer.
    pub async fn get(&self, path: &str) -> Result<Answer, String> {
        self.send(Method::GET, path, None).await
    }

    /// # Errors
    /// As [`Agent::get`].
    pub async fn put(&self, path: &str, body: &Value) -> Result<Answer, String> {
        self.send(Method::PUT, path, Some(body)).await
    }

    /// # Errors
    /// As [`Agent::get`].
    pub async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Answer, String> {
        let answered = self.call(method, path, body).await;
        answered.map_err(|problem| self.problem(&problem))
    }

    async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Answer, String> {
        let stream = reach(&self.place.host, self.place.port).await?;
        let handshake = http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.map_err(|error| error.to_string())?;
        // It ends with the call.
        let mut ends = JoinSet::new();
        ends.spawn(kelson_sys::boxed(connection));
        let body = body.map(Value::to_string).unwrap_or_default();
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().map_err(|error| format!("{path}: {error}"))?;
        let headers = request.headers_mut();
        let host = format!("{}:{}", self.place.host, self.place.port);
        headers.insert(HOST, HeaderValue::from_str(&host).map_err(|error| error.to_string())?);
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
        if let Some(token) = &self.place.token {
            headers.insert(TOKEN, token.clone());
        }
        let answer = sender.send_request(request).await.map_err(|error| error.to_string())?;
        let status = answer.status();
        let index = answer.headers().get(INDEX).and_then(|value| value.to_str().ok()?.parse().ok());
        let body = Limited::new(answer.into_body(), ANSWER_MAX).collect().await;
        let body = body.map_err(|error| error.to_string())?.to_bytes();
        Ok(Answer { agent: self.clone(), status, index: index.unwrap_or_default(), body })
    }

    /// What is wrong with an answer, or without one.
    pub fn problem(&self, text: &str) -> String {
        format!("Consul at {}: {text}", self.place.url)
    }
}

impl Answer {
    /// What was asked for is not there. Older agents say so with another status for checks and services.
    pub fn is_missing(&self) -> bool {
        let unknown = || String::from_utf8_lossy(&self.body).to_lowercase().contains("unknown");
        self.status == StatusCode::NOT_FOUND
            || (self.status == StatusCode::INTERNAL_SERVER_ERROR && unknown())
    }

    /// A transaction was not done, since something is another than it must be.
    pub fn is_conflict(&self) -> bool {
        self.status == StatusCode::CONFLICT
    }

    /// # Errors
    /// For an operator: the agent refuses.
    pub fn ok(self) -> Result<Answer, String> {
        if self.status.is_success() {
            return Ok(self);
        }
        let text: String = harmless(&String::from_utf8_lossy(&self.body), None).take(SHOWN).collect();
        Err(self.agent.problem(&format!("{}: {}", self.status, text.trim())))
    }

    /// # Errors
    /// For an operator: the agent refuses, or answers otherwise than Consul does.
    pub fn json<T: DeserializeOwned>(self) -> Result<T, String> {
        let answer = self.ok()?;
        let unfit = |error| answer.agent.problem(&format!("its answer is none of Consul's: {error}"));
        serde_json::from_slice(&answer.body).map_err(unfit)
    }
}
