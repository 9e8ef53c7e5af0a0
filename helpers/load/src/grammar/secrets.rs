//! `secrets`: the secrets that a service gets as files.

use std::path::{Path, PathBuf};

use super::at::At;
use super::codec::Codec;
use super::confinement::signal;
use super::mapping::{Mapping, keys};
use super::values::{some_text, word};
use crate::decode::quoted;
use crate::schema::{Kind, form};
use kelson_spec::kernel;
use kelson_spec::secrets::{OnChange, SecretUse, is_file, is_name, wrong_name};

const NAME: &str = "^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$";
const FILE: &str = r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}(/[A-Za-z0-9_][A-Za-z0-9_.-]{0,63})*$";
const RESTART: &str = "restart";
/// The permissions that make sense for a file that nobody can write.
const MODES: u32 = 0o555;

pub fn secrets() -> Codec<Vec<SecretUse>> {
    secret().list("a list of secrets such as [db-password]").around(|d, node, inner| {
        let secrets = inner(d, node)?;
        for (place, one) in secrets.iter().enumerate() {
            let mut before = secrets.iter().take(place);
            if before.any(|other| one.file.starts_with(&other.file) || other.file.starts_with(&one.file)) {
                let file = quoted(&one.file.to_string_lossy());
                return d.refuse(node, format_args!("another secret is at {file} already; write file: too"));
            }
        }
        Some(secrets)
    })
}

/// `db-password`, or `{name: tls-key, file: tls/key.pem, mode: 0440}`.
fn secret() -> Codec<SecretUse> {
    let whole = Mapping::codec(mapping);
    let kind = whole.kind.clone();
    let short = name();
    whole.of_kind(move || Kind::Either(vec![name_kind(), kind()])).around(move |d, node, inner| {
        if node.is_mapping() {
            inner(d, node)
        } else {
            short.decode(d, node).map(|name| SecretUse::of(&name))
        }
    })
}

fn mapping() -> Mapping<SecretUse> {
    let file = At::new(
        |secret: &SecretUse| (secret.file != Path::new(&secret.name)).then(|| Some(secret.file.clone())),
        |secret, file: Option<PathBuf>| secret.file = file.unwrap_or_default(),
    );
    let path = word("path of a file in the folder of the service", FILE, "tls/key.pem").parsed(
        |text| {
            let path = PathBuf::from(text);
            if is_file(&path) { Ok(path) } else { Err(format!("{} leads elsewhere, or has other characters than letters, digits, _, . and -; write such as tls/key.pem", quoted(text))) }
        },
        |path| path.to_string_lossy().into_owned(),
    );
    let mode = word("permissions without writing", "^0?[0-7]{3}$", "0440").parsed(
        |text| {
            let mode = (3..=4).contains(&text.len()).then(|| u32::from_str_radix(text, 8).ok()).flatten();
            mode.filter(|mode| mode & !MODES == 0).ok_or_else(|| {
                format!(
                    "{} are not permissions of a file that nobody writes; write such as 0440",
                    quoted(text)
                )
            })
        },
        |mode| format!("{mode:04o}"),
    );
    keys! {
        Mapping::new("secret", SecretUse::default);
        needed "name" name = name(), "name: NAME", "the name of the secret, as `kelsonctl secret set` has it";
        means "file" (file) = path.optional(), "`name`", "its path in the folder of the service";
        key "mode" mode = mode, "the permissions of the file, which is the user's of the service";
        means "onChange" on_change = on_change().optional(), "it keeps the value of its start",
            "what happens to the service when the secret gets another value while it runs. `restart`: it is \
             restarted. A signal such as `SIGHUP`: its file gets the value, then it gets the signal";
    }
    .check(|_, seen, secret| {
        if !seen.has("file") {
            secret.file = PathBuf::from(&secret.name);
        }
    })
}

/// `restart`, or a signal.
fn on_change() -> Codec<OnChange> {
    let kind = signal().kind;
    let restart = || Kind::Form(form("restart", &format!("^{RESTART}$"), RESTART));
    some_text().of_kind(move || Kind::Either(vec![restart(), kind()])).parsed(
        |text| match text.as_str() {
            RESTART => Ok(OnChange::Restart),
            signal => {
                let signal = kernel::parse_signal(signal).map(OnChange::Signal);
                signal.map_err(|error| format!("{error}; write {RESTART}, or a signal such as SIGHUP"))
            }
        },
        |on_change| match on_change {
            OnChange::Restart => RESTART.to_owned(),
            OnChange::Signal(signal) => kernel::signal_name(*signal),
        },
    )
}

fn name_kind() -> Kind {
    Kind::Form(form("name of a secret", NAME, "db-password"))
}

pub fn name() -> Codec<String> {
    word("name of a secret", NAME, "db-password").but(|name| (!is_name(name)).then(|| wrong_name(name)))
}
