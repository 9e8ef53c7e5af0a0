//! Which partitions a table lacks, and where they go.

use kelson_devices::partition_table::{NewPartition, PartitionTable};
use kelson_spec::partitions::{PartitionSpec, type_guid};
use kelson_spec::size_text;
use ring::rand::{SecureRandom as _, SystemRandom};

use crate::known_partition::ALIGNMENT;

/// Adds the partitions that a table lacks, each in the first gap that is large enough; the one without a size gets all of the
/// largest gap that is left. Returns their labels.
///
/// # Errors
/// A sentence, when there is no room for one of them. Then none is added.
pub fn add_missing<'a>(
    table: &mut PartitionTable,
    sector: u64,
    wanted: &'a [PartitionSpec],
) -> Result<Vec<&'a str>, String> {
    let alignment = ALIGNMENT.checked_div(sector).unwrap_or(1).max(1);
    let mut planned = table.clone();
    let mut added = Vec::new();
    for part in wanted {
        if table.partitions().any(|(_, _, label)| label == part.label) {
            continue;
        }
        let mut gaps = planned.gaps(alignment);
        let largest = gaps.iter().map(|gap| gap.end.saturating_sub(gap.start)).max().unwrap_or(0);
        let length = match part.size {
            Some(size) => size.div_ceil(ALIGNMENT).saturating_mul(alignment),
            None => largest.max(alignment),
        };
        gaps.retain(|gap| gap.end.saturating_sub(gap.start) >= length);
        let Some(gap) = gaps.first() else {
            let text = |sectors: u64| size_text(sectors.saturating_mul(sector));
            let (asked, free) = (text(length), text(largest));
            return Err(format!(
                "there is no room of {asked} for {}: the largest free part has {free}",
                part.label
            ));
        };
        let kind = type_guid(&part.kind).ok_or_else(|| format!("{} is no type of a partition", part.kind))?;
        let sectors = gap.start..gap.start.saturating_add(length);
        let new = NewPartition { kind, guid: random_guid()?, sectors, name: &part.label };
        planned.add(&new).ok_or("its table of partitions has no free entry")?;
        added.push(part.label.as_str());
    }
    *table = planned;
    Ok(added)
}

/// A random GUID (version 4 of RFC 9562), in the byte order of a table of partitions.
pub fn random_guid() -> Result<[u8; 16], String> {
    let mut guid = [0; 16];
    SystemRandom::new().fill(&mut guid).map_err(|_| "there are no random numbers")?;
    // The field with the version is little-endian there.
    if let Some(version) = guid.get_mut(7) {
        *version = (*version & 0x0F) | 0x40;
    }
    if let Some(variant) = guid.get_mut(8) {
        *variant = (*variant & 0x3F) | 0x80;
    }
    Ok(guid)
}

#[cfg(test)]
pub mod testing {
    use super::*;

    /// A partition of this many MiB; 0: of the rest.
    pub fn part(label: &str, size: u64) -> PartitionSpec {
        let size = Some(size * ALIGNMENT).filter(|size| *size > 0);
        PartitionSpec { label: label.to_owned(), size, ..PartitionSpec::default() }
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::testing::part;
    use super::*;
    use crate::known_partition::testing::table;

    /// The partitions with their MiB.
    fn places(table: &PartitionTable, sector: u64) -> Vec<(String, Range<u64>)> {
        let mib = |sectors: u64| sectors * sector / ALIGNMENT;
        table.partitions().map(|(_, place, label)| (label, mib(place.start)..mib(place.end))).collect()
    }

    fn named(places: &[(&str, Range<u64>)]) -> Vec<(String, Range<u64>)> {
        places.iter().map(|(label, place)| ((*label).to_owned(), place.clone())).collect()
    }

    #[test]
    fn missing_partitions_come_into_the_free_room_in_their_order() {
        for sector in [512, 4096] {
            let mut new = table(sector, 64, &[]);
            let wanted = [part("A", 10), part("B", 1), part("REST", 0)];
            assert_eq!(add_missing(&mut new, sector, &wanted), Ok(vec!["A", "B", "REST"]));
            let all = named(&[("A", 1..11), ("B", 11..12), ("REST", 12..63)]);
            assert_eq!(places(&new, sector), all);
            let before = new.clone();
            assert_eq!(add_missing(&mut new, sector, &wanted), Ok(vec![]));
            assert_eq!(new, before);
        }
    }

    #[test]
    fn partitions_that_are_there_stay_and_gaps_are_used() {
        let mut old = table(512, 64, &[(5, 10), (20, 30)]);
        let odd = PartitionSpec { size: Some(3 * ALIGNMENT + 1), ..part("ODD", 1) };
        let wanted = [part("LARGE", 12), odd, part("part", 50), part("REST", 0)];
        assert_eq!(add_missing(&mut old, 512, &wanted), Ok(vec!["LARGE", "ODD", "REST"]));
        assert_eq!(
            places(&old, 512),
            named(&[("part", 5..10), ("part", 20..30), ("LARGE", 30..42), ("ODD", 1..5), ("REST", 42..63)])
        );
    }

    #[test]
    fn without_room_for_all_none_is_added() {
        let mut old = table(512, 64, &[(1, 60)]);
        let before = old.clone();
        let error = add_missing(&mut old, 512, &[part("A", 2), part("B", 2)]).unwrap_err();
        assert_eq!(error, "there is no room of 2Mi for B: the largest free part has 1Mi");
        let error = add_missing(&mut old, 512, &[part("A", 3), part("B", 0)]).unwrap_err();
        assert_eq!(error, "there is no room of 1Mi for B: the largest free part has 0");
        assert_eq!(old, before);
    }

    #[test]
    fn each_guid_is_another_one_of_its_version() {
        let (one, two) = (random_guid().unwrap(), random_guid().unwrap());
        assert_ne!(one, two);
        assert_eq!((one[7] >> 4, one[8] >> 6), (4, 2));
    }
}
