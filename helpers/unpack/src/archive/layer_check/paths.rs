//! Where the entries of a layer would land, with the symbolic links of the same layer followed as inside a root.
//!
//! An absolute link is legal and begins at the root of the image. It refuses an entry whose way leads above
//! that root by `..`, be it in its own name or in a link that it is written through.

use std::collections::BTreeMap;

use super::checked::LayerError;
use crate::archive::headers::{Entry, Kind, shown};

/// Links that are followed on one way: as many as the kernel follows.
const MAX_FOLLOWED: usize = 40;
/// Bytes that the links of a layer may take here. Some distributions have a hundred thousand of them.
const MAX_LINKS: usize = 16 << 20;
/// The memory that a link takes beside its own bytes.
const LINK_OVERHEAD: usize = 64;

/// Refuses entries that would leave the root.
#[derive(Default)]
pub(super) struct Paths {
    /// The symbolic links of the layer: their resolved place, as parts joined by `/`, and where they point.
    links: BTreeMap<Box<[u8]>, Box<[u8]>>,
    bytes: usize,
    /// The folder of the entry before: mostly the next one's too.
    last: Option<(Vec<u8>, Vec<u8>)>,
}

/// How a way was lost.
enum Lost {
    Above,
    Loop,
}

impl Paths {
    pub(super) fn check(&mut self, entry: &Entry) -> Result<(), LayerError> {
        let name = inside(&entry.name, |why| LayerError::Name { entry: shown(&entry.name), why })?;
        if name.is_empty() {
            return match entry.kind {
                Kind::Directory => Ok(()),
                _ => Err(LayerError::Root(shown(&entry.name))),
            };
        }
        let place = self.place(&name, &entry.name)?;
        match entry.kind {
            Kind::Symlink => self.add(place, &entry.target),
            Kind::HardLink => {
                let why =
                    |why| LayerError::Target { entry: shown(&entry.name), target: shown(&entry.target), why };
                let target = inside(&entry.target, why)?;
                if target.is_empty() {
                    return Err(LayerError::Target {
                        entry: shown(&entry.name),
                        target: shown(&entry.target),
                        why: "is the root",
                    });
                }
                let target = self.place(&target, &entry.name)?;
                // A hard link to a symbolic link is that link once more.
                match self.links.get(target.as_slice()).cloned() {
                    Some(points_to) => self.add(place, &points_to),
                    None => {
                        self.remove(&place);
                        Ok(())
                    }
                }
            }
            Kind::File | Kind::Directory | Kind::Node => {
                self.remove(&place);
                Ok(())
            }
            Kind::Other(letter) => Err(LayerError::Kind {
                entry: shown(&entry.name),
                kind: char::from(letter).escape_default().to_string(),
            }),
        }
    }

    /// The place that `name` means: its folder's, links followed, and its last part, which is not followed.
    fn place(&mut self, name: &[&[u8]], written: &[u8]) -> Result<Vec<u8>, LayerError> {
        let Some((last, folder)) = name.split_last() else { return Ok(Vec::new()) };
        let joined = folder.join(&b'/');
        let mut place = match &self.last {
            Some((from, to)) if *from == joined => to.clone(),
            _ => {
                let to = self.folder(folder).map_err(|(link, lost)| LayerError::Through {
                    entry: shown(written),
                    link: shown(&link),
                    target: shown(self.links.get(link.as_slice()).map_or(&[], |target| target)),
                    why: match lost {
                        Lost::Above => "leads above the root",
                        Lost::Loop => "leads round in a circle",
                    },
                })?;
                self.last = Some((joined, to.clone()));
                to
            }
        };
        push(&mut place, last);
        Ok(place)
    }

    /// Where a folder is after all links on the way to it. The error names the first link by which the way was lost.
    fn folder(&self, parts: &[&[u8]]) -> Result<Vec<u8>, (Vec<u8>, Lost)> {
        let mut place = Vec::new();
        // The parts that are still to be walked, the next one last.
        let mut ahead: Vec<&[u8]> = parts.iter().rev().copied().collect();
        let mut followed = 0_usize;
        let mut link: Vec<u8> = Vec::new();
        while let Some(part) = ahead.pop() {
            match part {
                b"" | b"." => {}
                b".." if place.is_empty() => return Err((link, Lost::Above)),
                b".." => pop(&mut place),
                part => {
                    let length = place.len();
                    push(&mut place, part);
                    let Some((at, target)) = self.links.get_key_value(place.as_slice()) else { continue };
                    followed = followed.saturating_add(1);
                    link = at.to_vec();
                    if followed > MAX_FOLLOWED {
                        return Err((link, Lost::Loop));
                    }
                    place.truncate(if target.starts_with(b"/") { 0 } else { length });
                    ahead.extend(target.rsplit(|byte| *byte == b'/'));
                }
            }
        }
        Ok(place)
    }

    fn add(&mut self, place: Vec<u8>, target: &[u8]) -> Result<(), LayerError> {
        self.remove(&place);
        self.last = None;
        self.bytes = self.bytes.saturating_add(cost(&place, target));
        if self.bytes > MAX_LINKS {
            return Err(LayerError::Links(MAX_LINKS >> 20));
        }
        self.links.insert(place.into_boxed_slice(), target.into());
        Ok(())
    }

    fn remove(&mut self, place: &[u8]) {
        if let Some(target) = self.links.remove(place) {
            self.bytes = self.bytes.saturating_sub(cost(place, &target));
            self.last = None;
        }
    }
}

fn cost(place: &[u8], target: &[u8]) -> usize {
    place.len().saturating_add(target.len()).saturating_add(LINK_OVERHEAD)
}

/// The parts of a name that is meant from the root.
fn inside(name: &[u8], refuse: impl Fn(&'static str) -> LayerError) -> Result<Vec<&[u8]>, LayerError> {
    // umoci names the root itself so.
    if name.starts_with(b"/") && name != b"/" {
        return Err(refuse("is absolute"));
    }
    let parts: Vec<&[u8]> =
        name.split(|byte| *byte == b'/').filter(|part| !matches!(*part, b"" | b".")).collect();
    if parts.contains(&b"..".as_slice()) {
        return Err(refuse("holds a .. part"));
    }
    Ok(parts)
}

fn push(place: &mut Vec<u8>, part: &[u8]) {
    if !place.is_empty() {
        place.push(b'/');
    }
    place.extend_from_slice(part);
}

fn pop(place: &mut Vec<u8>) {
    let parent = place.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    place.truncate(parent);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, kind: Kind, target: &str) -> Entry {
        Entry { name: name.into(), kind, target: target.into(), size: 0 }
    }

    /// Entries as `name`, `name -> target` (symbolic link), `name = target` (hard link); the last one's verdict.
    fn verdict(entries: &[&str]) -> Result<(), String> {
        let mut paths = Paths::default();
        let mut last = Ok(());
        for text in entries {
            last.clone().unwrap_or_else(|error: String| panic!("before {text}: {error}"));
            let entry = match (text.split_once(" -> "), text.split_once(" = ")) {
                (Some((name, target)), _) => entry(name, Kind::Symlink, target),
                (_, Some((name, target))) => entry(name, Kind::HardLink, target),
                _ if text.ends_with('/') => entry(text, Kind::Directory, ""),
                _ => entry(text, Kind::File, ""),
            };
            last = paths.check(&entry).map_err(|error| error.to_string());
        }
        last
    }

    #[test]
    fn honest_layers_pass() {
        for entries in [
            &["./", "./etc/", "./etc/passwd"][..],
            &["etc/passwd", "."][..1],
            &["/", "etc/"],
            &["bin -> usr/bin", "usr/bin/", "bin/sh"],
            // Absolute links begin at the image's root.
            &["etc/", "run -> /var/run", "run/x"],
            &["a/b/c -> /etc", "a/b/c/d", "x = a/b/c/d"],
            // As high as the root, not above it.
            &["a/b/c -> ../../etc", "a/b/c/d"],
            // A link above the root that nothing is written through: the kernel ends at the root.
            &["a -> ../../../etc", "b"],
            &["a -> ../..", "a", "a/b"],
            &["a -> a", "b"],
            &["x/.wh..wh..opq", "x/.wh.gone"],
            &["a..b", "..."],
            &["b", "a = ./b"],
            &["s -> t", "h = s", "h/x"],
        ] {
            assert_eq!(verdict(entries), Ok(()), "{entries:?}");
        }
    }

    #[test]
    fn what_leaves_the_root_is_refused() {
        for (entries, text) in [
            (&["/etc/passwd"][..], "absolute"),
            (&["//etc/passwd"], "absolute"),
            (&["../etc/passwd"], ".. part"),
            (&["a/../../etc/passwd"], ".. part"),
            (&["a/.."], ".. part"),
            (&[".."], ".. part"),
            (&["a = /etc/shadow"], "absolute"),
            (&["a = ../etc/shadow"], ".. part"),
            (&["a = ."], "root"),
            (&["a -> ..", "a/b"], "above the root"),
            (&["a -> ../../tmp", "a/b"], "above the root"),
            (&["d/a -> ../..", "d/a/b"], "above the root"),
            (&["d/a -> /../x", "d/a/b"], "above the root"),
            // Through two links, and through a link in a linked folder.
            (&["a -> b", "b -> ..", "a/x"], "above the root"),
            (&["a -> b", "a/c -> ../..", "b/c/x"], "above the root"),
            (&["a -> b", "a/c -> ../..", "a/c/x"], "above the root"),
            // The link itself below a way that leaves.
            (&["a -> ..", "a/b -> x"], "above the root"),
            // Hard links: a target behind such a way, and one that copies the link.
            (&["a -> ..", "x = a/etc/shadow"], "above the root"),
            (&["a -> ..", "x = a", "x/y"], "above the root"),
            (&["x/y", "x -> ..", "x/y"], "above the root"),
            (&["a -> a", "a/b"], "circle"),
            (&["a -> b", "b -> a", "a/c"], "circle"),
            (&["./ -> /etc"], "root"),
            (&["."], "root"),
        ] {
            let error = verdict(entries).unwrap_err();
            assert!(error.contains(text), "{entries:?}: {error}");
        }
    }

    #[test]
    fn links_without_end_are_refused() {
        let mut paths = Paths::default();
        let target = "x".repeat(4096);
        let error =
            (0..10_000).find_map(|n| paths.check(&entry(&n.to_string(), Kind::Symlink, &target)).err());
        assert!(matches!(error, Some(LayerError::Links(_))), "{error:?}");
        // The same link again and again takes no more than once.
        let mut paths = Paths::default();
        for _ in 0..10_000 {
            paths.check(&entry("a", Kind::Symlink, &target)).unwrap();
        }
    }
}
