//! Reading a configuration folder: the machine file and all service files, every mistake in them at once.

use kelson_sys::ordered;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::containers;
use crate::decode::{Context, Decoded, Decoder, MOST_MISTAKES, diagnostic};
use crate::grammar::{self, DecodedMachine};
use crate::groups;
use crate::member::Member;
use crate::parser;
use crate::read;
use crate::sources::Sources;
use crate::tree::{Mistake, Node, Position, Value};
use kelson_spec::builtin;
use kelson_spec::features::{Feature, OWN};
use kelson_spec::group::GroupSpec;
use kelson_spec::loaded::{Diagnostic, Loaded, Refused};
use kelson_spec::machine::MachineSpec;
use kelson_spec::names::{GROUPS, MACHINE, SERVICES, VOLUMES, is_name};
use kelson_spec::quote::{error_text, shown};
use kelson_spec::sources::SourceKind;
use kelson_spec::verify::VerifyRule;
use kelson_spec::volume_file::VolumeFile;

mod dynamic_users;
mod fleet;
mod instances;
mod layers;
mod order;
mod other_programs;
mod plugins;
mod references;
mod service_files;
pub(crate) mod single;
pub(crate) mod volume_files;

/// Reads the folder `config` (as `/etc/kelson`) as a machine does. Never fails: what cannot be read is a diagnostic.
pub fn load(config: &Path) -> Loaded {
    load_with(config, &Sources::default())
}

/// As [`load`], with the files that specs refer to elsewhere, or for another mode.
pub fn load_with(config: &Path, sources: &Sources) -> Loaded {
    let (config, sources) = (config.to_owned(), sources.clone());
    parser::guarded(move || read_all(&config, &sources))
}

fn read_all(config: &Path, sources: &Sources) -> Loaded {
    let mut reading = Reading::new(sources);
    let mut machine = reading.files(config, sources, sources.mode.machine_defaults());
    if const { OWN.has(Feature::Sources) }
        && let Some(folder) = &sources.layers
    {
        machine = reading.lay_over(folder, sources, machine);
    }
    let groups = reading.used_groups();
    let containerd = reading.containers(&machine.spec, sources);
    reading.ports();
    reading.plugins(config);
    reading.groups();
    reading.dynamic_users();
    reading.order();
    reading.without_fleet(&machine.spec);
    reading.check_builtins(&mut machine);
    let services = reading.check_graph();
    reading.check_main(&mut machine, &services);
    let sorted = |mut found: Vec<Diagnostic>| {
        ordered::sort_by(&mut found, |a, b| {
            let key = |d: &Diagnostic| (d.line, d.column);
            a.file.cmp(&b.file).then(key(a).cmp(&key(b))).then_with(|| a.service.cmp(&b.service))
        });
        found
    };
    let diagnostics = sorted(std::mem::take(&mut reading.diagnostics));
    let warnings = sorted(std::mem::take(&mut reading.warnings));
    let api_group = reading.context.group("kelson");
    let mut loaded = Loaded {
        machine: machine.spec,
        services,
        groups,
        diagnostics,
        warnings,
        api_group,
        containerd,
        skipped: std::mem::take(&mut reading.skipped),
        ..Loaded::default()
    };
    loaded.refused = reading.refused(&loaded.faulty());
    loaded.unchecked = reading.context.unchecked();
    loaded
}

/// A folder that is being read.
struct Reading {
    context: Context,
    services: Vec<Decoded>,
    /// All that are in a group, faulty ones too.
    members: Vec<Member>,
    /// Services whose files say that they are not required.
    spared: BTreeSet<String>,
    /// Names that others may depend on though they have no sound file: built-ins and faulty services.
    known: BTreeSet<String>,
    /// The files of groups, faulty ones too.
    groups: Vec<(PathBuf, String, Option<GroupSpec>)>,
    /// The files of volumes, likewise.
    volumes: Vec<(PathBuf, String, Option<VolumeFile>)>,
    diagnostics: Vec<Diagnostic>,
    warnings: Vec<Diagnostic>,
    /// The layers that have mistakes.
    skipped: Vec<SourceKind>,
    /// It is laid over another.
    is_layer: bool,
}

impl Reading {
    fn new(sources: &Sources) -> Reading {
        Reading {
            context: Context::new(sources.root.as_deref(), sources.features),
            services: Vec::new(),
            members: Vec::new(),
            spared: BTreeSet::new(),
            known: ordered::set(builtin::names().map(str::to_owned)),
            groups: Vec::new(),
            volumes: Vec::new(),
            diagnostics: Vec::new(),
            warnings: Vec::new(),
            skipped: Vec::new(),
            is_layer: false,
        }
    }

    /// Reads all files of a folder, and the machine file over the one `below`.
    fn files(&mut self, config: &Path, sources: &Sources, below: DecodedMachine) -> DecodedMachine {
        let machine = self.machine_file(config, below);
        self.service_files(&config.join(SERVICES));
        self.other_programs(config, sources);
        self.group_files(&config.join(GROUPS));
        if const { OWN.has(Feature::Volumes) } {
            self.volume_files(&config.join(VOLUMES));
        }
        machine
    }

    fn note(&mut self, file: &Path, service: Option<&str>, message: String) {
        self.diagnostics.push(diagnostic(file, Position::FILE, service, message));
    }

    fn machine_file(&mut self, config: &Path, below: DecodedMachine) -> DecodedMachine {
        if let Err(error) = std::fs::metadata(config) {
            self.note(config, None, format!("the folder cannot be read: {}", error_text(&error)));
            return if error.kind() == ErrorKind::NotFound { below } else { closed(below) };
        }
        let misnamed = config.join("machine.yml");
        if misnamed.symlink_metadata().is_ok() {
            self.note(&misnamed, None, "this file is not read; rename it to machine.yaml".to_owned());
        }
        let path = config.join(MACHINE);
        if path.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            return below;
        }
        let (is_layer, absent) = (self.is_layer, below.clone());
        let decoded = self.file(&path, None, |d, root, _| {
            let root = root?;
            let unsound = !d.diagnostics.is_empty() || !matches!(root.value, Value::Mapping(_));
            if let Some(node) = root.get("sources").filter(|_| is_layer) {
                d.at_key("sources", |d| {
                    d.wrong(node.at, "a source cannot name sources; name them in the image");
                });
            }
            let machine = grammar::machine(d, root, below);
            Some(if unsound { closed(machine) } else { machine })
        });
        decoded.unwrap_or_else(|| closed(absent))
    }

    fn group_files(&mut self, folder: &Path) {
        for (path, stem) in self.files_of(folder, false) {
            if !is_name(&stem) {
                let text = format!("{} is not the name of a group; use a-z, 0-9 and -", shown(&stem));
                self.note(&path, None, text);
                continue;
            }
            let spec = self.file(&path, None, |d, root, _| grammar::group(d, &stem, root?));
            self.groups.push((path, stem, spec));
        }
    }

    /// The files of groups that have no mistake. A warning for those that have no effect.
    fn used_groups(&mut self) -> Vec<GroupSpec> {
        let mut groups = Vec::new();
        for (path, name, spec) in std::mem::take(&mut self.groups) {
            if !self.members.iter().any(|member| member.group == name) {
                let text = format!("no service is in group {name}, so this file has no effect");
                self.warnings.push(diagnostic(&path, Position::FILE, None, text));
            }
            groups.extend(spec);
        }
        groups
    }

    /// The YAML files of a folder with their stems, sorted by name. A file that is misnamed is a mistake, of the service of
    /// that name where the folder is that `of_services`.
    fn files_of(&mut self, folder: &Path, of_services: bool) -> Vec<(PathBuf, String)> {
        let listing = match std::fs::read_dir(folder) {
            Ok(listing) => listing,
            Err(error) if error.kind() == ErrorKind::NotFound => return Vec::new(),
            Err(error) => {
                self.note(folder, None, format!("the folder cannot be read: {}", error_text(&error)));
                return Vec::new();
            }
        };
        let mut names: Vec<OsString> = Vec::new();
        for entry in listing {
            match entry {
                Ok(entry) => names.push(entry.file_name()),
                Err(error) => {
                    self.note(folder, None, format!("the folder cannot be read: {}", error_text(&error)));
                }
            }
        }
        ordered::sort(&mut names);
        let mut files = Vec::new();
        for file in &names {
            let path = folder.join(file);
            let name = file.to_string_lossy();
            // Editors leave such files while they work.
            if name.starts_with('.') {
                continue;
            }
            if let Some(stem) = name.strip_suffix(".yml") {
                let right = format!("{stem}.yaml");
                let twin = names.binary_search_by(|known| known.as_os_str().cmp(OsStr::new(&right))).is_ok();
                let service = grammar::service_name(stem).filter(|_| of_services && !twin);
                self.known.extend(service.map(str::to_owned));
                self.note(&path, service, format!("this file is not read; rename it to {}", shown(&right)));
            } else if let Some(stem) = name.strip_suffix(".yaml") {
                files.push((path, stem.to_owned()));
            }
        }
        files
    }

    /// Reads a file and decodes the tree of its text, which may have none.
    fn file<T>(
        &mut self,
        path: &Path,
        service: Option<&str>,
        decode: impl FnOnce(&mut Decoder<'_>, Option<&Node>, &str) -> Option<T>,
    ) -> Option<T> {
        self.decoded(path, service, &Source::read(path), decode)
    }

    fn decoded<T>(
        &mut self,
        path: &Path,
        service: Option<&str>,
        source: &Result<Source, read::ReadError>,
        decode: impl FnOnce(&mut Decoder<'_>, Option<&Node>, &str) -> Option<T>,
    ) -> Option<T> {
        let context = &self.context;
        let mut decoder = Decoder::new(context, path, service);
        let decoded = match source {
            Ok(source) => {
                let root = source.tree_for(&mut decoder);
                let unsound = !decoder.diagnostics.is_empty();
                let decoded = decode(&mut decoder, root, &source.text);
                decoded.filter(|_| !unsound || service.is_none())
            }
            Err(error) => {
                let at = match error {
                    read::ReadError::NotUtf8 { line, column, .. } => {
                        Position { line: *line, column: *column }
                    }
                    _ => Position::FILE,
                };
                decoder.wrong(at, error);
                None
            }
        };
        let (mut found, mut warnings) = (decoder.diagnostics, decoder.warnings);
        warnings.truncate(MOST_MISTAKES);
        self.warnings.append(&mut warnings);
        // PID 1 keeps them all in its memory.
        if let Some(next) = found.get(MOST_MISTAKES) {
            let at = Position { line: next.line, column: next.column };
            let more = found.len().saturating_sub(MOST_MISTAKES);
            found.truncate(MOST_MISTAKES);
            let text = format!("{more} more mistakes are not shown; mend the first ones");
            found.push(diagnostic(path, at, service, text));
        }
        self.diagnostics.append(&mut found);
        decoded
    }

    /// Containers wait for containerd; where that is off they are faulty. Whether it is on.
    fn containers(&mut self, machine: &MachineSpec, sources: &Sources) -> bool {
        let enabled = sources.containerd.enabled(machine);
        let usual = containers::usual_runtime(enabled, machine, sources);
        self.services.iter_mut().for_each(|decoded| containers::settle(decoded, usual));
        let needed = self.services.iter().any(containers::is_container);
        let on = containers::containerd_is_on(enabled, sources.mode, needed);
        for mut decoded in std::mem::take(&mut self.services) {
            let wrong = match containers::unsupported(&decoded) {
                None if !on && containers::is_container(&decoded) => {
                    Some(containers::off(enabled, machine).to_owned())
                }
                wrong => wrong,
            };
            let Some(text) = wrong else {
                containers::wait_for_containerd(&mut decoded);
                self.services.push(decoded);
                continue;
            };
            let Decoded { spec, workload, .. } = decoded;
            self.diagnostics.push(diagnostic(&spec.file, workload, Some(&spec.name), text));
            self.known.insert(spec.name);
        }
        on
    }

    /// Takes out the services that want the same port of the host.
    fn ports(&mut self) {
        if const { !OWN.has(Feature::Containerd) } {
            return;
        }
        for (place, text) in containers::shared_ports(&self.services).into_iter().rev() {
            let Decoded { spec, workload, .. } = self.services.remove(place);
            self.diagnostics.push(diagnostic(&spec.file, workload, Some(&spec.name), text));
            self.known.insert(spec.name);
        }
    }

    /// Orders the members of groups; those of a group that cannot be ordered are faulty.
    fn groups(&mut self) {
        let mut mistakes = groups::mistakes(&self.members);
        let faulty: HashSet<&str> = mistakes.iter().filter_map(|d| d.service.as_deref()).collect();
        self.services.retain(|decoded| !faulty.contains(decoded.spec.name.as_str()));
        self.known.extend(faulty.into_iter().map(str::to_owned));
        self.diagnostics.append(&mut mistakes);
        groups::order(&mut self.services, &self.members);
    }

    fn refused(&self, faulty: &[&str]) -> Vec<Refused> {
        let groups: HashMap<&str, &str> =
            self.members.iter().map(|member| (member.service.as_str(), member.group.as_str())).collect();
        let refused = |name: &&str| Refused {
            name: (*name).to_owned(),
            group: groups.get(name).map(|group| (*group).to_owned()),
            required: !self.spared.contains(*name),
        };
        faulty.iter().map(refused).collect()
    }
}

/// With no image that may run: a machine file that could not be read may have rules about images.
fn closed(mut machine: DecodedMachine) -> DecodedMachine {
    machine.spec.verify = vec![VerifyRule::unread()];
    machine
}

/// The text of a file, read once for all services that it has.
struct Source {
    text: String,
    tree: Option<(Option<Rc<Node>>, Vec<Mistake>)>,
}

impl Source {
    fn read(path: &Path) -> Result<Source, read::ReadError> {
        let text = read::utf8(path, read::MAX_FILE)?;
        Ok(Source { tree: parser::parse(&text), text })
    }

    /// The tree of the text, where it is one.
    fn tree(&self) -> Option<&Node> {
        self.tree.as_ref()?.0.as_deref()
    }

    /// The tree of the text; what keeps it from being one is noted.
    fn tree_for(&self, decoder: &mut Decoder<'_>) -> Option<&Node> {
        let Some((_, mistakes)) = &self.tree else {
            decoder.wrong(Position::START, "the YAML parser failed on this file; simplify it");
            return None;
        };
        for mistake in mistakes {
            decoder.wrong(mistake.at, &mistake.message);
        }
        let root = self.tree().filter(|root| !matches!(root.value, Value::Null));
        if root.is_none() && mistakes.is_empty() {
            decoder.wrong(Position::FILE, "the file is empty");
        }
        root
    }
}
