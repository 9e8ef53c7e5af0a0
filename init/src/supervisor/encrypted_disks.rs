//! Encrypted disks, opened by an operator: their own keys are lost, or they have none.

use std::sync::Arc;
use std::time::Duration;

use kelson_helper::Launcher;
use kelson_services::ServicesError;
use kelson_services::host::Secret;
use kelson_services::manager::Manager;
use kelson_services::state_store::{Kind, StateStore};
use kelson_spec::MachineSpec;
use kelson_spec::encryption::EncryptionSpec;

use super::secrets::pipe;
use crate::boot::absent::{Absent, open_name};
use crate::boot::{encryption, swap};
use crate::options::Mode;
use crate::task::{self, Request};

/// How long the disk of a recovery key may take.
const READ: Duration = Duration::from_secs(30);

/// The parts of PID 1 that open a disk.
pub(super) struct EncryptedDisks {
    pub(super) mode: Mode,
    pub(super) tasks: Arc<dyn Launcher>,
    pub(super) manager: Manager,
    pub(super) store: Option<StateStore>,
    pub(super) absent: Absent,
    /// As the host booted.
    pub(super) machine: MachineSpec,
}

impl EncryptedDisks {
    /// Opens a disk. What is in it is mounted by those who wait for it; swap is turned on here.
    ///
    /// # Errors
    /// There is no such disk, or the key does not open it.
    pub(super) async fn unlock(
        &self,
        name: &str,
        key: &Secret,
        asked_by: &str,
    ) -> Result<String, ServicesError> {
        let disk = self.named(name)?;
        let key = pipe(key).map_err(|error| ServicesError::NotNow(format!("a pipe for the key: {error}")))?;
        let opened = encryption::unlock(&*self.tasks, disk, key).await;
        let event = match &opened {
            Ok(done) => format!("{done}, by {asked_by}"),
            Err(failure) => format!("{}, asked for by {asked_by}", failure.message),
        };
        self.manager.host_event(&format!("{}: {event}", open_name(disk)));
        let done = opened.map_err(|failure| ServicesError::NotNow(failure.message))?;
        self.absent.opened(disk, &Ok(done.clone()));
        if let Some(store) = &self.store {
            store.write(Kind::Boot, "", &self.absent.report());
        }
        for swap in self.machine.swap.iter().filter(|area| swap::is_within(area, disk)) {
            let said = swap::enable(&*self.tasks, swap).await.unwrap_or_else(|failure| failure.message);
            self.manager.host_event(&format!("{}: {said}", swap::name(swap)));
        }
        Ok(done)
    }

    /// The recovery key of a disk, from its file; with `forget` the file goes.
    ///
    /// # Errors
    /// There is no such disk, or no such file.
    pub(super) async fn recovery_key(&self, name: &str, forget: bool) -> Result<String, ServicesError> {
        let disk = self.named(name)?;
        let Some(file) = disk.recovery_file.clone() else {
            let text =
                format!("{name} has no recoveryFile in machine.yaml: Kelson has made no recovery key for it");
            return Err(ServicesError::NotNow(text));
        };
        let request =
            if forget { Request::ForgetRecoveryKey { file } } else { Request::RecoveryKey { file } };
        let key = task::run(&*self.tasks, &request, READ).await;
        key.map_err(|error| {
            ServicesError::NotNow(format!("the recovery key of {name} is not kept here: {error}"))
        })
    }

    fn named(&self, name: &str) -> Result<&EncryptionSpec, ServicesError> {
        if self.mode == Mode::Container {
            return Err(ServicesError::NotNow(
                "this is a container, and its disks are the host's".to_owned(),
            ));
        }
        let disks = &self.machine.encryption;
        disks.iter().find(|disk| disk.name == name).ok_or_else(|| {
            let names: Vec<&str> = disks.iter().map(|disk| disk.name.as_str()).collect();
            let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            let name = kelson_spec::quoted(name);
            ServicesError::Unknown(format!("there is no encrypted disk {name}; machine.yaml names {known}"))
        })
    }
}
