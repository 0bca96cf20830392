//! A set of the arrival numbers read so far, to find events with two owners.

use std::collections::BTreeMap;

/// Number of arrival numbers that a page (a bitmap) covers.
const PAGE: u64 = 1 << 16;
/// Number of 64-bit words of a page.
const WORDS: usize = (PAGE / 64) as usize;
/// Maximum number of pages in memory: 64 MiB.
const PAGES_MAX: usize = 8192;

/// A set of numbers with bounded memory; efficient for adjacent numbers.
#[derive(Debug, Default)]
pub struct Seqs {
    pages: BTreeMap<u64, Box<[u64]>>,
    full: bool,
}

impl Seqs {
    /// Adds a number. Returns true if the set had the number before. Returns false, and forgets the
    /// number, if the set has no room.
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

    /// True if the set had room for all numbers.
    pub fn is_whole(&self) -> bool {
        !self.full
    }
}

/// Ranges of numbers: first number, and count.
#[derive(Debug, Default)]
pub struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    /// Adds a range; if it follows directly on the last range, joins both.
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
