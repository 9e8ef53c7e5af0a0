//! Checks the programs and folders that a service needs of the root of its host, in a copy of that root.

use std::path::{Path, PathBuf};

use kelson_spec::service::{Hook, Probe, ServiceSpec, Workload};
use kelson_spec::{DEFAULT_PATH, Diagnostic, Loaded};
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat2};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat};

/// Warnings about what is not there. It may come there later, by a mount or a service before: they are no mistakes.
pub fn warnings(loaded: &Loaded, root: &Path) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let mut warn = |service: &ServiceSpec, message: String| {
        let (file, service) = (service.file.clone(), Some(service.name.clone()));
        found.push(Diagnostic { file, line: 0, column: 0, service, message });
    };
    for service in &loaded.services {
        let Workload::Process(process) = &service.workload else { continue };
        for program in programs(service) {
            if !is_program(root, service, program) {
                warn(service, format!("there is no program {program} in {}", root.display()));
            }
        }
        let folder = &process.working_directory;
        if stat(root, folder).is_none_or(|stat| kind(&stat) != SFlag::S_IFDIR) {
            warn(service, format!("there is no folder {} in {}", folder.display(), root.display()));
        }
    }
    let containers = |service: &&ServiceSpec| service.container().is_some();
    if let Some(service) = loaded.services.iter().find(containers) {
        let archives = |folder: &PathBuf| {
            let folder = root.join(folder.strip_prefix("/").unwrap_or(folder));
            std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some())
        };
        if !loaded.machine.images.iter().any(archives) {
            let folders: Vec<_> =
                loaded.machine.images.iter().map(|path| path.display().to_string()).collect();
            let folders = folders.join(", ");
            warn(service, format!("there is no archive of images in {folders} of {}", root.display()));
        }
    }
    found
}

/// The first words of all its commands, each once.
fn programs(service: &ServiceSpec) -> Vec<&str> {
    let mut commands: Vec<&[String]> = Vec::new();
    if let Workload::Process(process) = &service.workload {
        commands.push(&process.command);
    }
    let hooks = &service.hooks;
    let hooks = [&hooks.pre, &hooks.post_start, &hooks.pre_stop, &hooks.post].into_iter().flatten();
    commands.extend(hooks.map(|Hook { command, .. }| command.as_slice()));
    commands.extend(service.checks().filter_map(|(check, _)| match &check.probe {
        Probe::Exec { command } => Some(command.as_slice()),
        Probe::Network(_) | Probe::Csi { .. } | Probe::Volume(_) => None,
    }));
    let mut programs: Vec<&str> = Vec::new();
    for program in commands.into_iter().filter_map(|command| command.first()) {
        if !programs.contains(&program.as_str()) {
            programs.push(program);
        }
    }
    programs
}

fn is_program(root: &Path, service: &ServiceSpec, program: &str) -> bool {
    let is = |path: &Path| {
        stat(root, path).is_some_and(|stat| kind(&stat) == SFlag::S_IFREG && stat.st_mode & 0o111 != 0)
    };
    if program.contains('/') {
        return is(Path::new(program));
    }
    let own = service.environment.iter().find(|(name, _)| name == "PATH");
    let folders = own.map_or(DEFAULT_PATH, |(_, value)| value.as_str());
    folders.split(':').any(|folder| is(&Path::new(folder).join(program)))
}

fn kind(stat: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits())
}

/// Looks up a path of the host; links lead to the same place as they would there.
fn stat(root: &Path, path: &Path) -> Option<FileStat> {
    let folder = open(root, OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty()).ok()?;
    let how = OpenHow::new().flags(OFlag::O_PATH | OFlag::O_CLOEXEC).resolve(ResolveFlag::RESOLVE_IN_ROOT);
    fstat(openat2(folder, path, how).ok()?).ok()
}
