//! The images of the host: pulled and unpacked for the containers and volumes of services that start, listed and pruned for
//! operators.
//!
//! The work is done by `kelson-unpack` and `kelson-pull`, a process for each piece of it; here it gets its turn, and what
//! it tells becomes events of the service that waits for it.

mod messages;
mod pulls;
#[cfg(test)]
mod tests;
mod wanted;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use kelson_image::{
    ImageRow, Listing, News, PULL, PruneResult, Pruned, Puller, UnpackFailure, Unpacked, Unpacker,
};
use kelson_runner::{BoxFuture, ErrorKind, ImageConfig, Images, RunnerError};
use kelson_spec::service::ContainerSpec;
use kelson_sys::ordered;
use kelson_sys::text::first_of_many;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use messages::{Messages, UNPACKING};
pub use pulls::Updated;
use wanted::{Wanted, images_of, means};

use crate::Manager;
use crate::events::EventLog;
use crate::helpers::{HelperCgroup, HelperKind};
use crate::service_runner::gate::Registry;

/// Unpacks at the same time: their disk is the same, and each has its few megabytes.
pub const UNPACKS: u32 = 4;

/// Each needs less memory than this for any archive.
pub const UNPACK: HelperKind = HelperKind::limited(kelson_image::NAME, "_unpack", 64 << 20);
/// Its user has no rights but to its own folder and the network, which it takes by itself once it has read its files.
pub const PULLS: HelperKind = HelperKind {
    name: PULL,
    arguments: Vec::new(),
    confine: |processes, command| {
        let filter = Some(processes.default_filter(PULL_CAPABILITIES));
        command.bounding(Some(PULL_CAPABILITIES)).no_new_privileges(true).seccomp(filter)
    },
    spared: false,
    cgroup: HelperCgroup::Each { name: "_pull", memory: 64 << 20 },
};
/// To read files, to make its folder its own, and to leave everything else: chown, dac_override, dac_read_search, setgid,
/// setuid, setpcap, sys_chroot.
const PULL_CAPABILITIES: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 18;
/// Listings at the same time.
const LISTINGS: usize = 2;
/// How many notes are remembered, to report each once.
const NOTES: usize = 64;
/// How often archives are looked at while a service waits for another one. Two looks must agree.
const LOOK: Duration = Duration::from_secs(4);
/// A listing reads every archive; a prune lets containerd collect its garbage. No disk takes longer for either.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Has images unpacked for services, and looks after those that there are. Cheap to clone.
#[derive(Clone)]
pub struct ImageStore {
    inner: Arc<Inner>,
}

struct Inner {
    unpacker: Unpacker,
    /// `None`: the build lacks the feature.
    puller: Option<Puller>,
    events: EventLog,
    registry: Registry,
    unpacks: Semaphore,
    /// One pull at a time: its layers come in parallel, and what it finds in the folder stays as it is.
    pulls: Semaphore,
    listings: Semaphore,
    /// The images that each service was prepared from last, each for its container or for a volume by its name: its file may
    /// name others by now.
    prepared: Mutex<BTreeMap<(String, Option<String>), String>>,
    /// The services that an image is being pulled or unpacked for, each with the image.
    busy: Mutex<BTreeMap<String, String>>,
    /// The last notes about archives: each unpack finds the same ones.
    notes: Mutex<VecDeque<String>>,
    /// When archives were looked at last, and the number that stands for them.
    looked: tokio::sync::Mutex<Option<(Instant, u32)>>,
    /// All services, once they are known.
    manager: OnceLock<Manager>,
}

/// An image and the services that need it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    pub row: ImageRow,
    /// Sorted by name.
    pub services: Vec<String>,
}

/// Why images could not be listed or pruned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImagesError {
    /// It may go another time, once something has changed that the sentence names.
    #[error("{0}")]
    NotNow(String),
    /// The archives or containerd did not answer.
    #[error("{0}")]
    Failed(String),
}

impl ImageStore {
    pub fn new(
        unpacker: Unpacker,
        puller: Option<Puller>,
        events: EventLog,
        registry: Registry,
    ) -> ImageStore {
        ImageStore {
            inner: Arc::new(Inner {
                unpacker,
                puller,
                events,
                registry,
                unpacks: Semaphore::new(UNPACKS as usize),
                pulls: Semaphore::new(1),
                listings: Semaphore::new(LISTINGS),
                prepared: Mutex::default(),
                busy: Mutex::default(),
                notes: Mutex::default(),
                looked: tokio::sync::Mutex::default(),
                manager: OnceLock::new(),
            }),
        }
    }

    /// All images of the archives and of containerd, sorted by reference, and notes beside them. Dropping the future
    /// ends the work.
    ///
    /// # Errors
    /// When the archives or containerd could not be asked.
    pub async fn list(&self, manager: &Manager) -> Result<(Vec<Listed>, Vec<String>), ImagesError> {
        let Listing { mut images, notes } = self.ask(self.inner.unpacker.list()).await?;
        ordered::sort_by(&mut images, |a, b| {
            a.reference.cmp(&b.reference).then_with(|| a.archive.cmp(&b.archive))
        });
        let wanted: Vec<(String, String)> =
            manager.list().iter().flat_map(|service| images_of(manager, &service.name)).collect();
        let listed = images.into_iter().map(|row| {
            let services = wanted.iter().filter(|(_, image)| means(image, &row));
            // Those of one service follow one another.
            let mut services: Vec<String> = services.map(|(service, _)| service.clone()).collect();
            services.dedup();
            Listed { row, services }
        });
        Ok((listed.collect(), notes))
    }

    /// Removes from containerd the images that no service names; with `dry_run` only tells them. Dropping the future
    /// ends the work.
    ///
    /// An image stays that the file of any service names, whatever the service's state, and one that a service was
    /// prepared from before its file changed. Nothing is removed while an image is being unpacked, nor while a service
    /// file has mistakes: nobody knows then what it needs.
    ///
    /// # Errors
    /// When it must not be done now, or when containerd could not be asked.
    pub async fn prune(&self, manager: &Manager, dry_run: bool) -> Result<PruneResult, ImagesError> {
        let unsound = manager.unsound_files();
        if !dry_run && !unsound.is_empty() {
            return Err(ImagesError::NotNow(format!(
                "nothing is pruned while files of services have mistakes, since nobody knows which images they need: mend or remove {}",
                first_of_many(unsound.iter(), ", ")
            )));
        }
        // A pull and an unpack wait meanwhile.
        let _all = if dry_run {
            None
        } else {
            let under_way = |_| ImagesError::NotNow(self.under_way());
            Some((
                self.inner.pulls.try_acquire().map_err(under_way)?,
                self.inner.unpacks.try_acquire_many(UNPACKS).map_err(under_way)?,
            ))
        };
        let mut result = self.ask(self.inner.unpacker.prune(self.needed(manager), dry_run)).await?;
        if let Some(puller) = &self.inner.puller {
            let pulled = self.ask(puller.prune(self.needed(manager), dry_run)).await?;
            let known = |one: &Pruned| result.removed.iter().any(|other| other.reference == one.reference);
            let pulled: Vec<Pruned> = pulled.into_iter().filter(|one| !known(one)).collect();
            result.removed.extend(pulled);
        }
        if !unsound.is_empty() {
            result.notes.push(format!(
                "these files have mistakes, and the images that they name may be among those: {}",
                first_of_many(unsound.iter(), ", ")
            ));
        }
        Ok(result)
    }

    /// Waits for its turn and then for the work, in all no longer than [`TIMEOUT`].
    async fn ask<T>(&self, work: impl Future<Output = Result<T, UnpackFailure>>) -> Result<T, ImagesError> {
        let in_turn = async {
            // Nobody closes it.
            let _turn = self.inner.listings.acquire().await;
            work.await.map_err(|failure| ImagesError::Failed(failure.text))
        };
        let late = || format!("kelson-unpack took longer than {} s and was killed", TIMEOUT.as_secs());
        tokio::time::timeout(TIMEOUT, in_turn).await.unwrap_or_else(|_| Err(ImagesError::Failed(late())))
    }

    /// The references of all images that some service needs, each once.
    fn needed(&self, manager: &Manager) -> Vec<String> {
        let services = manager.list();
        let mut needed: Vec<String> = services
            .iter()
            .flat_map(|service| images_of(manager, &service.name))
            .map(|(_, image)| image)
            .collect();
        let mut prepared = lock(&self.inner.prepared);
        prepared.retain(|(service, _), _| services.iter().any(|known| *known.name == **service));
        needed.extend(prepared.values().cloned());
        ordered::sort(&mut needed);
        needed.dedup();
        needed
    }

    fn under_way(&self) -> String {
        let busy = lock(&self.inner.busy);
        let each = |(service, image): (&String, &String)| match service.as_str() {
            pulls::OPERATOR => image.clone(),
            _ => format!("{image} for \"{service}\""),
        };
        let each: Vec<String> = busy.iter().map(each).collect();
        match each.as_slice() {
            [] => "nothing is pruned while another prune is under way; try again in a moment".to_owned(),
            _ => format!(
                "nothing is pruned while images are being pulled or unpacked ({}); try again then",
                each.join(", ")
            ),
        }
    }

    /// Gets to know the services: those that need images.
    pub fn know(&self, manager: &Manager) {
        let _ = self.inner.manager.set(manager.clone());
    }

    async fn unpack(&self, wanted: &Wanted<'_>) -> Result<ImageConfig, UnpackFailure> {
        let Wanted { service, image, .. } = *wanted;
        let mut messages = Messages::new(&UNPACKING, image);
        let _permit = self.permit(&self.inner.unpacks, service, &messages).await?;
        self.keep(wanted);
        let _busy = Busy::new(&self.inner.busy, service, image);
        messages.begin();
        let purpose = wanted.purpose.clone();
        let news = |news| self.news(service, &mut messages, news);
        let unpacked = self.inner.unpacker.unpack(image, purpose, news).await?;
        self.tell(service, &messages.end(&unpacked));
        let Unpacked { config, archives, .. } = unpacked;
        Ok(ImageConfig { archives, ..config })
    }

    /// It stays, whatever the service's file names later.
    fn keep(&self, wanted: &Wanted<'_>) {
        let place = (wanted.service.to_owned(), wanted.volume.map(str::to_owned));
        lock(&self.inner.prepared).insert(place, wanted.image.to_owned());
    }

    /// The volumes of a service that has ended are those that its file names.
    pub fn release_volumes(&self, service: &str) {
        lock(&self.inner.prepared).retain(|(known, volume), _| known != service || volume.is_none());
    }

    /// Waits until work of a kind may begin. An event of the service says so where it has to wait.
    async fn permit<'a>(
        &self,
        permits: &'a Semaphore,
        service: &str,
        messages: &Messages,
    ) -> Result<SemaphorePermit<'a>, UnpackFailure> {
        if let Ok(permit) = permits.try_acquire() {
            return Ok(permit);
        }
        self.tell(service, &messages.waits());
        // Nobody closes it.
        permits.acquire().await.map_err(|_| String::from("no image is prepared any more").into())
    }

    /// Reports how the work for a service advances.
    fn news(&self, service: &str, messages: &mut Messages, news: News) {
        match news {
            News::Progress(progress) => {
                if let Some(text) = messages.progress(progress) {
                    self.tell(service, &text);
                }
            }
            News::Note(note) => self.note(note),
        }
    }

    /// One look serves all that ask.
    async fn look(&self) -> Result<u32, UnpackFailure> {
        let mut looked = self.inner.looked.lock().await;
        match *looked {
            Some((at, archives)) if at.elapsed() < LOOK => Ok(archives),
            _ => {
                let archives = self.inner.unpacker.look().await?;
                *looked = Some((Instant::now(), archives));
                Ok(archives)
            }
        }
    }

    /// See [`Images::changed`]: an archive that is being copied changes with each look.
    pub async fn changed(&self, archives: u32) {
        let mut before = None;
        loop {
            tokio::time::sleep(LOOK).await;
            // A look that fails says nothing of the archives.
            let Ok(now) = self.look().await else { continue };
            if now != archives && before == Some(now) {
                return;
            }
            before = Some(now);
        }
    }

    /// A problem of an archive concerns the host, and is reported when it is new.
    fn note(&self, note: String) {
        let mut notes = lock(&self.inner.notes);
        if notes.contains(&note) {
            return;
        }
        self.inner.events.host(&note);
        if notes.len() >= NOTES {
            notes.pop_front();
        }
        notes.push_back(note);
    }

    /// An event of the service that changes nothing of its state.
    fn tell(&self, service: &str, message: &str) {
        let now = self.inner.registry.get(service).map(|snapshot| {
            let snapshot = snapshot.borrow();
            (snapshot.state, snapshot.run)
        });
        let (state, run) = now.unwrap_or_default();
        self.inner.events.add(&Arc::from(service), state, message, run);
    }
}

impl Images for ImageStore {
    fn prepare<'a>(
        &'a self,
        service: &'a str,
        container: &'a ContainerSpec,
    ) -> BoxFuture<'a, Result<ImageConfig, RunnerError>> {
        Box::pin(async { self.provide(&Wanted::by_container(service, container)).await.map_err(as_error) })
    }

    fn changed(&self, archives: u32) -> BoxFuture<'_, ()> {
        Box::pin(ImageStore::changed(self, archives))
    }
}

/// Stands in the list of those that wait for an unpack, for as long as it lives.
struct Busy<'a> {
    list: &'a Mutex<BTreeMap<String, String>>,
    service: &'a str,
}

impl<'a> Busy<'a> {
    fn new(list: &'a Mutex<BTreeMap<String, String>>, service: &'a str, image: &str) -> Busy<'a> {
        lock(list).insert(service.to_owned(), image.to_owned());
        Busy { list, service }
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        lock(self.list).remove(self.service);
    }
}

fn as_error(UnpackFailure { text, archives, .. }: UnpackFailure) -> RunnerError {
    let kind = archives.map_or(ErrorKind::Retryable, |archives| ErrorKind::Image { archives });
    RunnerError::of_kind(kind, text)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
