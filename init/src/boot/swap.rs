//! The swap of the machine file: disks and files by `kelson-task`, because a disk may be dead, and compressed memory.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kelson_helper::Launcher;
use kelson_spec::encryption::EncryptionSpec;
use kelson_spec::features::{Feature, OWN};
use kelson_spec::machine::{Format, SwapPlace, SwapSpec};

use super::devices::{LOOK, MountFailure, find};
use super::{Order, Phase, Task, TaskFailure};
use crate::task::{self, Request};

/// How long it may take to write the header of a swap area, or to read it.
const CALL: Duration = Duration::from_secs(60);
/// Compressed memory is used before any disk.
const OF_MEMORY: u32 = 100;

/// One task for each. None is essential.
pub fn phase(swap: &[SwapSpec], launcher: &Arc<dyn Launcher>) -> Option<Phase> {
    let task = |swap: &SwapSpec| {
        let (launcher, swap) = (Arc::clone(launcher), swap.clone());
        let longest = swap.wait.saturating_add(LOOK).saturating_add(CALL.saturating_mul(2)).saturating_mul(2);
        Task::new(name(&swap), async move { enable(&*launcher, &swap).await }).within(longest)
    };
    (const { OWN.has(Feature::Disks) } && !swap.is_empty())
        .then(|| Phase::new("swap", Order::SideBySide).tasks(swap.iter().map(task)))
}

/// Whether the swap area is in this encrypted disk.
pub fn is_within(swap: &SwapSpec, disk: &EncryptionSpec) -> bool {
    matches!(&swap.place, SwapPlace::Disk(source) if Path::new(source) == disk.device())
}

/// The name of the task.
pub fn name(swap: &SwapSpec) -> String {
    match &swap.place {
        SwapPlace::Disk(source) => format!("swap {source}"),
        SwapPlace::Zram { percent, .. } => format!("swap in {percent}% of the memory"),
    }
}

/// Turns a swap area on.
///
/// # Errors
/// When it cannot be turned on.
pub async fn enable(launcher: &dyn Launcher, swap: &SwapSpec) -> Result<String, TaskFailure> {
    let (device, priority) = match &swap.place {
        SwapPlace::Zram { percent, algorithm } => {
            let request = Request::MakeZram { percent: u32::from(*percent), algorithm: algorithm.clone() };
            (task::run(launcher, &request, CALL).await?, swap.priority.map_or(OF_MEMORY, u32::from).into())
        }
        SwapPlace::Disk(source) => (on_disk(launcher, source, swap).await?, swap.priority.map(u32::from)),
    };
    Ok(task::run(launcher, &Request::SwapOn { device: device.into(), priority }, CALL).await?)
}

/// The disk or file with the swap area, which is made where the disk is blank and the file asks for it.
async fn on_disk(launcher: &dyn Launcher, source: &str, swap: &SwapSpec) -> Result<String, TaskFailure> {
    let found = find(launcher, source, swap.wait).await.map_err(|failure| match failure {
        MountFailure::NoDisk(error) => error.into(),
        MountFailure::Mount(failure) => failure,
    })?;
    match found.fs_type.as_deref() {
        Some("swap") => {}
        None if swap.format == Format::IfBlank => {
            let request = Request::Format { source: source.to_owned(), fs_type: "swap".to_owned() };
            task::run(launcher, &request, CALL).await?;
        }
        other => {
            let what = other.map_or_else(|| "no swap".to_owned(), |other| format!("a {other}, and no swap"));
            return Err(format!("{}: there is {what} on it; make one with mkswap", found.device).into());
        }
    }
    Ok(found.device)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::testing::Scripted;

    async fn asked(swap: SwapSpec, identified: &'static str) -> (Result<String, TaskFailure>, Vec<String>) {
        let launcher = Scripted::new(move |line: &str| match line.split(' ').next() {
            Some("identify") => Some(identified),
            Some("zram") => Some("done /dev/zram1"),
            _ => Some("done on"),
        });
        let result = enable(&launcher, &swap).await;
        (result, launcher.1.into_inner().unwrap())
    }

    fn disk(format: Format) -> SwapSpec {
        SwapSpec {
            place: SwapPlace::Disk("SERIAL=S".to_owned()),
            priority: Some(5),
            wait: Duration::from_secs(1),
            format,
        }
    }

    #[tokio::test]
    async fn a_swap_area_is_turned_on_and_nothing_else() {
        let (result, lines) = asked(disk(Format::Never), "done swap /dev/vdb").await;
        assert_eq!(result, Ok("on".to_owned()));
        assert_eq!(lines, ["identify SERIAL=S 1000", "swapon /dev/vdb 5"]);
        for (found, why) in [
            ("done ext4 /dev/vdb", "/dev/vdb: there is a ext4, and no swap on it; make one with mkswap"),
            ("done - /dev/vdb", "/dev/vdb: there is no swap on it; make one with mkswap"),
            ("failed no disk", "no disk"),
        ] {
            let (result, lines) = asked(disk(Format::Never), found).await;
            assert_eq!((result.unwrap_err().message.as_str(), lines.len()), (why, 1));
        }
        let (_, lines) = asked(disk(Format::IfBlank), "done xfs /dev/vdb").await;
        assert_eq!(lines.len(), 1);
        let (_, lines) = asked(disk(Format::IfBlank), "done - /dev/vdb").await;
        assert_eq!(lines[1..], ["format SERIAL=S swap", "swapon /dev/vdb 5"]);
    }

    #[tokio::test]
    async fn compressed_memory_comes_before_disks() {
        let place = SwapPlace::Zram { percent: 50, algorithm: Some("zstd".to_owned()) };
        let (result, lines) = asked(SwapSpec { place, ..SwapSpec::default() }, "").await;
        assert_eq!(result, Ok("on".to_owned()));
        assert_eq!(lines, ["zram 50 zstd", "swapon /dev/zram1 100"]);
    }
}
