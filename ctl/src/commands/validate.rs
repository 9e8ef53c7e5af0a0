//! `validate`: the mistakes of a configuration folder, all at once, before a host meets them.

use std::collections::HashMap;
use std::path::PathBuf;

use kelson_spec::{Diagnostic, Loaded};

use super::Call;
use crate::failure::Failure;
use crate::output::style::{Palette, Tone};
use crate::output::text::{escape, width};
use crate::output::{print, views};

/// Check a configuration folder, without a host
///
/// The folder is one like /etc/kelson: a machine.yaml (which may be missing),
/// the folder services/ with one file for each service, and the folder groups/
/// with files of groups. Warnings alone leave the exit status 0.
#[derive(Debug, Clone, clap::Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  kelsonctl validate /etc/kelson
  kelsonctl validate ./config && echo fine"
)]
pub struct Arguments {
    /// The folder
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

pub fn run(call: &Call, arguments: Arguments) -> Result<(), Failure> {
    let directory = arguments.directory;
    match std::fs::metadata(&directory) {
        Ok(found) if found.is_dir() => {}
        Ok(_) => return Err(not_a_folder(&directory, "it is a file")),
        Err(error) => return Err(not_a_folder(&directory, &error.to_string())),
    }
    let loaded = kelson_spec::load(&directory);
    if call.is_table() {
        print(&report(&loaded, call.terminal.palette))?;
    } else {
        let mistakes = loaded.diagnostics.iter().map(views::Mistake::from);
        let warnings = loaded.warnings.iter().map(views::Mistake::warning);
        call.format.print(&mistakes.chain(warnings).collect::<Vec<_>>())?;
    }
    if loaded.diagnostics.is_empty() { Ok(()) } else { Err(Failure::Told) }
}

fn not_a_folder(directory: &std::path::Path, why: &str) -> Failure {
    Failure::Failed(format!("{} cannot be read as a configuration folder: {why}", directory.display()))
}

fn report(loaded: &Loaded, palette: Palette) -> String {
    let services = loaded.services.len();
    let plural = if services == 1 { "service" } else { "services" };
    let mut sources = Sources::default();
    let mut out = String::new();
    for warning in &loaded.warnings {
        let message = format!("warning: {}", warning.message);
        out += &mistake(&Diagnostic { message, ..warning.clone() }, None, palette);
    }
    if loaded.diagnostics.is_empty() {
        return format!("{out}{services} {plural}, no mistakes\n");
    }
    for diagnostic in &loaded.diagnostics {
        out += &mistake(diagnostic, sources.line(diagnostic).as_deref(), palette);
    }
    let mistakes = loaded.diagnostics.len();
    let word = if mistakes == 1 { "mistake" } else { "mistakes" };
    let faulty = match loaded.faulty().len() {
        0 => String::new(),
        1 => ", 1 faulty service".to_owned(),
        count => format!(", {count} faulty services"),
    };
    out += &palette
        .paint(Tone::Strong, &format!("{mistakes} {word}{faulty}; {services} {plural} without a mistake"));
    out + "\n"
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
        let before: String =
            source.chars().take(usize::try_from(diagnostic.column).unwrap_or(0).saturating_sub(1)).collect();
        let number = diagnostic.line.to_string();
        let margin = " ".repeat(number.len());
        let indent = " ".repeat(width(&escape(&before)));
        out += &palette.paint(Tone::Quiet, &format!("  {number} | "));
        out += &format!("{}\n", escape(source.trim_end()));
        if diagnostic.column > 0 {
            out += &palette.paint(Tone::Quiet, &format!("  {margin} | "));
            out += &format!("{indent}{}\n", palette.paint(Tone::Bad, "^"));
        }
    }
    out
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
    fn the_caret_stands_below_the_mistake() {
        assert_eq!(
            mistake(&diagnostic(12, 14), Some("depends: [{service: bd}]"), Palette::None),
            "\
services/web.yaml:12:14: depends: there is no service \"bd\"; did you mean \"db\"?
  12 | depends: [{service: bd}]
     |              ^
"
        );
    }

    #[test]
    fn wide_and_dangerous_characters_do_not_move_the_caret() {
        assert_eq!(
            mistake(&diagnostic(1, 4), Some("世\x1b:x"), Palette::None).lines().skip(1).collect::<Vec<_>>(),
            ["  1 | 世\\x1b:x", "    |        ^"]
        );
    }

    #[test]
    fn a_whole_file_has_no_caret() {
        assert_eq!(
            mistake(&diagnostic(0, 0), None, Palette::None),
            "services/web.yaml: depends: there is no service \"bd\"; did you mean \"db\"?\n"
        );
    }

    #[test]
    fn the_end_counts() {
        let mut loaded = Loaded::default();
        assert_eq!(report(&loaded, Palette::None), "0 services, no mistakes\n");
        loaded.diagnostics = vec![diagnostic(0, 0), diagnostic(0, 0)];
        assert!(
            report(&loaded, Palette::None)
                .ends_with("2 mistakes, 1 faulty service; 0 services without a mistake\n")
        );
    }
}
