//! The last of many items, each with a number that it keeps.

use std::collections::VecDeque;

/// Items that were pushed; the oldest go once there are more than `MOST`.
#[derive(Debug)]
pub struct Ring<T, const MOST: usize = 1000> {
    items: VecDeque<T>,
    /// The number of the oldest that is there.
    first: u64,
}

impl<T, const MOST: usize> Default for Ring<T, MOST> {
    fn default() -> Ring<T, MOST> {
        Ring { items: VecDeque::new(), first: 0 }
    }
}

impl<T, const MOST: usize> Ring<T, MOST> {
    pub fn push(&mut self, item: T) {
        if self.items.len() == MOST {
            self.items.pop_front();
            self.first += 1;
        }
        self.items.push_back(item);
    }

    pub fn clear(&mut self) {
        self.first = self.end();
        self.items.clear();
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The number that the next item gets.
    pub fn end(&self) -> u64 {
        self.first + self.items.len() as u64
    }

    /// The number of the oldest that is there.
    pub fn first(&self) -> u64 {
        self.first
    }

    pub fn get(&self, number: u64) -> Option<&T> {
        let place = number.checked_sub(self.first)?;
        self.items.get(usize::try_from(place).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_go_and_the_others_keep_their_numbers() {
        let mut ring = Ring::<char, 2>::default();
        assert!(ring.is_empty());
        "abc".chars().for_each(|letter| ring.push(letter));
        assert_eq!((ring.first(), ring.end()), (1, 3));
        assert_eq!(
            (ring.get(0), ring.get(1), ring.get(2), ring.get(3)),
            (None, Some(&'b'), Some(&'c'), None)
        );
        ring.clear();
        ring.push('d');
        assert_eq!((ring.first(), ring.get(3)), (3, Some(&'d')));
    }
}
