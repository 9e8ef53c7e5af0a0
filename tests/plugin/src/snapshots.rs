//! Snapshots: copies of the folders of volumes, in `snapshots`.
//!
//! `snapshots/ID/of` has the volume, `snapshots/ID/data` its files. While the file `unready` is there no snapshot is ready.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tonic::Status;

use crate::csi::{self, ListSnapshotsRequest, ListSnapshotsResponse, Snapshot};

pub struct Snapshots<'a>(pub &'a Path);

fn failed(error: io::Error) -> Status {
    Status::internal(error.to_string())
}

impl Snapshots<'_> {
    fn path(&self, id: &str) -> PathBuf {
        self.0.join("snapshots").join(id)
    }

    fn found(&self, id: &str) -> Option<Snapshot> {
        let source_volume_id = fs::read_to_string(self.path(id).join("of")).ok()?;
        let ready_to_use = !self.0.join("unready").exists();
        Some(Snapshot {
            snapshot_id: id.to_owned(),
            source_volume_id,
            size_bytes: 1 << 20,
            ready_to_use,
            ..Snapshot::default()
        })
    }

    pub fn create(&self, name: &str, volume: &str) -> Result<Snapshot, Status> {
        let id = format!("snap-{name}");
        if let Some(found) = self.found(&id) {
            return match found.source_volume_id == volume {
                true => Ok(found),
                false => Err(Status::already_exists(format!("it is of {}", found.source_volume_id))),
            };
        }
        copy(&self.0.join("volumes").join(volume), &self.path(&id).join("data")).map_err(failed)?;
        fs::write(self.path(&id).join("of"), volume).map_err(failed)?;
        self.found(&id).ok_or_else(|| Status::internal("it was made"))
    }

    /// A volume gets its content.
    pub fn restore(&self, id: &str, volume: &str) -> Result<(), Status> {
        self.found(id).ok_or_else(|| Status::not_found(format!("there is no snapshot {id}")))?;
        copy(&self.path(id).join("data"), &self.0.join("volumes").join(volume)).map_err(failed)
    }

    pub fn delete(&self, id: &str) -> Result<(), Status> {
        match fs::remove_dir_all(self.path(id)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(error)),
            _ => Ok(()),
        }
    }

    /// The token is the number of those before.
    pub fn list(&self, request: &ListSnapshotsRequest) -> ListSnapshotsResponse {
        let names = fs::read_dir(self.0.join("snapshots")).into_iter().flatten().flatten();
        let mut ids: Vec<String> =
            names.map(|entry| entry.file_name().into_string().expect("UTF-8")).collect();
        ids.sort();
        let is_of = |found: &Snapshot| {
            request.source_volume_id.is_empty() || found.source_volume_id == request.source_volume_id
        };
        let all: Vec<Snapshot> = ids.iter().filter_map(|id| self.found(id)).filter(is_of).collect();
        let passed: usize = request.starting_token.parse().unwrap_or_default();
        let most = usize::try_from(request.max_entries).ok().filter(|most| *most > 0).unwrap_or(all.len());
        let ended = all.len().min(passed + most);
        let entry =
            |snapshot: &Snapshot| csi::list_snapshots_response::Entry { snapshot: Some(snapshot.clone()) };
        ListSnapshotsResponse {
            entries: all[passed.min(ended)..ended].iter().map(entry).collect(),
            next_token: if ended < all.len() { ended.to_string() } else { String::new() },
        }
    }
}

/// Files alone: the volumes of tests have no folders.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}
