//! `container`: the image, and what of the host is seen in it.

use super::kinds::{choice, form, host_name, path};
use super::{Kind, Mapping, needed, with, without};
use crate::decode::MOUNT_OPTIONS;

pub(super) fn container() -> Mapping {
    let image = form("reference of an image", r"^\S+$", "demo/nginx:1");
    let keys = [
        needed(
            "image",
            Kind::Form(image),
            "the name of an [image](images.md) in an archive, in one of the `images` folders of the \
             [machine file](machine-file.md)",
        ),
        with(
            "command",
            Kind::Text.list(),
            "[]",
            "replaces the image's entrypoint and command; if it is empty, those count",
        ),
        without("workingDirectory", path(), "the image's", "a path in the container"),
        without(
            "hostname",
            host_name(),
            "the host's; with `network: none` the service's name",
            "at most 64 letters",
        ),
        with(
            "network",
            choice(&["host", "none"]),
            "host",
            "`host`: the host's interfaces. `none`: a loopback of its own",
        ),
        with("mounts", Kind::Mapping(mount).list(), "[]", "what of the host is seen in it"),
        with(
            "devices",
            Kind::Either(vec![device_path(), Kind::Mapping(device)]).list(),
            "[]",
            "devices of the host",
        ),
    ];
    Mapping::new("container", keys)
}

fn mount() -> Mapping {
    let words = Kind::Choice(MOUNT_OPTIONS.iter().copied().flatten().copied().collect());
    let of_tmpfs = Kind::Form(form("option of a tmpfs", "^(size|mode|uid|gid|nr_inodes)=.", "size=64Mi"));
    let keys = [
        needed(
            "source",
            Kind::Either(vec![path(), choice(&["tmpfs"])]),
            "a path of the host, or `tmpfs` for a file system in memory",
        ),
        needed("target", path(), "a path in the container, each at most once and not `/`"),
        with(
            "options",
            Kind::Either(vec![words, of_tmpfs]).list(),
            "[]",
            "a path is bound with `bind` and `rprivate`, and a tmpfs is `nosuid` and `nodev`, unless the options say otherwise",
        ),
    ];
    Mapping::new("container-mount", keys)
}

fn device_path() -> Kind {
    Kind::Form(form("path below `/dev`", "^/+dev/+[^/]", "/dev/ttyS0"))
}

fn device() -> Mapping {
    let permissions = Kind::Form(form("some of `r`, `w`, `m`", "^[rwm]{1,3}$", "r"));
    let keys = [
        needed("source", device_path(), "the device of the host"),
        without("target", path(), "`source`", "where the container sees it"),
        with("permissions", permissions, "rw", "`r`: read. `w`: write. `m`: make nodes of it"),
    ];
    Mapping::new("device", keys)
}
