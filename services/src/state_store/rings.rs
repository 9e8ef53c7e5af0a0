//! Where the entries of a file of slots stand: each key has a ring of slots that are written in turn.

use kelson_sys::ordered;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::file::{Found, is_used, unseal};

/// Two hashes of names.
pub type Key = (u64, u64);

/// Of a name, for what is only compared.
pub fn hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The rings of one file, of `SLOTS` slots each.
pub struct Rings<K, const SLOTS: u64> {
    by_key: BTreeMap<K, Ring>,
    free: Vec<u32>,
    next: u32,
}

#[derive(Clone, Copy)]
struct Ring {
    index: u32,
    writes: u64,
    /// In how many of its slots something may stand: those of the first writes.
    used: u64,
}

impl Ring {
    /// One that was written before: a torn entry stands in any of its slots.
    fn found<const SLOTS: u64>(index: u32, writes: u64) -> Ring {
        Ring { index, writes, used: SLOTS }
    }
}

pub fn slot_of<const SLOTS: u64>(index: u32, number: u64) -> u64 {
    u64::from(index).saturating_mul(SLOTS).saturating_add(number.checked_rem(SLOTS).unwrap_or_default())
}

fn slots_of<const SLOTS: u64>(index: u32) -> impl Iterator<Item = u64> {
    (0..SLOTS).map(move |number| slot_of::<SLOTS>(index, number))
}

impl<K, const SLOTS: u64> Default for Rings<K, SLOTS> {
    fn default() -> Self {
        Rings { by_key: BTreeMap::new(), free: Vec::new(), next: 0 }
    }
}

impl<K: Ord + Clone, const SLOTS: u64> Rings<K, SLOTS> {
    /// The slot and the number of the next entry of a key.
    pub fn next(&mut self, key: K) -> (u64, u64) {
        let Rings { by_key, free, next } = self;
        let ring = by_key.entry(key).or_insert_with(|| {
            let index = free.pop().unwrap_or_else(|| {
                let index = *next;
                *next = index.saturating_add(1);
                index
            });
            Ring { index, writes: 0, used: 0 }
        });
        ring.writes = ring.writes.saturating_add(1);
        ring.used = ring.used.max(ring.writes.min(SLOTS));
        (slot_of::<SLOTS>(ring.index, ring.writes), ring.writes)
    }

    /// Removes keys. Returns the slots in which something may stand, which the caller clears in this order: the newest entry
    /// of each is there until nothing older is, which the next incarnation would take for the newest.
    pub fn remove(&mut self, keys: RangeInclusive<K>) -> Vec<u64> {
        let gone: Vec<(K, Ring)> = self.by_key.range(keys).map(|(key, ring)| (key.clone(), *ring)).collect();
        let mut slots = Vec::new();
        for (key, ring) in gone {
            self.by_key.remove(&key);
            self.free.push(ring.index);
            let newest = ring.writes.saturating_add(SLOTS);
            let oldest = newest.saturating_sub(ring.used).saturating_add(1);
            slots.extend((oldest..=newest).map(|number| slot_of::<SLOTS>(ring.index, number)));
        }
        slots
    }

    /// The rings of a file. `read` gets the place of each ring that was ever written and its whole entries, the oldest
    /// first, and returns their key; `None`: they are not used. Returns also the slots of those.
    pub fn of(found: &Found, mut read: impl FnMut(u32, &[&[u8]]) -> Option<K>) -> (Self, Vec<u64>) {
        let mut rings = Rings::default();
        let mut untrusted = Vec::new();
        let slots: Vec<&[u8]> = found.slots().collect();
        for (index, ring) in (0_u32..).zip(slots.chunks(usize::try_from(SLOTS).unwrap_or(usize::MAX))) {
            rings.next = index.saturating_add(1);
            if !ring.iter().any(|slot| is_used(slot)) {
                rings.free.push(index);
                continue;
            }
            let mut whole: Vec<(u64, &[u8])> = ring.iter().filter_map(|slot| unseal(slot)).collect();
            ordered::sort_by_key(&mut whole, |(number, _)| *number);
            let writes = whole.last().map_or(0, |(number, _)| *number);
            let entries: Vec<&[u8]> = whole.into_iter().map(|(_, entry)| entry).collect();
            match read(index, &entries) {
                Some(key) => drop(rings.by_key.insert(key, Ring::found::<SLOTS>(index, writes))),
                None => {
                    untrusted.extend(slots_of::<SLOTS>(index));
                    rings.free.push(index);
                }
            }
        }
        (rings, untrusted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn removed(rings: &mut Rings<u8, 4>, key: u8) -> Vec<u64> {
        let mut slots = rings.remove(key..=key);
        slots.sort_unstable();
        slots
    }

    #[test]
    fn only_what_was_written_is_cleared() {
        let mut rings = Rings::<u8, 4>::default();
        let written: Vec<u64> = (0..2).map(|_| rings.next(1).0).collect();
        assert_eq!(removed(&mut rings, 1), written);
        // Its place is taken again, and nothing stands there.
        let written = vec![rings.next(2).0];
        assert_eq!(removed(&mut rings, 2), written);
        for _ in 0..9 {
            rings.next(3);
        }
        assert_eq!(removed(&mut rings, 3), [0, 1, 2, 3]);
        assert!(removed(&mut rings, 3).is_empty());
    }

    #[test]
    fn the_newest_is_cleared_last() {
        for (writes, cleared) in
            [(1, vec![1]), (3, vec![1, 2, 3]), (4, vec![1, 2, 3, 0]), (6, vec![3, 0, 1, 2])]
        {
            let mut rings = Rings::<u8, 4>::default();
            for _ in 0..writes {
                rings.next(1);
            }
            assert_eq!(rings.remove(1..=1), cleared, "{writes}");
            rings.by_key.insert(1, Ring::found::<4>(0, writes));
            assert_eq!(rings.remove(1..=1).last(), cleared.last(), "{writes}");
        }
    }

    #[test]
    fn one_that_was_found_is_cleared_whole() {
        let mut rings = Rings::<u8, 4>::default();
        rings.by_key.insert(1, Ring::found::<4>(0, 1));
        rings.next(1);
        assert_eq!(removed(&mut rings, 1), [0, 1, 2, 3]);
    }
}
