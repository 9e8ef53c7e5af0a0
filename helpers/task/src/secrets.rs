//! The secrets of services, for PID 1: no value is an argument, and none is part of an answer.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;

use kelson_secrets::{Opened, Owner, SecretError, Store};
use kelson_spec::secrets::{LONGEST_VALUE, SecretUse};
use kelson_spec::wire;

/// Keeps the value that a descriptor gives.
///
/// # Errors
/// A sentence, when it is not kept.
pub fn set(state: &Path, name: &str, author: &str, value: OwnedFd) -> Result<String, String> {
    let mut bytes = Vec::new();
    let most = LONGEST_VALUE.saturating_add(1) as u64;
    File::from(value).take(most).read_to_end(&mut bytes).map_err(|error| format!("the value: {error}"))?;
    text(Store::new(state).set(name, &Opened::now(bytes, author, "")))
}

/// Writes what is known of all secrets to a descriptor.
///
/// # Errors
/// A sentence, when the folder cannot be read.
pub fn list(state: &Path, answer: OwnedFd) -> Result<String, String> {
    let stored = Store::new(state).list().map_err(|error| error.to_string())?;
    let bytes = wire::encode(&stored).map_err(|error| error.to_string())?;
    File::from(answer).write_all(&bytes).map_err(|error| format!("the list: {error}"))?;
    Ok(format!("{} secrets", stored.len()))
}

/// # Errors
/// A sentence, when there is none, or it stays.
pub fn remove(state: &Path, name: &str) -> Result<String, String> {
    text(Store::new(state).remove(name))
}

/// # Errors
/// A sentence, when a service cannot have them all.
pub fn place(state: &Path, folder: &Path, owner: Owner, secrets: &[SecretUse]) -> Result<String, String> {
    kelson_secrets::place(&Store::new(state), folder, owner, secrets).map_err(|error| error.to_string())
}

/// # Errors
/// A sentence, when they stay.
pub fn withdraw(folder: &Path) -> Result<String, String> {
    text(kelson_secrets::withdraw(folder))
}

fn text(done: Result<(), SecretError>) -> Result<String, String> {
    done.map(|()| String::new()).map_err(|error| error.to_string())
}
