//! The secrets of services, for PID 1: no value is an argument, and none is part of an answer.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;

use kelson_helper::task::SecretRequest;
use kelson_secrets::{Opened, Owner, SecretError, Store, place, renew, withdraw};
use kelson_spec::secrets::LONGEST_VALUE;
use kelson_spec::wire;

/// Makes the call of a [`SecretRequest`].
///
/// # Errors
/// A sentence that says what failed and why.
pub fn perform(
    state: &Path,
    runtime: &Path,
    words: &[OsString],
    control: fn() -> OwnedFd,
) -> Result<String, String> {
    let store = Store::new(state, runtime);
    let text = |done: Result<(), SecretError>| done.map(|()| String::new());
    let done = match SecretRequest::from_arguments(words)? {
        SecretRequest::Set { name, author } => {
            text(store.set(&name, &Opened::now(read(control())?, &author, "")))
        }
        SecretRequest::List => return list(&store, control()),
        SecretRequest::Remove { name } => text(store.remove(&name)),
        SecretRequest::Place { folder, uid, gid, secrets } => {
            place(&store, &folder, Owner { uid, gid }, &secrets)
        }
        SecretRequest::Renew { folder, secret } => text(renew(&store, &folder, &secret)),
        SecretRequest::Withdraw { folder } => text(withdraw(&folder)),
    };
    done.map_err(|error| error.to_string())
}

/// The value that a descriptor gives.
fn read(value: OwnedFd) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let most = LONGEST_VALUE.saturating_add(1) as u64;
    File::from(value).take(most).read_to_end(&mut bytes).map_err(|error| format!("the value: {error}"))?;
    Ok(bytes)
}

/// Writes what is known of all secrets to a descriptor.
fn list(store: &Store, answer: OwnedFd) -> Result<String, String> {
    let stored = store.list().map_err(|error| error.to_string())?;
    let bytes = wire::encode(&stored).map_err(|error| error.to_string())?;
    File::from(answer).write_all(&bytes).map_err(|error| format!("the list: {error}"))?;
    Ok(format!("{} secrets", stored.len()))
}
