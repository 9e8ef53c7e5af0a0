//! Names of services, groups and checks.

/// The longest name of a service, in characters.
pub const LONGEST_NAME: usize = 63;

/// Whether `name` is `[a-z0-9][a-z0-9-]{0,62}`.
pub fn is_name(name: &str) -> bool {
    name.len() <= LONGEST_NAME
        && name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}
