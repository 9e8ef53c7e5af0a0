//! `kelson-pull`: fetches one image from a registry, in a process that can do little else.
//!
//! It reads its files as root: the folder, the CAs, the passwords. Then it gives away all rights but those to its own folder
//! and the network ([`sandbox`]), and only then speaks with a registry. Its work can be cut off at any moment: what has
//! arrived is found and used by the next one, and an image is named once it is whole ([`store`]).
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::arithmetic_side_effects))]

mod blob;
mod body;
pub mod challenge;
mod connection;
mod credentials;
mod error;
pub mod manifest;
pub mod place;
mod prune;
mod pull;
mod registry;
mod retry;
mod sandbox;
mod signature;
mod store;

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kelson_helper::answer;
use kelson_image::{PULL, PullQuestion, PullWork, PullerOptions, Reference, Report};
use kelson_resolver::Resolver;
use kelson_spec::registries::RegistriesSpec;
use kelson_spec::wire;
use kelson_unpack::archive::Platform;
use kelson_unpack::reporter::Reporter;
use kelson_unpack::trust::{self, Needed, TrustError};

use connection::Network;
use credentials::Credentials;
use error::PullError;
use store::Store;

/// A sign of life, and how far the work is.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// Bytes of the question, of the CAs and of the passwords.
const QUESTION_MAX: usize = 1 << 20;
const FILE_MAX: u64 = 4 << 20;

/// The tools of the work.
pub(crate) struct Context {
    pub(crate) reporter: Arc<Reporter>,
    pub(crate) network: Network,
    pub(crate) registries: RegistriesSpec,
    pub(crate) credentials: Credentials,
    pub(crate) store: Arc<Store>,
    pub(crate) host: Platform,
    /// What the image has to show besides its name.
    pub(crate) needed: Needed,
}

/// Runs `kelson-pull`, which reads its question from standard input and reports to descriptor 3. The result is the exit
/// status.
pub fn main() -> i32 {
    let reporter = match Reporter::new() {
        Ok(reporter) => Arc::new(reporter),
        Err(error) => {
            eprintln!("{PULL} is started by init, with a pipe as descriptor 3: {error}");
            return 2;
        }
    };
    reporter.end_with_listener();
    let end = run(&reporter).unwrap_or_else(|error| Report::Failed(error.to_string()));
    let status = i32::from(matches!(end, Report::Failed(_)));
    reporter.send(&end);
    status
}

fn run(reporter: &Arc<Reporter>) -> Result<Report, PullError> {
    let PullQuestion { work, keep, places } = question()?;
    let folder = places.folder();
    if matches!(work, PullWork::Prune { .. }) && !folder.exists() {
        return Ok(Report::Done);
    }
    let needed = needed(&work, &places)?;
    let credentials = credentials(&places)?;
    let registries = places.registries;
    let authorities = authorities(registries.ca.as_deref())?;
    let resolver = Resolver::of_host();
    let in_folder = |error| PullError::File { path: folder.clone(), error };
    let notes = sandbox::enter(&folder).map_err(in_folder)?;
    for note in notes {
        reporter.send(&Report::Note(note));
    }
    let network =
        Network::new(resolver, &authorities, registries.proxy.as_deref()).map_err(PullError::Tls)?;
    let store = Arc::new(Store::open(Path::new(".")).map_err(in_folder)?);
    let (reporter, host) = (Arc::clone(reporter), Platform::host());
    let context = Context { reporter, network, registries, credentials, store, host, needed };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let end = runtime.block_on(answer(&context, work, keep.as_deref()));
    // A thread may still wait for a name server.
    runtime.shutdown_background();
    end
}

async fn answer(context: &Context, work: PullWork, keep: Option<&[String]>) -> Result<Report, PullError> {
    let heartbeat = Arc::clone(&context.reporter);
    tokio::spawn(async move {
        loop {
            heartbeat.heartbeat();
            tokio::time::sleep(HEARTBEAT).await;
        }
    });
    match work {
        PullWork::Pull { image, dry_run } => {
            let pulled = pull::run(context, &image, dry_run, keep).await?;
            context.reporter.heartbeat();
            Ok(Report::Pulled(pulled))
        }
        PullWork::Prune { dry_run } => prune::run(context, keep, dry_run).map(|()| Report::Done),
    }
}

/// What PID 1 asks for.
fn question() -> Result<PullQuestion, PullError> {
    let unread = |error: io::Error| PullError::Question(error.to_string());
    let bytes = answer::question(&mut io::stdin().lock(), QUESTION_MAX).map_err(unread)?;
    wire::decode(&bytes).map_err(|error| PullError::Question(error.to_string()))
}

/// What the rules want of the image. Reads the key, as root.
fn needed(work: &PullWork, places: &PullerOptions) -> Result<Needed, PullError> {
    let PullWork::Pull { image, .. } = work else { return Ok(Needed::Nothing) };
    match trust::needed(&places.verify, &Reference::parse(image)?).map_err(PullError::Trust)? {
        Needed::Minisign(_) => Err(PullError::Trust(TrustError::NoArchive)),
        needed => Ok(needed),
    }
}

/// The CAs; none where the distribution has none and no file is named.
fn authorities(named: Option<&Path>) -> Result<Vec<u8>, PullError> {
    match (named, read(named.unwrap_or(Path::new(RegistriesSpec::CA)))) {
        (None, Err(error)) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        (path, Err(error)) => {
            let path = path.map_or_else(|| PathBuf::from(RegistriesSpec::CA), Path::to_owned);
            Err(PullError::File { path, error })
        }
        (_, Ok(bytes)) => Ok(bytes),
    }
}

/// The names and passwords. The one place that knows where they come from.
fn credentials(places: &PullerOptions) -> Result<Credentials, PullError> {
    let PullerOptions { registries, state_dir, runtime_dir, .. } = places;
    let mut credentials = Credentials::default();
    if let Some(path) = &registries.credentials {
        let bytes = read(path).map_err(|error| PullError::File { path: path.clone(), error })?;
        let place = path.display().to_string();
        credentials.add(&bytes).map_err(|text| PullError::Content { place, text })?;
    }
    if let Some(name) = &registries.secret {
        let opened = kelson_secrets::Store::new(state_dir, runtime_dir).open(name)?;
        let place = format!("secret {name}");
        credentials.add(&opened.value).map_err(|text| PullError::Content { place, text })?;
    }
    Ok(credentials)
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}
