//! `[Path]`: what systemd.path(5) describes.

use crate::key::Neutral::No;
use crate::key::{Key, kept, lost, moot};
use crate::paths::{exists, triggers};
use kelson_spec::service::PathEvent;

const LIMIT: &str = "starts that follow each other wait longer each time (`restart`)";

pub const KEYS: [Key; 10] = [
    kept("PathExists", exists, "`paths: [{exists: …}]`"),
    kept(
        "PathExistsGlob",
        |draft, setting| triggers(draft, setting, PathEvent::Exists),
        "`paths: [{exists: …}]`, with a pattern in the last part",
    ),
    kept(
        "PathChanged",
        |draft, setting| triggers(draft, setting, PathEvent::Changed),
        "`paths: [{changed: …}]`",
    ),
    kept(
        "PathModified",
        |draft, setting| triggers(draft, setting, PathEvent::Modified),
        "`paths: [{modified: …}]`",
    ),
    kept(
        "DirectoryNotEmpty",
        |draft, setting| triggers(draft, setting, PathEvent::NotEmpty),
        "`paths: [{notEmpty: …}]`",
    ),
    moot("Unit", "the service that has the `paths`"),
    lost("MakeDirectory", No, "the folder is not made; Kelson waits until somebody makes it"),
    moot("DirectoryMode", "it counts with `MakeDirectory=yes` alone"),
    moot("TriggerLimitIntervalSec", LIMIT),
    moot("TriggerLimitBurst", LIMIT),
];
