//! A cache of series. The key of the cache is the identity of a series: the measurement and tags as
//! the client sent them.

use ahash::RandomState;
use hashbrown::HashTable;

use crate::column::NONE;

/// The number of a series in a [`RowBuilder`](crate::RowBuilder). The number is valid until the
/// builder empties the cache, when a series is interned or a request begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeriesNumber {
    pub(crate) number: u32,
    /// The number of times that the cache had been emptied when the number was issued.
    pub(crate) generation: u32,
}

/// A tag of a series.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tag {
    /// The index of the tag's name among the tags of the table.
    pub(crate) tag: u32,
    start: u32,
    end: u32,
}

#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) table: u32,
    /// The number of the series that followed this series the last time.
    next: u32,
    /// The number of the batch in which `slot` is valid.
    pub(crate) batch: u64,
    /// The index of the series in the table's batch; [`NONE`] until the series has a complete row.
    pub(crate) slot: u32,
    identity: (u32, u32),
    tags: (u32, u32),
}

/// The texts of the tags of all series, in one buffer.
#[derive(Debug, Default)]
pub(crate) struct TagTexts {
    tags: Vec<Tag>,
    text: String,
}

impl TagTexts {
    /// The tags of `series`.
    pub(crate) fn tags(&self, series: &Series) -> &[Tag] {
        slice(&self.tags, series.tags)
    }

    /// The value of a tag.
    pub(crate) fn value(&self, tag: Tag) -> &str {
        let (start, end) = (tag.start as usize, tag.end as usize);
        self.text.get(start..end).unwrap_or_default()
    }
}

/// A cache of series by identity. When the cache is full, all entries are removed.
#[derive(Debug)]
pub(crate) struct SeriesCache {
    pub(crate) entries: Vec<Series>,
    pub(crate) texts: TagTexts,
    identities: Vec<u8>,
    by_identity: HashTable<u32>,
    hasher: RandomState,
    /// The number of the series that was found last.
    last: u32,
    pub(crate) generation: u32,
    series_max: usize,
    bytes_max: usize,
}

impl SeriesCache {
    pub(crate) fn new(series_max: usize, bytes_max: usize) -> Self {
        Self {
            entries: Vec::new(),
            texts: TagTexts::default(),
            identities: Vec::new(),
            by_identity: HashTable::new(),
            hasher: RandomState::new(),
            last: NONE,
            generation: 0,
            // Series numbers and positions in buffers have 32 bits.
            series_max: series_max.min(1 << 30),
            bytes_max: bytes_max.min(1 << 30),
        }
    }

    /// Tries the series that followed the last series the previous time. If `bytes` begin with the
    /// identity of that series and a space, returns its number and the length of the identity.
    #[inline]
    pub(crate) fn expected_next(&mut self, bytes: &[u8]) -> Option<(u32, usize)> {
        let next = self.entries.get(self.last as usize)?.next;
        let identity = slice(&self.identities, self.entries.get(next as usize)?.identity);
        let after = bytes.strip_prefix(identity)?;
        if after.first() != Some(&b' ') {
            return None;
        }
        self.last = next;
        Some((next, identity.len()))
    }

    /// Finds the series with the given identity.
    #[inline]
    pub(crate) fn find(&mut self, identity: &[u8]) -> Option<u32> {
        let hash = self.hasher.hash_one(identity);
        let known = |number: &u32| {
            let entry = self.entries.get(*number as usize);
            entry.is_some_and(|entry| slice(&self.identities, entry.identity) == identity)
        };
        let found = *self.by_identity.find(hash, known)?;
        self.follow(found);
        Some(found)
    }

    /// Records that series `number` follows the last series, for [`Self::expected_next`].
    fn follow(&mut self, number: u32) {
        if let Some(last) = self.entries.get_mut(self.last as usize) {
            last.next = number;
        }
        self.last = number;
    }

    /// Adds a series that is not in the cache. Empties a full cache first.
    pub(crate) fn add<'a>(
        &mut self,
        identity: &[u8],
        table: u32,
        tags: impl Iterator<Item = (u32, &'a str)> + Clone,
    ) -> u32 {
        let values = tags.clone().map(|(_, value)| value.len() + size_of::<Tag>());
        let bytes = identity.len() + values.sum::<usize>() + size_of::<Series>();
        if self.entries.len() >= self.series_max || self.bytes() + bytes > self.bytes_max {
            self.clear();
        }
        let tags_start = self.texts.tags.len();
        for (tag, value) in tags {
            let start = place(self.texts.text.len());
            self.texts.text.push_str(value);
            self.texts.tags.push(Tag { tag, start, end: place(self.texts.text.len()) });
        }
        let start = self.identities.len();
        self.identities.extend_from_slice(identity);
        let number = place(self.entries.len());
        self.entries.push(Series {
            table,
            // Clients often send all series in turn, so after the newest series comes the first.
            next: 0,
            batch: 0,
            slot: NONE,
            identity: (place(start), place(self.identities.len())),
            tags: (place(tags_start), place(self.texts.tags.len())),
        });
        let hash = self.hasher.hash_one(identity);
        self.by_identity.insert_unique(hash, number, |number| {
            let entry = self.entries.get(*number as usize);
            self.hasher.hash_one(entry.map_or(&[][..], |e| slice(&self.identities, e.identity)))
        });
        self.follow(number);
        number
    }

    /// Removes the series that was added last.
    pub(crate) fn remove_last(&mut self) {
        let Some(entry) = self.entries.pop() else { return };
        let number = self.entries.len();
        let hash = self.hasher.hash_one(slice(&self.identities, entry.identity));
        if let Ok(found) = self.by_identity.find_entry(hash, |other| *other as usize == number) {
            found.remove();
        }
        self.identities.truncate(entry.identity.0 as usize);
        if let Some(tag) = slice(&self.texts.tags, entry.tags).first() {
            self.texts.text.truncate(tag.start as usize);
        }
        self.texts.tags.truncate(entry.tags.0 as usize);
        self.last = NONE;
        self.generation = self.generation.wrapping_add(1);
    }

    /// The bytes that the cache occupies.
    fn bytes(&self) -> usize {
        self.identities.len()
            + self.texts.text.len()
            + self.texts.tags.len() * size_of::<Tag>()
            + self.entries.len() * size_of::<Series>()
    }

    /// Removes all series; all numbers become invalid.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.texts.tags.clear();
        self.texts.text.clear();
        self.identities.clear();
        self.by_identity.clear();
        self.last = NONE;
        self.generation = self.generation.wrapping_add(1);
    }
}

/// Converts a position in a buffer to 32 bits. A buffer has at most 2^30 bytes plus one series, so
/// the position fits.
fn place(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

#[inline]
fn slice<T>(all: &[T], (start, end): (u32, u32)) -> &[T] {
    all.get(start as usize..end as usize).unwrap_or_default()
}

#[cfg(test)]
mod tests;
