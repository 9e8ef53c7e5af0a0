//! The sockets that clients know by their names: made again when somebody has removed them.
//!
//! A program that cleans up in the wrong folder must not lock the operator out: then nobody could ask for anything but by
//! signals. The folder is watched by inotify, which costs nothing until something is removed there.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kelson_api::server;
use kelson_proto::call::LOG_SOCKET;
use kelson_services::collector::Collector;
use kelson_services::events::EventLog;
use kelson_services::state_store::{Descriptor, KeptDescriptor, StateStore};
use kelson_sys::descriptor::Watched;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use tokio::sync::mpsc;

use super::environment::for_server;
use crate::error::{At as _, Error, Result};

/// From the first that is removed to the look at what is missing, and from one look to the next.
const SETTLE: Duration = Duration::from_millis(250);
/// Where the folder cannot be watched, or something could not be made again.
const AGAIN: Duration = Duration::from_secs(2);

/// The tasks that look after the listeners.
pub struct Listeners {
    pub socket: PathBuf,
    pub group: Option<u32>,
    pub store: Option<StateStore>,
    pub collector: Collector,
    pub events: EventLog,
    /// Takes the new listener of the API.
    pub listeners: mpsc::Sender<UnixListener>,
}

impl Listeners {
    /// Keeps `listener` open, and whatever takes its place. Never returns; cancelled by dropping.
    pub async fn keep(self, mut listener: KeptDescriptor) {
        let mut told = None;
        loop {
            // Watched before it is looked at: nothing is removed unseen.
            let folder = self.socket.parent().unwrap_or(Path::new("/"));
            let watch = watch(folder);
            let failed = self.look(folder, &mut listener).await.err().map(|error| error.to_string());
            if let Some(why) = failed.as_ref().filter(|why| told.as_ref() != Some(*why)) {
                self.events.host(why);
            }
            let retry = failed.is_some();
            told = failed;
            match watch {
                Ok(watch) if !retry => drop(watch.readable().await),
                _ => tokio::time::sleep(AGAIN).await,
            }
            tokio::time::sleep(SETTLE).await;
        }
    }

    async fn look(&self, folder: &Path, listener: &mut KeptDescriptor) -> Result<()> {
        if is_gone(&self.socket) {
            let socket = self.socket.display();
            let what = format!("{socket} was removed and cannot be made again");
            std::fs::create_dir_all(folder).at(&what)?;
            let renewed = server::bind(&self.socket, self.group).map_err(Error::from).at(&what)?;
            let renewed = KeptDescriptor::new(renewed.into(), self.store.as_ref(), || Descriptor::Api);
            let ours = for_server(&renewed).at(&what)?;
            *listener = renewed;
            // A server that has ended needs none.
            let _ = self.listeners.send(ours).await;
            self.events.host(&format!("{socket} was removed, and has been made again"));
        }
        let of_logs = folder.join(LOG_SOCKET);
        // One that is just starting makes it before it answers.
        if self.collector.status().borrow().helper.up && is_gone(&of_logs) {
            self.events
                .host(&format!("{} was removed: logd is restarted to make it again", of_logs.display()));
            self.collector.restart();
        }
        Ok(())
    }
}

fn is_gone(socket: &Path) -> bool {
    matches!(std::fs::symlink_metadata(socket), Err(error) if error.kind() == io::ErrorKind::NotFound)
}

/// Can be read once something in the folder, or the folder itself, was removed or moved away.
fn watch(folder: &Path) -> io::Result<Watched<OwnedFd>> {
    let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
    let removed = AddWatchFlags::IN_DELETE
        | AddWatchFlags::IN_MOVE
        | AddWatchFlags::IN_DELETE_SELF
        | AddWatchFlags::IN_MOVE_SELF
        | AddWatchFlags::IN_ONLYDIR;
    inotify.add_watch(folder, removed)?;
    Watched::reading(inotify.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_removed_is_noticed_and_what_is_made_is_not() {
        let folder = std::env::temp_dir().join(format!("kelson-doors-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let notices = |watched: Watched<OwnedFd>| async move {
            tokio::time::timeout(Duration::from_millis(200), watched.readable()).await.is_ok()
        };
        let watched = watch(&folder).unwrap();
        std::fs::write(folder.join("a"), "").unwrap();
        assert!(!notices(watched).await);
        let watched = watch(&folder).unwrap();
        std::fs::remove_file(folder.join("a")).unwrap();
        assert!(notices(watched).await);
        let watched = watch(&folder).unwrap();
        std::fs::remove_dir(&folder).unwrap();
        assert!(notices(watched).await);
        assert!(watch(&folder).is_err());
    }
}
