//! Where the entries of a file of slots stand: each key has a ring of slots that are written in turn.

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
            Ring { index, writes: 0 }
        });
        ring.writes = ring.writes.saturating_add(1);
        (slot_of::<SLOTS>(ring.index, ring.writes), ring.writes)
    }

    /// Removes keys. Returns their slots, which the caller clears.
    pub fn remove(&mut self, keys: RangeInclusive<K>) -> Vec<u64> {
        let gone: Vec<(K, Ring)> = self.by_key.range(keys).map(|(key, ring)| (key.clone(), *ring)).collect();
        let mut slots = Vec::new();
        for (key, ring) in gone {
            self.by_key.remove(&key);
            self.free.push(ring.index);
            slots.extend(slots_of::<SLOTS>(ring.index));
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
            whole.sort_by_key(|(number, _)| *number);
            let writes = whole.last().map_or(0, |(number, _)| *number);
            let entries: Vec<&[u8]> = whole.into_iter().map(|(_, entry)| entry).collect();
            match read(index, &entries) {
                Some(key) => drop(rings.by_key.insert(key, Ring { index, writes })),
                None => {
                    untrusted.extend(slots_of::<SLOTS>(index));
                    rings.free.push(index);
                }
            }
        }
        (rings, untrusted)
    }
}
