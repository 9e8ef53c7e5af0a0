//! The files of the volumes, and what is done with them. Each step may have been done before.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::process::Command;
use tokio::sync::Mutex;
use tonic::Status;

use crate::csi::volume_usage::Unit;
use crate::csi::{Snapshot, VolumeUsage};

/// Of a volume whose size nobody asks for, in bytes.
const USUAL_SIZE: u64 = 64 << 20;
/// How the name of the file of a snapshot ends.
const SNAPSHOT: &str = ".snapshot";

/// Files with file systems in them, in one folder.
#[derive(Clone)]
pub struct Files {
    folder: PathBuf,
    /// Of the step under way.
    turn: Arc<Mutex<()>>,
}

impl Files {
    pub async fn new(folder: PathBuf) -> std::io::Result<Files> {
        tokio::fs::create_dir_all(&folder).await?;
        Ok(Files { folder, turn: Arc::default() })
    }

    /// Takes a step on this host to its end, one at a time. The tools of a call run on when its caller hangs up, and the
    /// caller then asks again.
    pub async fn step<T, F>(&self, step: impl FnOnce(Files) -> F) -> Result<T, Status>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Status>> + Send + 'static,
    {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        let step = step(self.clone());
        let taken = tokio::spawn(async move {
            let _turn = turn;
            step.await
        });
        taken.await.map_err(|error| Status::internal(error.to_string()))?
    }

    fn path(&self, id: &str) -> Result<PathBuf, Status> {
        if id.is_empty() || id.starts_with('.') || id.contains(['/', '@']) {
            return Err(Status::invalid_argument(format!("{id:?} is no id of a volume")));
        }
        Ok(self.folder.join(format!("{id}.img")))
    }

    /// The file of a volume that there is.
    pub fn find(&self, id: &str) -> Result<PathBuf, Status> {
        let path = self.path(id)?;
        match path.is_file() {
            true => Ok(path),
            false => Err(Status::not_found(format!("there is no volume {id}"))),
        }
    }

    /// A new file, or a copy of a snapshot. Returns its size in bytes.
    pub async fn create(&self, id: &str, asked: Option<u64>, snapshot: Option<&str>) -> Result<u64, Status> {
        let path = self.path(id)?;
        let source = snapshot.map(|snapshot| self.find_snapshot(snapshot)).transpose()?;
        let least = source.as_ref().and_then(|source| source.metadata().ok()).map(|found| found.len());
        let size = asked.or(least).unwrap_or(USUAL_SIZE).max(least.unwrap_or_default());
        match (path.metadata(), source) {
            (Ok(found), _) if found.len() == size => return Ok(size),
            (Ok(found), _) => {
                let text = format!("volume {id} is there with {} bytes", found.len());
                return Err(Status::already_exists(text));
            }
            (Err(_), Some(source)) => copy(&source, &path).await?,
            (Err(_), None) => {}
        }
        resize(&path, size)?;
        Ok(size)
    }

    /// Copies the file of a volume. The name of the copy is the id of the snapshot, and has that of the volume.
    pub async fn snapshot(&self, volume: &str, name: &str) -> Result<Snapshot, Status> {
        let file = self.find(volume)?;
        let end = format!("@{name}");
        let same_name = self.snapshots()?.into_iter().find(|one| one.snapshot_id.ends_with(&end));
        match same_name {
            Some(found) if found.source_volume_id == volume => return Ok(found),
            Some(found) => {
                let text = format!("{name} is a snapshot of {}", found.source_volume_id);
                return Err(Status::already_exists(text));
            }
            None => {}
        }
        if device(&file).await?.is_some() {
            let text = "the volume is in use: this plugin copies it, so stop the services that use it";
            return Err(Status::failed_precondition(text));
        }
        let path = self.snapshot_path(&format!("{volume}{end}"))?;
        copy(&file, &path).await?;
        described(&path).ok_or_else(|| Status::internal("the snapshot is not there"))
    }

    pub fn delete_snapshot(&self, id: &str) -> Result<(), Status> {
        removed(std::fs::remove_file(self.snapshot_path(id)?))
    }

    /// Those of all volumes, sorted.
    pub fn snapshots(&self) -> Result<Vec<Snapshot>, Status> {
        let entries = std::fs::read_dir(&self.folder).map_err(internal)?;
        let mut all: Vec<Snapshot> = entries.flatten().filter_map(|entry| described(&entry.path())).collect();
        all.sort_by(|one, other| one.snapshot_id.cmp(&other.snapshot_id));
        Ok(all)
    }

    fn find_snapshot(&self, id: &str) -> Result<PathBuf, Status> {
        let path = self.snapshot_path(id)?;
        match path.is_file() {
            true => Ok(path),
            false => Err(Status::not_found(format!("there is no snapshot {id}"))),
        }
    }

    fn snapshot_path(&self, id: &str) -> Result<PathBuf, Status> {
        match id.split_once('@') {
            Some((volume, name)) if !volume.is_empty() && !volume.starts_with('.') && !id.contains('/') => {
                Ok(self.folder.join(format!("{volume}@{name}{SNAPSHOT}")))
            }
            _ => Err(Status::not_found(format!("{id:?} is no id of a snapshot"))),
        }
    }

    pub async fn delete(&self, id: &str) -> Result<(), Status> {
        removed(std::fs::remove_file(self.path(id)?))
    }

    /// Makes the file larger; returns its size in bytes.
    pub async fn expand(&self, id: &str, wanted: u64) -> Result<u64, Status> {
        let path = self.find(id)?;
        let size = path.metadata().map_err(internal)?.len();
        if size < wanted {
            resize(&path, wanted)?;
        }
        Ok(size.max(wanted))
    }

    pub async fn stage(&self, id: &str, staging: &Path, kind: &str, flags: &[String]) -> Result<(), Status> {
        let file = self.find(id)?;
        if is_mounted(staging).await {
            return Ok(());
        }
        let device = match device(&file).await? {
            Some(device) => device,
            None => tool("losetup", &["--find", "--show", text(&file)?]).await?,
        };
        // It finds nothing in a new file.
        if tool("blkid", &["-p", &device]).await.is_err() {
            tool(&format!("mkfs.{kind}"), &["-q", &device]).await?;
        } else if kind.starts_with("ext") {
            // The file may have grown meanwhile. Its status says whether it has mended something.
            let _ = tool("e2fsck", &["-f", "-p", &device]).await;
            tool("resize2fs", &[&device]).await?;
        }
        let options = if flags.is_empty() { "defaults".to_owned() } else { flags.join(",") };
        tool("mount", &["-t", kind, "-o", &options, &device, text(staging)?]).await.map(drop)
    }

    pub async fn unstage(&self, id: &str, staging: &Path) -> Result<(), Status> {
        if is_mounted(staging).await {
            tool("umount", &[text(staging)?]).await?;
        }
        if let Some(device) = device(&self.path(id)?).await? {
            tool("losetup", &["--detach", &device]).await?;
        }
        Ok(())
    }

    pub async fn publish(&self, id: &str, from: &Path, to: &Path, read_only: bool) -> Result<(), Status> {
        self.find(id)?;
        if is_mounted(to).await {
            return Ok(());
        }
        if !is_mounted(from).await {
            return Err(Status::failed_precondition(format!("volume {id} is not staged")));
        }
        tokio::fs::create_dir_all(to).await.map_err(internal)?;
        let options = if read_only { "bind,ro" } else { "bind" };
        tool("mount", &["-o", options, text(from)?, text(to)?]).await.map(drop)
    }

    pub async fn unpublish(&self, target: &Path) -> Result<(), Status> {
        if is_mounted(target).await {
            tool("umount", &[text(target)?]).await?;
        }
        removed(std::fs::remove_dir(target))
    }

    /// Makes the file system as large as its file; returns the size in bytes.
    pub async fn grow(&self, id: &str) -> Result<u64, Status> {
        let file = self.find(id)?;
        let device = device(&file).await?;
        let device =
            device.ok_or_else(|| Status::failed_precondition(format!("volume {id} is not staged")))?;
        tool("losetup", &["--set-capacity", &device]).await?;
        tool("resize2fs", &[&device]).await?;
        Ok(file.metadata().map_err(internal)?.len())
    }
}

/// How much of a file system is used.
pub fn usage(path: &Path) -> Result<Vec<VolumeUsage>, Status> {
    let found = nix::sys::statvfs::statvfs(path).map_err(|error| Status::not_found(error.to_string()))?;
    let usage = |unit: Unit, total: u64, free: u64, available: u64| VolumeUsage {
        unit: unit.into(),
        total: total.cast_signed(),
        used: total.saturating_sub(free).cast_signed(),
        available: available.cast_signed(),
    };
    let bytes = |blocks: u64| blocks.saturating_mul(found.fragment_size());
    Ok(vec![
        usage(
            Unit::Bytes,
            bytes(found.blocks()),
            bytes(found.blocks_free()),
            bytes(found.blocks_available()),
        ),
        usage(Unit::Inodes, found.files(), found.files_free(), found.files_available()),
    ])
}

/// What the file of a snapshot says; `None`: it is none.
fn described(path: &Path) -> Option<Snapshot> {
    let id = path.file_name()?.to_str()?.strip_suffix(SNAPSHOT)?;
    let found = path.metadata().ok()?;
    Some(Snapshot {
        snapshot_id: id.to_owned(),
        source_volume_id: id.split_once('@')?.0.to_owned(),
        size_bytes: found.len().cast_signed(),
        creation_time: found.modified().ok().map(Into::into),
        ready_to_use: true,
        ..Snapshot::default()
    })
}

/// It has its name once it is whole.
async fn copy(from: &Path, to: &Path) -> Result<(), Status> {
    let half = to.with_extension("half");
    tool("cp", &["--sparse=always", "--reflink=auto", text(from)?, text(&half)?]).await?;
    std::fs::rename(half, to).map_err(internal)
}

/// What is gone need not be removed.
fn removed(result: std::io::Result<()>) -> Result<(), Status> {
    match result {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(internal(error)),
        _ => Ok(()),
    }
}

fn resize(path: &Path, size: u64) -> Result<(), Status> {
    let file = File::options().create(true).write(true).truncate(false).open(path);
    file.and_then(|file| file.set_len(size)).map_err(internal)
}

/// The loop device that a file is attached to.
async fn device(file: &Path) -> Result<Option<String>, Status> {
    let list = tool("losetup", &["--noheadings", "--output", "NAME", "--associated", text(file)?]).await?;
    Ok(list.lines().next().map(str::to_owned))
}

async fn is_mounted(path: &Path) -> bool {
    let asked = Command::new("mountpoint").arg("-q").arg(path).status().await;
    asked.is_ok_and(|status| status.success())
}

fn text(path: &Path) -> Result<&str, Status> {
    path.to_str().ok_or_else(|| Status::invalid_argument(format!("{} is no text", path.display())))
}

/// Runs a program to its end, and returns what it writes.
async fn tool(program: &str, arguments: &[&str]) -> Result<String, Status> {
    let output = Command::new(program).args(arguments).output().await;
    let output = output.map_err(|error| Status::internal(format!("{program}: {error}")))?;
    let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    match output.status.success() {
        true => Ok(shown(&output.stdout)),
        false => Err(Status::internal(format!("{program}: {}", shown(&output.stderr)))),
    }
}

fn internal(error: std::io::Error) -> Status {
    Status::internal(error.to_string())
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn a_step_comes_to_its_end_without_its_caller_and_before_the_next() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = Files::new(folder.path().to_owned()).await.expect("a folder");
        let (begin, begun) = oneshot::channel();
        let (go_on, wait) = oneshot::channel();
        let first = files.clone();
        let caller = tokio::spawn(async move {
            let step = |files: Files| async move {
                let _ = begin.send(());
                let _ = wait.await;
                std::fs::write(files.folder.join("done"), "").map_err(internal)
            };
            first.step(step).await
        });
        begun.await.expect("it begins");
        caller.abort();
        assert!(caller.await.is_err(), "it was cut short");
        let second = files.step(|files| async move { Ok(files.folder.join("done").exists()) });
        let (second, sent) = tokio::join!(second, async { go_on.send(()) });
        assert!(sent.is_ok() && second.expect("it has its turn"));
    }
}
