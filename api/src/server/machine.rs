//! The service Machine: how the host booted, its kernel log, and how its run ends.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use kelson_proto::v1;
use kelson_proto::v1::machine_server::Machine;
use kelson_services::Manager;
use kelson_services::host::{BootReport, Host, HostRequest, PhaseRecord, Resumed, Secret, ShutdownAction};
use kelson_services::spec::names::{LONGEST_HOSTNAME, is_hostname};
use kelson_sys::ordered;
use kelson_sys::text::harmless;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status};

use super::audit::record;
use super::caller::Caller;
use super::kmsg::KernelLog;
use super::model;
use super::services::{about, caller, ending, span};

/// Longest reason that goes to the log, in characters.
const REASON_MAX: usize = 200;
/// Bytes of entropy for the kernel: as strong as its generator, and as much as that holds.
const ENTROPY: RangeInclusive<usize> = 32..=512;
/// Bytes of the key of a disk: what fits into an empty pipe.
const KEY: RangeInclusive<usize> = 1..=4096;
/// How long a renewal after a resume may take, where the caller gives no time, and at most.
const RENEWAL: Duration = Duration::from_secs(30);
const LONGEST_RENEWAL: Duration = Duration::from_secs(600);

pub struct MachineApi {
    pub manager: Manager,
    pub host: Host,
    /// Its sender is dropped when PID 1 ends.
    pub closed: watch::Receiver<()>,
}

fn phase(record: &PhaseRecord) -> v1::BootPhase {
    let tasks = record.tasks.iter().map(|task| v1::BootTask {
        name: task.name.clone(),
        start: Some(model::duration(task.start)),
        duration: task.duration.map(model::duration),
        error: task.error.clone().unwrap_or_default(),
        message: task.message.clone(),
    });
    v1::BootPhase {
        name: record.name.clone(),
        start: Some(model::duration(record.start)),
        duration: record.duration.map(model::duration),
        tasks: tasks.collect(),
    }
}

/// The caller and the reason, for the log.
fn reason(caller: &str, given: &str) -> String {
    let given: String = harmless(given, None).take(REASON_MAX).collect();
    if given.is_empty() { caller.to_owned() } else { format!("{caller}: {given}") }
}

impl MachineApi {
    /// The services' part in the boot, in order of their start. Services that were started later are no part
    /// of the boot.
    fn boot_services(&self, boot: &BootReport) -> Vec<v1::BootService> {
        let graph = self.manager.graph();
        let mut after: HashMap<String, Vec<String>> = HashMap::new();
        let services: Vec<&str> =
            graph.nodes.iter().filter(|node| node.is_service).map(|node| node.id.as_str()).collect();
        for edge in graph.edges.iter().filter(|edge| services.contains(&edge.to.as_str())) {
            let names = after.entry(edge.from.clone()).or_default();
            if !names.contains(&edge.to) {
                names.push(edge.to.clone());
            }
        }
        let mut snapshots = self.manager.list();
        snapshots.retain(|snapshot| match (boot.total, snapshot.spawned_after) {
            (Some(total), Some(spawned)) => spawned <= total,
            (Some(_), None) => false,
            (None, _) => true,
        });
        // Those that wait still come last.
        ordered::sort_by_key(&mut snapshots, |snapshot| {
            (snapshot.spawned_after.is_none(), snapshot.spawned_after)
        });
        let told = snapshots.iter().map(|snapshot| v1::BootService {
            name: snapshot.name.to_string(),
            spawned: snapshot.spawned_after.map(model::duration),
            up: snapshot.up_after.map(model::duration),
            after: after.remove(&*snapshot.name).unwrap_or_default(),
        });
        told.collect()
    }
}

#[tonic::async_trait]
#[deny(clippy::missing_trait_methods, reason = "a call without a body here would be refused as unknown")]
impl Machine for MachineApi {
    async fn version(&self, _: Request<v1::VersionRequest>) -> Result<Response<v1::VersionResponse>, Status> {
        let names = nix::sys::utsname::uname()
            .map_err(|error| Status::internal(format!("the kernel does not tell its name: {error}")))?;
        Ok(Response::new(v1::VersionResponse {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            mode: self.host.mode.to_owned(),
            hostname: names.nodename().to_string_lossy().into_owned(),
            kernel: names.release().to_string_lossy().into_owned(),
            started: Some(self.host.started.into()),
            reexecs: self.host.reexecs,
            crashes: self.host.crashes,
            uptime: Some(model::duration(self.manager.since_start())),
            missing_features: self.host.features.missing().map(str::to_owned).collect(),
        }))
    }

    async fn caller(
        &self,
        request: Request<v1::CallerRequest>,
    ) -> Result<Response<v1::CallerResponse>, Status> {
        let caller = request.extensions().get::<Caller>();
        let caller = caller.ok_or_else(|| Status::internal("the call came from nobody"))?;
        let (identity, role) = (caller.identity(), caller.role().to_owned());
        Ok(Response::new(v1::CallerResponse { identity, role }))
    }

    async fn boot(&self, _: Request<v1::BootRequest>) -> Result<Response<v1::BootResponse>, Status> {
        let boot = self.host.boot.borrow().clone();
        Ok(Response::new(v1::BootResponse {
            phases: boot.phases.iter().map(phase).collect(),
            kernel: boot.kernel.map(model::duration),
            total: boot.total.map(model::duration),
            services: self.boot_services(&boot),
        }))
    }

    async fn shutdown(
        &self,
        request: Request<v1::ShutdownRequest>,
    ) -> Result<Response<v1::ShutdownResponse>, Status> {
        let (caller, record) = (caller(&request), record(&request));
        let request = request.into_inner();
        let how = request.action().as_str_name().trim_start_matches("ACTION_").to_ascii_lowercase();
        about(record.as_deref(), format!("{how} {}", request.reason).trim_end());
        let action = match request.action() {
            v1::shutdown_request::Action::Reboot => ShutdownAction::Reboot,
            v1::shutdown_request::Action::Kexec => ShutdownAction::Kexec,
            v1::shutdown_request::Action::Poweroff => ShutdownAction::PowerOff,
            v1::shutdown_request::Action::Halt => ShutdownAction::Halt,
            v1::shutdown_request::Action::Unspecified => {
                return Err(Status::invalid_argument("say how to end: reboot, kexec, power off or halt"));
            }
        };
        let reason = reason(&caller, &request.reason);
        let (reply, answer) = oneshot::channel();
        self.host.requests.send(HostRequest::Shutdown { action, reason, reply }).await.map_err(ending)?;
        let message = answer.await.map_err(ending)?.map_err(model::status)?;
        Ok(Response::new(v1::ShutdownResponse { message }))
    }

    async fn reexec(
        &self,
        request: Request<v1::ReexecRequest>,
    ) -> Result<Response<v1::ReexecResponse>, Status> {
        let reason = reason(&caller(&request), &request.get_ref().reason);
        let (reply, answer) = oneshot::channel();
        self.host.requests.send(HostRequest::Reexec { reason, reply }).await.map_err(ending)?;
        answer.await.map_err(ending)?.map(Response::new).map_err(model::status)
    }

    async fn resumed(
        &self,
        request: Request<v1::ResumedRequest>,
    ) -> Result<Response<v1::ResumedResponse>, Status> {
        let asked_by = caller(&request);
        let request = request.into_inner();
        if !ENTROPY.contains(&request.entropy.len()) {
            return Err(Status::invalid_argument(format!(
                "send {} to {} bytes of entropy, drawn outside the machine, and not {}",
                ENTROPY.start(),
                ENTROPY.end(),
                request.entropy.len()
            )));
        }
        let hostname = Some(request.hostname).filter(|name| !name.is_empty());
        if hostname.as_deref().is_some_and(|name| !is_hostname(name)) {
            return Err(Status::invalid_argument(format!(
                "the host name is not one: use letters, digits, - and ., at most {LONGEST_HOSTNAME}"
            )));
        }
        let timeout = request.timeout.map(|timeout| span(timeout, "timeout")).transpose()?;
        let timeout = timeout.unwrap_or(RENEWAL).min(LONGEST_RENEWAL);
        let deadline = Instant::now().checked_add(timeout).unwrap_or_else(Instant::now);
        let resumed = Resumed { entropy: request.entropy, hostname, deadline, asked_by };
        let (reply, answer) = oneshot::channel();
        self.host.requests.send(HostRequest::Resumed { resumed, reply }).await.map_err(ending)?;
        answer.await.map_err(ending)?.map(Response::new).map_err(model::status)
    }

    async fn unlock_disk(
        &self,
        request: Request<v1::UnlockDiskRequest>,
    ) -> Result<Response<v1::UnlockDiskResponse>, Status> {
        let (asked_by, record) = (caller(&request), record(&request));
        let v1::UnlockDiskRequest { name, key } = request.into_inner();
        let key = Secret::new(key);
        about(record.as_deref(), &name);
        if !KEY.contains(&key.bytes().len()) {
            let text = format!("send a key of {} to {} bytes", KEY.start(), KEY.end());
            return Err(Status::invalid_argument(text));
        }
        let (reply, answer) = oneshot::channel();
        self.host
            .requests
            .send(HostRequest::UnlockDisk { name, key, asked_by, reply })
            .await
            .map_err(ending)?;
        let message = answer.await.map_err(ending)?.map_err(model::status)?;
        Ok(Response::new(v1::UnlockDiskResponse { message }))
    }

    async fn recovery_key(
        &self,
        request: Request<v1::RecoveryKeyRequest>,
    ) -> Result<Response<v1::RecoveryKeyResponse>, Status> {
        let record = record(&request);
        let v1::RecoveryKeyRequest { name, forget } = request.into_inner();
        about(record.as_deref(), &name);
        let (reply, answer) = oneshot::channel();
        self.host.requests.send(HostRequest::RecoveryKey { name, forget, reply }).await.map_err(ending)?;
        let key = answer.await.map_err(ending)?.map_err(model::status)?;
        Ok(Response::new(v1::RecoveryKeyResponse { key }))
    }

    async fn dmesg(
        &self,
        request: Request<v1::DmesgRequest>,
    ) -> Result<Response<BoxStream<v1::DmesgResponse>>, Status> {
        let log = KernelLog::open(request.into_inner().follow, self.closed.clone())?;
        Ok(Response::new(Box::pin(futures_util::stream::unfold(log, |mut log| async move {
            let next = log.next().await?;
            Some((next, log))
        }))))
    }
}
