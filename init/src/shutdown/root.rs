//! Letting go of the root: PID 1 goes to a small tmpfs, and the old root comes off like any other mount; then what
//! it was made of (the disk and the image beneath an overlay, under `/run/kelson/root/`).

use std::path::Path;
use std::time::Duration;

use kelson_sys::mountinfo;
use nix::mount::{MsFlags, mount};
use tokio::time::Instant;

use super::disks;
use super::unmount::Unmounter;
use kelson_helper::Launcher;

use crate::error::{At as _, Result};
use crate::task::{self, Request};

/// Where the tmpfs is put together.
const NEW: &str = "/run/kelson/shutdown";
/// Where the old root is, seen from the new one.
const OLD: &str = "/old";

pub async fn let_go(launcher: &dyn Launcher, call: Duration, deadline: Instant) {
    let mounts = mountinfo::read().unwrap_or_default();
    let root_type =
        mountinfo::topmost(&mounts, Path::new("/")).map(|root| root.fs_type.clone()).unwrap_or_default();
    if matches!(root_type.as_str(), "rootfs" | "ramfs") {
        // All that there is, is memory.
        return;
    }
    if let Err(error) = pivot() {
        tracing::warn!("shutdown: the root stays mounted: {error}");
        let request = Request::Remount { target: "/".into(), options: "ro".to_owned() };
        match task::run(launcher, &request, call).await {
            Ok(_) => tracing::info!("shutdown: the root is read-only now"),
            Err(error) => tracing::error!("shutdown: gave up on the root: {error}"),
        }
        return;
    }
    let read = || mountinfo::read().unwrap_or_default();
    let unmounter = Unmounter { launcher, read: &read, call, deadline };
    let parts = |target: &Path| target.starts_with(OLD) || target.starts_with("/run/kelson/root");
    let mut stuck = unmounter.run(&|mount| parts(&mount.target)).await;
    if !stuck.is_empty() && disks::detach_loops(launcher, call).await > 0 {
        stuck = unmounter.run(&|mount| parts(&mount.target)).await;
    }
    unmounter.make_read_only(&stuck).await;
    if stuck.is_empty() {
        tracing::info!("shutdown: all file systems are unmounted");
    }
}

/// Makes a tmpfs the root of everything and takes the kernel's file systems along. Touches memory only: the names on
/// the way are mount points, which the kernel holds.
fn pivot() -> Result<()> {
    // Where mounts are shared, pivot_root and moves are refused.
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
        .at("making the mounts private")?;
    let new = Path::new(NEW);
    std::fs::create_dir_all(new).at(NEW)?;
    mount(
        Some("kelson-shutdown"),
        new,
        Some("tmpfs"),
        MsFlags::MS_NOSUID | MsFlags::MS_NODEV,
        Some("mode=0755,size=1M"),
    )
    .at("a tmpfs for the end")?;
    const ALONG: [&str; 4] = ["proc", "sys", "dev", "run"];
    for name in ["old"].into_iter().chain(ALONG) {
        let folder = new.join(name);
        std::fs::create_dir(&folder).at(folder.display())?;
    }
    nix::unistd::pivot_root(new, &new.join("old")).at("pivot_root")?;
    nix::unistd::chdir("/").at("chdir")?;
    for name in ALONG {
        let (from, to) = (Path::new(OLD).join(name), Path::new("/").join(name));
        if let Err(errno) = mount(Some(&from), &to, None::<&str>, MsFlags::MS_MOVE, None::<&str>) {
            tracing::warn!("shutdown: {} stays behind: {}", from.display(), errno.desc());
        }
    }
    Ok(())
}
