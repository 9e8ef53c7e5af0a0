//! How the files of the host look for a service.

use crate::draft::Draft;
use crate::finding::Outcome;
use crate::settings::Setting;
use crate::values::boolean;
use crate::words::words;

/// The folders of `ProtectHome=`.
pub const HOMES: [&str; 3] = ["-/home", "-/root", "-/run/user"];

/// Adds paths that are not there yet.
pub fn add<'p>(to: &mut Vec<String>, paths: impl IntoIterator<Item = &'p str>) {
    for path in paths {
        if !to.iter().any(|known| known == path) {
            to.push(path.to_owned());
        }
    }
}

pub fn private_tmp(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    match boolean(setting.last()) {
        Some(true) => {
            draft.spec.security.view.private_tmp = true;
            Outcome::as_table()
        }
        _ => Outcome::kept("the /tmp of the host"),
    }
}

pub fn protect_home(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    let view = &mut draft.spec.security.view;
    match (setting.last(), boolean(setting.last())) {
        ("read-only", _) => {
            add(&mut view.read_only, HOMES);
            Outcome::kept("`security: {readOnlyPaths: …}`")
        }
        ("tmpfs", _) => {
            add(&mut view.hidden, HOMES);
            Outcome::approximated("the folders are empty and read-only, and nothing can be bound into them")
        }
        (_, Some(true)) => {
            add(&mut view.hidden, HOMES);
            Outcome::approximated("the folders are empty, where systemd denies access")
        }
        _ => Outcome::kept("the service sees the homes"),
    }
}

/// The paths of a key that Kelson can have, each with `-` where it may be missing; and what is wrong with others.
fn paths(draft: &Draft<'_>, setting: &Setting, root: bool) -> (Vec<String>, Outcome) {
    let (mut found, mut outcome) = (Vec::new(), Outcome::as_table());
    let clean = |path: String| match path.trim_end_matches('/') {
        "" => path,
        clean => clean.to_owned(),
    };
    for value in setting.list() {
        for word in words(value).unwrap_or_else(|_| vec![value.clone()]) {
            let (optional, path) = word.strip_prefix('-').map_or(("", word.as_str()), |path| ("-", path));
            match draft.expanded(path).map(clean) {
                Ok(path) if is_sound(&path) || root && path == "/" => found.push(format!("{optional}{path}")),
                Ok(path) => {
                    let text = format!("{path} is no path that a service can see in another way");
                    outcome = outcome.and(Outcome::rejected(text));
                }
                Err(wrong) => outcome = outcome.and(wrong),
            }
        }
    }
    (found, outcome)
}

fn is_sound(path: &str) -> bool {
    let mut parts = path.split('/').skip(1);
    path.starts_with('/')
        && path != "/"
        && parts.all(|part| !matches!(part, "" | "." | ".."))
        && !path.contains('\0')
}

pub fn read_only(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    let (mut found, outcome) = paths(draft, setting, true);
    let count = found.len();
    found.retain(|path| path.trim_start_matches('-') != "/");
    draft.spec.security.read_only_root |= found.len() < count;
    add(&mut draft.spec.security.view.read_only, found.iter().map(String::as_str));
    outcome
}

pub fn inaccessible(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    let (found, outcome) = paths(draft, setting, false);
    add(&mut draft.spec.security.view.hidden, found.iter().map(String::as_str));
    outcome
}

pub fn read_write(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    let (found, outcome) = paths(draft, setting, false);
    add(&mut draft.spec.security.view.writable, found.iter().map(String::as_str));
    outcome
}

/// `BindPaths=` and `BindReadOnlyPaths=`.
pub fn bind(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    let mut outcome = Outcome::as_table();
    for value in setting.list() {
        for word in words(value).unwrap_or_else(|_| vec![value.clone()]) {
            let (optional, word) = word.strip_prefix('-').map_or(("", word.as_str()), |word| ("-", word));
            let mut parts = word.split(':');
            let (source, target) = (parts.next().unwrap_or_default(), parts.next());
            let both = draft.expanded(source).and_then(|source| {
                let target = target.map_or(Ok(source.clone()), |target| draft.expanded(target))?;
                Ok((source, target))
            });
            outcome = outcome.and(match both {
                Ok((source, target)) if is_sound(&target) && (is_sound(&source) || source == "/") => {
                    let view = &mut draft.spec.security.view;
                    let to = match setting.key == "BindPaths" {
                        true => &mut view.bind,
                        false => &mut view.bind_read_only,
                    };
                    add(to, [format!("{optional}{source}:{target}").as_str()]);
                    match parts.next() {
                        Some("norbind") => Outcome::approximated("with all that is mounted below"),
                        _ => Outcome::as_table(),
                    }
                }
                Ok((source, target)) => Outcome::rejected(format!(
                    "{source} is not to be seen at {target}, which is no such path"
                )),
                Err(wrong) => wrong,
            });
        }
    }
    outcome
}

/// `PrivateMounts=`, which every key of this table brings with it.
pub fn private_mounts(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    if boolean(setting.last()) != Some(true) {
        return Outcome::kept("the mounts of the host");
    }
    let has = |key: &str| {
        let value = draft.settings.service(key);
        !value.is_empty() && boolean(value) != Some(false)
    };
    match ["PrivateTmp", "PrivateDevices", "ProtectSystem", "ProtectHome"].into_iter().find(|key| has(key)) {
        Some(key) => Outcome::kept(format!("it has a view of the files of its own, by {key}=")),
        None => Outcome::rejected("what the service mounts, the host sees"),
    }
}

pub fn no_exec(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    let (found, outcome) = paths(draft, setting, true);
    add(&mut draft.spec.security.view.no_exec, found.iter().map(String::as_str));
    outcome
}

pub fn exec(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    let (found, outcome) = paths(draft, setting, false);
    add(&mut draft.spec.security.view.exec, found.iter().map(String::as_str));
    outcome
}

/// `ProtectSystem=yes`, and `full`, which also protects /etc.
pub fn system(draft: &mut Draft<'_>, is_full: bool) {
    let view = &mut draft.spec.security.view;
    add(&mut view.read_only, ["/usr", "-/boot", "-/efi"]);
    if is_full {
        add(&mut view.read_only, ["/etc"]);
    }
}
