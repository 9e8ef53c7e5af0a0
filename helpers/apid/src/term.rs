//! The term of a connection: when its client is to connect again, and when its calls are cut.
//!
//! A handshake says who the client is at that moment only. So a connection has a term. After the lifetime of
//! `api.connectionLifetime` it takes no new calls (GOAWAY of HTTP/2), and those that it has may finish. Once a handshake
//! with the client's certificate would fail, its calls are cut: the certificate has ended, or apid trusts another CA.
//!
//! The lifetime counts on the monotonic clock. The end of a certificate is a time of the wall clock, which can be set:
//! it is looked at again at least each [`LOOK`].

use kelson_sys::ordered;
use std::time::{Duration, SystemTime};

use prost_types::Timestamp;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tonic::Status;
use tonic::codegen::http::header::{HeaderMap, HeaderName, HeaderValue};

use super::tls::Trust;
use crate::certificate::Certificate;
use kelson_proto::call::ENDS_IN;

/// How late at most it is noticed that the wall clock was set forward.
const LOOK: Duration = Duration::from_secs(30);

/// Both clocks at one moment.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    monotonic: Instant,
    /// Since 1970.
    wall: Duration,
}

impl Now {
    fn read() -> Now {
        // A clock before 1970 has every certificate yet to begin.
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Now { monotonic: Instant::now(), wall }
    }
}

/// Why calls are cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The last second of the certificate, since 1970.
    Certificate(u64),
    Trust,
}

impl End {
    fn status(self) -> Status {
        Status::unauthenticated(self.to_string())
    }
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            End::Certificate(last) => write!(
                f,
                "the client's certificate ended at {}; make a new one, for instance with `kelsonctl gen config`, and \
                 connect again",
                time(*last)
            ),
            End::Trust => f.write_str(
                "the machine no longer trusts the CA of the client's certificate; get one that its new CA has signed, and \
                 connect again",
            ),
        }
    }
}

fn time(seconds: u64) -> Timestamp {
    Timestamp { seconds: i64::try_from(seconds).unwrap_or(i64::MAX), nanos: 0 }
}

/// The step that is due on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// It takes no new calls.
    Renewal,
    /// Its calls are cut.
    End(End),
}

/// When what is due.
#[derive(Debug, Clone, Copy)]
struct Term {
    /// `None`: it was sent.
    renew_at: Option<Instant>,
    /// The last second in which the certificate holds, since 1970.
    last: u64,
}

impl Term {
    /// Returns the step that is due now; otherwise the time to wait until it is asked again.
    fn due(&self, now: Now) -> Result<Due, Duration> {
        // Both bounds of a certificate belong to it.
        let end = Duration::from_secs(self.last).saturating_add(Duration::from_secs(1));
        let left = end.saturating_sub(now.wall);
        if left.is_zero() {
            return Ok(Due::End(End::Certificate(self.last)));
        }
        let wait = left.min(LOOK);
        match self.renew_at.map(|at| at.saturating_duration_since(now.monotonic)) {
            Some(Duration::ZERO) => Ok(Due::Renewal),
            Some(until) => Err(wait.min(until)),
            None => Err(wait),
        }
    }
}

/// How the connection stands, for its calls.
#[derive(Debug, Clone, Copy)]
struct Standing {
    last: u64,
    end: Option<End>,
}

/// Looks after the term of one connection.
pub struct Guard {
    term: Term,
    chain: Vec<CertificateDer<'static>>,
    trust: watch::Receiver<Trust>,
    standing: watch::Sender<Standing>,
}

impl Guard {
    /// `chain` is what the client has shown, its own certificate first. `None`: no handshake with it would succeed now.
    pub fn new(
        chain: Vec<CertificateDer<'static>>,
        mut trust: watch::Receiver<Trust>,
        lifetime: Duration,
    ) -> Option<Guard> {
        let now = Now::read();
        let last = last(&chain, &trust.borrow_and_update(), now.wall)?;
        let term = Term { renew_at: now.monotonic.checked_add(lifetime), last };
        let (standing, _) = watch::channel(Standing { last, end: None });
        Some(Guard { term, chain, trust, standing })
    }

    pub fn calls(&self) -> Calls {
        Calls(self.standing.subscribe())
    }

    /// Awaits what is due next: a renewal at most once, then the end, which the calls hear of. Cancelled by dropping,
    /// without loss.
    pub async fn next(&mut self) -> Due {
        loop {
            let wait = match self.term.due(Now::read()) {
                Ok(due) => return self.announce(due),
                Err(wait) => wait,
            };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                Ok(()) = self.trust.changed() => {
                    let last = last(&self.chain, &self.trust.borrow_and_update(), Now::read().wall);
                    let Some(last) = last else { return self.announce(Due::End(End::Trust)) };
                    self.term.last = last;
                    self.standing.send_modify(|standing| standing.last = last);
                }
            }
        }
    }

    fn announce(&mut self, due: Due) -> Due {
        match due {
            Due::Renewal => self.term.renew_at = None,
            Due::End(end) => self.standing.send_modify(|standing| standing.end = Some(end)),
        }
        due
    }
}

/// The last second in which a handshake with this chain would succeed. `None`: none would now.
fn last(chain: &[CertificateDer<'_>], trust: &Trust, now: Duration) -> Option<u64> {
    if !trust.accepts(chain, now) {
        return None;
    }
    let ends = chain.iter().filter_map(|certificate| Certificate::read(certificate)?.validity());
    let mut ends: Vec<u64> = ends.filter_map(|validity| u64::try_from(validity.until).ok()).collect();
    ordered::sort(&mut ends);
    // Not each certificate of the chain is needed: the first whose end makes a difference counts.
    ends.into_iter().find(|last| {
        let after = Duration::from_secs(last.saturating_add(1));
        after > now && !trust.accepts(chain, after)
    })
}

/// The state of a connection's term, for its calls.
#[derive(Debug, Clone)]
pub struct Calls(watch::Receiver<Standing>);

impl Calls {
    /// Resolves when they are cut, to the status that they end with.
    pub async fn cut(mut self) -> Status {
        let cut = self.0.wait_for(|standing| standing.end.is_some()).await;
        let end = cut.ok().and_then(|standing| standing.end);
        match end {
            Some(end) => end.status(),
            // The connection is over.
            None => std::future::pending().await,
        }
    }

    /// Says in an answer how long the client's certificate still holds.
    pub fn note(&self, headers: &mut HeaderMap) {
        let left = self.0.borrow().last.saturating_sub(Now::read().wall.as_secs());
        headers.insert(HeaderName::from_static(ENDS_IN), HeaderValue::from(left));
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

    use super::super::arguments::Arguments;
    use super::super::material::Material;
    use super::*;

    const DAY: u64 = 86_400;
    const HOUR: Duration = Duration::from_secs(3600);

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_renewal_is_due_once_and_the_end_whenever_it_is_later() {
        let opened = Instant::now();
        let mut term = Term { renew_at: Some(opened + HOUR), last: 2 * DAY };
        let at = |after: u64| Now { monotonic: opened + seconds(after), wall: seconds(DAY + after) };
        assert_eq!(term.due(at(0)), Err(LOOK));
        assert_eq!(term.due(at(3590)), Err(seconds(10)));
        assert_eq!(term.due(at(3600)), Ok(Due::Renewal));
        term.renew_at = None;
        assert_eq!(term.due(at(3601)), Err(LOOK));
        assert_eq!(term.due(at(DAY)), Err(seconds(1)), "the last second belongs to it");
        assert_eq!(term.due(at(DAY + 1)), Ok(Due::End(End::Certificate(2 * DAY))));
        // Before the hour is over: the end comes first.
        let short = Term { renew_at: Some(opened + HOUR), last: DAY + 9 };
        assert_eq!(short.due(at(0)), Err(seconds(10)));
        assert_eq!(short.due(at(3600)), Ok(Due::End(End::Certificate(DAY + 9))));
    }

    #[test]
    fn a_clock_that_is_set_moves_the_end_and_not_the_renewal() {
        let opened = Instant::now();
        let term = Term { renew_at: Some(opened + HOUR), last: 2 * DAY };
        let at =
            |after: u64, wall: u64| term.due(Now { monotonic: opened + seconds(after), wall: seconds(wall) });
        assert_eq!(at(60, 2 * DAY + 1), Ok(Due::End(End::Certificate(2 * DAY))), "set forward");
        assert_eq!(at(61, 0), Err(LOOK), "set back");
        assert_eq!(at(3600, 0), Ok(Due::Renewal));
    }

    /// A CA, or one below a CA, whose certificate holds up to this second.
    fn authority(above: Option<&Authority>, last: u64) -> Authority {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, format!("CA until {last}"));
        params.not_after = rcgen::date_time_ymd(1970, 1, 1) + seconds(last);
        params.not_before = rcgen::date_time_ymd(1970, 1, 1);
        let key = KeyPair::generate().unwrap();
        match above {
            None => CertifiedIssuer::self_signed(params, key).unwrap(),
            Some(above) => CertifiedIssuer::signed_by(params, key, above).unwrap(),
        }
    }

    type Authority = CertifiedIssuer<'static, KeyPair>;

    fn leaf(authority: &Authority, last: u64) -> (rcgen::Certificate, KeyPair) {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(1970, 1, 2);
        params.not_after = rcgen::date_time_ymd(1970, 1, 1) + seconds(last);
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, authority).unwrap(), key)
    }

    fn trust(authority: &Authority) -> Trust {
        let (certificate, key) = leaf(authority, 9 * DAY);
        let material = Material {
            ca: authority.pem().into(),
            certificate: certificate.pem().into(),
            key: key.serialize_pem().into(),
        };
        let none = std::path::PathBuf::new;
        Trust::new(&Arguments::of_files(none(), none(), none()), &material).unwrap()
    }

    #[test]
    fn the_end_is_that_of_the_first_certificate_that_is_needed() {
        let root = authority(None, 99 * DAY);
        let between = authority(Some(&root), 5 * DAY);
        let stranger = authority(None, 3 * DAY);
        let trust = trust(&root);
        let now = seconds(2 * DAY);
        let last = |chain: &[&rcgen::Certificate], now| {
            let chain: Vec<_> = chain.iter().map(|certificate| certificate.der().clone()).collect();
            last(&chain, &trust, now)
        };
        let (direct, _) = leaf(&root, 7 * DAY);
        assert_eq!(last(&[&direct], now), Some(7 * DAY));
        assert_eq!(last(&[&direct, stranger.as_ref()], now), Some(7 * DAY), "nothing hangs on the other one");
        assert_eq!(last(&[&direct, stranger.as_ref()], seconds(4 * DAY)), Some(7 * DAY));
        assert_eq!(last(&[&direct], seconds(7 * DAY)), Some(7 * DAY));
        assert_eq!(last(&[&direct], seconds(7 * DAY + 1)), None);
        let (below, _) = leaf(&between, 7 * DAY);
        assert_eq!(last(&[&below, between.as_ref()], now), Some(5 * DAY));
        assert_eq!(last(&[&below], now), None, "its chain is not whole");
        assert_eq!(last(&[&leaf(&stranger, 7 * DAY).0], now), None);
        assert_eq!(last(&[], now), None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_trusted_from_now_on_is_heard_of_at_once() {
        let (ours, other) = (authority(None, 9 << 30), authority(None, 9 << 30));
        let (certificate, _) = leaf(&ours, 9 << 30);
        let (change, changed) = watch::channel(trust(&ours));
        let mut guard = Guard::new(vec![certificate.der().clone()], changed, HOUR).unwrap();
        let cut = guard.calls().cut();
        let begun = Instant::now();
        assert_eq!(guard.next().await, Due::Renewal);
        assert!((HOUR..HOUR + seconds(1)).contains(&begun.elapsed()), "{:?}", begun.elapsed());
        // The same again changes nothing.
        change.send_replace(trust(&ours));
        assert!(tokio::time::timeout(HOUR * 24, guard.next()).await.is_err(), "there is one renewal");
        change.send_replace(trust(&other));
        assert_eq!(guard.next().await, Due::End(End::Trust));
        let status = cut.await;
        assert_eq!(status.code(), tonic::Code::Unauthenticated);
        assert!(status.message().starts_with("the machine no longer trusts the CA"), "{status:?}");
    }

    #[test]
    fn an_end_says_when_it_was_and_what_to_do() {
        let said = End::Certificate(1_795_254_485).to_string();
        assert!(said.starts_with("the client's certificate ended at 2026-11-21T09:48:05Z; "), "{said}");
    }
}
