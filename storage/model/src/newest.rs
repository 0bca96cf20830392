//! Of the events of each series, or group of series, only the newest one (F12, F20).

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use crate::TickRange;

/// One event of each group is wanted: the newest, or the oldest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewestOf {
    /// Key columns to group by, by position in the definition; one group for none.
    pub keys: Vec<usize>,
    /// The oldest instead.
    pub oldest: bool,
}

impl NewestOf {
    /// As [`is_better`].
    pub fn better(&self, tick: i64, than: i64) -> bool {
        is_better(self.oldest, tick, than)
    }
}

/// Whether an event at one tick is to be taken rather than one at another, where the oldest are
/// wanted, or the newest. Of events at one tick any may be taken.
pub fn is_better(oldest: bool, tick: i64, than: i64) -> bool {
    match oldest {
        true => tick < than,
        false => tick > than,
    }
}

/// Brings what has events of some ticks into the order in which it is looked at: first what has the
/// oldest, or the newest, so that what comes behind it finds little that is better.
pub fn sort_from_end<T>(items: &mut [T], oldest: bool, hull_of: impl Fn(&T) -> TickRange) {
    match oldest {
        true => items.sort_by_key(|item| hull_of(item).start),
        false => items.sort_by_key(|item| std::cmp::Reverse(hull_of(item).end)),
    }
}

/// The best event of each group so far, while pieces are read one after another.
#[derive(Debug)]
pub struct Best {
    of: NewestOf,
    groups: Mutex<Groups>,
}

/// By key bytes: the number of a group, and the tick of its best event.
type Groups = HashMap<Box<[u8]>, (u32, i64)>;

impl Best {
    /// Nothing was found yet.
    pub fn new(of: NewestOf) -> Self {
        Self { of, groups: Mutex::default() }
    }

    /// What is wanted.
    pub fn of(&self) -> &NewestOf {
        &self.of
    }

    /// For events, each of another group by its key bytes and with its tick: the number of the
    /// group where the event is better than those before, which it takes the place of.
    pub fn improved<'a>(&self, events: impl Iterator<Item = (&'a [u8], i64)>) -> Vec<Option<u32>> {
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        let mut improved = Vec::with_capacity(events.size_hint().0);
        for (key, tick) in events {
            improved.push(match groups.get_mut(key) {
                Some((_, known)) if !self.of.better(tick, *known) => None,
                Some((number, known)) => {
                    *known = tick;
                    Some(*number)
                }
                None => {
                    let number = groups.len() as u32;
                    groups.insert(key.into(), (number, tick));
                    Some(number)
                }
            });
        }
        improved
    }
}
