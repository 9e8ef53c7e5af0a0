//! The secrets of services: kept, listed and removed by `kelson-task`. PID 1 passes a value on, and reads none.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kelson_helper::task::SecretRequest;
use kelson_helper::{CONTROL, Launcher};
use kelson_services::ServicesError;
use kelson_services::host::{HostRequest, Secret, SecretRow};
use kelson_services::manager::{Manager, Outcome};
use kelson_spec::features::{Feature, OWN};
use kelson_spec::secrets::{OnChange, SecretUse, StoredSecret, folder, is_name, wrong_name};
use kelson_spec::{ServiceSpec, quoted, wire};
use nix::fcntl::OFlag;
use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::task;

/// How long one call may take: the disk of the state folder may be slow.
pub(super) const CALL: Duration = Duration::from_secs(30);
/// The longest list, in bytes.
const LONGEST_LIST: u64 = 4 << 20;

/// The parts of PID 1 that keep secrets.
#[derive(Clone)]
pub(super) struct Secrets {
    pub(super) tasks: Arc<dyn Launcher>,
    pub(super) manager: Manager,
    pub(super) state: PathBuf,
    pub(super) runtime: PathBuf,
    /// One change at a time.
    pub(super) turn: Arc<tokio::sync::Mutex<()>>,
}

impl Secrets {
    /// Answers beside all else: a disk may be slow. Without the feature the API passes nothing on.
    pub(super) fn answer(&self, request: HostRequest) {
        if const { !OWN.has(Feature::Secrets) } {
            return;
        }
        let secrets = self.clone();
        // A caller may have gone away.
        kelson_sys::spawn(async move {
            match request {
                HostRequest::SetSecret { name, value, asked_by, reply } => {
                    let _ = reply.send(secrets.set(&name, &value, &asked_by).await);
                }
                HostRequest::ListSecrets { reply } => _ = reply.send(secrets.list().await),
                HostRequest::RemoveSecret { name, force, asked_by, reply } => {
                    let _ = reply.send(secrets.remove(&name, force, &asked_by).await);
                }
                _ => {}
            }
        });
    }

    /// Keeps a value, and does with the services that run with the one before what their files say. Returns the others of those.
    async fn set(&self, name: &str, value: &Secret, asked_by: &str) -> Result<Vec<String>, ServicesError> {
        if !is_name(name) {
            return Err(ServicesError::NotNow(wrong_name(name)));
        }
        let value =
            pipe(value).map_err(|error| ServicesError::NotNow(format!("a pipe for the value: {error}")))?;
        let turn = self.turn.lock().await;
        let request = SecretRequest::Set { name: name.to_owned(), author: asked_by.to_owned() };
        self.run(&request, value).await?;
        drop(turn);
        self.manager.host_event(&format!("secret {name} is set by {asked_by}"));
        let rows = self.list().await?.into_iter();
        let mut outdated = Vec::new();
        for service in rows.filter(|row| row.stored.name == name).flat_map(|row| row.outdated) {
            if !self.has_renewed(&service, name).await {
                outdated.push(service);
            }
        }
        Ok(outdated)
    }

    /// Restarts a service, or gives it the value and a signal, as its file says. False: it runs with the value before.
    async fn has_renewed(&self, service: &str, name: &str) -> bool {
        let spec = self.manager.spec(service);
        let secret = spec.as_ref().and_then(|spec| spec.secrets.iter().find(|one| one.name == name));
        let done = match secret.and_then(|secret| Some((secret, secret.on_change?))) {
            None => return false,
            Some((_, OnChange::Restart)) => self.restart(service).await,
            Some((secret, OnChange::Signal(signal))) => self.signal(service, secret, signal).await,
        };
        if let Err(why) = &done {
            self.manager.host_event(&format!("secret {name} has not reached {service}: {why}"));
        }
        done.is_ok()
    }

    async fn restart(&self, service: &str) -> Result<(), String> {
        let mut results = self.manager.restart(&[service.to_owned()], false).await;
        let result = results.pop();
        let refused = result.filter(|result| matches!(result.outcome, Outcome::Refused | Outcome::Failed));
        refused.map_or(Ok(()), |result| Err(result.message))
    }

    async fn signal(&self, service: &str, secret: &SecretUse, signal: i32) -> Result<(), String> {
        let folder = folder(&self.runtime, service);
        let request =
            SecretRequest::Renew { folder, secret: secret.clone() }.within(&self.state, &self.runtime);
        task::run(&*self.tasks, &request, CALL).await.map_err(|error| error.to_string())?;
        let asked_by = format!("another value of secret {}", secret.name);
        let sent = self.manager.signal(service, signal, asked_by).await;
        sent.map(drop).map_err(|error| error.to_string())
    }

    async fn remove(&self, name: &str, force: bool, asked_by: &str) -> Result<(), ServicesError> {
        let services = self.users(name).map(|(spec, _)| spec.name.clone());
        let services: Vec<String> = services.collect();
        if !services.is_empty() && !force {
            return Err(ServicesError::NotNow(format!(
                "secret {} is used by {}; change their files first, or use --force",
                quoted(name),
                services.join(", ")
            )));
        }
        let _turn = self.turn.lock().await;
        let request = SecretRequest::Remove { name: name.to_owned() }.within(&self.state, &self.runtime);
        let done = task::run(&*self.tasks, &request, CALL).await;
        done.map_err(|error| ServicesError::Unknown(error.to_string()))?;
        self.manager.host_event(&format!("secret {name} is removed by {asked_by}"));
        Ok(())
    }

    async fn list(&self) -> Result<Vec<SecretRow>, ServicesError> {
        let failed = |error: std::io::Error| ServicesError::NotNow(format!("memory for the list: {error}"));
        let memory =
            memfd_create(c"kelson-secrets", MFdFlags::MFD_CLOEXEC).map_err(|errno| failed(errno.into()))?;
        let mut memory = File::from(memory);
        let copy = memory.try_clone().map_err(failed)?;
        self.run(&SecretRequest::List, copy.into()).await?;
        let mut bytes = Vec::new();
        memory.rewind().map_err(failed)?;
        memory.take(LONGEST_LIST).read_to_end(&mut bytes).map_err(failed)?;
        let stored: Vec<StoredSecret> =
            wire::decode(&bytes).map_err(|error| ServicesError::NotNow(error.to_string()))?;
        Ok(stored.into_iter().map(|stored| self.row(stored)).collect())
    }

    async fn run(&self, request: &SecretRequest, descriptor: OwnedFd) -> Result<(), ServicesError> {
        let request = request.within(&self.state, &self.runtime);
        let done = task::run_with(&*self.tasks, &request, vec![(CONTROL, descriptor)], CALL).await;
        done.map(drop).map_err(|error| ServicesError::NotNow(error.to_string()))
    }

    fn row(&self, stored: StoredSecret) -> SecretRow {
        let (mut services, mut outdated) = (Vec::new(), Vec::new());
        for (spec, secret) in self.users(&stored.name) {
            services.push(spec.name.clone());
            // The folder is in memory, and the time of a file that at which its secret was set.
            let file = folder(&self.runtime, &spec.name).join(&secret.file);
            let placed = fs::metadata(file).and_then(|found| found.modified());
            if let (Ok(placed), Ok(about)) = (placed, &stored.found)
                && placed != about.set_at
            {
                outdated.push(spec.name.clone());
            }
        }
        SecretRow { stored, services, outdated }
    }

    /// The services whose files name a secret.
    fn users(&self, name: &str) -> impl Iterator<Item = (Arc<ServiceSpec>, SecretUse)> {
        let services = self.manager.list().into_iter();
        let specs = services.filter_map(|service| self.manager.spec(&service.name));
        let users = specs.filter_map(|spec| {
            let secret = spec.secrets.iter().find(|secret| secret.name == name)?.clone();
            Some((spec, secret))
        });
        users.collect::<Vec<_>>().into_iter()
    }
}

/// A pipe that gives these bytes, which are never swapped there. The API lets no more through than an empty one holds.
pub(super) fn pipe(value: &Secret) -> std::io::Result<OwnedFd> {
    let (reader, writer) = nix::unistd::pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
    File::from(writer).write_all(value.bytes())?;
    Ok(reader)
}
