//! The files of the volumes, and what is done with them. Each step may have been done before.

use std::fs::File;
use std::path::{Path, PathBuf};

use tokio::process::Command;
use tonic::Status;

use crate::csi::VolumeUsage;
use crate::csi::volume_usage::Unit;

/// Files with file systems in them, in one folder.
#[derive(Clone)]
pub struct Files {
    folder: PathBuf,
}

impl Files {
    pub async fn new(folder: PathBuf) -> std::io::Result<Files> {
        tokio::fs::create_dir_all(&folder).await?;
        Ok(Files { folder })
    }

    fn path(&self, id: &str) -> Result<PathBuf, Status> {
        if id.is_empty() || id.starts_with('.') || id.contains('/') {
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

    pub async fn create(&self, id: &str, size: u64) -> Result<(), Status> {
        let path = self.path(id)?;
        match path.metadata() {
            Ok(found) if found.len() == size => Ok(()),
            Ok(found) => {
                Err(Status::already_exists(format!("volume {id} is there with {} bytes", found.len())))
            }
            Err(_) => resize(&path, size),
        }
    }

    pub async fn delete(&self, id: &str) -> Result<(), Status> {
        match std::fs::remove_file(self.path(id)?) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(internal(error)),
            _ => Ok(()),
        }
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
        match std::fs::remove_dir(target) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(internal(error)),
            _ => Ok(()),
        }
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
