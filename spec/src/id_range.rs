//! The users and groups of the host that those of a container with a user namespace are.

use serde::{Deserialize, Serialize};

use crate::places::places;

/// Ids of the host that follow each other: the first one is root in the container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdRange {
    pub first: u32,
}

impl IdRange {
    /// How many ids a container has.
    pub const SIZE: u32 = 65_536;
    /// The ids of the host in which all ranges are. systemd keeps them free for containers.
    const FIRST: u32 = 524_288;
    const LAST: u32 = 1_879_048_191;
    const COUNT: u32 = (Self::LAST - Self::FIRST + 1) / Self::SIZE;

    /// The id of the host that an id of the container is. `None`: the container has no such id.
    pub fn on_host(self, id: u32) -> Option<u32> {
        if id < Self::SIZE { self.first.checked_add(id) } else { None }
    }

    /// The id of the container that one of its ids of the host is: each range begins at a multiple of its size.
    pub fn in_container(id: u32) -> u32 {
        id % Self::SIZE
    }

    /// As [`IdRange::on_host`], of a container that may have no user namespace (`None`): its ids are those of the host.
    pub fn of_host(ids: Option<IdRange>, id: u32) -> Option<u32> {
        ids.map_or(Some(id), |ids| ids.on_host(id))
    }

    /// The first ids of the ranges that a service of this name tries, each once and the one that suits it best first.
    pub fn firsts(service: &str) -> impl Iterator<Item = u32> + Clone + use<> {
        places(service, Self::COUNT).map(|place| Self::FIRST.saturating_add(place.saturating_mul(Self::SIZE)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_do_not_overlap_and_are_where_no_user_is() {
        let mut firsts: Vec<u32> = IdRange::firsts("web").collect();
        assert_ne!(IdRange::firsts("web").next(), IdRange::firsts("db").next());
        firsts.sort_unstable();
        assert_eq!((firsts.len(), firsts[0]), (28_664, 524_288));
        assert!(firsts.windows(2).all(|two| two[1] - two[0] == IdRange::SIZE));
        let last = IdRange { first: firsts[firsts.len() - 1] };
        assert_eq!((last.first, last.on_host(65_535)), (1_878_982_656, Some(1_879_048_191)));
    }

    #[test]
    fn an_id_is_one_of_the_host_or_none() {
        let range = IdRange { first: 524_288 };
        assert_eq!(range.on_host(0), Some(524_288));
        assert_eq!(range.on_host(65_535), Some(589_823));
        assert_eq!((IdRange::in_container(524_288), IdRange::in_container(589_823)), (0, 65_535));
        assert_eq!(range.on_host(65_536), None);
        assert_eq!(range.on_host(u32::MAX), None);
        assert_eq!(IdRange::of_host(Some(range), 1), Some(524_289));
        assert_eq!(IdRange::of_host(Some(range), 65_536), None);
        assert_eq!(IdRange::of_host(None, 65_536), Some(65_536));
    }
}
