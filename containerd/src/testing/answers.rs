//! The effect of each call on the records.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use containerd_client::services::v1::{self as api, snapshots};
use containerd_client::types::v1::{Process, Status as TaskStatus};
use containerd_client::types::{Descriptor, Mount};
use hyper::body::Incoming;
use hyper::{Request, Response};
use prost::Message;
use tonic::body::Body;
use tonic::server::{Grpc, UnaryService};
use tonic::{Code, Status};
use tonic_prost::ProstCodec;

use super::streams::{Read, Write};
use super::{State, Task};
use crate::health::HealthCheckResponse;

/// One kind of call: a request becomes an answer.
struct One<F>(F);

impl<Q, A, F: FnMut(Q) -> Result<A, Status>> UnaryService<Q> for One<F> {
    type Response = A;
    type Future = std::future::Ready<Result<tonic::Response<A>, Status>>;

    fn call(&mut self, request: tonic::Request<Q>) -> Self::Future {
        std::future::ready((self.0)(request.into_inner()).map(tonic::Response::new))
    }
}

async fn unary<Q, A>(request: Request<Incoming>, answer: impl FnMut(Q) -> Result<A, Status>) -> Response<Body>
where
    Q: Message + Default + Send + 'static,
    A: Message + Default + Send + 'static,
{
    Grpc::new(ProstCodec::<A, Q>::default()).unary(One(answer), request).await
}

pub(super) fn missing() -> Status {
    Status::not_found("it is not there")
}

fn fresh(new: bool) -> Result<(), Status> {
    if new { Ok(()) } else { Err(Status::already_exists("it is there")) }
}

pub(super) fn sha256(data: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, data);
    let hex = digest.as_ref().iter().map(|byte| format!("{byte:02x}"));
    format!("sha256:{}", hex.collect::<String>())
}

fn image(name: &str, digest: &str) -> api::Image {
    let target = Descriptor { digest: digest.to_owned(), ..Default::default() };
    api::Image { name: name.to_owned(), target: Some(target), ..Default::default() }
}

pub(super) async fn carry_out(
    shared: &Arc<Mutex<State>>,
    name: &str,
    lease: String,
    request: Request<Incoming>,
) -> Response<Body> {
    let records = || -> MutexGuard<'_, State> { shared.lock().unwrap() };
    macro_rules! reply {
        ($answer:expr) => {
            unary(request, $answer).await
        };
    }
    match name {
        "Health/Check" => reply!(|(): ()| Ok(HealthCheckResponse { status: 1 })),
        "Namespaces/Create" => {
            reply!(|_: api::CreateNamespaceRequest| {
                fresh(false).map(|()| api::CreateNamespaceResponse::default())
            })
        }
        "Introspection/Plugins" => reply!(|_: api::PluginsRequest| {
            let exports = HashMap::from([(String::from("root"), records().root.clone())]);
            let plugin = api::Plugin { id: String::from("overlayfs"), exports, ..Default::default() };
            Ok(api::PluginsResponse { plugins: vec![plugin] })
        }),
        "Leases/Create" => reply!(|q: api::CreateRequest| {
            let of_unpack = q.id.starts_with("kelson-unpack-");
            assert!(q.labels.is_empty() || !of_unpack, "one that expires goes by the wall clock");
            fresh(records().leases.insert(q.id)).map(|()| api::CreateResponse::default())
        }),
        "Leases/Delete" => reply!(|q: api::DeleteRequest| {
            let mut records = records();
            let State { active, containers, leases, .. } = &mut *records;
            active.retain(|key, lease| *lease != q.id || containers.contains_key(key));
            leases.take(&q.id).map(drop).ok_or_else(missing)
        }),
        "Leases/List" => reply!(|_: api::ListRequest| {
            let lease = |id: &String| api::Lease { id: id.clone(), ..Default::default() };
            Ok(api::ListResponse { leases: records().leases.iter().map(lease).collect() })
        }),
        "Leases/AddResource" => reply!(|q: api::AddResourceRequest| {
            records().leases.get(&q.id).map(|_| ()).ok_or_else(missing)
        }),
        "Content/Info" => reply!(|q: api::InfoRequest| {
            let records = records();
            let (data, labels) = records.blobs.get(&q.digest).ok_or_else(missing)?;
            let size = i64::try_from(data.len()).unwrap();
            let info = api::Info { digest: q.digest, size, labels: labels.clone(), ..Default::default() };
            Ok(api::InfoResponse { info: Some(info) })
        }),
        "Content/Abort" => {
            reply!(|q: api::AbortRequest| { records().ingests.take(&q.r#ref).map(drop).ok_or_else(missing) })
        }
        "Content/Update" => reply!(|q: api::UpdateRequest| {
            let info = q.info.unwrap();
            records().blobs.get_mut(&info.digest).ok_or_else(missing)?.1.extend(info.labels);
            Ok(api::UpdateResponse::default())
        }),
        "Content/Read" => {
            let codec = ProstCodec::<api::ReadContentResponse, api::ReadContentRequest>::default();
            Grpc::new(codec).server_streaming(Read(Arc::clone(shared)), request).await
        }
        "Content/Write" => {
            let codec = ProstCodec::<api::WriteContentResponse, api::WriteContentRequest>::default();
            Grpc::new(codec).streaming(Write(Arc::clone(shared)), request).await
        }
        "Images/Get" => reply!(|q: api::GetImageRequest| {
            let found = records().images.get(&q.name).map(|digest| image(&q.name, digest));
            Ok(api::GetImageResponse { image: Some(found.ok_or_else(missing)?) })
        }),
        "Images/List" => reply!(|_: api::ListImagesRequest| {
            let images = records().images.iter().map(|(name, digest)| image(name, digest)).collect();
            Ok(api::ListImagesResponse { images })
        }),
        "Images/Create" => reply!(|q: api::CreateImageRequest| {
            let (mut records, image) = (records(), q.image.unwrap());
            fresh(!records.images.contains_key(&image.name))?;
            records.images.insert(image.name, image.target.unwrap().digest);
            Ok(api::CreateImageResponse::default())
        }),
        "Images/Update" => reply!(|q: api::UpdateImageRequest| {
            let image = q.image.unwrap();
            records().images.insert(image.name, image.target.unwrap().digest);
            Ok(api::UpdateImageResponse::default())
        }),
        "Images/Delete" => reply!(|q: api::DeleteImageRequest| {
            records().images.remove(&q.name).map(drop).ok_or_else(missing)
        }),
        "Snapshots/Stat" => reply!(|q: snapshots::StatSnapshotRequest| {
            records().committed.get(&q.key).ok_or_else(missing)?;
            let info = snapshots::Info { kind: snapshots::Kind::Committed as i32, ..Default::default() };
            Ok(snapshots::StatSnapshotResponse { info: Some(info) })
        }),
        "Snapshots/Prepare" => reply!(|q: snapshots::PrepareSnapshotRequest| {
            let mut records = records();
            assert!(q.parent.is_empty() || records.committed.contains(&q.parent));
            assert!(records.leases.contains(&lease), "garbage collection would take it");
            fresh(records.active.insert(q.key, lease.clone()).is_none())?;
            Ok(snapshots::PrepareSnapshotResponse { mounts: vec![Mount::default()] })
        }),
        "Snapshots/View" => reply!(|q: snapshots::ViewSnapshotRequest| {
            let mut records = records();
            assert!(records.committed.contains(&q.parent));
            records.active.insert(q.key, lease.clone());
            let (r#type, source) = (String::from("bind"), records.root.clone());
            let mount = Mount { r#type, source, ..Default::default() };
            Ok(snapshots::ViewSnapshotResponse { mounts: vec![mount] })
        }),
        "Snapshots/Mounts" => reply!(|q: snapshots::MountsRequest| {
            let found = records().active.get(&q.key).map(|_| snapshots::MountsResponse::default());
            found.ok_or_else(missing)
        }),
        "Snapshots/Commit" => reply!(|q: snapshots::CommitSnapshotRequest| {
            let mut records = records();
            records.active.remove(&q.key).ok_or_else(missing)?;
            fresh(records.committed.insert(q.name))
        }),
        "Snapshots/Remove" => reply!(|q: snapshots::RemoveSnapshotRequest| {
            let mut records = records();
            if records.task.is_some() {
                return Err(Status::failed_precondition("it is in use"));
            }
            records.active.remove(&q.key).map(drop).ok_or_else(missing)
        }),
        "Diff/Apply" => reply!(|q: api::ApplyRequest| {
            let records = records();
            let (data, _) = records.blobs.get(&q.diff.unwrap().digest).ok_or_else(missing)?;
            let applied = Descriptor { digest: sha256(data), ..Default::default() };
            Ok(api::ApplyResponse { applied: Some(applied) })
        }),
        "Containers/Create" => reply!(|q: api::CreateContainerRequest| {
            let container = q.container.unwrap_or_default();
            let old = records().containers.insert(container.id.clone(), container);
            fresh(old.is_none()).map(|()| api::CreateContainerResponse::default())
        }),
        "Containers/Get" => reply!(|q: api::GetContainerRequest| {
            let container = records().containers.get(&q.id).cloned();
            Ok(api::GetContainerResponse { container: Some(container.ok_or_else(missing)?) })
        }),
        "Containers/Update" => reply!(|q: api::UpdateContainerRequest| {
            assert_eq!(q.update_mask.unwrap_or_default().paths, ["spec"]);
            let new = q.container.unwrap_or_default();
            records().containers.get_mut(&new.id).ok_or_else(missing)?.spec = new.spec;
            Ok(api::UpdateContainerResponse::default())
        }),
        "Containers/Delete" => reply!(|q: api::DeleteContainerRequest| {
            records().containers.remove(&q.id).map(drop).ok_or_else(missing)
        }),
        "Tasks/Create" => reply!(|q: api::CreateTaskRequest| {
            let mut records = records();
            records.containers.get(&q.container_id).ok_or_else(missing)?;
            fresh(records.task.is_none() && !records.shim)?;
            assert!(std::fs::metadata(&q.stdout).is_ok() && std::fs::metadata(&q.stderr).is_ok());
            let task = records.task.insert(Task::new(TaskStatus::Created));
            Ok(api::CreateTaskResponse { pid: task.child.id(), ..Default::default() })
        }),
        "Tasks/Start" => reply!(|_: api::StartRequest| {
            let mut records = records();
            let task = records.task.as_mut().ok_or_else(missing)?;
            if task.status != TaskStatus::Created {
                return Err(Status::failed_precondition("it is started already"));
            }
            task.status = TaskStatus::Running;
            let pid = task.child.id();
            records.started += 1;
            Ok(api::StartResponse { pid })
        }),
        "Tasks/Get" => reply!(|_: api::GetRequest| {
            let mut records = records();
            let unseen = records.unseen;
            let task = records.task.as_mut().ok_or_else(missing)?;
            task.look();
            let before = match task.status {
                TaskStatus::Running => Some(TaskStatus::Created),
                TaskStatus::Stopped => Some(TaskStatus::Running),
                _ => None,
            };
            let hidden = before.filter(|_| unseen > 0);
            let process = Process {
                pid: task.child.id(),
                status: hidden.unwrap_or(task.status) as i32,
                exit_status: task.code,
                ..Default::default()
            };
            records.unseen = unseen.saturating_sub(u32::from(hidden.is_some()));
            Ok(api::GetResponse { process: Some(process) })
        }),
        "Tasks/Kill" => reply!(|_: api::KillRequest| {
            let mut records = records();
            let task = records.task.as_mut().ok_or_else(missing)?;
            task.child.kill().map_err(|error| Status::not_found(error.to_string()))
        }),
        "Tasks/Delete" => reply!(|_: api::DeleteTaskRequest| {
            let mut records = records();
            if std::mem::take(&mut records.shim) {
                return Ok(api::DeleteResponse::default());
            }
            let task = records.task.as_mut().ok_or_else(missing)?;
            task.look();
            if task.status == TaskStatus::Running {
                return Err(Status::failed_precondition("it runs"));
            }
            records.task = None;
            Ok(api::DeleteResponse::default())
        }),
        "Tasks/Wait" => {
            let ended = loop {
                let status = records().task.as_mut().map(|task| {
                    task.look();
                    (task.status, task.code)
                });
                match status {
                    None => break Err(missing()),
                    Some((TaskStatus::Stopped, code)) => break Ok(code),
                    // The real one gets a report; this one polls.
                    Some(_) => tokio::time::sleep(Duration::from_millis(5)).await,
                }
            };
            reply!(|_: api::WaitRequest| {
                let exit_status = ended.clone()?;
                Ok(api::WaitResponse { exit_status, ..Default::default() })
            })
        }
        other => Status::new(Code::Unimplemented, other).into_http(),
    }
}
