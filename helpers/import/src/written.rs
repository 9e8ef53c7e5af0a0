//! A service file that is being written.

use kelson_load::Json;

/// Puts a key in its place in the order of a service file.
pub fn insert(entries: &mut Vec<(String, Json)>, key: &str, value: Json) {
    let order: Vec<&str> = kelson_load::files::service().keys.iter().map(|key| key.name).collect();
    let place = |key: &str| order.iter().position(|known| *known == key);
    let at = entries.iter().position(|(known, _)| place(known) > place(key)).unwrap_or(entries.len());
    entries.insert(at, (key.to_owned(), value));
}
