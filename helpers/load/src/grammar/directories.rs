//! `directories`: the folders of a service below `/run`, `/var/lib` and their like.

use std::path::PathBuf;

use super::at::At;
use super::codec::Codec;
use super::mapping::{Mapping, keys};
use super::values::{choice, four_octal, word};
use crate::decode::quoted;
use crate::schema::Kind;
use kelson_spec::service::{Directories, Directory, DirectoryKind, Preserve, ServiceSpec, is_directory};

/// All bits of permissions: chmod(2).
const PERMISSIONS: u32 = 0o7777;

pub fn directories() -> Mapping<Directories> {
    let about = |kind| match kind {
        DirectoryKind::Runtime => "below `/run`, and removed as `preserve` says",
        DirectoryKind::State => "below `/var/lib`",
        DirectoryKind::Cache => "below `/var/cache`",
        DirectoryKind::Logs => "below `/var/log`",
        DirectoryKind::Configuration => {
            "below `/etc`; they belong to root, and stay as they are if they are there"
        }
    };
    let each = DirectoryKind::ALL.into_iter();
    let mapping = each.fold(Mapping::new("directories", Directories::default), |mapping, kind| {
        mapping.key(kind.name(), of(kind), list(), about(kind))
    });
    let words = [("never", Preserve::Never), ("restart", Preserve::Restart), ("always", Preserve::Always)];
    keys! {
        mapping;
        key "preserve" preserve = choice(words),
            "`never`: each run has new folders below `/run`, and none is left once the service has ended. \
             `restart`: they stay between its runs. `always`: Kelson removes none";
    }
}

fn of(kind: DirectoryKind) -> At<Directories, Vec<Directory>> {
    At::new(
        move |directories: &Directories| {
            let all = directories.list.iter();
            Some(all.filter(|directory| directory.kind == kind).cloned().collect())
        },
        move |directories, list: Vec<Directory>| {
            directories.list.extend(list.into_iter().map(|directory| Directory { kind, ..directory }));
        },
    )
}

fn list() -> Codec<Vec<Directory>> {
    directory().list("a list of folders such as [shop]")
}

/// `shop`, or `{path: shop, mode: 0750}`. Its kind is that of the list.
fn directory() -> Codec<Directory> {
    let whole = Mapping::codec(mapping);
    let (kind, short) = (whole.kind.clone(), path());
    let word = short.kind.clone();
    whole.of_kind(move || Kind::Either(vec![word(), kind()])).around(move |d, node, inner| {
        if node.is_mapping() {
            inner(d, node)
        } else {
            short.decode(d, node).map(|path| Directory { path, ..initial() })
        }
    })
}

fn initial() -> Directory {
    Directory { kind: DirectoryKind::State, path: PathBuf::new(), mode: Directory::MODE }
}

fn mapping() -> Mapping<Directory> {
    keys! {
        Mapping::new("directory", initial);
        needed "path" path = path(), "path: shop", "its path below the folder of its kind: `shop`, `shop/spool`";
        key "mode" mode = four_octal("mode", PERMISSIONS, "0750"), "its permissions";
    }
}

fn path() -> Codec<PathBuf> {
    word("path of names", "^[^/:]+(/[^/:]+)*$", "shop").parsed(
        |text| {
            let wrong = || {
                format!(
                    "{} is not a path of names such as shop/spool; a name is not .., has no :, and kelson is taken",
                    quoted(text)
                )
            };
            is_directory(text).then(|| text.into()).ok_or_else(wrong)
        },
        |path: &PathBuf| path.to_string_lossy().into_owned(),
    )
}

/// Names them to the service, in variables that its file does not set.
pub fn announce(spec: &mut ServiceSpec) {
    for kind in DirectoryKind::ALL {
        let of_kind = spec.directories.list.iter().filter(|directory| directory.kind == kind);
        let paths: Vec<String> = of_kind.map(|directory| directory.whole().display().to_string()).collect();
        let variable = kind.variable();
        if !paths.is_empty() && spec.environment.iter().all(|(name, _)| name != variable) {
            spec.environment.push((variable.to_owned(), paths.join(":")));
        }
    }
}
