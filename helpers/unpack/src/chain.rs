//! The names of snapshots: each says all layers below it.

use kelson_image::Digest;

use crate::archive::Hasher;

/// The chain id of each layer, lowest first.
pub fn chain_ids(diff_ids: &[Digest]) -> Vec<Digest> {
    let mut chain: Vec<Digest> = Vec::with_capacity(diff_ids.len());
    for diff_id in diff_ids {
        let id = match chain.last() {
            None => *diff_id,
            Some(below) => Hasher::of(format!("{below} {diff_id}").as_bytes()),
        };
        chain.push(id);
    }
    chain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_id_is_made_of_all_below_it() {
        let [a, b, c] = [b"a", b"b", b"c"].map(|bytes| Hasher::of(bytes));
        let ids = chain_ids(&[a, b, c]);
        assert_eq!(ids[0], a);
        assert_eq!(ids[1], Hasher::of(format!("{a} {b}").as_bytes()));
        assert_eq!(ids[2], Hasher::of(format!("{} {c}", ids[1]).as_bytes()));
        assert_eq!(chain_ids(&[]), []);
    }
}
