//! A repository at one registry or mirror: requests with what shows who asks, and redirects.

use std::cell::RefCell;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{
    ACCEPT, AUTHORIZATION, HeaderMap, HeaderValue, LOCATION, RANGE, RETRY_AFTER, WWW_AUTHENTICATE,
};
use hyper::{Response, StatusCode};
use kelson_image::Remote;
use kelson_sys::text::harmless;
use serde::Deserialize;

use crate::body::Body;
use crate::challenge::Challenge;
use crate::connection::Network;
use crate::error::PullError;
use crate::place::Place;

/// Redirects of one request.
const HOPS: u32 = 5;
/// Bytes of the answer of a server of tokens.
const TOKEN_MAX: u64 = 256 << 10;
/// Where the images of Docker's registry are.
const DOCKER: &str = "registry-1.docker.io";

pub struct Registry<'a> {
    network: &'a Network,
    /// As an operator knows it.
    pub host: String,
    start: Place,
    repository: String,
    credentials: Option<HeaderValue>,
    /// What shows who asks, as the registry wanted it last.
    authorization: RefCell<Option<HeaderValue>>,
}

/// What is asked for.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// `manifests/…` or `blobs/…`.
    pub path: String,
    /// In an error.
    pub what: String,
    pub accept: Option<HeaderValue>,
    /// From this byte on.
    pub from: u64,
}

#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    access_token: Option<String>,
}

impl<'a> Registry<'a> {
    pub fn new(
        network: &'a Network,
        host: &str,
        secure: bool,
        repository: &str,
        credentials: Option<HeaderValue>,
    ) -> Registry<'a> {
        let server = if host == Remote::DOCKER { DOCKER } else { host };
        let start = Place::at(server, secure, format!("/v2/{repository}/"));
        let (host, repository) = (host.to_owned(), repository.to_owned());
        Registry { network, host, start, repository, credentials, authorization: RefCell::default() }
    }

    /// Asks once. The answer has the status 200, or 206 where a part was asked for.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn get(&self, asked: &Asked) -> Result<Response<Incoming>, PullError> {
        let mut place = Place { path: format!("{}{}", self.start.path, asked.path), ..self.start.clone() };
        let (mut hops, mut shown) = (0_u32, false);
        loop {
            let own = place.is_beside(&self.start);
            let mut headers = HeaderMap::new();
            if let Some(accept) = &asked.accept {
                headers.insert(ACCEPT, accept.clone());
            }
            if asked.from > 0 {
                headers.insert(RANGE, range(asked.from));
            }
            // No other server learns it.
            if let Some(value) = self.authorization.borrow().clone().filter(|_| own) {
                headers.insert(AUTHORIZATION, value);
            }
            let answer = self.network.get(&place, headers).await?;
            match answer.status() {
                StatusCode::OK => return Ok(answer),
                StatusCode::PARTIAL_CONTENT if asked.from > 0 => return Ok(answer),
                StatusCode::UNAUTHORIZED if own && !shown => {
                    shown = true;
                    self.show(&answer, &asked.what).await?;
                }
                status if status.is_redirection() => {
                    hops = hops.saturating_add(1);
                    place = self.follow(&place, &answer, &asked.what, hops)?;
                }
                status => return Err(self.refusal(status, &answer, &place, &asked.what)),
            }
        }
    }

    fn follow(
        &self,
        place: &Place,
        answer: &Response<Incoming>,
        what: &str,
        hops: u32,
    ) -> Result<Place, PullError> {
        let location = answer.headers().get(LOCATION).and_then(|text| text.to_str().ok()).unwrap_or_default();
        let refuse = |why| {
            let to = harmless(location, None).take(200).collect();
            Err(PullError::Redirect { host: place.authority(), what: what.to_owned(), to, why })
        };
        match place.redirect(location) {
            _ if hops > HOPS => refuse("there were too many"),
            None => refuse("it is no URL"),
            Some(to) if place.secure && !to.secure => refuse("it leaves TLS"),
            Some(to) => Ok(to),
        }
    }

    fn refusal(
        &self,
        status: StatusCode,
        answer: &Response<Incoming>,
        place: &Place,
        what: &str,
    ) -> PullError {
        let (host, what) = (place.authority(), what.to_owned());
        let again = matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS)
            || status.is_server_error();
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                let why = match self.credentials {
                    Some(_) => {
                        "it refuses the name and the password of registries.credentials or registries.secret"
                    }
                    None => {
                        "it may want a name and a password: registries.credentials or registries.secret of the machine file"
                    }
                };
                PullError::Denied { host, what, why }
            }
            StatusCode::NOT_FOUND => PullError::Missing { host, what },
            status if again => {
                let after =
                    answer.headers().get(RETRY_AFTER).and_then(|text| text.to_str().ok()?.parse().ok());
                let after = after.map(Duration::from_secs);
                PullError::Busy { host, status: status.as_u16(), what, after }
            }
            status => PullError::Status { host, status: status.as_u16(), what },
        }
    }

    /// Learns how to show who asks. A token that was given before has expired.
    async fn show(&self, answer: &Response<Incoming>, what: &str) -> Result<(), PullError> {
        let deny = |why| PullError::Denied { host: self.host.clone(), what: what.to_owned(), why };
        let asked = answer.headers().get_all(WWW_AUTHENTICATE).iter();
        let mut challenges: Vec<Challenge> =
            asked.filter_map(|text| Challenge::parse(text.to_str().ok()?)).collect();
        let bearer = challenges.iter().position(|challenge| *challenge != Challenge::Basic);
        let value = match (bearer.map(|place| challenges.swap_remove(place)), challenges.is_empty()) {
            (Some(Challenge::Bearer { realm, service, scope }), _) => {
                let realm = Place::parse(&realm).ok_or_else(|| deny("it names no server of tokens"))?;
                if self.start.secure && !realm.secure {
                    return Err(deny("its server of tokens has no TLS"));
                }
                self.token(realm, service, scope, what).await?
            }
            (_, false) => self.credentials.clone().ok_or_else(|| {
                deny("it wants a name and a password: registries.credentials or registries.secret of the machine file")
            })?,
            _ => return Err(deny("it wants to be shown who asks in a way that is not known")),
        };
        *self.authorization.borrow_mut() = Some(value);
        Ok(())
    }

    /// Gets a token from the server of tokens.
    async fn token(
        &self,
        mut realm: Place,
        service: Option<String>,
        scope: Option<String>,
        what: &str,
    ) -> Result<HeaderValue, PullError> {
        let scope = scope.unwrap_or_else(|| format!("repository:{}:pull", self.repository));
        let service = service.map(|service| format!("service={}&", encoded(&service)));
        let joint = if realm.path.contains('?') { '&' } else { '?' };
        realm.path = format!("{}{joint}{}scope={}", realm.path, service.unwrap_or_default(), encoded(&scope));
        let mut headers = HeaderMap::new();
        if let Some(credentials) = &self.credentials {
            headers.insert(AUTHORIZATION, credentials.clone());
        }
        let answer = self.network.get(&realm, headers).await?;
        if answer.status() != StatusCode::OK {
            return Err(self.refusal(answer.status(), &answer, &realm, &format!("a token for {what}")));
        }
        let bytes = Body::of(answer, &realm.authority(), "its token").whole(TOKEN_MAX).await?;
        token_of(&bytes).ok_or_else(|| PullError::Denied {
            host: realm.authority(),
            what: format!("a token for {what}"),
            why: "its answer holds none",
        })
    }
}

/// The header that shows the token of such an answer.
fn token_of(bytes: &[u8]) -> Option<HeaderValue> {
    let token: Token = serde_json::from_slice(bytes).ok()?;
    let token = token.token.or(token.access_token).filter(|token| !token.is_empty())?;
    let mut value = HeaderValue::try_from(format!("Bearer {token}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn range(from: u64) -> HeaderValue {
    HeaderValue::try_from(format!("bytes={from}-")).unwrap_or(HeaderValue::from_static("bytes=0-"))
}

/// As a value of a query.
fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b':' | b'/' | b',' => {
                encoded.push(char::from(byte));
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_two_names() {
        let of = |text: &str| token_of(text.as_bytes()).map(|value| value.to_str().unwrap().to_owned());
        assert_eq!(of(r#"{"token":"a"}"#).as_deref(), Some("Bearer a"));
        assert_eq!(of(r#"{"access_token":"b","expires_in":60}"#).as_deref(), Some("Bearer b"));
        for none in ["", "{}", r#"{"token":""}"#, r#"{"token":"a\nb"}"#, r#"{"token":1}"#] {
            assert_eq!(of(none), None, "{none}");
        }
    }

    #[test]
    fn a_query_holds_no_other_parameters() {
        assert_eq!(encoded("repository:a/b:pull"), "repository:a/b:pull");
        assert_eq!(encoded("a b&c=é"), "a%20b%26c%3D%C3%A9");
    }
}
