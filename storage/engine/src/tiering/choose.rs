//! Chooses the next move. The decisions depend only on the records of the pieces and on the use of
//! memory and journal (F31, F32, F35).

use std::collections::{BTreeMap, BTreeSet};

use stratalog_model::{ChronicleDefinition, ChronicleId, SchemaVersion, TickRange, TierName};

use crate::{settings::EngineSettings, version::manifest::PieceRecord};

/// Maximum number of pieces in one merge.
const FAN_IN_MAX: usize = 16;

/// Approximate ratio of uncompressed to compressed bytes of a story's events.
const UNPACKED_SHARE: u64 = 8;

/// Limit of the uncompressed bytes of a merge of overlapping pieces, as a multiple of the largest
/// size of a piece.
const OVERLAP_SHARE: u64 = 4;

/// A story is rewritten if the late events in its range of ticks are at least `1 / LATE_SHARE` of
/// its events.
const LATE_SHARE: u64 = 8;

/// Minimum number of events in the journal for a move by age, unless the chronicle sets its own
/// age: moving a few rows frees next to nothing.
const AGED_ROWS_MIN: u64 = 1_024;

/// Minimum bytes in the journal for a move by age. One of the two minimums is enough.
const AGED_BYTES_MIN: u64 = 64 << 10;

/// Few events move only after this multiple of the age that the chronicle sets.
const FEW_AGES: u32 = 24;

/// An epoch (the events of the next story) closes by number or bytes only if the journal has at
/// least `1 / JOURNAL_SHARE` of the limit.
const JOURNAL_SHARE: u64 = 4;

/// Chronicles with fewer than `memory_bytes_high / FLUSH_SHARE` bytes in memory (or fewer than
/// [`AGED_BYTES_MIN`], if smaller) stay in memory until an append waits for memory.
const FLUSH_SHARE: u64 = 1024;

/// Maximum number of acquirers (sessions with an acquisition of the chronicle) that count: one
/// chronicle must not force all other chronicles into tiny moves.
const ACQUIRERS_MAX: u32 = 7;

/// Size limit for the pieces of a tier that a merge may produce.
#[derive(Debug, Clone, Copy)]
pub struct LargestPiece {
    /// Number of events.
    pub rows: u64,
    /// Uncompressed bytes of the events.
    pub unpacked_bytes: u64,
}

impl Pressure {
    /// True if too much memory is in use, or if the waiting appends want more than the rest of the
    /// budget.
    pub fn is_memory_short(&self) -> bool {
        let wanted = self.memory_bytes.saturating_add(self.memory_bytes_wanted);
        self.memory_bytes >= self.memory_bytes_high
            || (self.memory_bytes_wanted > 0 && wanted > self.memory_bytes_max)
    }

    /// True if the journal's segments have reached their limit.
    pub fn is_journal_long(&self) -> bool {
        self.journal_bytes >= self.journal_bytes_high
    }

    /// True if memory is short or the journal is long.
    pub fn is_high(&self) -> bool {
        self.is_memory_short() || self.is_journal_long()
    }
}

impl LargestPiece {
    /// The size limit of tablets.
    pub fn tablet(settings: &EngineSettings) -> Self {
        Self { rows: settings.tablet_rows_max as u64, unpacked_bytes: settings.move_bytes }
    }

    /// The size limit of stories.
    pub fn story(settings: &EngineSettings) -> Self {
        let unpacked_bytes = settings.story_bytes_max.saturating_mul(UNPACKED_SHARE);
        Self { rows: settings.story_rows_max, unpacked_bytes }
    }
}

/// The size and the age of one chronicle's events in the journal tier: input of the choice of a
/// move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// The chronicle.
    pub chronicle: ChronicleId,
    /// Bytes of the events in memory.
    pub bytes: u64,
    /// The gsn of the oldest event in memory.
    pub oldest_gsn: u64,
    /// Number of sessions with an acquisition of the chronicle.
    pub acquirers: u32,
    /// True if the oldest events must still stay in the journal tier: see [`stay_ns`].
    pub is_pinned: bool,
}

impl Load {
    /// The bytes, weighted for the choice during a memory shortage. A chronicle with many acquirers
    /// is likely to be read, and has a lower weight (F13).
    fn weight(&self) -> u64 {
        self.bytes / patience(self.acquirers)
    }
}

/// Factor by which events of a chronicle stay longer, and in larger number, in their tier: 1 plus
/// the number of acquirers, up to a limit (F13).
pub fn patience(acquirers: u32) -> u64 {
    u64::from(acquirers.min(ACQUIRERS_MAX)).saturating_add(1)
}

/// Minimum time that committed events stay in the journal tier, in nanoseconds: the longer of the
/// chronicle's `pin_for` (F12) and, for clocked ticks, the acceptance window (F24).
pub fn stay_ns(definition: &ChronicleDefinition) -> i64 {
    let window_ns = match definition.time_source.is_clocked() {
        true => i64::try_from(definition.window_ns()).unwrap_or(i64::MAX),
        false => 0,
    };
    let stay_ns = window_ns.max(definition.tiering.pin_for_ms.map_or(0, ns_of_ms));
    debug_assert!(stay_ns >= 0, "events leave before their commit");
    stay_ns
}

/// Converts milliseconds to nanoseconds; at most the largest i64.
pub fn ns_of_ms(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX).saturating_mul(1_000_000)
}

/// The memory and the journal that all chronicles use, and the limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pressure {
    /// Bytes of memory in use.
    pub memory_bytes: u64,
    /// If at least this number of bytes is in use, events move out of memory.
    pub memory_bytes_high: u64,
    /// Bytes that waiting appends want.
    pub memory_bytes_wanted: u64,
    /// The memory budget, in bytes.
    pub memory_bytes_max: u64,
    /// Bytes of the journal's segments.
    pub journal_bytes: u64,
    /// If the segments have at least this number of bytes, events move out of the journal.
    pub journal_bytes_high: u64,
}

/// The chronicle whose events move into tablets next. If memory is short: the chronicle with the
/// highest weight. If the journal is long: the chronicle with the oldest events of the journal.
/// `None` if nothing is short, or if no move would help.
///
/// Pinned events leave memory only if appends wait for memory and no other events can leave. For
/// the journal, they leave only if the journal has twice its limit. Chronicles with next to nothing
/// in memory leave memory only if appends wait.
pub fn flush(loads: &[Load], pressure: &Pressure) -> Option<ChronicleId> {
    let largest = |loads: &mut dyn Iterator<Item = &Load>| {
        loads.max_by_key(|load| (load.weight(), load.bytes, load.chronicle)).copied()
    };
    let memory = || {
        let worth = (pressure.memory_bytes_high / FLUSH_SHARE).min(AGED_BYTES_MIN);
        let free = |load: &&Load| !load.is_pinned;
        let large = |load: &&Load| load.bytes >= worth;
        let waits = pressure.memory_bytes_wanted > 0;
        largest(&mut loads.iter().filter(free).filter(large))
            .or_else(|| largest(&mut loads.iter().filter(|_| waits).filter(free)))
            .or_else(|| largest(&mut loads.iter().filter(|_| waits)))
    };
    let very_long = pressure.journal_bytes >= pressure.journal_bytes_high.saturating_mul(2);
    let journal = || {
        let first = loads.iter().min_by_key(|load| (load.oldest_gsn, load.chronicle)).copied();
        first.filter(|load| !load.is_pinned || very_long)
    };
    let short = pressure.is_memory_short().then(memory).flatten();
    let chosen = short.or_else(|| pressure.is_journal_long().then(journal).flatten());
    debug_assert!(chosen.is_none() || pressure.is_high(), "a flush without a shortage");
    debug_assert!(
        chosen.is_none_or(|load| {
            !load.is_pinned || very_long || pressure.memory_bytes_wanted > 0
        }),
        "pinned events leave early"
    );
    chosen.map(|load| load.chronicle)
}

/// The events of a chronicle that are not in stories yet. The fields about the journal count only
/// events that may leave the journal now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UpperTiers {
    /// Events in the journal.
    pub rows: u64,
    /// Bytes of the events in memory.
    pub bytes: u64,
    /// Nanoseconds since the commit of the oldest event in the journal.
    pub age_ns: i64,
    /// Number of events in tablets.
    pub tablet_rows: u64,
    /// Bytes of the tablets.
    pub tablet_bytes: u64,
    /// True if the chronicle sets its own age (`story_age_max`).
    pub has_age: bool,
    /// Number of sessions with an acquisition of the chronicle.
    pub acquirers: u32,
}

/// True if the events of a chronicle should leave the journal although nothing is short. This is
/// the case if they complete the epoch of the next story (F35): by number or bytes, together with
/// the events in tablets, or by age. `settings` are the settings for the chronicle.
pub fn descend(upper: &UpperTiers, settings: &EngineSettings) -> bool {
    if upper.rows == 0 {
        return false;
    }
    let patience = patience(upper.acquirers);
    let packed_bytes = upper.bytes / UNPACKED_SHARE;
    let full = |journal: u64, tablets: u64, most: u64| {
        let most = most.saturating_mul(patience);
        journal.saturating_add(tablets) >= most && journal.saturating_mul(JOURNAL_SHARE) >= most
    };
    if full(upper.rows, upper.tablet_rows, settings.story_rows_max)
        || full(packed_bytes, upper.tablet_bytes, settings.story_bytes_max)
    {
        return true;
    }
    let age_ns = ns_of_ms(settings.story_age_max_ms.saturating_mul(patience));
    let many =
        upper.rows >= AGED_ROWS_MIN.min(settings.story_rows_max) || upper.bytes >= AGED_BYTES_MIN;
    match (many, upper.has_age) {
        (true, _) => upper.age_ns >= age_ns,
        (false, true) => upper.age_ns >= age_ns.saturating_mul(i64::from(FEW_AGES)),
        (false, false) => false,
    }
}

/// The numbers of the pieces of one tier that are worth a merge: at least `fan_in` pieces that
/// overlap at some tick, or at least `fan_in` adjacent pieces that together do not exceed
/// `largest`. The deepest overlap is merged first, because a read of its ticks must read all
/// overlapping pieces. If too many pieces overlap, the merge takes the smallest.
pub fn merge(pieces: &[PieceRecord], largest: LargestPiece, fan_in: usize) -> Option<Vec<u64>> {
    let mut by_shape: BTreeMap<SchemaVersion, Vec<&PieceRecord>> = BTreeMap::new();
    for piece in pieces {
        by_shape.entry(piece.schema_version).or_default().push(piece);
    }
    let fan_in = fan_in.max(2);
    let mut best: Option<Vec<&PieceRecord>> = None;
    for alike in by_shape.values_mut() {
        alike.sort_by_key(|piece| (piece.ticks.start, piece.id));
        let overlapping = deepest(alike, fan_in).map(|most| few(most, largest));
        let found = overlapping.or_else(|| small(alike, largest, fan_in));
        best = best.max_by_len(found);
    }
    let best = best?;
    debug_assert!((2..=FAN_IN_MAX).contains(&best.len()), "a merge of too few or many pieces");
    debug_assert!(
        best.windows(2).all(|pair| {
            matches!(pair, [a, b] if a.schema_version == b.schema_version && a.id != b.id)
        }),
        "a merge of several shapes, or of a piece with itself"
    );
    Some(best.iter().map(|piece| piece.id).collect())
}

/// True for a tablet that a merge can improve. A full tablet of a single tick stays: a merge would
/// only divide the tick again.
fn gains_by_merge(piece: &PieceRecord, largest: LargestPiece) -> bool {
    let is_full = piece.rows.saturating_mul(2) > largest.rows
        || piece.unpacked_bytes.saturating_mul(2) > largest.unpacked_bytes;
    let is_of_a_tick = piece.ticks == TickRange::at(piece.ticks.start);
    piece.tier() == TierName::Tablet && !(is_full && is_of_a_tick)
}

/// The pin time is divided into this number of parts; a merge takes only tablets of the same part.
const PIN_PARTS: i64 = 4;

/// Like [`merge`], for tablets. With a pin time, only tablets from the same quarter of this time
/// are merged: the age of a tablet is the age of its oldest event, and a merge with older events
/// must not shorten the time for which younger events are pinned.
pub fn merge_tablets(
    pieces: &[PieceRecord],
    largest: LargestPiece,
    fan_in: usize,
    pin_for_ns: Option<i64>,
) -> Option<Vec<u64>> {
    let mut parts: BTreeMap<i64, Vec<PieceRecord>> = BTreeMap::new();
    for tablet in pieces.iter().filter(|piece| gains_by_merge(piece, largest)) {
        let part = pin_for_ns.map_or(0, |ns| tablet.since_ns.div_euclid((ns / PIN_PARTS).max(1)));
        parts.entry(part).or_default().push(*tablet);
    }
    parts.values().find_map(|tablets| merge(tablets, largest, fan_in))
}

/// True if events with the commit time `since_ns` are still pinned (F12).
pub fn is_pinned(since_ns: i64, pin_for_ns: i64, now_ns: i64) -> bool {
    age_ns(since_ns, now_ns) < pin_for_ns
}

/// Nanoseconds from `since_ns` to `now_ns`. If `since_ns` is later than `now_ns`, the clock was
/// corrected in between: the age is unknown, and counts as the longest age.
pub fn age_ns(since_ns: i64, now_ns: i64) -> i64 {
    if since_ns > now_ns { i64::MAX } else { now_ns.saturating_sub(since_ns) }
}

/// The tablets of a deep overlap that together are too large for memory, limited to as many as one
/// merge can take; `None` without such an overlap.
pub fn deep(pieces: &[PieceRecord], settings: &EngineSettings) -> Option<Vec<u64>> {
    let mut by_shape: BTreeMap<SchemaVersion, Vec<&PieceRecord>> = BTreeMap::new();
    let largest = LargestPiece::tablet(settings);
    for piece in pieces.iter().filter(|piece| gains_by_merge(piece, largest)) {
        by_shape.entry(piece.schema_version).or_default().push(piece);
    }
    by_shape.into_values().find_map(|mut alike| {
        alike.sort_by_key(|piece| (piece.ticks.start, piece.id));
        let most = deepest(&alike, FAN_IN_MAX)?;
        let bytes: u64 = most.iter().map(|piece| piece.unpacked_bytes).sum();
        let much = bytes > largest.unpacked_bytes.saturating_mul(OVERLAP_SHARE);
        much.then(|| few(most, largest).iter().map(|piece| piece.id).collect())
    })
}

/// The numbers of the pieces that are due to move into a story. `None` while the epoch is open: the
/// tablets then have few events and few bytes, and are young (F35). Takes the oldest ticks first,
/// up to the size of one story. A story that overlaps the tablets is included if its rewrite is
/// worthwhile. Tablets with pinned events stay. Tablets of a chronicle with `acquirers` stay
/// longer.
pub fn archive(
    pieces: &[PieceRecord],
    settings: &EngineSettings,
    pin_for_ns: Option<i64>,
    acquirers: u32,
    now_ns: i64,
) -> Option<Vec<u64>> {
    let pinned =
        |piece: &PieceRecord| pin_for_ns.is_some_and(|ns| is_pinned(piece.since_ns, ns, now_ns));
    let mut tablets: Vec<&PieceRecord> =
        pieces.iter().filter(|piece| piece.tier() == TierName::Tablet && !pinned(piece)).collect();
    let sum = |of: fn(&PieceRecord) -> u64| tablets.iter().map(|piece| of(piece)).sum::<u64>();
    let oldest = tablets.iter().map(|piece| piece.since_ns).min()?;
    let newest = tablets.iter().map(|piece| piece.since_ns).max()?;
    let age_ns = age_ns(oldest, now_ns).max(age_ns(newest, now_ns));
    let age_ms = u64::try_from(age_ns / 1_000_000).unwrap_or(0);
    let most = |limit: u64| limit.saturating_mul(patience(acquirers));
    let closed = sum(|piece| piece.rows) >= most(settings.story_rows_max)
        || sum(|piece| piece.bytes) >= most(settings.story_bytes_max)
        || age_ms >= most(settings.story_age_max_ms);
    if !closed {
        return None;
    }
    tablets.sort_by_key(|piece| (piece.ticks.start, piece.id));
    let (mut rows, mut bytes) = (0, 0);
    let some: Vec<&PieceRecord> = tablets
        .into_iter()
        .take_while(|piece| {
            let room = rows < settings.story_rows_max && bytes < settings.story_bytes_max;
            rows += piece.rows;
            bytes += piece.bytes;
            room
        })
        .collect();
    let stories = pieces.iter().filter(|piece| piece.tier() == TierName::Story);
    let late = stories.filter(|story| {
        let over = some.iter().filter(|tablet| tablet.ticks.overlaps(&story.ticks));
        let rows: u64 = over.map(|tablet| tablet.rows).sum();
        rows > 0 && rows.saturating_mul(LATE_SHARE) >= story.rows
    });
    Some(some.iter().copied().chain(late).map(|piece| piece.id).collect())
}

/// The numbers of the pieces that a compaction must rewrite: all tablets, all pieces that overlap
/// another piece, and small adjacent pieces.
pub fn unsettled(pieces: &[PieceRecord], settings: &EngineSettings) -> BTreeSet<u64> {
    let mut by_shape: BTreeMap<SchemaVersion, Vec<&PieceRecord>> = BTreeMap::new();
    for piece in pieces {
        by_shape.entry(piece.schema_version).or_default().push(piece);
    }
    let small = |piece: &PieceRecord| {
        piece.rows * 2 < settings.story_rows_max && piece.bytes * 2 < settings.story_bytes_max
    };
    let mut unsettled = BTreeSet::new();
    for alike in by_shape.values_mut() {
        alike.sort_by_key(|piece| (piece.ticks.start, piece.id));
        let mut widest: Option<&PieceRecord> = None;
        for pair in alike.windows(2) {
            let [earlier, later] = pair else { continue };
            let over = widest.filter(|wide| wide.ticks.end > earlier.ticks.end).unwrap_or(earlier);
            widest = Some(over);
            if over.ticks.end > later.ticks.start {
                unsettled.extend([over.id, later.id]);
            }
            if small(earlier) && small(later) {
                unsettled.extend([earlier.id, later.id]);
            }
        }
    }
    let tablets = pieces.iter().filter(|piece| piece.tier() == TierName::Tablet);
    unsettled.extend(tablets.map(|piece| piece.id));
    debug_assert!(unsettled.len() <= pieces.len(), "a piece is unsettled that does not exist");
    unsettled
}

trait LongerList {
    fn max_by_len(self, other: Self) -> Self;
}

impl<T> LongerList for Option<Vec<T>> {
    fn max_by_len(self, other: Self) -> Self {
        let len = |list: &Self| list.as_ref().map_or(0, Vec::len);
        if len(&other) > len(&self) { other } else { self }
    }
}

/// The pieces at the tick with the most overlapping pieces; `None` if they are fewer than `fan_in`.
fn deepest<'a>(pieces: &[&'a PieceRecord], fan_in: usize) -> Option<Vec<&'a PieceRecord>> {
    debug_assert!(
        pieces.is_sorted_by_key(|piece| piece.ticks.start),
        "the pieces are not in the order of their ticks"
    );
    let mut open: Vec<&PieceRecord> = Vec::new();
    let mut most: Vec<&PieceRecord> = Vec::new();
    for piece in pieces {
        open.retain(|earlier| earlier.ticks.end > piece.ticks.start);
        open.push(piece);
        if open.len() > most.len() {
            most.clone_from(&open);
        }
    }
    if most.len() < fan_in {
        return None;
    }
    Some(most)
}

/// The smallest of the overlapping pieces, within the limits of a merge, but at least two: a merge
/// has all its pieces in memory.
fn few(mut pieces: Vec<&PieceRecord>, largest: LargestPiece) -> Vec<&PieceRecord> {
    debug_assert!(pieces.len() >= 2, "one piece alone is merged");
    pieces.sort_by_key(|piece| (piece.unpacked_bytes, piece.id));
    let bytes_max = largest.unpacked_bytes.saturating_mul(OVERLAP_SHARE);
    let mut bytes = 0;
    let fits = pieces.iter().take(FAN_IN_MAX).take_while(|piece| {
        bytes += piece.unpacked_bytes;
        bytes <= bytes_max
    });
    let fits = fits.count().max(2);
    pieces.truncate(fits);
    debug_assert!(pieces.len() <= FAN_IN_MAX.max(2));
    pieces
}

/// The longest run of adjacent pieces that together do not exceed `largest`; `None` if they are
/// fewer than `fan_in`.
fn small<'a>(
    pieces: &[&'a PieceRecord],
    largest: LargestPiece,
    fan_in: usize,
) -> Option<Vec<&'a PieceRecord>> {
    debug_assert!(
        pieces.is_sorted_by_key(|piece| piece.ticks.start),
        "the pieces are not in the order of their ticks"
    );
    let (mut from, mut rows, mut bytes) = (0, 0, 0);
    let mut longest = 0..0;
    for (at, piece) in pieces.iter().enumerate() {
        rows += piece.rows;
        bytes += piece.unpacked_bytes;
        while rows > largest.rows || bytes > largest.unpacked_bytes || at + 1 - from > FAN_IN_MAX {
            let Some(first) = pieces.get(from) else { break };
            rows -= first.rows;
            bytes -= first.unpacked_bytes;
            from += 1;
        }
        if at + 1 - from > longest.len() {
            longest = from..at + 1;
        }
    }
    let run = pieces.get(longest).filter(|run| run.len() >= fan_in)?;
    debug_assert!(run.len() <= FAN_IN_MAX);
    debug_assert!(
        run.iter().map(|piece| piece.rows).sum::<u64>() <= largest.rows,
        "the neighbours together are too large"
    );
    Some(run.to_vec())
}

#[cfg(test)]
mod tests;
