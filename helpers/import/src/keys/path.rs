//! `[Path]`: what systemd.path(5) describes.

use crate::key::Neutral::No;
use crate::key::{Key, kept, lost, moot};
use crate::paths::{changed, exists, exists_glob, modified, not_empty};

const LIMIT: &str = "starts that follow each other wait longer each time (`restart`)";

pub const KEYS: [Key; 10] = [
    kept("PathExists", exists, "`paths: [{exists: …}]`"),
    kept("PathExistsGlob", exists_glob, "`paths: [{exists: …}]`, with a pattern in the last part"),
    kept("PathChanged", changed, "`paths: [{changed: …}]`"),
    kept("PathModified", modified, "`paths: [{modified: …}]`"),
    kept("DirectoryNotEmpty", not_empty, "`paths: [{notEmpty: …}]`"),
    moot("Unit", "the service that has the `paths`"),
    lost("MakeDirectory", No, "the folder is not made; Kelson waits until somebody makes it"),
    moot("DirectoryMode", "it counts with `MakeDirectory=yes` alone"),
    moot("TriggerLimitIntervalSec", LIMIT),
    moot("TriggerLimitBurst", LIMIT),
];
