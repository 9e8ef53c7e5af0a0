//! The mistakes that the last reading found in the files: in those of services, and in the others.

use kelson_sys::ordered;
use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard, PoisonError};

use kelson_proto::v1;
use kelson_spec::{Diagnostic, Loaded};

use super::Manager;
use super::faulty::{Faulty, Mistakes, faulty_file, joined};

impl Manager {
    fn mistakes(&self) -> MutexGuard<'_, Mistakes> {
        self.inner.mistakes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Goes by what this reading found. Returns the services of which it found another thing than the one before it.
    pub(super) fn note_mistakes(&self, loaded: &Loaded) -> Vec<Arc<str>> {
        let mut found = Mistakes::default();
        for diagnostic in &loaded.diagnostics {
            let Some(name) = &diagnostic.service else {
                found.others.push(diagnostic.clone());
                continue;
            };
            let faulty = found.services.entry(name.clone()).or_default();
            faulty.mistakes.push(diagnostic.clone());
            faulty.earlier_read = loaded.kept_versions.get(name).copied();
        }
        let mut now = self.mistakes();
        let of =
            |mistakes: &Mistakes, name: &str| mistakes.services.get(name).map(|one| one.mistakes.clone());
        let names = now.services.keys().chain(found.services.keys());
        let mut changed: Vec<Arc<str>> = names
            .filter(|name| of(&now, name) != of(&found, name))
            .map(|name| Arc::from(name.as_str()))
            .collect();
        ordered::sort(&mut changed);
        changed.dedup();
        found.host = std::mem::take(&mut now.host);
        *now = found;
        changed
    }

    /// Warns of something that no file of the configuration can say; the health of the host shows it for as long as this
    /// PID 1 runs.
    pub fn warn(&self, warning: Diagnostic) {
        self.host_event(&format!("warning: {warning}"));
        self.mistakes().host.push(warning);
    }

    /// The mistakes that the last reading found in the file of a service. `None`: there are none.
    pub fn faulty_file(&self, name: &str) -> Option<v1::FaultyFile> {
        let mistakes = self.mistakes();
        let Faulty { mistakes, earlier_read } = mistakes.services.get(name)?;
        Some(faulty_file(mistakes, self.live(name).is_some(), *earlier_read))
    }

    pub(super) fn has_faulty_file(&self, name: &str) -> bool {
        self.mistakes().services.contains_key(name)
    }

    /// The files with mistakes that make no service fail: those of services that go on with an earlier version, and,
    /// without a group, those of no service.
    pub(crate) fn faulty_files(&self, group: Option<&str>) -> Vec<v1::FileWarning> {
        let mut files: BTreeMap<_, Vec<Diagnostic>> = BTreeMap::new();
        let names: Vec<String> = {
            let mistakes = self.mistakes();
            let others = mistakes.others.iter().filter(|other| !other.is_of_a_folder());
            for other in others.chain(&mistakes.host).filter(|_| group.is_none()) {
                files.entry(other.file.clone()).or_default().push(other.clone());
            }
            mistakes.services.keys().cloned().collect()
        };
        let of_none = files.values().map(|mistakes| v1::FileWarning {
            service: String::new(),
            file: Some(faulty_file(mistakes, false, None)),
        });
        let of_services = names.iter().filter_map(|name| {
            let file = self.faulty_file(name).filter(|file| file.earlier_in_use)?;
            let now = self.get(name)?;
            let asked = group.is_none() || now.group.as_deref() == group;
            asked.then(|| v1::FileWarning { service: name.clone(), file: Some(file) })
        });
        of_none.chain(of_services).collect()
    }

    /// The files and folders of services in which the last reading found mistakes: nobody knows what they want.
    pub fn unsound_files(&self) -> Vec<String> {
        let mistakes = self.mistakes();
        // The machine file and those of groups and volumes name no image.
        let others = mistakes.others.iter().filter(|found| {
            !found.is_of_the_machine_file() && !found.is_of_a_group() && !found.is_of_a_volume()
        });
        let of_services = mistakes.services.values().flat_map(|faulty| &faulty.mistakes);
        let mut files: Vec<String> =
            of_services.chain(others).map(|diagnostic| diagnostic.file.display().to_string()).collect();
        ordered::sort(&mut files);
        files.dedup();
        files
    }

    /// Tells of the mistakes that came, changed or went in the files of services that go on with an earlier version.
    pub(super) fn tell_mistakes(&self, changed: &[Arc<str>]) {
        for name in changed.iter().filter(|name| self.live(name).is_some()) {
            let found = self.mistakes().services.get(&**name).map(|file| joined(&file.mistakes));
            let text = match found {
                Some(mistakes) => format!(
                    "its file has a mistake, so the version that was read before stays in use: {mistakes}"
                ),
                None => "its file has no mistake any more".to_owned(),
            };
            self.service_event(name, &text);
            self.registry().changed(name);
        }
    }
}
