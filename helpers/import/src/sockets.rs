//! The keys of socket units.

use kelson_spec::service::Listen;

use crate::commands::commands;
use crate::confinement::account;
use crate::draft::Draft;
use crate::finding::Outcome;
use crate::settings::Setting;
use crate::socket::name;
use crate::values::boolean;

/// The places of a key `Listen…=`, each with its kind before it.
fn listen(draft: &mut Draft<'_>, setting: &Setting, path: &str, address: Option<&str>) -> Outcome {
    let mut outcome = Outcome::default();
    for value in setting.list() {
        let value = match draft.expanded(value) {
            Ok(value) => value,
            Err(wrong) => {
                outcome = outcome.and(wrong);
                continue;
            }
        };
        let text = match value.as_str() {
            text if text.starts_with(['/', '@']) => format!("{path}{text}"),
            port if port.bytes().all(|byte| byte.is_ascii_digit()) => {
                format!("{}*:{port}", address.unwrap_or_default())
            }
            // vsock::PORT is for every context id.
            vsock if vsock.starts_with("vsock:") => vsock.replacen("vsock::", "vsock:", 1),
            text => format!("{}{text}", address.unwrap_or_default()),
        };
        let text = text.strip_prefix("unix:").unwrap_or(&text).to_owned();
        let is_fit = address.is_some() || text.starts_with(path);
        match Listen::read(&text) {
            Ok(_) if is_fit => draft.socket.listen.push(text),
            _ => outcome = outcome.and(Outcome::rejected(format!("Kelson makes no socket at {value}"))),
        }
    }
    outcome
}

pub fn stream(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    listen(draft, setting, "unix:", Some(""))
}

pub fn datagram(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    listen(draft, setting, "datagram:", Some("udp:"))
}

pub fn seqpacket(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    listen(draft, setting, "seqpacket:", None)
}

pub fn fifo(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    listen(draft, setting, "fifo:", None)
}

pub fn accept(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    draft.socket.accepts = boolean(setting.last()) == Some(true);
    match draft.socket.accepts {
        true => Outcome::rejected(
            "no instance of the service is started for each connection; the program has to listen itself",
        ),
        false => Outcome::kept("the service takes the connections"),
    }
}

pub fn descriptor_name(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    let wanted = setting.last();
    if !wanted.is_empty() {
        draft.socket.name = name(wanted);
    }
    match draft.socket.name == wanted || wanted.is_empty() {
        true => Outcome::as_table(),
        false => Outcome::approximated(format!("its name is {}", draft.socket.name)),
    }
}

pub fn backlog(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    match setting.last().parse::<u32>() {
        Ok(backlog) => {
            draft.socket.spec.backlog = backlog.clamp(1, 65_535);
            Outcome::as_table()
        }
        Err(_) => Outcome::rejected("this is no number, and systemd passes over it"),
    }
}

pub fn mode(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    match u32::from_str_radix(setting.last(), 8).ok().filter(|mode| *mode <= 0o777) {
        Some(mode) => {
            draft.socket.spec.mode = mode;
            Outcome::as_table()
        }
        None => Outcome::rejected("Kelson gives no such permissions to a socket"),
    }
}

pub fn user(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    account(draft, setting, |draft, name| draft.socket.user = Some(name))
}

pub fn group(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    account(draft, setting, |draft, name| draft.socket.group = Some(name))
}

pub fn ipv6_only(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    draft.socket.spec.options.ipv6_only = setting.last() == "ipv6-only";
    Outcome::as_table()
}

pub fn reuse_port(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    draft.socket.spec.options.reuse_port = boolean(setting.last()) == Some(true);
    Outcome::as_table()
}

pub fn free_bind(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    draft.socket.spec.options.free_bind = boolean(setting.last()) == Some(true);
    Outcome::as_table()
}

pub fn keep_alive(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    draft.socket.spec.options.keep_alive = boolean(setting.last()) == Some(true);
    Outcome::as_table()
}

pub fn pass_credentials(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    draft.socket.spec.options.pass_credentials = boolean(setting.last()) == Some(true);
    Outcome::as_table()
}

pub fn remove_on_stop(_: &mut Draft<'_>, setting: &Setting) -> Outcome {
    match boolean(setting.last()) {
        Some(true) => Outcome::kept("Kelson removes the file once the service rests"),
        _ => Outcome::as_table(),
    }
}

/// `ExecStartPre=`, which a one-shot runs.
pub fn exec_start_pre(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    match (setting.list(), commands(draft, setting)) {
        ([], _) => Outcome::as_table(),
        (_, Ok(found)) if !draft.socket.programs.is_empty() => {
            let unknown = found.iter().flat_map(|command| &command.words).any(|word| word.contains('$'));
            match unknown {
                true => Outcome::rejected("a program before a socket has no variables"),
                false => Outcome::as_table(),
            }
        }
        (_, Err(outcome)) => outcome,
        _ => Outcome::rejected("a specifier of it has no value here, so no program runs before the socket"),
    }
}

/// What the table says.
pub fn as_table(_: &mut Draft<'_>, _: &Setting) -> Outcome {
    Outcome::as_table()
}

/// Whether this is a socket unit of the service: by its name, or because it was given.
pub fn is_own(draft: &Draft<'_>, unit: &str) -> bool {
    unit.strip_suffix(".socket") == Some(draft.name.bare.as_str())
        || draft.given_sockets.iter().any(|given| given == unit)
}

/// `NonBlocking=` of the service.
pub fn non_blocking(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    draft.of_sockets.non_blocking = boolean(setting.last()) == Some(true);
    Outcome::as_table()
}

/// What becomes of a socket unit that the service names.
pub fn given(draft: &Draft<'_>, unit: &str) -> Outcome {
    match draft.given_sockets.iter().any(|given| given == unit) {
        true => Outcome::kept(format!("{unit}: `sockets`")),
        false => Outcome::rejected(format!(
            "the service gets no descriptors of {unit}: give the file of that unit to this command too"
        )),
    }
}
