//! The secrets that a plugin gets with its calls. They are opened for each call, and kept nowhere.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use kelson_secrets::Store;
use kelson_spec::features::{Feature, OWN};
use kelson_spec::volume_file::VolumeFile;

use crate::job::{Failure, Provided};
use crate::world::{Host, OpenSecret};

/// Those of the host that `kelsonctl secret` sets, and those of sources.
pub fn of_host(state: PathBuf, runtime: PathBuf) -> OpenSecret {
    if const { !OWN.has(Feature::Secrets) } {
        return Arc::new(|_| Err("this build of Kelson has no secrets".to_owned()));
    }
    let store = Store::new(&state, &runtime);
    Arc::new(move |name| store.open(name).map(|opened| opened.value).map_err(|error| error.to_string()))
}

impl Host {
    /// The secrets of a volume, by the keys that its plugin knows.
    ///
    /// # Errors
    /// One is missing, cannot be opened, or is no text. It may be set meanwhile, so another try may succeed.
    pub async fn secrets(&self, file: &VolumeFile) -> Result<HashMap<String, String>, Failure> {
        if file.secrets.is_empty() {
            return Ok(HashMap::new());
        }
        let (open, names) = (Arc::clone(&self.open_secret), file.secrets.clone());
        let opened = move || -> Result<HashMap<String, String>, String> {
            let value = |(key, name): (String, String)| {
                let no_text = |_| format!("the secret {name} is no UTF-8 text, which a plugin needs");
                Ok((key, String::from_utf8(open(&name)?).map_err(no_text)?))
            };
            names.into_iter().map(value).collect()
        };
        let opening = tokio::task::spawn_blocking(opened);
        let opened = match tokio::time::timeout(self.deadlines.system, opening).await {
            Ok(Ok(opened)) => opened,
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => {
                let within = self.deadlines.system.as_secs();
                Err(format!("the secrets of the volume cannot be read within {within} s"))
            }
        };
        opened.map_err(|error| Failure::before(&error).of("secret"))
    }

    /// For what is undone, where the file may be gone or be of another volume by now: that has no secrets then.
    pub async fn secrets_to_undo(
        &self,
        volume: &str,
        of: &Provided,
    ) -> Result<HashMap<String, String>, Failure> {
        match self.read(volume).await {
            Ok(file) if file.plugin == of.plugin && file.id == of.id => self.secrets(&file).await,
            _ => Ok(HashMap::new()),
        }
    }
}
