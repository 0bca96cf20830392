//! The arrival numbers read so far, to find events with two owners.

use std::collections::BTreeMap;

/// Numbers of a page.
const PAGE: u64 = 1 << 16;
/// Words of a page.
const WORDS: usize = (PAGE / 64) as usize;
/// Maximum number of pages in memory: 64 MiB.
const PAGES_MAX: usize = 8192;

/// A bounded set of numbers, mostly neighbours.
#[derive(Debug, Default)]
pub struct Seqs {
    pages: BTreeMap<u64, Box<[u64]>>,
    full: bool,
}

impl Seqs {
    /// Adds a number. Returns true if the number was present before; false for a number without
    /// room.
    pub fn insert(&mut self, number: u64) -> bool {
        let (page, at) = (number / PAGE, number % PAGE);
        if self.pages.len() >= PAGES_MAX && !self.pages.contains_key(&page) {
            self.full = true;
            return false;
        }
        let words = self.pages.entry(page).or_insert_with(|| vec![0; WORDS].into_boxed_slice());
        let (word, bit) = ((at / 64) as usize, 1 << (at % 64));
        debug_assert!(word < words.len(), "a number outside of its page");
        let is_known = words.get_mut(word).is_some_and(|word| {
            let before = *word & bit != 0;
            *word |= bit;
            before
        });
        debug_assert!(self.pages.len() <= PAGES_MAX, "there are too many pages");
        is_known
    }

    /// True if all numbers had room.
    pub fn is_whole(&self) -> bool {
        !self.full
    }
}

/// Ranges of numbers: first number, and count.
#[derive(Debug, Default)]
pub struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    /// Adds a range; joins the range to the last range if both are adjacent.
    pub fn push(&mut self, first: u64, count: u64) {
        match self.0.last_mut() {
            Some((start, len)) if *start + *len == first => *len += count,
            _ => self.0.push((first, count)),
        }
    }

    /// All numbers.
    pub fn numbers(&self) -> impl Iterator<Item = u64> {
        self.0.iter().flat_map(|(first, count)| *first..first.saturating_add(*count))
    }
}

#[cfg(test)]
mod tests;
