//! `validate`: the mistakes of a configuration folder or of one file, all at once, before a host meets them.

mod root;

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use kelson_load::LoadedFile;
use kelson_spec::{Diagnostic, Loaded, Unchecked};

use super::import::folder::json;
use crate::call::{Call, Run};
use crate::contexts;
use crate::failure::Failure;
use crate::output::{Page, Palette, Tone, escape, object, width};
use serde_yaml::Value;

/// So much of a long line is shown before a mistake and from there on, in characters.
const BEFORE: usize = 40;
const AFTER: usize = 80;

/// Check a configuration folder or one file, without a host
///
/// The folder is one like /etc/kelson: a machine.yaml (which may be missing),
/// the folder services/ with one file for each service, and the folder groups/
/// with files of groups. A file in such a folder is checked with the others, and
/// only its own mistakes are shown; elsewhere it is a service, group or machine
/// file by its content. Warnings alone leave the exit status 0.
///
/// On the host itself, where Kelson runs and the folder is /etc/kelson, it also
/// checks the users, groups and files that services name. Elsewhere it does not,
/// and the last line says so. --root checks them, and the programs of services,
/// in the root of an image.
///
/// Examples:
///   kelsonctl validate /etc/kelson
///   kelsonctl validate ./config && echo fine
///   kelsonctl validate web.yaml
///   kelsonctl validate --root build/rootfs build/rootfs/etc/kelson
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// The folder, or a file
    #[arg(value_name = "DIR|FILE")]
    path: PathBuf,
    /// The root of the host or image that the files are for
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
}

impl Run for Arguments {
    const SEVERAL: bool = false;

    async fn run(self, call: &Call) -> Result<(), Failure> {
        let Arguments { path, root } = self;
        if let Some(root) = root.as_deref().filter(|root| !root.is_dir()) {
            return Err(Failure::Failed(format!("--root: {} is not a folder", root.display())));
        }
        let elsewhere = not_the_host(&path);
        let at_hand = root.clone().or_else(|| elsewhere.is_none().then(|| PathBuf::from("/")));
        let sources =
            kelson_load::Sources { root: at_hand, importer: json, ..kelson_load::Sources::default() };
        let (diagnostics, warnings, unchecked, end) = match std::fs::metadata(&path) {
            Ok(found) if !found.is_dir() => {
                let file = kelson_load::load_file(&path, &sources);
                let end = end_of_file(&file);
                (file.diagnostics, file.warnings, file.unchecked, end)
            }
            Ok(_) if !kelson_load::is_configuration(&path) => return Err(wrong_folder(&path)),
            Ok(_) => {
                let mut loaded = kelson_load::load_with(&path, &sources);
                if let Some(root) = &root {
                    let of_root = root::warnings(&loaded, root);
                    loaded.warnings.extend(of_root);
                }
                let end = end(&loaded);
                (loaded.diagnostics, loaded.warnings, loaded.unchecked, end)
            }
            Err(error) => {
                let path = path.display();
                return Err(Failure::Failed(format!(
                    "{path} cannot be read as a configuration folder or file: {error}"
                )));
            }
        };
        let views = diagnostics.iter().map(|diagnostic| view(diagnostic, false));
        let views = views.chain(warnings.iter().map(|diagnostic| view(diagnostic, true)));
        let text = || report(&diagnostics, &warnings, &end, call.terminal.palette);
        call.show(&views.collect::<Vec<_>>(), || Page::Text(text()))?;
        if let Some(why) = elsewhere.filter(|_| !unchecked.is_empty()) {
            call.note(&format!(
                "not checked: {}, as this is not the host: {why}; --root DIR looks them up in the root of an image",
                words(&unchecked)
            ));
        }
        if diagnostics.is_empty() { Ok(()) } else { Err(Failure::Reported) }
    }
}

fn words(unchecked: &BTreeSet<Unchecked>) -> String {
    unchecked.iter().map(|one| one.name()).collect::<Vec<_>>().join(", ")
}

/// Why what is checked is not the configuration of this very host; `None`: it is.
fn not_the_host(path: &Path) -> Option<String> {
    const FOLDER: &str = "/etc/kelson";
    let whole = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let own = std::fs::canonicalize(FOLDER).unwrap_or_else(|_| PathBuf::from(FOLDER));
    let socket = contexts::DEFAULT.trim_start_matches("unix://");
    match (whole.starts_with(&own), Path::new(socket).exists()) {
        (true, true) => None,
        (false, _) => Some(format!("{} is not in {FOLDER}", path.display())),
        (true, false) => Some("no Kelson runs here".to_owned()),
    }
}

/// A folder without any file of Kelson, and what was most likely meant.
fn wrong_folder(folder: &Path) -> Failure {
    let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let near = [folder.join("kelson"), folder.join("etc/kelson"), folder.join("config")];
    let is_part = ["services", "groups", "volumes"].iter().any(|part| absolute.ends_with(part));
    let inside = absolute.parent().filter(|_| is_part);
    let meant = inside.into_iter().chain(near.iter().map(PathBuf::as_path));
    let mut meant = meant.filter(|folder| kelson_load::is_configuration(folder));
    let loose = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let loose = loose.filter(|path| path.extension().is_some_and(|end| end == "yaml")).min();
    let right = match (meant.next(), loose) {
        (Some(meant), _) => format!("did you mean {}?", meant.display()),
        (None, Some(file)) => format!(
            "service files belong into {}; `kelsonctl validate {}` checks one file",
            folder.join("services").display(),
            file.display()
        ),
        (None, None) => {
            "it has a machine.yaml, or service files in services/; that of a host is /etc/kelson".to_owned()
        }
    };
    Failure::Failed(format!("{} is not a configuration folder: {right}", folder.display()))
}

/// The last line of the report about one file.
fn end_of_file(file: &LoadedFile) -> String {
    let mistakes = match file.diagnostics.len() {
        0 => "no mistakes".to_owned(),
        count => mistakes(count),
    };
    let alone = match file.in_folder {
        true => "",
        false => "; what it says of other services is checked in its configuration folder only",
    };
    format!("{mistakes} as a {} file{alone}", file.kind.name())
}

fn mistakes(count: usize) -> String {
    format!("{count} {}", if count == 1 { "mistake" } else { "mistakes" })
}

/// The last line of the report about a folder.
fn end(loaded: &Loaded) -> String {
    let services = loaded.services.len();
    let plural = if services == 1 { "service" } else { "services" };
    let faulty = match loaded.faulty().len() {
        0 => String::new(),
        1 => ", 1 faulty service".to_owned(),
        count => format!(", {count} faulty services"),
    };
    match loaded.diagnostics.len() {
        0 => format!("{services} {plural}, no mistakes"),
        count => format!("{}{faulty}; {services} {plural} without a mistake", mistakes(count)),
    }
}

fn report(diagnostics: &[Diagnostic], warnings: &[Diagnostic], end: &str, palette: Palette) -> String {
    let mut sources = Sources::default();
    let mut out = String::new();
    for warning in warnings {
        let message = format!("warning: {}", warning.message);
        out += &mistake(&Diagnostic { message, ..warning.clone() }, None, palette);
    }
    for diagnostic in diagnostics {
        out += &mistake(diagnostic, sources.line(diagnostic).as_deref(), palette);
    }
    let tone = if diagnostics.is_empty() { Tone::Plain } else { Tone::Strong };
    out + &palette.paint(tone, end) + "\n"
}

/// The files that mistakes point into, each read once.
#[derive(Default)]
struct Sources(HashMap<PathBuf, Vec<String>>);

impl Sources {
    fn line(&mut self, diagnostic: &Diagnostic) -> Option<String> {
        let index = usize::try_from(diagnostic.line).ok()?.checked_sub(1)?;
        let lines = self.0.entry(diagnostic.file.clone()).or_insert_with(|| {
            let bytes = std::fs::read(&diagnostic.file).unwrap_or_default();
            String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect()
        });
        lines.get(index).cloned()
    }
}

/// `file:line:column: message`, then the line and a caret below what is meant.
fn mistake(diagnostic: &Diagnostic, source: Option<&str>, palette: Palette) -> String {
    let file = diagnostic.file.display().to_string();
    let place = match diagnostic.line {
        0 => format!("{}:", escape(&file)),
        line => format!("{}:{line}:{}:", escape(&file), diagnostic.column),
    };
    // A message may have several lines; those after the first are set in.
    let message = diagnostic.message.lines().map(escape).collect::<Vec<_>>().join("\n    ");
    let mut out = format!("{} {}\n", palette.paint(Tone::Strong, &place), palette.paint(Tone::Bad, &message));
    if let Some(source) = source {
        let place = usize::try_from(diagnostic.column).unwrap_or(0).saturating_sub(1);
        let (before, after) = around(source, place);
        let number = diagnostic.line.to_string();
        let margin = " ".repeat(number.len());
        let indent = " ".repeat(width(&escape(&before)));
        out += &palette.paint(Tone::Quiet, &format!("  {number} | "));
        out += &format!("{}\n", escape(format!("{before}{after}").trim_end()));
        if diagnostic.column > 0 {
            out += &palette.paint(Tone::Quiet, &format!("  {margin} | "));
            out += &format!("{indent}{}\n", palette.paint(Tone::Bad, "^"));
        }
    }
    out
}

/// The text of a line before a place, in characters, and the text from there on; of a long line the part near
/// the place.
fn around(line: &str, place: usize) -> (String, String) {
    let place = place.min(line.chars().count());
    let skipped = place.saturating_sub(BEFORE);
    let mut rest = line.chars();
    let mut before: String = rest.by_ref().skip(skipped).take(place - skipped).collect();
    let mut after: String = rest.by_ref().take(AFTER).collect();
    if skipped > 0 {
        before.insert(0, '…');
    }
    if rest.next().is_some() {
        after.push('…');
    }
    (before, after)
}

/// The form for programs; a warning is no mistake and hardly meant.
fn view(diagnostic: &Diagnostic, warning: bool) -> Value {
    let file = diagnostic.file.display().to_string();
    object!(diagnostic => file: file, line, column, service, message, warning: warning)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diagnostic(line: u32, column: u32) -> Diagnostic {
        Diagnostic {
            file: "services/web.yaml".into(),
            line,
            column,
            service: Some("web".to_owned()),
            message: "depends: there is no service \"bd\"; did you mean \"db\"?".to_owned(),
        }
    }

    #[test]
    fn wide_and_dangerous_characters_do_not_move_the_caret() {
        assert_eq!(
            mistake(&diagnostic(1, 4), Some("世\x1b:x"), Palette::None).lines().skip(1).collect::<Vec<_>>(),
            ["  1 | 世\\x1b:x", "    |        ^"]
        );
    }

    #[test]
    fn of_a_long_line_what_is_near_the_mistake_is_shown() {
        let source = format!("{}here{}", "a".repeat(15_000), "b".repeat(15_000));
        let said = mistake(&diagnostic(3, 15_001), Some(&source), Palette::None);
        let lines: Vec<&str> = said.lines().skip(1).collect();
        assert_eq!(
            lines,
            [
                format!("  3 | …{}here{}…", "a".repeat(BEFORE), "b".repeat(AFTER - 4)),
                format!("    | {}^", " ".repeat(BEFORE + 1))
            ]
        );
        assert_eq!(around("short", 0), (String::new(), "short".to_owned()));
        assert_eq!(around("short", 99), ("short".to_owned(), String::new()));
    }

    #[test]
    fn the_end_counts() {
        let mut loaded = Loaded::default();
        assert_eq!(end(&loaded), "0 services, no mistakes");
        loaded.diagnostics = vec![diagnostic(0, 0), diagnostic(0, 0)];
        assert_eq!(end(&loaded), "2 mistakes, 1 faulty service; 0 services without a mistake");
        assert!(report(&loaded.diagnostics, &[], "the end", Palette::None).ends_with("db\"?\nthe end\n"));
    }
}
