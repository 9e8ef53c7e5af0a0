//! Services from files of other programs: what loses nothing is taken as if it were a service file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{Reading, Source};
use crate::decode::{MOST_MISTAKES, diagnostic};
use crate::grammar::{self, Mapping};
use crate::imported::{self, Fate, Finding, Imported};
use crate::parser;
use crate::sources::Sources;
use crate::tree::Position;
use kelson_spec::features::{Feature, OWN};
use kelson_spec::names::OF_OTHER_PROGRAMS;
use kelson_spec::service::ServiceSpec;
use kelson_sys::ordered;

impl Reading {
    /// Reads the services of the files of other programs in a configuration folder.
    pub(super) fn other_programs(&mut self, config: &Path, sources: &Sources) {
        let folders = OF_OTHER_PROGRAMS.map(|name| config.join(name));
        let has_files =
            |folder: &&PathBuf| std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some());
        let Some(first) = folders.iter().find(has_files) else { return };
        let found = match self.context.require(Some(Feature::Units)) {
            Err(missing) => Err(format!("the files here are not read: {missing}")),
            Ok(()) if const { !OWN.has(Feature::Units) } => return,
            Ok(()) => imported::translation(sources.importer, config),
        };
        match found {
            Ok(found) => {
                let (keys, own) = (grammar::service_file(), self.own_names());
                for one in found {
                    match name(&one).and_then(|name| own.get(&name)) {
                        Some(file) => self.overridden(&one.from, file),
                        None => self.imported(&keys, one),
                    }
                }
            }
            Err(why) => {
                self.note(first, None, why);
                // A service that depends on one of them waits, and is not faulty.
                let stems = folders.iter().flat_map(std::fs::read_dir).flatten().flatten();
                let stems = stems.filter_map(|entry| Some(entry.path().file_stem()?.to_str()?.to_owned()));
                self.known.extend(stems.filter(|stem| grammar::service_name(stem).is_some()));
            }
        }
    }

    /// The services that have service files, also faulty ones, with these files.
    fn own_names(&self) -> BTreeMap<String, PathBuf> {
        let sound =
            self.services.iter().map(|decoded| (decoded.spec.name.clone(), decoded.spec.file.clone()));
        let faulty = self.diagnostics.iter().filter_map(|one| Some((one.service.clone()?, one.file.clone())));
        ordered::map(sound.chain(faulty))
    }

    /// A service file was made of the file, and counts in its place.
    fn overridden(&mut self, from: &Path, file: &Path) {
        let message = format!("this file is not read, because {} is there", file.display());
        self.warnings.push(diagnostic(from, Position::FILE, None, message));
    }

    fn imported(&mut self, keys: &Mapping<ServiceSpec>, one: Imported) {
        let service = name(&one);
        let Imported { from, file, beside, error, findings, .. } = one;
        if let Some(error) = error {
            let (line, why) = without_place(&error, &from);
            let at = Position { line, column: u32::from(line > 0) };
            self.diagnostics.push(diagnostic(&from, at, service.as_deref(), why));
            self.known.extend(service);
            return;
        }
        let Some((name, text)) = service.zip(file) else { return };
        let of_fate = |fate: Fate| findings.iter().filter(move |finding| finding.fate == fate);
        let lost: Vec<&Finding> = of_fate(Fate::Rejected).take(MOST_MISTAKES).collect();
        for finding in &lost {
            let Finding { key, file, line, sentence, .. } = finding;
            let message =
                format!("{key}: {sentence}; make a service file with `kelsonctl import`, and decide there");
            let at = Position { line: *line, column: u32::from(*line > 0) };
            self.diagnostics.push(diagnostic(file, at, Some(&name), message));
        }
        if !lost.is_empty() {
            self.known.insert(name);
            return;
        }
        let mut approximated: Vec<&str> =
            of_fate(Fate::Approximated).map(|finding| finding.key.as_str()).collect();
        approximated.dedup();
        if !approximated.is_empty() {
            let message = format!(
                "approximated: {}; `kelsonctl import folder` names each difference",
                approximated.join(", ")
            );
            self.warnings.push(diagnostic(&from, Position::FILE, Some(&name), message));
        }
        let services = std::iter::once((name, text));
        for (name, text) in services.chain(beside.into_iter().map(|one| (one.service, one.file))) {
            self.translated(keys, &from, &name, text);
        }
    }

    /// A service by the text of its translation. The file has other lines than that.
    fn translated(&mut self, keys: &Mapping<ServiceSpec>, from: &Path, name: &str, text: String) {
        let (mistakes, warnings) = (self.diagnostics.len(), self.warnings.len());
        let source = Source { tree: parser::parse(&text), text };
        self.service(keys, from, name, None, &Ok(source));
        let found = self.diagnostics.iter_mut().skip(mistakes);
        for one in found.chain(self.warnings.iter_mut().skip(warnings)) {
            (one.line, one.column) = (0, 0);
        }
    }
}

/// The name of the service; of a unit that is not translated, the one that it would most likely have.
fn name(one: &Imported) -> Option<String> {
    let of_unit = || {
        let stem = one.from.file_stem().filter(|_| one.from.extension().is_some_and(|end| end == "service"));
        grammar::service_name(stem?.to_str()?).map(str::to_owned)
    };
    one.service.clone().or_else(of_unit)
}

/// A message that may begin with `FILE: ` or `FILE:LINE: `, without it, and the line.
fn without_place<'m>(message: &'m str, file: &Path) -> (u32, &'m str) {
    let Some(rest) =
        message.strip_prefix(&file.display().to_string()).and_then(|rest| rest.strip_prefix(':'))
    else {
        return (0, message);
    };
    match rest.split_once(": ").map(|(line, why)| (line.parse(), why)) {
        Some((Ok(line), why)) => (line, why),
        _ => (0, rest.trim_start()),
    }
}
