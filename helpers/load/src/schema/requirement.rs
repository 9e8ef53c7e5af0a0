//! The entries of `depends` and `when`.

use super::kinds::{choice, name, path};
use super::{Kind, Mapping, needed, with};

/// One entry.
pub(super) fn requirement() -> Mapping {
    let keys = [
        needed("service", name(), "the `event` holds for the service of this name"),
        with(
            "event",
            choice(&["up", "running", "finished", "down"]),
            "up",
            "`up`: ready and healthy. `running`: its process runs, ready or not. `finished`: ended successfully by itself. `down`: \
             ended, stopped, failed, skipped, or nothing will start it",
        ),
        with(
            "whenDown",
            choice(&["ignore", "stop", "restart"]),
            "ignore",
            "what becomes of this service, once it runs, when the other one's run ends. `stop`: it is stopped and stays so. \
             `restart`: it starts again once all of `depends` holds. Only in an entry of `depends`, with the event `up` or `running`",
        ),
        needed("path", path(), "the path exists; a symbolic link counts if what it leads to exists"),
        needed(
            "network",
            choice(&["addresses", "connectivity", "hostname"]).list_of(1, usize::MAX),
            "`addresses`: an interface other than the loopback is up and has an address of global scope. `connectivity`: there \
             is a default route through an interface that is up. `hostname`: the host name is set",
        ),
        needed("time", choice(&["synced"]), "the kernel says that its clock is synchronised"),
        needed("any", Kind::Mapping(requirement).list_of(1, usize::MAX), "one of these entries holds"),
    ];
    Mapping::new("requirement", keys).one_of(&["service", "path", "network", "time", "any"])
}
