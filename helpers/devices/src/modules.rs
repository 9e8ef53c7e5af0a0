//! Kernel modules, loaded by name with what they depend on, as modprobe does it.
//!
//! `modules.dep` names the file and the
//! dependencies of each module, `modules.softdep` what a module asks for by another name while it runs (ext4 wants
//! `crc32c`), `modules.alias` who answers to such a name, `modules.builtin` what the kernel holds already.

use kelson_sys::ordered;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CStr;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use crate::parameters::{Parameters, canonical};

/// `MODULE_INIT_COMPRESSED_FILE` of the kernel's `module.h`: the kernel unpacks the file itself.
const COMPRESSED_FILE: libc::c_int = 4;
/// No module is larger, unpacked.
#[cfg(feature = "unpack")]
const LARGEST: u64 = 256 << 20;

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
    pub(crate) parameters: Parameters,
}

/// Why a module was not loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModuleError {
    #[error("{}: {error}", .path.display())]
    Unreadable { path: PathBuf, error: String },
    #[error("{}: {error} (run depmod for this kernel)", .path.display())]
    NoList { path: PathBuf, error: String },
    #[error("there is no module \"{name}\" in {}", .folder.display())]
    Unknown { name: String, folder: PathBuf },
    #[error("{}: this kernel does not unpack modules; unpack the file", .0.display())]
    Packed(PathBuf),
    #[error("{}: this is no module of the running kernel", .0.display())]
    OtherKernel(PathBuf),
    #[error("{}: {}", .path.display(), .errno.desc())]
    Refused { path: PathBuf, errno: Errno },
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
    /// When the kernel's folder cannot be read.
    pub fn of_running_kernel() -> Result<Modules, ModuleError> {
        Modules::in_folder(&folder()?, Parameters::of_running_kernel())
    }

    /// The modules in a folder such as `/lib/modules/6.1.0-13-amd64`, and what they get.
    ///
    /// # Errors
    /// When `modules.dep` cannot be read. The other files may be missing.
    pub fn in_folder(folder: &Path, parameters: Parameters) -> Result<Modules, ModuleError> {
        let path = folder.join("modules.dep");
        let dep = match std::fs::read_to_string(&path) {
            Ok(dep) => dep,
            Err(error) => return Err(ModuleError::NoList { path, error: error.to_string() }),
        };
        Ok(Modules {
            folder: folder.to_owned(),
            files: parse_dep(&dep),
            builtin: ordered::set(optional(folder, "modules.builtin").lines().map(name_of)),
            soft: parse_soft(&optional(folder, "modules.softdep")),
            aliases: parse_aliases(&optional(folder, "modules.alias")),
            parameters,
        })
    }

    /// Loads a module by name or alias after all that it depends on.
    ///
    /// # Errors
    /// Names the module that failed and why.
    pub fn load(&self, name: &str) -> Result<Loaded, ModuleError> {
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
    fn load_hard(&self, name: &str) -> Result<Loaded, ModuleError> {
        let wanted = canonical(name);
        if let Some(files) = self.files.get(&wanted) {
            return self.insert_all(files);
        }
        if self.builtin.contains(&wanted) {
            return Ok(Loaded::Builtin);
        }
        let mut outcome = Err(ModuleError::Unknown { name: name.to_owned(), folder: self.folder.clone() });
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

    fn insert_all(&self, files: &[String]) -> Result<Loaded, ModuleError> {
        let mut outcome = Loaded::Already;
        for file in files.iter().rev() {
            outcome = insert(&self.folder.join(file), self.parameters.of(&name_of(file)))?;
        }
        Ok(outcome)
    }
}

/// Loads all of them, and names those that could not be loaded.
///
/// # Errors
/// A sentence for each of those.
pub fn load(names: &[String]) -> Result<String, String> {
    let modules = Modules::of_running_kernel().map_err(|error| error.to_string())?;
    let mut failures = Vec::new();
    let mut new = 0_usize;
    for name in names {
        match modules.load(name) {
            Ok(Loaded::New) => new = new.saturating_add(1),
            Ok(_) => {}
            Err(error) => failures.push(error.to_string()),
        }
    }
    if failures.is_empty() { Ok(format!("{new} loaded")) } else { Err(failures.join("; ")) }
}

/// The folder of the running kernel.
pub fn folder() -> Result<PathBuf, ModuleError> {
    let release = kelson_sys::process::kernel("osrelease").map_err(|error| ModuleError::Unreadable {
        path: "/proc/sys/kernel/osrelease".into(),
        error: error.to_string(),
    })?;
    let usual = Path::new("/lib/modules").join(&release);
    Ok(if usual.exists() { usual } else { Path::new("/usr/lib/modules").join(release) })
}

/// A list in the kernel's folder, which may be missing.
pub fn optional(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).unwrap_or_default()
}

fn insert(path: &Path, parameters: &CStr) -> Result<Loaded, ModuleError> {
    let unreadable =
        |error: std::io::Error| ModuleError::Unreadable { path: path.to_owned(), error: error.to_string() };
    let file = File::open(path).map_err(unreadable)?;
    let compressed = path.extension().is_some_and(|ending| ending != "ko");
    let mut done = finit_module(file.as_fd(), parameters, if compressed { COMPRESSED_FILE } else { 0 });
    if compressed && matches!(done, Err(Errno::EOPNOTSUPP | Errno::EINVAL)) {
        let module = unpack(path, file).map_err(unreadable)?;
        done = init_module(&module.ok_or_else(|| ModuleError::Packed(path.to_owned()))?, parameters);
    }
    match done {
        Ok(()) => Ok(Loaded::New),
        Err(Errno::EEXIST) => Ok(Loaded::Already),
        Err(Errno::ENOEXEC) => Err(ModuleError::OtherKernel(path.to_owned())),
        Err(errno) => Err(ModuleError::Refused { path: path.to_owned(), errno }),
    }
}

/// The bytes of a packed module, for a kernel that does not unpack it. `None`: of this kind it is not possible here.
#[cfg(feature = "unpack")]
fn unpack(path: &Path, file: File) -> std::io::Result<Option<Vec<u8>>> {
    use std::io::Read;

    let mut module = Vec::new();
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("zst") => zstd::Decoder::new(file)?.take(LARGEST).read_to_end(&mut module)?,
        Some("gz") => flate2::read::GzDecoder::new(file).take(LARGEST).read_to_end(&mut module)?,
        _ => return Ok(None),
    };
    Ok(Some(module))
}

#[cfg(not(feature = "unpack"))]
fn unpack(_: &Path, _: File) -> std::io::Result<Option<Vec<u8>>> {
    Ok(None)
}

fn finit_module(file: BorrowedFd<'_>, parameters: &CStr, flags: libc::c_int) -> nix::Result<()> {
    // SAFETY: the descriptor and the C string are borrowed for the call.
    let result =
        unsafe { libc::syscall(libc::SYS_finit_module, file.as_raw_fd(), parameters.as_ptr(), flags) };
    Errno::result(result).map(drop)
}

fn init_module(module: &[u8], parameters: &CStr) -> nix::Result<()> {
    // SAFETY: the bytes and the C string are borrowed for the call.
    let result =
        unsafe { libc::syscall(libc::SYS_init_module, module.as_ptr(), module.len(), parameters.as_ptr()) };
    Errno::result(result).map(drop)
}

/// `kernel/fs/ext4/ext4.ko.xz` → `ext4`
fn name_of(path: &str) -> String {
    let file = path.trim().rsplit('/').next().unwrap_or_default();
    canonical(file.split_once(".ko").map_or(file, |(name, _)| name))
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
        let error = modules.load("nonsense").unwrap_err().to_string();
        assert_eq!(error, "there is no module \"nonsense\" in /lib/modules/x");
    }

    #[test]
    fn a_missing_folder_is_said() {
        let error =
            Modules::in_folder(Path::new("/nonexistent"), Parameters::default()).unwrap_err().to_string();
        assert!(error.contains("/nonexistent/modules.dep"), "{error}");
    }

    #[cfg(feature = "unpack")]
    #[test]
    fn a_packed_module_is_unpacked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.ko.zst");
        std::fs::write(&path, zstd::encode_all(&b"module"[..], 1).unwrap()).unwrap();
        let unpacked = unpack(&path, File::open(&path).unwrap()).unwrap();
        assert_eq!(unpacked.as_deref(), Some(&b"module"[..]));
        let other = folder.path().join("x.ko.xz");
        assert_eq!(unpack(&other, File::open(&path).unwrap()).unwrap(), None);
    }
}
