//! Numbers that services choose by their names: the place of an address, a range of ids.

/// The numbers below `count`, each once, in the order in which a service of this name tries them. So a service has the same
/// one after each boot, unless another one had it first.
pub fn places(service: &str, count: u32) -> impl Iterator<Item = u32> + Clone + use<> {
    // FNV-1a.
    let hash = service
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let start = hash.checked_rem(count).unwrap_or_default();
    (0..count).map(move |step| start.wrapping_add(step).checked_rem(count).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_tried_once_and_a_name_has_its_own_order() {
        let mut all: Vec<u32> = places("web", 5).collect();
        assert_eq!(all, places("web", 5).collect::<Vec<_>>());
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3, 4]);
        assert_ne!(places("web", 1000).next(), places("db", 1000).next());
        assert_eq!(places("web", 0).next(), None);
    }
}
