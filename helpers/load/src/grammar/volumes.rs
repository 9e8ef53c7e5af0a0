//! `volumes`: what a service sees at paths of its own.

use std::path::{Component, Path, PathBuf};

use super::at::At;
use super::codec::Codec;
use super::container;
use super::mapping::{Mapping, keys};
use super::mount::disk;
use super::sockets::owner;
use super::values::{any_word, boolean, choice, duration, four_octal, name, path, size};
use super::volume_file::mount_flags;
use crate::decode::Decoder;
use crate::tree::Node;
use kelson_spec::registries::PullPolicy;
use kelson_spec::service::{
    Access, Attachment, CsiSource, DiskSource, ImageSource, NewFolder, OverlaySource, PathSource,
    TmpfsSource, Upper, Usage, Volume, VolumeSource,
};

/// All bits of permissions: chmod(2).
const PERMISSIONS: u32 = 0o7777;
/// A page: less is no file system.
const LEAST: u64 = 4096;
const WHAT: &str = "a list of volumes such as [{name: data, source: {path: /srv/data}, target: /data}]";

pub fn volumes() -> Codec<Vec<Volume>> {
    const MOST: usize = Volume::MOST;
    Mapping::codec(volume).list_of(0..=MOST, WHAT).around(|d, node, inner| {
        d.at_most(node, MOST, |count| format!("these are {count} volumes; a service has at most {MOST}"))?;
        let volumes = inner(d, node)?;
        for (place, one) in volumes.iter().enumerate() {
            if volumes.iter().take(place).any(|other| other.name == one.name) {
                return d.refuse(node, format_args!("two of them have the name {}; rename one", one.name));
            }
        }
        Some(volumes)
    })
}

fn volume() -> Mapping<Volume> {
    let options = choice(Volume::OPTIONS.map(|option| (option, option.to_owned())));
    let usage_at = At::new(
        |volume: &Volume| volume.source.csi().map(|source| source.usage.clone()),
        |volume: &mut Volume, usage| {
            if let VolumeSource::Csi(source) = &mut volume.source {
                source.usage = usage;
            }
        },
    );
    keys! {
        Mapping::new("volume", Volume::default);
        needed "name" name = name(), "name: NAME", "its name in messages";
        needed "source" source = Mapping::codec(source), "source: {path: PATH}", "what is there";
        needed "target" target = path().read_by(|d, node| d.volume_target(node)), "target: PATH",
            "the path at which the service sees it";
        key "readOnly" read_only = boolean(), "`true`: writing there fails with `read-only file system`";
        key "options" options = options.list("a list of options such as [noexec]"),
            "what else is forbidden or left out there";
        means "usage" (usage_at) = Mapping::codec(usage), "a file system for this host alone",
            "how the service uses a volume of the source `csi`";
    }
    .check(|d, seen, volume| {
        if seen.has("usage") && seen.is_right("source") && volume.source.csi().is_none() {
            seen.wrong_key(
                d,
                "usage",
                "this is for a volume of a plugin; write source: {csi: VOLUME}, or leave usage out",
            );
        }
        if volume.source.image().is_some() && seen.has("readOnly") && !volume.read_only {
            seen.wrong_value(
                d,
                "readOnly",
                "nobody writes to an image; leave readOnly out, or write a source such as overlay with a copy of its files",
            );
        }
    })
}

fn usage() -> Mapping<Usage> {
    keys! {
        Mapping::new("usage", Usage::default);
        key "access" access = choice(Access::ALL.map(|one| (one.name(), one))),
            "who writes there: a mode of access of the Container Storage Interface";
        key "attachment" attachment = choice(Attachment::ALL.map(|one| (one.name(), one))),
            "`block`: the service sees a device; not for a container";
        means "mountFlags" mount_flags = mount_flags().optional(), "those of the [file of the volume](volume-file.md)",
            "the options with which the plugin mounts it, in place of those of the file of the volume";
    }
    .check(|d, seen, usage| {
        if usage.attachment == Attachment::Block && seen.has("mountFlags") {
            seen.wrong_key(d, "mountFlags", "a device is not mounted; leave mountFlags out, or write attachment: filesystem");
        }
    })
}

fn source() -> Mapping<VolumeSource> {
    let path_at = At::new(
        |source: &VolumeSource| source.path().map(|source| source.path.clone()),
        |source, path| *source = VolumeSource::Path(PathSource { path, create: None }),
    );
    let create_at = At::new(
        |source: &VolumeSource| match source {
            VolumeSource::Path(source) => Some(source.create.clone()),
            VolumeSource::Overlay(source) => Some(source.create.clone()),
            _ => None,
        },
        |source, new: Option<NewFolder>| match source {
            VolumeSource::Path(source) => source.create = new,
            VolumeSource::Overlay(source) => source.create = new,
            _ => {}
        },
    );
    let tmpfs_at = At::new(
        |source: &VolumeSource| match source {
            VolumeSource::Tmpfs(source) => Some(source.clone()),
            _ => None,
        },
        |source, tmpfs| *source = VolumeSource::Tmpfs(tmpfs),
    );
    let csi_at = At::new(
        |source: &VolumeSource| source.csi().map(|source| source.volume.clone()),
        |source, volume| *source = VolumeSource::Csi(CsiSource { volume, ..CsiSource::default() }),
    );
    let disk_at = At::new(
        |source: &VolumeSource| source.disk().cloned(),
        |source, disk| *source = VolumeSource::Disk(disk),
    );
    let overlay_at = At::new(
        |source: &VolumeSource| source.overlay().cloned(),
        |source, overlay| *source = VolumeSource::Overlay(overlay),
    );
    let image_at = At::new(
        |source: &VolumeSource| source.image().map(|source| source.image.clone()),
        |source, image| *source = VolumeSource::Image(ImageSource { image, ..ImageSource::default() }),
    );
    let pull_at = At::new(
        |source: &VolumeSource| {
            source.image().map(|source| source.pull).filter(|pull| *pull != PullPolicy::default())
        },
        |source: &mut VolumeSource, pull| {
            if let VolumeSource::Image(source) = source {
                source.pull = pull;
            }
        },
    );
    let volume = name().around(|d, node, inner| {
        let name = inner(d, node)?;
        d.csi.volumes.push(node.at);
        Some(name)
    });
    keys! {
        Mapping::new("volume-source", VolumeSource::default);
        alternative "path" (path_at) = path().read_by(|d, node| d.plain_path(node)),
            "a folder or a file of the host";
        alternative "tmpfs" (tmpfs_at) = Mapping::codec(tmpfs),
            "a file system in memory, empty at each start";
        alternative "csi" (csi_at) = volume,
            "a volume of a [plugin](#provides): the name of its [file](volume-file.md)";
        alternative "disk" (disk_at) = Mapping::codec(disk_source),
            "the file system of a disk";
        alternative "image" (image_at) if Containerd = container::image(),
            "the files of an [image or an artifact](images.md#volumes): its name, as in `container`";
        alternative "overlay" (overlay_at) = Mapping::codec(overlay).around(|d, node, inner| {
            let source = inner(d, node)?;
            d.csi.overlays.push(node.at);
            Some(source)
        }),
            "folders of the host, with another place for what is written over them";
        means "create" (create_at) = Mapping::codec(new_folder).optional(), "it has to be there",
            "`{}`: a folder is made at `path`, `upper` and `work` where nothing is";
        means "pull" (pull_at) if Pull = choice(PullPolicy::NAMES), "`ifMissing`",
            "when the image [is pulled](howto/registry.md#when-kelson-pulls), as in `container`";
    }
    .one_of(&["path", "tmpfs", "csi", "disk", "overlay", "image"])
    .check(|d, seen, source| {
        let text = match source {
            VolumeSource::Path(_) => return,
            VolumeSource::Tmpfs(_) => "a file system in memory is made at each start; leave create out",
            VolumeSource::Csi(_) => "its plugin has a volume ready; leave create out",
            VolumeSource::Disk(_) => "its file system is there already; leave create out",
            VolumeSource::Image(_) => "an image has its files already; leave create out",
            VolumeSource::Overlay(OverlaySource { upper: Some(_), .. }) => return,
            VolumeSource::Overlay(_) => "what is written is in memory, made at each start; leave create out",
        };
        if seen.has("create") {
            seen.wrong_key(d, "create", text);
        }
    })
    .check(|d, seen, _| {
        if seen.has("pull") && !seen.has("image") {
            seen.wrong_key(d, "pull", "this is for an image; write image: NAME:TAG, or leave pull out");
        }
    })
}

fn overlay() -> Mapping<OverlaySource> {
    const WHAT: &str = "a list of folders such as [/usr/share/store]";
    let folder = || path().read_by(|d, node| d.overlay_path(node));
    let upper_at = At::new(
        |source: &OverlaySource| source.upper.as_ref().map(|found| Some(found.upper.clone())),
        |source: &mut OverlaySource, path: Option<PathBuf>| {
            if let Some(path) = path {
                source.upper.get_or_insert_default().upper = path;
            }
        },
    );
    let work_at = At::new(
        |source: &OverlaySource| source.upper.as_ref().map(|found| Some(found.work.clone())),
        |source: &mut OverlaySource, path: Option<PathBuf>| {
            if let Some(path) = path {
                source.upper.get_or_insert_default().work = path;
            }
        },
    );
    keys! {
        Mapping::new("volume-overlay", OverlaySource::default);
        needed "lower" lower = folder().some(WHAT, "an overlay is over a folder; write one such as [/usr/share/store]"), "lower: [PATH]",
            "folders of the host, which stay as they are; a file of an earlier one hides those of later ones";
        means "upper" (upper_at) = folder().optional(), "memory, empty at each start",
            "the folder for what is written";
        means "work" (work_at) = folder().optional(), "none, without `upper`",
            "a folder for the kernel, beside `upper` in the same file system";
        means "size" size = size(LEAST).optional(), "half of the memory", "without `upper`: the most that is written";
    }
    .check(|d, seen, source| {
        let (upper, work) = (seen.has("upper"), seen.has("work"));
        if upper && !work && seen.is_right("upper") {
            seen.wrong_key(d, "upper", "the kernel needs a second folder in the same file system; write it as work");
        }
        if work && !upper && seen.is_right("work") {
            seen.wrong_key(d, "work", "it belongs to upper; write upper, or leave work out");
        }
        if upper && seen.has("size") {
            seen.wrong_key(d, "size", "what is written is in upper; leave size out");
        }
        let Some(Upper { upper, work }) = &source.upper else { return };
        if seen.has("upper") && seen.is_right("work") && (upper.starts_with(work) || work.starts_with(upper)) {
            seen.wrong_key(d, "work", "neither of upper and work can be within the other; write a folder beside upper");
        }
        if source.options().iter().map(String::len).sum::<usize>() > OverlaySource::LONGEST {
            d.wrong(seen.node.at, "these paths are longer than the kernel takes for an overlay; write shorter ones");
        }
    })
}

fn new_folder() -> Mapping<NewFolder> {
    keys! {
        Mapping::new("new-folder", NewFolder::default);
        means "owner" owner = owner().optional(), "the user and the group of the service",
            "`user` or `user:group` of the host, as names or numbers";
        key "mode" mode = four_octal("mode", PERMISSIONS, "0750"), "its permissions";
    }
}

fn tmpfs() -> Mapping<TmpfsSource> {
    keys! {
        Mapping::new("volume-tmpfs", TmpfsSource::default);
        means "size" size = size(LEAST).optional(), "half of the memory", "the most that fits in it";
        key "mode" mode = four_octal("mode", PERMISSIONS, "0700"), "the permissions of its root";
    }
}

fn disk_source() -> Mapping<DiskSource> {
    let option = any_word("option", "noatime")
        .but(|option| option.contains(',').then_some("write each option as an entry of its own"));
    keys! {
        Mapping::new("volume-disk", DiskSource::default);
        needed "device" device = disk(), "device: DEVICE or LABEL=NAME",
            "a [name of a disk](howto/disks.md#names), as in `source` of a [mount](machine-file.md#mounts)";
        key "type" fs_type = any_word("text", "ext4"), "the type of the file system. `auto`: the one that is found there";
        key "options" options = option.list("a list of options such as [noatime]"),
            "those of the file system. `ro`: nobody writes to the disk";
        key "wait" wait = duration(), "how long a start waits for the disk";
    }
}

impl Decoder<'_> {
    /// The kernel takes all paths as one text, and not each version of it takes them by other ways.
    fn overlay_path(&mut self, node: &Node) -> Option<PathBuf> {
        let path = self.plain_path(node)?;
        if path.to_string_lossy().contains([':', ',', '\\']) {
            return self.refuse(
                node,
                "the path of an overlay cannot hold : , or \\; write the path of another folder",
            );
        }
        Some(path)
    }

    fn plain_path(&mut self, node: &Node) -> Option<PathBuf> {
        let path = self.path(node)?;
        if path.components().any(|part| part == Component::ParentDir) {
            return self.refuse(node, "a path here cannot hold ..");
        }
        Some(path)
    }

    /// Each place once, of the mounts and devices of a container too.
    pub(super) fn volume_target(&mut self, node: &Node) -> Option<PathBuf> {
        // Compared and sorted by components: /a/ and /a//. are one place.
        let target: PathBuf = self.plain_path(node)?.components().collect();
        let message = if target == Path::new("/") {
            "the root itself is no volume; write a path below it"
        } else if !self.targets.insert(target.clone()) {
            "something else of this service is there already; write another path"
        } else {
            return Some(target);
        };
        self.refuse(node, message)
    }
}
