//! What a service may not do, whatever its user and its capabilities.

use kelson_load::is_system_call;
use kelson_spec::kernel::{ALL_CAPABILITIES, capability};
use kelson_spec::service::{CallAnswer, Protection, Restriction, Sandbox, Seccomp, Selection};

use crate::draft::Draft;
use crate::finding::Outcome;
use crate::settings::Setting;
use crate::values::boolean;

const PROTECTIONS: [(&str, Protection); 6] = [
    ("ProtectKernelTunables", Protection::KernelTunables),
    ("ProtectKernelModules", Protection::KernelModules),
    ("ProtectKernelLogs", Protection::KernelLogs),
    ("ProtectClock", Protection::Clock),
    ("ProtectHostname", Protection::Hostname),
    ("ProtectControlGroups", Protection::ControlGroups),
];

const RESTRICTIONS: [(&str, Restriction); 4] = [
    ("RestrictRealtime", Restriction::Realtime),
    ("LockPersonality", Restriction::Personality),
    ("RestrictSUIDSGID", Restriction::SetUserId),
    ("MemoryDenyWriteExecute", Restriction::WritableCode),
];

/// A boolean of the two tables.
pub fn switch(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    match boolean(setting.last()) {
        Some(true) => {}
        Some(false) => return Outcome::kept("with this value nothing is lost"),
        None if setting.last().is_empty() => return Outcome::kept("with this value nothing is lost"),
        None => return Outcome::rejected(format!("{:?} is not yes or no", setting.last())),
    }
    let sandbox = &mut draft.spec.security.sandbox;
    if let Some((_, protection)) = PROTECTIONS.iter().find(|(key, _)| *key == setting.key) {
        sandbox.protect.push(*protection);
    }
    if let Some((_, restriction)) = RESTRICTIONS.iter().find(|(key, _)| *key == setting.key) {
        sandbox.restrict.push(*restriction);
    }
    Outcome::as_table()
}

pub fn private_devices(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    if boolean(setting.last()) != Some(true) {
        return Outcome::kept("the devices of the host");
    }
    draft.spec.security.view.private_devices = true;
    draft.spec.security.sandbox.restrict.push(Restriction::RawIo);
    Outcome::as_table()
}

/// `PrivateNetwork=` and `PrivateUsers=`.
pub fn own_namespace(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    if boolean(setting.last()) != Some(true) {
        return Outcome::kept("what the host has");
    }
    let own = &mut draft.spec.security.own;
    match setting.key == "PrivateNetwork" {
        true => own.network = true,
        false => own.users = true,
    }
    Outcome::as_table()
}

pub fn remove_ipc(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    if boolean(setting.last()) != Some(true) || draft.is_root() {
        return Outcome::kept("nothing is removed");
    }
    draft.spec.remove_ipc = true;
    Outcome::approximated(
        "`removeIpc`: what its user has left, once no process of that user is there; what others of its group have left stays",
    )
}

pub fn protect_proc(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    let text = setting.last();
    if matches!(text, "" | "default") {
        return Outcome::kept("all of /proc");
    }
    draft.spec.security.sandbox.protect.push(Protection::Processes);
    match text {
        "invisible" => Outcome::as_table(),
        "noaccess" => {
            Outcome::approximated("other processes are not even seen, where systemd denies access to them")
        }
        "ptraceable" => {
            Outcome::approximated("the processes of its own user are seen, also such as it cannot trace")
        }
        _ => Outcome::rejected(format!("{text:?} is no word of systemd")),
    }
}

pub fn proc_subset(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    match setting.last() {
        "pid" => {
            draft.spec.security.sandbox.protect.push(Protection::KernelFiles);
            Outcome::as_table()
        }
        "" | "all" => Outcome::kept("all of /proc"),
        text => Outcome::rejected(format!("{text:?} is no word of systemd")),
    }
}

/// Some of many by their names; the first value tells whether they are allowed or denied.
fn selection(setting: &Setting, bit: impl Fn(&str) -> Option<u64>) -> Result<Selection, Outcome> {
    let (mut mask, mut is_allow) = (0_u64, None);
    for value in setting.list() {
        let (is_denied, names) =
            value.strip_prefix('~').map_or((false, value.as_str()), |names| (true, names));
        let is_allow = *is_allow.get_or_insert(!is_denied);
        for name in names.split_ascii_whitespace() {
            let unknown = || Outcome::rejected(format!("{name} is none that Kelson knows"));
            let bit = bit(name).ok_or_else(unknown)?;
            if is_allow != is_denied { mask |= bit } else { mask &= !bit }
        }
    }
    Ok(match is_allow {
        None => Selection::All,
        Some(true) => Selection::Allow(mask),
        Some(false) if mask == 0 => Selection::All,
        Some(false) => Selection::Deny(mask),
    })
}

pub fn namespaces(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    let found = match boolean(setting.last()) {
        Some(true) => Ok(Selection::Allow(0)),
        Some(false) => Ok(Selection::All),
        None => selection(setting, |name| {
            Selection::NAMESPACE_WORDS.iter().find(|(known, _)| *known == name).map(|(_, bit)| *bit)
        }),
    };
    match found {
        Ok(found) => {
            draft.spec.security.sandbox.namespaces = found;
            Outcome::as_table()
        }
        Err(outcome) => outcome,
    }
}

pub fn address_families(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    let found = match setting.last() {
        "none" => Ok(Selection::Allow(0)),
        _ => selection(setting, |name| {
            let name = match name.strip_prefix("AF_")?.to_ascii_lowercase() {
                name if name == "local" => "unix".to_owned(),
                name => name,
            };
            let (_, number) = Selection::FAMILY_WORDS.into_iter().find(|(known, _)| *known == name)?;
            1_u64.checked_shl(number)
        }),
    };
    match found {
        Ok(found) => {
            draft.spec.security.sandbox.address_families = found;
            Outcome::as_table()
        }
        Err(outcome) => outcome,
    }
}

pub fn system_calls(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    let (mut outcome, mut is_allow) = (Outcome::as_table(), None);
    let (mut allow, mut deny) = (Vec::new(), Vec::new());
    for value in setting.list() {
        let (is_denied, names) =
            value.strip_prefix('~').map_or((false, value.as_str()), |names| (true, names));
        let is_allow = *is_allow.get_or_insert(!is_denied);
        for word in names.split_ascii_whitespace() {
            let (name, answer) =
                word.split_once(':').map_or((word, None), |(name, answer)| (name, Some(answer)));
            if answer.is_some() {
                let text = format!("{name} has the answer of the other calls, and not one of its own");
                outcome = outcome.and(Outcome::approximated(text));
            }
            if !is_system_call(name) {
                let text = format!("{name} is no call of this architecture that Kelson knows, and stays out");
                outcome = outcome.and(Outcome::approximated(text));
                continue;
            }
            match (is_allow, is_denied) {
                (true, false) => allow.push(name.to_owned()),
                (_, true) => deny.push(name.to_owned()),
                (false, false) if deny.iter().any(|known| known == name) => {
                    deny.retain(|known| known != name);
                }
                // Of a group that has some of these, the others stay.
                (false, false) => {
                    let taken: Vec<&str> = kelson_load::system_calls(name).collect();
                    deny = deny.into_iter().flat_map(|known| without(known, &taken)).collect();
                }
            }
        }
    }
    if allow.is_empty() && is_allow == Some(true) {
        return Outcome::rejected("no call that it allows is known");
    }
    if allow.is_empty() && deny.is_empty() {
        return Outcome::kept("no call is denied");
    }
    let calls = &mut draft.spec.security.sandbox.system_calls;
    (calls.allow, calls.deny) = (allow, deny);
    calls.answer = match draft.settings.service("SystemCallErrorNumber") {
        "" | "kill" => CallAnswer::Kill,
        text => match kelson_load::error_number(text) {
            Some(number) => CallAnswer::Error(number),
            None => return Outcome::rejected(format!("{text:?} is no error that a call can answer with")),
        },
    };
    if !draft.is_on("NoNewPrivileges") && draft.is_root() {
        let text =
            "its programs get no new privileges from setuid files, since the filter is set up last of all";
        outcome = outcome.and(Outcome::approximated(text));
    }
    outcome
}

/// A call or a group without these calls.
fn without(known: String, taken: &[&str]) -> Vec<String> {
    let all: Vec<&str> = kelson_load::system_calls(&known).collect();
    match all.iter().any(|call| taken.contains(call)) {
        false => vec![known],
        true => all.into_iter().filter(|call| !taken.contains(call)).map(str::to_owned).collect(),
    }
}

pub fn architectures(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    match setting.list() {
        [] => Outcome::as_table(),
        [only] if only == "native" => {
            draft.spec.security.sandbox.restrict.push(Restriction::OtherArchitectures);
            Outcome::as_table()
        }
        _ => Outcome::rejected(
            "the service makes calls of every architecture, or with `native` of its own alone",
        ),
    }
}

/// What holds once all keys are read.
pub fn finish(draft: &mut Draft<'_>) {
    let is_root = draft.is_root();
    let is_asked_for = draft.is_on("NoNewPrivileges") || draft.is_on("DynamicUser");
    let security = &mut draft.spec.security;
    // systemd restricts nothing that a unit does not name.
    security.seccomp = Seccomp::Unconfined;
    // A filter needs it, unless root installs that. These are views of files, which need none.
    let mut filtered = security.sandbox.clone();
    filtered.protect.retain(|protection| {
        !matches!(protection, Protection::ControlGroups | Protection::Processes | Protection::KernelFiles)
    });
    let is_filtered = filtered != Sandbox::default();
    let has_calls = security.sandbox.system_calls != Sandbox::default().system_calls;
    security.no_new_privileges = is_asked_for || has_calls || is_filtered && !is_root;
    if security.view.private_devices {
        let denied = ["mknod", "sys_rawio"].into_iter().filter_map(capability);
        let denied = denied.filter_map(|number| 1_u64.checked_shl(number)).fold(0, |mask, bit| mask | bit);
        let held = security.capabilities.unwrap_or(ALL_CAPABILITIES);
        security.capabilities = Some(held & !denied | security.ambient);
    }
}
