//! Kernel modules, loaded by name with what they depend on, as modprobe does it.
//!
//! `modules.dep` names the file and the
//! dependencies of each module, `modules.softdep` what a module asks for by another name while it runs (ext4 wants
//! `crc32c`), `modules.alias` who answers to such a name, `modules.builtin` what the kernel holds already.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::fd::AsFd;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;

/// `MODULE_INIT_COMPRESSED_FILE` of the kernel's `module.h`: the kernel unpacks the file itself.
const COMPRESSED_FILE: libc::c_int = 4;

/// The modules of one kernel.
#[derive(Debug, Default)]
pub struct Modules {
    folder: PathBuf,
    /// Name → its file and its dependencies' files, nearest first, relative to `folder`.
    files: BTreeMap<String, Vec<String>>,
    builtin: BTreeSet<String>,
    /// Name → what should be loaded before it, by name or alias.
    soft: BTreeMap<String, Vec<String>>,
    /// Alias without wildcards → names.
    aliases: BTreeMap<String, Vec<String>>,
}

/// The outcome for one module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Loaded {
    New,
    Already,
    Builtin,
}

impl Modules {
    /// The modules of the running kernel.
    ///
    /// # Errors
    /// A sentence, when the kernel's folder cannot be read.
    pub fn of_running_kernel() -> Result<Modules, String> {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease")
            .map_err(|error| format!("/proc/sys/kernel/osrelease: {error}"))?;
        let usual = Path::new("/lib/modules").join(release.trim());
        let folder = if usual.exists() { usual } else { Path::new("/usr/lib/modules").join(release.trim()) };
        Modules::in_folder(&folder)
    }

    /// The modules in a folder such as `/lib/modules/6.1.0-13-amd64`.
    ///
    /// # Errors
    /// A sentence, when `modules.dep` cannot be read. The other files may be missing.
    pub fn in_folder(folder: &Path) -> Result<Modules, String> {
        let dep = folder.join("modules.dep");
        let dep = std::fs::read_to_string(&dep)
            .map_err(|error| format!("{}: {error} (run depmod for this kernel)", dep.display()))?;
        let optional = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
        Ok(Modules {
            folder: folder.to_owned(),
            files: parse_dep(&dep),
            builtin: optional("modules.builtin").lines().map(name_of).collect(),
            soft: parse_soft(&optional("modules.softdep")),
            aliases: parse_aliases(&optional("modules.alias")),
        })
    }

    /// Loads a module by name or alias after all that it depends on.
    ///
    /// # Errors
    /// A sentence that names the module that failed and why.
    pub fn load(&self, name: &str) -> Result<Loaded, String> {
        let wanted = canonical(name);
        if let Some(files) = self.files.get(&wanted) {
            for early in self.soft.get(&wanted).into_iter().flatten() {
                // A soft dependency that this machine cannot have (a processor's own crypto) is no fault.
                let _ = self.load_hard(early);
            }
            return self.insert_all(files);
        }
        if self.builtin.contains(&wanted) {
            return Ok(Loaded::Builtin);
        }
        self.load_hard(name)
    }

    /// As [`Modules::load`] without soft dependencies, so that a circle of them ends.
    fn load_hard(&self, name: &str) -> Result<Loaded, String> {
        let wanted = canonical(name);
        if let Some(files) = self.files.get(&wanted) {
            return self.insert_all(files);
        }
        if self.builtin.contains(&wanted) {
            return Ok(Loaded::Builtin);
        }
        let mut outcome = Err(format!("there is no module \"{name}\" in {}", self.folder.display()));
        for answering in self.aliases.get(&wanted).into_iter().flatten() {
            if let Some(files) = self.files.get(answering) {
                let result = self.insert_all(files);
                if outcome.is_err() {
                    outcome = result;
                }
            }
        }
        outcome
    }

    fn insert_all(&self, files: &[String]) -> Result<Loaded, String> {
        let mut outcome = Loaded::Already;
        for file in files.iter().rev() {
            outcome = insert(&self.folder.join(file))?;
        }
        Ok(outcome)
    }
}

/// Loads all of them, and names those that could not be loaded.
pub fn load(names: &[String]) -> Result<String, String> {
    let modules = Modules::of_running_kernel()?;
    let mut failures = Vec::new();
    let mut new = 0_usize;
    for name in names {
        match modules.load(name) {
            Ok(Loaded::New) => new = new.saturating_add(1),
            Ok(_) => {}
            Err(text) => failures.push(text),
        }
    }
    if failures.is_empty() { Ok(format!("{new} loaded")) } else { Err(failures.join("; ")) }
}

fn insert(path: &Path) -> Result<Loaded, String> {
    let file = File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let compressed = path.extension().is_some_and(|ending| ending != "ko");
    match finit_module(file.as_fd(), if compressed { COMPRESSED_FILE } else { 0 }) {
        Ok(()) => Ok(Loaded::New),
        Err(Errno::EEXIST) => Ok(Loaded::Already),
        Err(Errno::EOPNOTSUPP | Errno::EINVAL) if compressed => {
            Err(format!("{}: this kernel does not unpack modules; unpack the file", path.display()))
        }
        Err(Errno::ENOEXEC) => Err(format!("{}: this is no module of the running kernel", path.display())),
        Err(errno) => Err(format!("{}: {}", path.display(), errno.desc())),
    }
}

fn finit_module(file: BorrowedFd<'_>, flags: libc::c_int) -> nix::Result<()> {
    // SAFETY: the descriptor is borrowed for the call, the parameters are a static C string.
    let result = unsafe { libc::syscall(libc::SYS_finit_module, file.as_raw_fd(), c"".as_ptr(), flags) };
    Errno::result(result).map(drop)
}

/// `kernel/fs/ext4/ext4.ko.xz` → `ext4`
fn name_of(path: &str) -> String {
    let file = path.trim().rsplit('/').next().unwrap_or_default();
    canonical(file.split_once(".ko").map_or(file, |(name, _)| name))
}

/// Dash and underscore are one to modprobe.
fn canonical(name: &str) -> String {
    name.trim().replace('-', "_")
}

/// `a.ko: b.ko c.ko`: a needs b and c; they are listed such that loading from the end is right.
fn parse_dep(text: &str) -> BTreeMap<String, Vec<String>> {
    let mut files = BTreeMap::new();
    for line in text.lines() {
        if let Some((file, needed)) = line.split_once(':') {
            let all = std::iter::once(file).chain(needed.split_whitespace()).map(str::to_owned).collect();
            files.insert(name_of(file), all);
        }
    }
    files
}

/// `softdep ext4 pre: crc32c post: x`
fn parse_soft(text: &str) -> BTreeMap<String, Vec<String>> {
    let mut soft: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        if words.next() != Some("softdep") {
            continue;
        }
        let Some(name) = words.next().map(canonical) else { continue };
        let early = words.skip_while(|word| *word != "pre:").skip(1).take_while(|word| !word.ends_with(':'));
        soft.entry(name).or_default().extend(early.map(str::to_owned));
    }
    soft
}

/// `alias crypto-crc32c crc32c_intel`; those with wildcards are for devices, which name themselves.
fn parse_aliases(text: &str) -> BTreeMap<String, Vec<String>> {
    let mut aliases: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["alias", alias, name] = words.as_slice()
            && !alias.contains(['*', '?', '['])
        {
            aliases.entry(canonical(alias)).or_default().push(canonical(name));
        }
    }
    aliases
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_loaded_from_the_far_end() {
        let files = parse_dep(
            "kernel/fs/ext4/ext4.ko: kernel/fs/jbd2/jbd2.ko kernel/lib/crc16.ko kernel/fs/mbcache.ko\n\
             kernel/drivers/net/virtio_net.ko.xz:\n\
             kernel/net/nf-log.ko.zst: kernel/net/x_tables.ko.zst\n",
        );
        assert_eq!(files["ext4"].first().unwrap(), "kernel/fs/ext4/ext4.ko");
        assert_eq!(files["ext4"].last().unwrap(), "kernel/fs/mbcache.ko");
        assert_eq!(files["virtio_net"], ["kernel/drivers/net/virtio_net.ko.xz"]);
        assert_eq!(files["nf_log"].len(), 2);
    }

    #[test]
    fn soft_dependencies_come_from_the_part_before() {
        let soft = parse_soft(
            "# comment\nsoftdep ext4 pre: crc32c\nsoftdep a-b pre: x y post: z\nsoftdep late post: q\n",
        );
        assert_eq!(soft["ext4"], ["crc32c"]);
        assert_eq!(soft["a_b"], ["x", "y"]);
        assert!(soft["late"].is_empty());
    }

    #[test]
    fn aliases_without_wildcards_are_known() {
        let aliases = parse_aliases(
            "alias crypto-crc32c crc32c_generic\nalias crypto-crc32c crc32c_intel\nalias pci:v*d* virtio_pci\n",
        );
        assert_eq!(aliases["crypto_crc32c"], ["crc32c_generic", "crc32c_intel"]);
        assert_eq!(aliases.len(), 1);
    }

    #[test]
    fn builtin_and_unknown_modules_are_told_apart() {
        let modules = Modules {
            folder: PathBuf::from("/lib/modules/x"),
            builtin: ["kernel/fs/overlay.ko"].iter().map(|path| name_of(path)).collect(),
            ..Modules::default()
        };
        assert_eq!(modules.load("overlay"), Ok(Loaded::Builtin));
        let error = modules.load("nonsense").unwrap_err();
        assert_eq!(error, "there is no module \"nonsense\" in /lib/modules/x");
    }

    #[test]
    fn a_missing_folder_is_said() {
        let error = Modules::in_folder(Path::new("/nonexistent")).unwrap_err();
        assert!(error.contains("/nonexistent/modules.dep"), "{error}");
    }
}
