//! A host that has joined its fleet with a token: it asks for its certificate, and for the next one before the end of each.
//!
//! What it may register is in the certificate's file, too. A registration that it may not make waits here: the store refuses
//! a transaction as a whole, so one such name would keep the host and its other services out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kelson_proto::v1::{FleetRegister, FleetServiceState};
use kelson_spec::fleet::FleetSpec;
use kelson_sys::text::of_error;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::certificates::{Answer, Credentials, Request, ask};
use crate::identity;
use crate::limits::Limits;

/// The certificate of the host with its key.
const OWN: &str = "certificate.pem";
/// The key of a request that is not answered yet: the issuer may have counted it.
const PENDING: &str = "pending.key";
/// Services come up one after the other.
const GATHER: Duration = Duration::from_secs(1);
/// The time of day may jump, and the machine may be suspended.
const LOOK: Duration = Duration::from_secs(300);
/// Between two renewals, unless certificates are valid for less than three times that.
const PAUSE: Duration = Duration::from_secs(3600);
/// Refusals are not asked for as often as a store that is away.
const SLOWER: u32 = 4;

/// What has changed.
#[derive(Debug)]
pub enum News {
    /// The certificate, and the names that were asked for with it.
    Has(Credentials, BTreeSet<String>),
    /// Why there is no further certificate, for an operator.
    Problem(String),
}

/// Ends when it is dropped.
pub struct Membership {
    _task: JoinSet<()>,
    news: mpsc::Receiver<News>,
    wanted: watch::Sender<BTreeSet<String>>,
    /// The `register.name` of each service.
    names: BTreeMap<String, String>,
    /// What the host may not register.
    held: BTreeMap<String, FleetRegister>,
    /// The names that the issuer does not allow.
    refused: BTreeSet<String>,
    credentials: Option<Credentials>,
    problem: String,
}

impl Membership {
    /// Has the settings use the certificate. `folders`: the state folder, and the runtime folder. Must be called on the
    /// runtime.
    pub fn new(
        spec: &mut FleetSpec,
        token: PathBuf,
        host: String,
        folders: [PathBuf; 2],
        limits: Limits,
    ) -> Membership {
        let [_, runtime] = &folders;
        let file = identity::path(runtime, OWN);
        let (sender, news) = mpsc::channel(16);
        let (wanted, names) = watch::channel(BTreeSet::new());
        let credentials = Applicant::stored(&folders);
        (spec.certificate, spec.key) = (Some(file.clone()), Some(file));
        let applicant =
            Applicant { spec: spec.clone(), token, host, folders, limits, own: credentials.clone() };
        if let Some(own) = &applicant.own {
            let _ = applicant.place(own);
        }
        let mut task = JoinSet::new();
        task.spawn(kelson_sys::boxed(applicant.run(names, sender)));
        let (names, held) = (BTreeMap::new(), BTreeMap::new());
        let (refused, problem) = (BTreeSet::new(), String::new());
        Membership { _task: task, news, wanted, names, held, refused, credentials, problem }
    }

    /// Until when the certificate of the host is good, in seconds since 1970. `None`: there is none.
    pub fn until(&self) -> Option<u64> {
        self.credentials.as_ref().map(|own| own.until)
    }

    /// Why there is no certificate, or no further one; empty: nothing is wrong.
    pub fn problem(&self) -> &str {
        match self.problem.as_str() {
            "" if self.credentials.is_none() => "the host asks the issuer of the fleet for its certificate",
            problem => problem,
        }
    }

    /// What has changed next. Nothing is lost when this is dropped.
    pub async fn next(&mut self) -> News {
        match self.news.recv().await {
            Some(news) => news,
            None => std::future::pending().await,
        }
    }

    /// Takes it; the registrations that may be made now.
    pub fn take(&mut self, news: News) -> Vec<FleetRegister> {
        match news {
            News::Problem(problem) => {
                self.problem = problem;
                Vec::new()
            }
            News::Has(own, asked) => {
                self.problem.clear();
                self.refused = asked.difference(&own.services).cloned().collect();
                let held = std::mem::take(&mut self.held).into_iter();
                let (free, held): (BTreeMap<_, _>, BTreeMap<_, _>) =
                    held.partition(|(_, register)| own.services.contains(&register.name));
                self.held = held;
                self.credentials = Some(own);
                free.into_values().collect()
            }
        }
    }

    /// Whether the host may make this registration. If not, it waits here.
    pub fn may_register(&mut self, register: &FleetRegister) -> bool {
        self.names.insert(register.service.clone(), register.name.clone());
        let may = self.credentials.as_ref().is_some_and(|own| own.services.contains(&register.name));
        match may {
            true => drop(self.held.remove(&register.service)),
            false => drop(self.held.insert(register.service.clone(), register.clone())),
        }
        self.want();
        may
    }

    pub fn removed(&mut self, service: &str) {
        self.names.remove(service);
        self.held.remove(service);
        self.want();
    }

    fn want(&self) {
        let names: BTreeSet<String> = self.names.values().cloned().collect();
        self.wanted.send_if_modified(|known| (*known != names).then(|| *known = names).is_some());
    }

    /// How the registrations are that wait here: that of one service, or all.
    pub fn held(&self, service: Option<&str>) -> impl Iterator<Item = FleetServiceState> {
        let held =
            self.held.values().filter(move |held| service.is_none_or(|service| held.service == service));
        held.map(|register| FleetServiceState {
            service: register.service.clone(),
            state: "registering".to_owned(),
            address: String::new(),
            problem: match self.refused.contains(&register.name) {
                true => {
                    format!(
                        "the token with which the host has joined does not allow to register {}",
                        register.name
                    )
                }
                // Otherwise the issuer is asked.
                false => self.problem.clone(),
            },
        })
    }
}

/// Asks for certificates.
struct Applicant {
    /// With the certificate of the host.
    spec: FleetSpec,
    token: PathBuf,
    host: String,
    /// The state folder, and the runtime folder.
    folders: [PathBuf; 2],
    limits: Limits,
    own: Option<Credentials>,
}

impl Applicant {
    fn stored(folders: &[PathBuf; 2]) -> Option<Credentials> {
        let read = |folder: &PathBuf| identity::read_in(folder, OWN)?.parse::<Credentials>().ok();
        // The disk of the first may have been full.
        folders.iter().filter_map(read).max_by_key(|own| own.until)
    }

    async fn run(mut self, mut wanted: watch::Receiver<BTreeSet<String>>, news: mpsc::Sender<News>) {
        let (mut asked, mut failures) = (BTreeSet::new(), 0_u32);
        // With a clock that is ahead, each certificate seems to be at its end.
        let mut earliest = Instant::now();
        loop {
            let left = self.own.as_ref().map_or(Duration::ZERO, |own| {
                let due = Duration::from_secs(own.renew_at().saturating_sub(seconds()));
                due.max(earliest.saturating_duration_since(Instant::now()))
            });
            let known = |name: &String| {
                asked.contains(name) || self.own.as_ref().is_some_and(|own| own.services.contains(name))
            };
            if !left.is_zero() && wanted.borrow_and_update().iter().all(known) {
                tokio::select! {
                    () = sleep(left.min(LOOK)) => {}
                    changed = wanted.changed() => if changed.is_err() { return },
                }
                continue;
            }
            if failures == 0 {
                sleep(GATHER.min(self.limits.first_retry)).await;
            }
            let names = wanted.borrow_and_update().clone();
            let message = match self.next(&names).await {
                Ok(own) => {
                    (asked, failures) = (names.clone(), 0);
                    let third = Duration::from_secs(own.until.saturating_sub(own.renew_at()));
                    earliest = Instant::now().checked_add(third.min(PAUSE)).unwrap_or(earliest);
                    self.own = Some(own.clone());
                    News::Has(own, names)
                }
                Err(problem) => {
                    failures = failures.saturating_add(1);
                    News::Problem(problem)
                }
            };
            if news.send(message).await.is_err() {
                return;
            }
            if failures > 0 {
                sleep(self.limits.longest_pause(failures).saturating_mul(SLOWER)).await;
            }
        }
    }

    /// Gets the next certificate, as the host itself or, without a valid one, with the token.
    async fn next(&self, names: &BTreeSet<String>) -> Result<Credentials, String> {
        let mut problem = "";
        match &self.own {
            Some(own) if seconds() < own.until => {
                let next = self.exchange(&self.spec, &own.user, names).await;
                return next
                    .map_err(|error| format!("the certificate of the host cannot be renewed: {error}"));
            }
            Some(_) => problem = "the certificate of the host has expired; ",
            None => {}
        }
        let path = self.token.display();
        let text = std::fs::read_to_string(&self.token);
        let text = text.map_err(|error| format!("{problem}the token {path}: {}", of_error(&error)))?;
        let make = "`kelsonctl fleet token` makes another";
        let token: Credentials =
            text.parse().map_err(|error| format!("{problem}{path} is no token: {error}; {make}"))?;
        if token.until <= seconds() {
            return Err(format!("{problem}the token {path} has expired; {make}"));
        }
        let file = Some(self.token.clone());
        let spec = FleetSpec { certificate: file.clone(), key: file, ..self.spec.clone() };
        let joined = self.exchange(&spec, &token.user, names).await;
        joined.map_err(|error| format!("{problem}the token {path}: {error}"))
    }

    async fn exchange(
        &self,
        spec: &FleetSpec,
        user: &str,
        names: &BTreeSet<String>,
    ) -> Result<Credentials, String> {
        let key = self.pending()?;
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &key, &SystemRandom::new())
            .map_err(|_| self.unusable())?;
        let public_key = pair.public_key().as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let request = Request { public_key, services: names.clone() };
        let answer = ask(spec, user, &self.host, &request).await?;
        let Answer { certificate, user, services, from, until, .. } = answer;
        let pem = format!("{}\n{}", certificate.trim_end(), private_pem(&key));
        let own = Credentials { user, services, from, until, pem };
        // The next request is one with another key.
        self.place(&own)?;
        self.folders.iter().for_each(|folder| identity::forget(folder, PENDING));
        Ok(own)
    }

    /// Writes it where the next helper, and the next connection, find it.
    fn place(&self, own: &Credentials) -> Result<(), String> {
        let text = own.to_string();
        let [state, runtime] = &self.folders;
        // A host without a disk has it until its next boot.
        let _ = identity::write_in(state, OWN, text.trim_end());
        let path = identity::path(runtime, OWN);
        identity::write_in(runtime, OWN, text.trim_end())
            .map_err(|error| format!("{}: {}", path.display(), of_error(&error)))
    }

    /// The key of the next certificate, in PKCS #8.
    fn pending(&self) -> Result<Vec<u8>, String> {
        let read = |folder: &PathBuf| STANDARD.decode(identity::read_in(folder, PENDING)?).ok();
        if let Some(key) = self.folders.iter().find_map(read) {
            return Ok(key);
        }
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &SystemRandom::new());
        let key = made.map_err(|_| "the system has no randomness for a key".to_owned())?.as_ref().to_vec();
        let text = STANDARD.encode(&key);
        let written = self.folders.iter().find_map(|folder| identity::write_in(folder, PENDING, &text).ok());
        written.ok_or_else(|| self.unusable())?;
        Ok(key)
    }

    fn unusable(&self) -> String {
        let path = |folder: &PathBuf| identity::path(folder, PENDING).display().to_string();
        let paths: Vec<String> = self.folders.iter().map(path).collect();
        format!("a key can be kept neither in {}; look at the disk", paths.join(" nor in "))
    }
}

fn private_pem(key: &[u8]) -> String {
    let text = STANDARD.encode(key);
    let lines: Vec<&str> =
        text.as_bytes().chunks(64).filter_map(|line| std::str::from_utf8(line).ok()).collect();
    format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", lines.join("\n"))
}

/// Since 1970.
fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn register(name: &str) -> FleetRegister {
        FleetRegister { service: format!("{name}-1"), name: name.to_owned(), ..FleetRegister::default() }
    }

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_registration_waits_until_the_issuer_allows_it() {
        let folder = tempfile::tempdir().unwrap();
        let folders = ["state", "run"].map(|name| folder.path().join(name));
        let mut spec = FleetSpec::default();
        let mut membership =
            Membership::new(&mut spec, "/none".into(), "edge-1".into(), folders.clone(), Limits::default());
        assert_eq!(spec.key, Some(folders[1].join("fleet/certificate.pem")));
        assert!(!membership.may_register(&register("web")) && !membership.may_register(&register("db")));
        let problems = |membership: &Membership| -> Vec<String> {
            membership.held(None).map(|state| state.problem).collect()
        };
        assert_eq!(problems(&membership), ["", ""], "the issuer is asked");

        let news = membership.next().await;
        membership.take(news);
        assert_eq!(membership.problem(), "the token /none: no such file or directory");
        assert_eq!(problems(&membership), [membership.problem(); 2]);

        let (user, pem) = ("edge-1_7".to_owned(), String::new());
        let own = Credentials { user, services: names(&["web"]), from: 0, until: 9, pem };
        let free = membership.take(News::Has(own, names(&["db", "web"])));
        assert_eq!((free, membership.until(), membership.problem()), (vec![register("web")], Some(9), ""));
        let refused = problems(&membership);
        assert!(refused.len() == 1 && refused[0].ends_with("does not allow to register db"), "{refused:?}");
        assert!(membership.may_register(&register("web")));
        membership.removed("db-1");
        assert_eq!(membership.held(None).count(), 0);
    }
}
