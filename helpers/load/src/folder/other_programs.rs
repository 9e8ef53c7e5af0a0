//! Services from files of other programs: what loses nothing is taken as if it were a service file.

use std::path::Path;

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

impl Reading {
    /// Reads the services of the files of other programs in a configuration folder.
    pub(super) fn other_programs(&mut self, config: &Path, sources: &Sources) {
        let folders = OF_OTHER_PROGRAMS.map(|name| config.join(name));
        let has_files = |folder: &&std::path::PathBuf| {
            std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some())
        };
        let Some(first) = folders.iter().find(has_files) else { return };
        let found = match self.context.require(Some(Feature::Units)) {
            Err(missing) => Err(format!("the files here are not read: {missing}")),
            Ok(()) if const { !OWN.has(Feature::Units) } => return,
            Ok(()) => imported::read(sources.importer, config),
        };
        match found {
            Ok(found) => {
                let keys = grammar::service_file();
                found.into_iter().for_each(|one| self.imported(&keys, one));
            }
            Err(why) => {
                self.note(first, None, why);
                // A service that depends on one of them goes on waiting.
                let stems = folders.iter().flat_map(std::fs::read_dir).flatten().flatten();
                let stems = stems.filter_map(|entry| Some(entry.path().file_stem()?.to_str()?.to_owned()));
                self.known.extend(stems.filter(|stem| grammar::service_name(stem).is_some()));
            }
        }
    }

    fn imported(&mut self, keys: &Mapping<ServiceSpec>, one: Imported) {
        let Imported { from, service, file, beside, error, findings } = one;
        if let Some(error) = error {
            let (line, why) = without_place(&error, &from);
            let is_unit = from.extension().is_some_and(|end| end == "service");
            let stem = from.file_stem().filter(|_| is_unit).unwrap_or_default().to_string_lossy();
            let service = grammar::service_name(&stem);
            self.known.extend(service.map(str::to_owned));
            let at = Position { line, column: u32::from(line > 0) };
            self.diagnostics.push(diagnostic(&from, at, service, why.to_owned()));
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
