//! A stand-in for the agent of Consul: the part of its HTTP API that Kelson uses, as its documentation describes it.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// The address of its node.
pub const ADDRESS: &str = "192.0.2.7";

/// The agent, with the servers behind it. It answers until the value ends.
pub struct Consul {
    agent: Arc<Agent>,
    port: u16,
}

struct Agent {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Calls with another one are refused.
    token: Option<String>,
    /// None is answered.
    is_away: bool,
    is_over: bool,
    index: u64,
    pairs: BTreeMap<String, Pair>,
    /// Each with its TTL and its last renewal.
    sessions: BTreeMap<String, (Duration, Instant)>,
    services: BTreeMap<String, Service>,
}

#[derive(Clone)]
struct Pair {
    value: String,
    index: u64,
    session: Option<String>,
}

#[derive(Clone)]
struct Service {
    body: Value,
    passed: Instant,
    is_passing: bool,
}

impl Service {
    fn ttl(&self) -> Duration {
        seconds(&self.body["Check"]["TTL"])
    }
}

fn seconds(value: &Value) -> Duration {
    let text = value.as_str().unwrap_or_default().trim_end_matches('s');
    Duration::from_secs(text.parse().unwrap_or(u64::MAX >> 1))
}

impl Consul {
    pub fn start() -> Consul {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let agent = Arc::new(Agent { state: Mutex::default(), changed: Condvar::new() });
        let served = Arc::clone(&agent);
        thread::spawn(move || {
            for stream in listener.incoming() {
                if served.state().is_over {
                    return;
                }
                let (Ok(stream), agent) = (stream, Arc::clone(&served)) else { continue };
                thread::spawn(move || agent.serve(stream));
            }
        });
        Consul { agent, port }
    }

    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Whether calls are not answered from now on, as while the agent starts again.
    pub fn set_away(&self, is_away: bool) {
        self.agent.state().is_away = is_away;
    }

    /// Calls need this token from now on.
    pub fn set_token(&self, token: &str) {
        self.agent.state().token = Some(token.to_owned());
    }

    /// How often anything was changed.
    pub fn index(&self) -> u64 {
        self.agent.state().index
    }

    /// The keys of the key-value store.
    pub fn keys(&self) -> Vec<String> {
        self.agent.state().pairs.keys().cloned().collect()
    }

    /// The text of a key.
    pub fn value(&self, key: &str) -> String {
        let state = self.agent.state();
        let value = state.pairs.get(key).map(|pair| STANDARD.decode(&pair.value).expect("base64"));
        String::from_utf8(value.unwrap_or_default()).expect("a text")
    }

    /// The services that pass, as they were registered.
    pub fn services(&self) -> BTreeMap<String, Value> {
        let state = self.agent.state();
        let passing = state.services.iter().filter(|(_, service)| service.is_passing);
        passing.map(|(id, service)| (id.clone(), service.body.clone())).collect()
    }

    /// Registers a service, as another program does.
    pub fn register(&self, body: Value) {
        self.agent.answer("PUT", "/v1/agent/service/register", &body);
    }

    /// Removes a service, as another program does.
    pub fn deregister(&self, id: &str) {
        self.agent.answer("PUT", &format!("/v1/agent/service/deregister/{id}"), &Value::Null);
    }
}

impl Drop for Consul {
    fn drop(&mut self) {
        self.agent.state().is_over = true;
        self.agent.changed.notify_all();
        // The thread that takes connections learns of it.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl Agent {
    /// Everything whose time is over has gone.
    fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut is_changed = false;
        let ended: Vec<String> = state
            .sessions
            .iter()
            .filter(|(_, (ttl, renewed))| renewed.elapsed() > *ttl)
            .map(|(id, _)| id.clone())
            .collect();
        for id in ended {
            is_changed = true;
            state.end_session(&id);
        }
        for service in state.services.values_mut() {
            let is_passing = service.passed.elapsed() <= service.ttl();
            is_changed |= service.is_passing && !is_passing;
            service.is_passing &= is_passing;
        }
        if is_changed {
            state.index += 1;
            self.changed.notify_all();
        }
        state
    }

    fn serve(&self, stream: TcpStream) {
        let mut reader = BufReader::new(&stream);
        let (mut head, mut length, mut token) = (String::new(), 0, None);
        if reader.read_line(&mut head).is_err() {
            return;
        }
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).is_err() || line.trim().is_empty() {
                break;
            }
            match line.trim().split_once(": ") {
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.parse().unwrap_or(0)
                }
                Some((name, value)) if name.eq_ignore_ascii_case("x-consul-token") => {
                    token = Some(value.to_owned())
                }
                _ => {}
            }
        }
        let mut body = vec![0; length];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        let (is_away, is_allowed) = {
            let state = self.state();
            (state.is_away, state.token.is_none() || state.token == token)
        };
        let mut words = head.split_whitespace();
        let (Some(method), Some(path)) = (words.next(), words.next()) else { return };
        if is_away {
            return;
        }
        let (status, index, text) = match is_allowed {
            true => self.answer(method, path, &serde_json::from_slice(&body).unwrap_or_default()),
            false => (403, 0, "Permission denied: token with AccessorID '' lacks permission".to_owned()),
        };
        let text = format!(
            "HTTP/1.1 {status} X\r\nX-Consul-Index: {index}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
            text.len()
        );
        let _ = (&stream).write_all(text.as_bytes());
    }

    /// The status, the state that it is from, and the text.
    fn answer(&self, method: &str, path: &str, body: &Value) -> (u16, u64, String) {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let query: BTreeMap<&str, &str> =
            query.split('&').map(|part| part.split_once('=').unwrap_or((part, ""))).collect();
        if let Some(index) = query.get("index").and_then(|index| index.parse().ok()) {
            self.wait(index, seconds(&json!(query.get("wait"))));
        }
        let mut state = self.state();
        let before = state.index;
        let (status, value) = state.answer(method, path, &query, body);
        if state.index != before {
            self.changed.notify_all();
        }
        let text = if let Value::String(text) = value { text } else { value.to_string() };
        (status, state.index, text)
    }

    /// Until the state is another than this.
    fn wait(&self, index: u64, longest: Duration) {
        let until = Instant::now() + longest;
        loop {
            let state = self.state();
            if state.index > index || state.is_over || state.is_away || Instant::now() > until {
                return;
            }
            // Also for what goes with the time.
            drop(self.changed.wait_timeout(state, Duration::from_millis(20)));
        }
    }
}

impl State {
    fn end_session(&mut self, id: &str) {
        self.sessions.remove(id);
        self.pairs.retain(|_, pair| pair.session.as_deref() != Some(id));
    }

    fn answer(
        &mut self,
        method: &str,
        path: &str,
        query: &BTreeMap<&str, &str>,
        body: &Value,
    ) -> (u16, Value) {
        let rest = |prefix: &str| path.strip_prefix(prefix).map(str::to_owned);
        let not_found = |text: &str| (404, Value::String(text.to_owned()));
        match method {
            "GET" if path == "/v1/agent/self" => (200, json!({"Member": {"Addr": ADDRESS}})),
            "GET" if path == "/v1/agent/services" => {
                let all = self.services.iter().map(|(id, service)| (id.clone(), shown(&service.body)));
                (200, Value::Object(all.collect()))
            }
            "GET" if path == "/v1/catalog/services" => {
                let all = self
                    .services
                    .values()
                    .map(|one| (one.body["Name"].as_str().unwrap_or_default().to_owned(), json!([])));
                (200, Value::Object(all.collect()))
            }
            "GET" if path.starts_with("/v1/health/service/") => {
                let name = rest("/v1/health/service/").unwrap_or_default();
                let all = self.services.values().filter(|one| one.is_passing && one.body["Name"] == name);
                let node = json!({"Node": "node-1", "Address": ADDRESS});
                (200, all.map(|one| json!({"Node": node, "Service": shown(&one.body)})).collect())
            }
            "GET" if path.starts_with("/v1/kv/") => {
                let key = rest("/v1/kv/").unwrap_or_default();
                let found: Vec<Value> = match query.contains_key("keys") {
                    true => {
                        self.pairs.keys().filter(|one| one.starts_with(&key)).map(|one| json!(one)).collect()
                    }
                    false => self.pairs.get_key_value(&key).map(pair).into_iter().collect(),
                };
                if found.is_empty() { not_found("") } else { (200, Value::Array(found)) }
            }
            "PUT" if path == "/v1/txn" => self.transaction(body),
            "PUT" if path == "/v1/session/create" => {
                self.index += 1;
                let id = format!("{:08x}-0000-4000-8000-000000000000", 0x1000_0000 + self.index);
                self.sessions.insert(id.clone(), (seconds(&body["TTL"]), Instant::now()));
                (200, json!({"ID": id}))
            }
            "PUT" if path.starts_with("/v1/session/renew/") => {
                let id = rest("/v1/session/renew/").unwrap_or_default();
                match self.sessions.get_mut(&id) {
                    Some((_, renewed)) => {
                        *renewed = Instant::now();
                        (200, json!([{"ID": id}]))
                    }
                    None => not_found("Session id not found"),
                }
            }
            "PUT" if path.starts_with("/v1/session/destroy/") => {
                self.index += 1;
                self.end_session(&rest("/v1/session/destroy/").unwrap_or_default());
                (200, json!(true))
            }
            "PUT" if path.starts_with("/v1/agent/check/pass/service:") => {
                let id = rest("/v1/agent/check/pass/service:").unwrap_or_default();
                let Some(service) = self.services.get_mut(&id) else { return not_found("Unknown check ID") };
                self.index += u64::from(!service.is_passing);
                (service.passed, service.is_passing) = (Instant::now(), true);
                (200, Value::String(String::new()))
            }
            "PUT" if path == "/v1/agent/service/register" => {
                self.index += 1;
                let id = body["ID"].as_str().unwrap_or_default().to_owned();
                self.services
                    .insert(id, Service { body: body.clone(), passed: Instant::now(), is_passing: true });
                (200, Value::String(String::new()))
            }
            "PUT" if path.starts_with("/v1/agent/service/deregister/") => {
                let id = rest("/v1/agent/service/deregister/").unwrap_or_default();
                match self.services.remove(&id) {
                    Some(_) => {
                        self.index += 1;
                        (200, Value::String(String::new()))
                    }
                    None => not_found("Unknown service ID"),
                }
            }
            _ => not_found("no such endpoint"),
        }
    }

    fn transaction(&mut self, body: &Value) -> (u16, Value) {
        let (mut pairs, mut results) = (self.pairs.clone(), Vec::new());
        let mut is_changed = false;
        for step in body.as_array().into_iter().flatten() {
            let step = &step["KV"];
            let key = step["Key"].as_str().unwrap_or_default().to_owned();
            let is_done = match step["Verb"].as_str().unwrap_or_default() {
                "check-not-exists" => !pairs.contains_key(&key),
                "check-index" => {
                    pairs.get(&key).is_some_and(|pair| Some(pair.index) == step["Index"].as_u64())
                }
                "get-or-empty" => {
                    let empty = || json!({"Key": key, "ModifyIndex": 0, "Value": null});
                    results.push(json!({"KV": pairs.get_key_value(&key).map_or_else(empty, pair)}));
                    true
                }
                "lock" => {
                    let session = step["Session"].as_str().unwrap_or_default().to_owned();
                    let holder = pairs.get(&key).and_then(|pair| pair.session.clone());
                    let is_free =
                        self.sessions.contains_key(&session) && holder.is_none_or(|one| one == session);
                    let value = step["Value"].as_str().unwrap_or_default().to_owned();
                    is_changed = true;
                    pairs.insert(key.clone(), Pair { value, index: self.index + 1, session: Some(session) });
                    results.push(json!({"KV": {"Key": key, "ModifyIndex": self.index + 1}}));
                    is_free
                }
                _ => false,
            };
            if !is_done {
                return (409, json!({"Results": null, "Errors": [{"OpIndex": 0, "What": "failed"}]}));
            }
        }
        self.pairs = pairs;
        self.index += u64::from(is_changed);
        (200, json!({"Results": results, "Errors": null}))
    }
}

fn pair((key, pair): (&String, &Pair)) -> Value {
    json!({"Key": key, "Value": pair.value, "ModifyIndex": pair.index, "Session": pair.session})
}

/// A service as the agent shows it.
fn shown(body: &Value) -> Value {
    let text = |key: &str| body[key].as_str().unwrap_or_default();
    json!({
        "ID": body["ID"], "Service": body["Name"], "Tags": body["Tags"], "Address": text("Address"),
        "Port": body["Port"].as_u64().unwrap_or_default(), "Meta": body["Meta"],
    })
}
