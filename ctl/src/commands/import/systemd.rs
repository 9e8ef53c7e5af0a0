//! `import systemd`: service units, with their drop-ins.

use std::path::{Path, PathBuf};

use kelson_import::{PartUnit, Source, Translation, Unit};

use super::drop_in::drop_ins;
use super::outcome::{Imported, end, read, show};
use crate::call::Call;
use crate::failure::Failure;

/// Translate service units of systemd
///
/// Drop-ins are read from the folder FILE.d beside each file, in the order of
/// their names, and from the other folders that systemd reads for it: if the file
/// is in a folder of units such as /lib/systemd/system, also below /etc and /run.
/// Standard error tells what is not kept. The exit status is 1 if something is
/// lost.
///
/// Examples:
///   kelsonctl import systemd /lib/systemd/system/redis-server.service
///   kelsonctl import systemd uuidd.service uuidd.socket
///   kelsonctl import systemd logrotate.service logrotate.timer
///   kelsonctl import systemd --instance 15-main postgresql@.service
///   kelsonctl import systemd --out /etc/kelson/services *.service
///   kelsonctl import systemd -o json web.service
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Unit files: NAME.service, with its .socket, .timer and .path
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The instance of a template
    #[arg(long, value_name = "INSTANCE")]
    instance: Option<String>,
    /// What a specifier of the host stands for: H=edge-1
    #[arg(long = "specifier", value_name = "X=VALUE", value_parser = specifier)]
    specifiers: Vec<(char, String)>,
    /// Write NAME.yaml files into this folder, over none
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

fn specifier(text: &str) -> Result<(char, String), String> {
    let parts = text.split_once('=').and_then(|(name, value)| {
        let mut letters = name.chars();
        letters.next().filter(|_| letters.next().is_none()).map(|letter| (letter, value.to_owned()))
    });
    parts.ok_or_else(|| "write a letter and its value, such as H=edge-1".to_owned())
}

pub fn run(call: &Call, arguments: Arguments) -> Result<(), Failure> {
    let Arguments { files, instance, specifiers, out } = arguments;
    let imported = units(files, instance.as_deref(), &specifiers);
    show(call, &imported, out.as_deref())?;
    end(&imported, "unit")
}

/// Translates the units of these files.
pub fn units(files: Vec<PathBuf>, instance: Option<&str>, specifiers: &[(char, String)]) -> Vec<Imported> {
    let (parts, services): (Vec<PathBuf>, Vec<PathBuf>) =
        files.into_iter().partition(|path| PartUnit::is(&file_name(path)));
    let parts: Vec<Part> = parts.into_iter().map(|path| Part::read(path, instance)).collect();
    let one = |path: &PathBuf| Imported {
        from: path.display().to_string(),
        outcome: import(path, instance, specifiers, &parts),
    };
    let mut imported: Vec<Imported> = services.iter().map(one).collect();
    imported.extend(parts.iter().filter_map(|part| part.alone(&services)));
    imported
}

fn import(
    path: &Path,
    instance: Option<&str>,
    specifiers: &[(char, String)],
    parts: &[Part],
) -> Result<Translation, String> {
    let file = file_name(path);
    let (name, instance) = match instance_of(&file).filter(|_| instance.is_none()) {
        Some((template, instance)) => (template, Some(instance)),
        None => (file.clone(), instance),
    };
    let texts = texts(path, &name, instance)?;
    let unit = Unit { name: &name, instance, sources: sources(&texts), specifiers: specifiers.to_vec() };
    let named = Unit::sockets(&unit);
    let of_it = parts
        .iter()
        .filter(|part| named.contains(&part.name) || part.unit().is_ok_and(|unit| unit.service() == file));
    let of_it: Vec<PartUnit<'_>> = of_it.filter_map(|part| part.unit().ok()).collect();
    kelson_import::service_with(&unit, &of_it).map_err(|error| error.to_string())
}

pub fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The name of the template of the unit `web@a.service`, and its instance.
pub fn instance_of(name: &str) -> Option<(String, &str)> {
    let (bare, kind) = name.rsplit_once('.')?;
    let (prefix, instance) = bare.split_once('@').filter(|(_, instance)| !instance.is_empty())?;
    Some((format!("{prefix}@.{kind}"), instance))
}

/// The texts of a unit and its drop-ins, each with the name of its file.
fn texts(path: &Path, name: &str, instance: Option<&str>) -> Result<Vec<(String, String)>, String> {
    let mut files = vec![path.to_owned()];
    files.extend(drop_ins(path, name, instance)?);
    files.iter().map(|file| Ok((file.display().to_string(), read(file)?))).collect()
}

fn sources(texts: &[(String, String)]) -> Vec<Source<'_>> {
    texts.iter().map(|(name, text)| Source { name, text }).collect()
}

/// A socket, timer or path unit that was named beside services.
struct Part {
    path: PathBuf,
    name: String,
    texts: Result<Vec<(String, String)>, String>,
}

impl Part {
    fn read(path: PathBuf, instance: Option<&str>) -> Part {
        let name = file_name(&path);
        Part { texts: texts(&path, &name, instance), name, path }
    }

    fn unit(&self) -> Result<PartUnit<'_>, &String> {
        Ok(PartUnit { name: &self.name, sources: sources(self.texts.as_ref()?) })
    }

    /// Why it is part of no service file.
    fn alone(&self, services: &[PathBuf]) -> Option<Imported> {
        let error = match self.unit() {
            Err(error) => error.clone(),
            Ok(unit) => {
                let service = unit.service();
                if services.iter().any(|path| file_name(path) == service) {
                    return None;
                }
                format!("{} is a part of {service}: give the file of that unit too", self.name)
            }
        };
        Some(Imported { from: self.path.display().to_string(), outcome: Err(error) })
    }
}
