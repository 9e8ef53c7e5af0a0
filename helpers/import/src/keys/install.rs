//! `[Install]`.

use crate::key::{Key, kept, moot};
use crate::order::wanted_by;

pub const KEYS: [Key; 5] = [
    kept("WantedBy", wanted_by, "`start: auto`; a unit without it is `start: manual`"),
    kept("RequiredBy", wanted_by, "`start: auto`"),
    moot("Alias", "a service has one name"),
    moot("Also", "it is about other units, each of which is translated by itself"),
    moot("DefaultInstance", "the instance of a template, if the command names none"),
];
