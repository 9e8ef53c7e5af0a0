//! `templates`: the files that a service gets with what is registered in the fleet.

use std::path::{Component, Path, PathBuf};

use super::codec::Codec;
use super::mapping::{Mapping, keys};
use super::seen::Seen;
use super::values::{choice, path, word};
use crate::decode::{Decoder, quoted};
use kelson_spec::service::ServiceSpec;
use kelson_spec::templates::{LONGEST_SOURCE, OnChange, Template};

/// The most templates of a service.
const MOST: usize = 64;
/// Where no target may be: programs, what the kernel has, and what is Kelson's own.
const CLOSED: [&str; 12] = [
    "/bin",
    "/boot",
    "/dev",
    "/etc/kelson",
    "/lib",
    "/lib64",
    "/proc",
    "/run/kelson",
    "/sbin",
    "/sys",
    "/usr",
    "/var/lib/kelson",
];
const PERMISSIONS: u32 = 0o777;

pub fn templates() -> Codec<Vec<Template>> {
    let what =
        "a list of templates such as [{source: /etc/kelson/templates/web.cfg, target: /run/web/web.cfg}]";
    Mapping::codec(template).list(what).around(|d, node, inner| {
        d.at_most(node, MOST, |count| format!("these are {count} templates; a service has at most {MOST}"))?;
        let templates = inner(d, node)?;
        for (place, one) in templates.iter().enumerate() {
            if templates.iter().take(place).any(|other| other.target == one.target) {
                let target = quoted(&one.target.to_string_lossy());
                return d.refuse(
                    node,
                    format_args!("another template makes {target} already; write another target"),
                );
            }
        }
        Some(templates)
    })
}

fn template() -> Mapping<Template> {
    let new = || Template { mode: Template::MODE, ..Template::default() };
    let source = path().but(|source| {
        let text = source.to_string_lossy();
        let fits = source.to_str().is_some() && text.len() <= LONGEST_SOURCE && !has_parent(source);
        (!fits).then(|| {
            format!(
                "{} is no path of a template; write one without .., of at most {LONGEST_SOURCE} bytes",
                quoted(&text)
            )
        })
    });
    let mode = word("permissions", "^0?[0-7]{3}$", "0640").parsed(
        |text| {
            let mode = (3..=4).contains(&text.len()).then(|| u32::from_str_radix(text, 8).ok()).flatten();
            mode.filter(|mode| mode & !PERMISSIONS == 0)
                .ok_or_else(|| format!("{} are not permissions of a file; write such as 0640", quoted(text)))
        },
        |mode| format!("{mode:04o}"),
    );
    let reactions = [OnChange::Reload, OnChange::Restart, OnChange::None].map(|one| (one.name(), one));
    keys! {
        Mapping::new("template", new);
        needed "source" source = source, "source: /etc/kelson/templates/web.cfg", "the [template](fleet.md#templates), a file of the host";
        needed "target" target = path().but(|target: &PathBuf| no_target(target)), "target: /run/web/web.cfg",
            "the file that Kelson makes of it, as the host sees it. Its folder is there, or one of [directories](#directories)";
        key "onChange" on_change = choice(reactions),
            "what Kelson does when the file changes while the service runs. `reload`: what its [reload](#reload) says; `restart`: it restarts the service";
        key "mode" mode = mode, "the permissions of the file, which is the user's of the service";
    }
}

fn has_parent(path: &Path) -> bool {
    path.components().any(|part| part == Component::ParentDir)
}

fn no_target(target: &Path) -> Option<String> {
    let text = quoted(&target.to_string_lossy());
    if let Some(folder) = CLOSED.iter().find(|folder| target.starts_with(folder)) {
        return Some(format!(
            "no file of a service is made in {folder}; write a target such as /run/web/web.cfg"
        ));
    }
    let is_fit = target.to_str().is_some() && !has_parent(target) && target.file_name().is_some();
    (!is_fit)
        .then(|| format!("{text} is no path of a file; write a target without .., such as /run/web/web.cfg"))
}

/// Notes mistakes that other keys make.
pub fn check(d: &mut Decoder<'_>, seen: &Seen<'_, '_>, spec: &ServiceSpec) {
    let has_reload = spec.reload.signal.is_some() || !spec.reload.hooks.is_empty();
    if !has_reload
        && !seen.is_wrong("reload")
        && spec.templates.iter().any(|one| one.on_change == OnChange::Reload)
    {
        let text = "onChange: reload needs a reload; add one, such as reload: {signal: SIGHUP}, or write onChange: restart";
        seen.wrong_key(d, "templates", text);
    }
}
