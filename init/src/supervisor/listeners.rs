//! The sockets that clients know by their names: made again when somebody has removed them.
//!
//! A program that cleans up in the wrong folder must not lock the operator out: then nobody could ask for anything but by
//! signals. The folder is watched by inotify, which costs nothing until something is removed there.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd, RawFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kelson_api::server;
use kelson_proto::call::LOG_SOCKET;
use kelson_services::collector::Collector;
use kelson_services::events::EventLog;
use kelson_services::state_store::{Descriptor, KeptDescriptor, StateStore};
use kelson_sys::descriptor::{Owned, Watched};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};
use tokio::sync::mpsc;

use super::environment::for_server;
use super::intent::Intents;
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
    pub intents: Intents,
    /// Takes the new listener of the API.
    pub listeners: mpsc::Sender<UnixListener>,
}

impl Listeners {
    /// Keeps `listener` open, and whatever takes its place. Never returns; cancelled by dropping.
    pub async fn keep(self, mut listener: KeptDescriptor) {
        let mut told = None;
        let mut ended = None;
        loop {
            // Watched before it is looked at: nothing is removed unseen.
            let folder = self.socket.parent().unwrap_or(Path::new("/"));
            let watch = watch(folder).ok().filter(|_| ended.is_none());
            let failed = self.look(folder, &mut listener).await.err().map(|error| error.to_string());
            if let Some(why) = failed.as_ref().filter(|why| told.as_ref() != Some(*why)) {
                self.events.host(why);
            }
            let retry = failed.is_some();
            told = failed;
            match watch {
                Some(watch) if !retry => tokio::select! {
                    _ = watch.readable() => {}
                    _ = self.intents.asked() => {
                        watch.get_ref().end();
                        ended = Some(watch);
                    }
                },
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

/// An eye on a folder.
struct Watch {
    inotify: Inotify,
    of: WatchDescriptor,
}

impl Watch {
    /// Sees nothing more. While there is a watch, the kernel takes some milliseconds to close an inotify; so it ends when
    /// the host begins to stop, and PID 1 does not wait at its own end.
    fn end(&self) {
        // A folder that is gone has no watch.
        let _ = self.inotify.rm_watch(self.of);
    }
}

impl AsRawFd for Watch {
    fn as_raw_fd(&self) -> RawFd {
        self.inotify.as_fd().as_raw_fd()
    }
}

// SAFETY: an `Inotify` is one descriptor from its making to its drop.
unsafe impl Owned for Watch {}

/// Can be read once something in the folder, or the folder itself, was removed or moved away.
fn watch(folder: &Path) -> io::Result<Watched<Watch>> {
    let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
    let removed = AddWatchFlags::IN_DELETE
        | AddWatchFlags::IN_MOVE
        | AddWatchFlags::IN_DELETE_SELF
        | AddWatchFlags::IN_MOVE_SELF
        | AddWatchFlags::IN_ONLYDIR;
    let of = inotify.add_watch(folder, removed)?;
    Watched::reading(Watch { inotify, of })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_removed_is_noticed_and_what_is_made_is_not() {
        let folder = std::env::temp_dir().join(format!("kelson-doors-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let notices = |watched: Watched<Watch>| async move {
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
