//! The newest event of each series, or of each group of series (F28, F50).

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use ahash::RandomState;
use hashbrown::HashTable;

use crate::TickRange;

/// A request for one event of each group of events: the newest or the oldest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewestOf {
    /// Key columns to group by, as positions in the definition; empty for a single group of all
    /// events.
    pub keys: Vec<usize>,
    /// True to request the oldest event, false to request the newest.
    pub oldest: bool,
}

impl NewestOf {
    /// Whether an event at the tick `tick` is better than an event at the tick `than`: see
    /// [`is_better`].
    pub fn better(&self, tick: i64, than: i64) -> bool {
        is_better(self.oldest, tick, than)
    }
}

/// Whether an event at `tick` is better than an event at `than`: older if `oldest` is true,
/// otherwise newer. Events at the same tick are equally good.
pub fn is_better(oldest: bool, tick: i64, than: i64) -> bool {
    match oldest {
        true => tick < than,
        false => tick > than,
    }
}

/// Sorts items by the ticks of their events, so that the first items have the best events: the
/// oldest if `oldest` is true, otherwise the newest. A scan in this order finds few better events
/// in later items.
pub fn sort_from_end<T>(items: &mut [T], oldest: bool, hull_of: impl Fn(&T) -> TickRange) {
    match oldest {
        true => items.sort_by_key(|item| hull_of(item).start),
        false => items.sort_by_key(|item| std::cmp::Reverse(hull_of(item).end)),
    }
}

/// Gives each group a number by its key bytes; kept while queries ask for the same groups. Each
/// tablet or story looks up the numbers of its events once; comparisons with the events of other
/// files then use the numbers.
#[derive(Debug)]
pub struct GroupNumbers {
    id: u64,
    table: Mutex<GroupTable>,
}

/// The key bytes of all groups, in one buffer to avoid an allocation for each key.
#[derive(Debug, Default)]
struct GroupTable {
    /// The key bytes of group 0, of group 1, …
    keys: Vec<u8>,
    /// For each group, the end offset of its key in `keys`.
    ends: Vec<usize>,
    by_key: HashTable<HashedGroup>,
    hasher: RandomState,
}

impl GroupTable {
    /// Looks up the number of a group; a new group gets the next number.
    fn number(&mut self, key: &[u8]) -> u32 {
        let Self { keys, ends, by_key, hasher } = self;
        let hash = hasher.hash_one(key);
        let short = (hash >> 32) as u32;
        let is =
            |known: &HashedGroup| known.hash == short && key_of(keys, ends, known.number) == key;
        if let Some(known) = by_key.find(spread(short), is) {
            return known.number;
        }
        debug_assert!(u32::try_from(ends.len()).is_ok(), "there are more groups than numbers");
        let number = ends.len() as u32;
        keys.extend_from_slice(key);
        ends.push(keys.len());
        by_key.insert_unique(spread(short), HashedGroup { hash: short, number }, |known| {
            spread(known.hash)
        });
        debug_assert_eq!(ends.len(), by_key.len());
        debug_assert_eq!(key_of(keys, ends, number), key, "the new group has another key");
        number
    }
}

/// A group number, with the hash of the key. Because the hash is stored, the hash table can grow
/// without reading the keys.
#[derive(Debug, Clone, Copy)]
struct HashedGroup {
    hash: u32,
    number: u32,
}

/// Widens a stored 32-bit hash to the 64 bits of a hash table entry. The hash table reads the slot
/// from the low bits and a tag from the high bits.
fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

/// The key bytes of the group `number`.
fn key_of<'a>(keys: &'a [u8], ends: &[usize], number: u32) -> &'a [u8] {
    let at = number as usize;
    debug_assert!(at < ends.len(), "the group is unknown");
    let start = at.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or(0);
    let end = ends.get(at).copied().unwrap_or(start);
    debug_assert!(start <= end, "a key ends before it begins");
    debug_assert!(end <= keys.len(), "a key ends behind all keys");
    keys.get(start..end).unwrap_or_default()
}

impl GroupNumbers {
    /// An empty set of numbers.
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self { id: NEXT.fetch_add(1, Ordering::Relaxed), table: Mutex::default() }
    }

    /// An id that differs from the ids of all other `GroupNumbers` of this process.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The numbers of the groups with the given key bytes.
    pub fn of<'a>(&self, keys: impl Iterator<Item = &'a [u8]>) -> Vec<u32> {
        let mut lookup = self.lookup();
        keys.map(|key| lookup.number(key)).collect()
    }

    /// Locks the numbers for several lookups. Other lookups wait until the caller drops the result.
    pub fn lookup(&self) -> Lookup<'_> {
        let table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        Lookup { table, last: None }
    }

    /// The approximate memory use, in bytes.
    pub fn bytes(&self) -> usize {
        let table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.keys.capacity()
            + table.ends.capacity() * size_of::<usize>()
            + table.by_key.capacity() * (size_of::<HashedGroup>() + 1)
    }
}

/// Locked group numbers. See [`GroupNumbers::lookup`].
#[derive(Debug)]
pub struct Lookup<'a> {
    table: MutexGuard<'a, GroupTable>,
    last: Option<u32>,
}

impl Lookup<'_> {
    /// Looks up the number of a group by its key bytes; a new group gets the next number.
    ///
    /// Rows often follow each other in the order of their groups' numbers: a series writes several
    /// rows, or all series write in turns. Therefore the lookup first compares the key with the
    /// last key and with the key after the last key, which saves the hash and a random access.
    pub fn number(&mut self, key: &[u8]) -> u32 {
        let table = &mut *self.table;
        let is = |number: &u32| {
            (*number as usize) < table.ends.len()
                && key_of(&table.keys, &table.ends, *number) == key
        };
        let near = self.last.and_then(|last| [last, last.saturating_add(1)].into_iter().find(is));
        let number = near.unwrap_or_else(|| table.number(key));
        debug_assert_eq!(
            key_of(&table.keys, &table.ends, number),
            key,
            "the group has another key"
        );
        self.last = Some(number);
        number
    }
}

impl Default for GroupNumbers {
    fn default() -> Self {
        Self::new()
    }
}

/// The best event of each group so far, shared by the steps of a scan that reads one file after
/// another.
#[derive(Debug)]
pub struct Best {
    of: NewestOf,
    numbers: Arc<GroupNumbers>,
    best: Mutex<BestEvents>,
}

/// The ticks of the best events so far.
#[derive(Debug, Default)]
struct BestEvents {
    /// For each group number: the position of the group in `ticks` plus 1, or 0 if no event was
    /// found.
    places: Vec<u32>,
    /// The tick of the best event of each group found so far.
    ticks: Vec<i64>,
}

impl Best {
    /// Starts with no event found.
    pub fn new(of: NewestOf, numbers: Arc<GroupNumbers>) -> Self {
        Self { of, numbers, best: Mutex::default() }
    }

    /// The request: newest or oldest, and the grouping columns.
    pub fn of(&self) -> &NewestOf {
        &self.of
    }

    /// The numbering of the groups.
    pub fn numbers(&self) -> &GroupNumbers {
        &self.numbers
    }

    /// Compares events with the best events so far; each event is given by its group number and its
    /// tick. If an event is better than the best event of its group, records the event and returns
    /// the position of the group among the groups found, counted from 0. For other events returns
    /// `None`.
    pub fn improved(&self, events: impl Iterator<Item = (u32, i64)>) -> Vec<Option<u32>> {
        let mut best = self.best.lock().unwrap_or_else(PoisonError::into_inner);
        let BestEvents { places, ticks } = &mut *best;
        let mut improved = Vec::with_capacity(events.size_hint().0);
        for (number, tick) in events {
            let number = number as usize;
            if number >= places.len() {
                places.resize((number + 1).next_power_of_two(), 0);
            }
            let Some(place) = places.get_mut(number) else { continue };
            let known = place.checked_sub(1).and_then(|at| Some((at, ticks.get_mut(at as usize)?)));
            improved.push(match known {
                Some((_, known)) if !self.of.better(tick, *known) => None,
                Some((at, known)) => {
                    *known = tick;
                    Some(at)
                }
                None => {
                    ticks.push(tick);
                    *place = ticks.len() as u32;
                    Some(*place - 1)
                }
            });
        }
        debug_assert!(ticks.len() <= places.len(), "a group has two best events");
        debug_assert!(
            improved.iter().flatten().all(|at| (*at as usize) < ticks.len()),
            "a place is behind the groups found"
        );
        improved
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn each_key_keeps_its_number_in_any_order_of_lookups() {
        let keys: Vec<Vec<u8>> = (0..1_000_u64)
            .map(|n| n.to_be_bytes().into_iter().skip(8 - n as usize % 9).collect())
            .collect();
        let distinct = keys.iter().collect::<std::collections::HashSet<_>>().len();
        let (numbers, mut expected) = (GroupNumbers::new(), HashMap::new());
        // In order, each key twice, backwards, and with strides.
        let orders: [fn(usize) -> usize; 4] = [|n| n, |n| n / 2, |n| 999 - n % 1_000, |n| n * 37];
        for order in orders {
            let mut lookup = numbers.lookup();
            for at in (0..1_000).map(order) {
                let Some(key) = keys.get(at % 1_000) else { continue };
                let next = expected.len() as u32;
                assert_eq!(lookup.number(key), *expected.entry(key).or_insert(next), "{key:?}");
            }
        }
        assert_eq!(expected.len(), distinct);
        assert_eq!(numbers.of([[].as_slice(), &[9; 9]].into_iter()), [0, distinct as u32]);
    }
}
