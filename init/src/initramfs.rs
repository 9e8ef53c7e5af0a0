//! Our own initramfs: from the kernel's hand-over of `/init` to `/sbin/init` on the real root.
//!
//! The real root is a compressed read-only image (`/root.squashfs` within the initramfs) with memory or a disk
//! (`kelson.disk=`) laid over it, or a disk that `root=` names. A container runtime cannot pivot_root on the kernel's
//! own rootfs, so the root is always switched.
//!
//! The parts of the root are mounted under `/run/kelson/root/`, which moves with `/run`. A disk beneath an
//! overlay could not be reached from within it, and so could never be unmounted at the end.
//!
//! Nothing else runs yet, and without a root nothing ever will: the calls are made straight, by PID 1 itself.

mod loop_device;
mod switch;

use std::convert::Infallible;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kelson_services::host::{PhaseRecord, TaskRecord};
use nix::mount::{MsFlags, mount};

use crate::boot::{history, mounts};
use crate::error::{At as _, Result};
use crate::kernel_words::KernelWords;
use crate::task::{Perform, Request};
use crate::{memory, reexec};

/// The image of the root within the initramfs.
const IMAGE: &str = "/root.squashfs";
/// Modules to load, one a line; `make image` writes it.
const MODULES: &str = "/etc/kelson/modules";
/// The folder of the root's parts.
pub const PARTS: &str = "/run/kelson/root";
/// The part that is written to, by where it is mounted among them.
pub const DISK: &str = "disk";
pub const MEMORY: &str = "memory";
/// Where the root is put together.
const NEW_ROOT: &str = "/newroot";
/// How long a disk may take to appear.
const APPEAR: Duration = Duration::from_secs(20);

/// Whether this is the start in an initramfs that is to be left: the kernel runs `/init` from its own memory file
/// system, and there is a root to go to. Without one, the initramfs is all there is, and the boot goes on in it.
pub fn is_first_stage(program: &str, words: &KernelWords) -> bool {
    program == "/init"
        && reexec::started().is_none()
        && memory::has_files_in_memory("/")
        && (Path::new(IMAGE).exists() || words.root.is_some())
}

/// Goes to the real root and executes its `/sbin/init` with the same arguments.
///
/// # Errors
/// Returns only when there is no root to go to: a sentence that says why.
pub fn run(words: &KernelWords, perform: Perform) -> Result<Infallible> {
    let mut steps = Steps::new();
    let root = Path::new(NEW_ROOT);
    let found = find_root(words, root, perform, &mut steps);
    // Without a root, too: the boot may continue in the initramfs.
    steps.save();
    found?;
    switch::switch_root(root)
}

fn find_root(words: &KernelWords, root: &Path, perform: Perform, steps: &mut Steps) -> Result<()> {
    for api in mounts::FIRST {
        steps.run(&format!("mount {}", api.target), || api.mount())?;
    }
    // A module that is missing may still not be needed; the root says what was.
    let _ = steps.run("kernel modules", || load_modules(perform));
    make_folder(root)?;
    if Path::new(IMAGE).exists() {
        assemble(words, root, perform, steps)
    } else {
        steps.run("root disk", || mount_disk_root(words, root, perform))
    }
}

/// The image, and what is written laid over it.
fn assemble(words: &KernelWords, root: &Path, perform: Perform, steps: &mut Steps) -> Result<()> {
    let image = Path::new(PARTS).join("image");
    steps.run("root image", || mount_image(&image))?;
    let on_disk =
        words.disk.as_deref().map(|disk| steps.run("writable disk", || mount_writable_disk(disk, perform)));
    let upper = match on_disk {
        Some(Ok(())) => Path::new(PARTS).join(DISK),
        // A machine that can be reached and says what is wrong is better than none.
        Some(Err(_)) | None => {
            steps.run("writable memory", mount_writable_memory)?;
            Path::new(PARTS).join(MEMORY)
        }
    };
    steps.run("overlay", || mount_overlay(&image, &upper, root))
}

fn load_modules(perform: Perform) -> Result<String> {
    let names = match std::fs::read_to_string(MODULES) {
        Ok(names) => names,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok("none are named".to_owned()),
        error => error.at(MODULES)?,
    };
    let names = names.lines().map(str::trim).filter(|name| !name.is_empty() && !name.starts_with('#'));
    Ok(perform(&Request::LoadModules { names: names.map(str::to_owned).collect() })?)
}

fn mount_image(target: &Path) -> Result<String> {
    make_folder(target)?;
    let device = loop_device::attach_read_only(Path::new(IMAGE))?;
    mount(Some(&device), target, Some("squashfs"), MsFlags::MS_RDONLY, None::<&str>)
        .at(format!("{} as squashfs", device.display()))?;
    Ok(device.display().to_string())
}

fn mount_writable_disk(disk: &str, perform: Perform) -> Result<String> {
    Ok(perform(&Request::Mount {
        source: disk.to_owned(),
        target: Path::new(PARTS).join(DISK),
        fs_type: String::new(),
        options: "noatime".to_owned(),
        patience: APPEAR,
    })?)
}

fn mount_writable_memory() -> Result<String> {
    let target = Path::new(PARTS).join(MEMORY);
    make_folder(&target)?;
    mount(Some("tmpfs"), &target, Some("tmpfs"), MsFlags::empty(), Some("mode=0755,size=50%"))
        .at(format!("tmpfs on {}", target.display()))?;
    Ok("what is written is lost at the end".to_owned())
}

fn mount_overlay(image: &Path, writable: &Path, root: &Path) -> Result<String> {
    let (upper, work) = (writable.join("upper"), writable.join("work"));
    make_folder(&upper)?;
    make_folder(&work)?;
    let data =
        format!("lowerdir={},upperdir={},workdir={}", image.display(), upper.display(), work.display());
    mount(Some("overlay"), root, Some("overlay"), MsFlags::empty(), Some(data.as_str()))
        .at(format!("overlay with {data}"))?;
    Ok(String::new())
}

/// The disk that `root=` names, as `ro` or `rw` and `rootflags=` say. Read-only by default, as the kernel
/// does it: `/sbin/init` checks it first and then makes it writable.
fn mount_disk_root(words: &KernelWords, root: &Path, perform: Perform) -> Result<String> {
    let source = words.root.clone().ok_or_else(|| format!("there is neither {IMAGE} nor a root= word"))?;
    let access = if words.read_only == Some(false) { "rw" } else { "ro" };
    let flags = words.root_flags.as_deref().unwrap_or_default();
    Ok(perform(&Request::Mount {
        source,
        target: root.to_owned(),
        fs_type: words.root_fs_type.clone().unwrap_or_default(),
        options: format!("{access},{flags}"),
        patience: APPEAR,
    })?)
}

fn make_folder(path: &Path) -> Result<()> {
    DirBuilder::new().recursive(true).mode(0o755).create(path).at(path.display())
}

/// Runs steps one after the other and keeps their times for the report of the boot.
struct Steps {
    phase: PhaseRecord,
}

impl Steps {
    fn new() -> Steps {
        let start = history::since_kernel();
        Steps {
            phase: PhaseRecord { name: "initramfs".to_owned(), start, duration: None, tasks: Vec::new() },
        }
    }

    fn run(&mut self, name: &str, work: impl FnOnce() -> Result<String>) -> Result<()> {
        let start = history::since_kernel();
        let result = work();
        let duration = history::since_kernel().saturating_sub(start);
        let error = result.as_ref().err().map(ToString::to_string);
        if let Some(error) = &error {
            tracing::error!("initramfs: {name}: {error}");
        }
        self.phase.tasks.push(TaskRecord {
            name: name.to_owned(),
            start,
            duration: Some(duration),
            error,
            message: result.as_ref().ok().cloned().unwrap_or_default(),
        });
        result.map(drop).at(name)
    }

    /// Leaves the report where the boot finds it.
    fn save(mut self) {
        self.phase.duration = Some(history::since_kernel().saturating_sub(self.phase.start));
        let path = PathBuf::from(history::PATH);
        let saved = path.parent().map_or(Ok(()), make_folder).and_then(|()| {
            let text = serde_json::to_vec(&self.phase).map_err(std::io::Error::other);
            text.and_then(|text| std::fs::write(&path, text)).at(path.display())
        });
        if let Err(error) = saved {
            tracing::warn!("initramfs: its times are lost: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn a_running_machine_is_no_first_stage() {
        let words = KernelWords { root: Some("/dev/vda".to_owned()), ..KernelWords::default() };
        assert!(!is_first_stage("/sbin/init", &words));
        assert!(!is_first_stage("init", &words));
    }

    #[test]
    fn steps_keep_their_failures() {
        let mut steps = Steps::new();
        steps.run("good", || Ok("yes".to_owned())).unwrap();
        assert_eq!(
            steps.run("bad", || Err(Error::Told("no".to_owned()))).unwrap_err().to_string(),
            "bad: no"
        );
        assert_eq!(steps.phase.tasks[1].error.as_deref(), Some("no"));
        assert_eq!(steps.phase.tasks[0].message, "yes");
    }

    #[test]
    fn a_root_is_needed() {
        let error = mount_disk_root(&KernelWords::default(), Path::new("/newroot"), |_| Ok(String::new()))
            .unwrap_err();
        assert!(error.to_string().contains("neither /root.squashfs nor a root="), "{error}");
    }
}
