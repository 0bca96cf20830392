//! What moves next: pure decisions, on what is known of pieces and pressure (F31, F32, F35).

use std::collections::{BTreeMap, BTreeSet};

use stratalog_model::{ChronicleDefinition, ChronicleId, SchemaVersion, TierName};

use crate::{manifest::PieceRecord, settings::EngineSettings};

/// Pieces that one merge brings together, at most.
const FAN_IN_MAX: usize = 16;

/// Events of a story take about so many times its bytes when they are unpacked.
const UNPACKED_SHARE: u64 = 8;

/// Overlapping pieces that are merged hold at most so many times what a piece has, unpacked.
const OVERLAP_SHARE: u64 = 4;

/// One in so many events of a story that come late makes it worth writing again.
const LATE_SHARE: u64 = 8;

/// Fewer events in the journal do not leave it by their age, unless the table has an age of its own:
/// a file of a few rows frees next to nothing.
const AGED_ROWS_MIN: u64 = 1_024;

/// Nor do fewer bytes.
const AGED_BYTES_MIN: u64 = 64 << 10;

/// Where a table has an age of its own, few events wait this many times as long.
const FEW_AGES: u32 = 24;

/// The journal's part of the events that close an epoch by their number is one in so many at least.
const JOURNAL_SHARE: u64 = 4;

/// While no append waits for memory, a chronicle with fewer bytes does not leave it: this share of
/// the memory in use from which events move, up to [`AGED_BYTES_MIN`].
const FLUSH_SHARE: u64 = 1024;

/// Acquirers from which on more do not keep a chronicle higher: it must not have all others move in
/// the smallest of steps.
const ACQUIRERS_MAX: u32 = 7;

/// How large pieces of a tier become.
#[derive(Debug, Clone, Copy)]
pub struct Largest {
    /// Events.
    pub rows: u64,
    /// Bytes of them when they are unpacked.
    pub unpacked_bytes: u64,
}

impl Pressure {
    /// Whether memory is short.
    pub fn is_memory_short(&self) -> bool {
        let wanted = self.memory_bytes.saturating_add(self.memory_bytes_wanted);
        self.memory_bytes >= self.memory_bytes_high
            || (self.memory_bytes_wanted > 0 && wanted > self.memory_bytes_max)
    }

    /// Whether the journal is long.
    pub fn is_journal_long(&self) -> bool {
        self.journal_bytes >= self.journal_bytes_high
    }

    /// Whether anything is short.
    pub fn is_high(&self) -> bool {
        self.is_memory_short() || self.is_journal_long()
    }
}

impl Largest {
    /// Of tablets.
    pub fn tablet(settings: &EngineSettings) -> Self {
        Self { rows: settings.tablet_rows_max as u64, unpacked_bytes: settings.move_bytes }
    }

    /// Of stories.
    pub fn story(settings: &EngineSettings) -> Self {
        let unpacked_bytes = settings.story_bytes_max.saturating_mul(UNPACKED_SHARE);
        Self { rows: settings.story_rows_max, unpacked_bytes }
    }
}

/// What the journal tier holds of one chronicle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Whose.
    pub chronicle: ChronicleId,
    /// Bytes of its events in memory.
    pub bytes: u64,
    /// The oldest of them.
    pub oldest_gsn: u64,
    /// How many have acquired it.
    pub acquirers: u32,
    /// The oldest of them stay for now: see [`stay_ns`].
    pub is_pinned: bool,
}

impl Load {
    /// Bytes as they count when memory is short: those of a chronicle that many have acquired are
    /// likely to be asked for, and weigh less (F13).
    fn weight(&self) -> u64 {
        self.bytes / patience(self.acquirers)
    }
}

/// How many times as long, and as many, events of a chronicle stay in their tier that `acquirers`
/// have acquired (F13).
pub fn patience(acquirers: u32) -> u64 {
    u64::from(acquirers.min(ACQUIRERS_MAX)).saturating_add(1)
}

/// For how long committed events of a chronicle stay in the journal at least, in nanoseconds: its
/// `pin_for` (F12), and the acceptance window of a chronicle whose ticks go by the clock (F24).
pub fn stay_ns(definition: &ChronicleDefinition) -> i64 {
    let window_ns = match definition.time_source.is_clocked() {
        true => i64::try_from(definition.window_ns()).unwrap_or(i64::MAX),
        false => 0,
    };
    window_ns.max(definition.tiering.pin_for_ms.map_or(0, ns_of_ms))
}

/// Milliseconds of an option in nanoseconds, as many as there can be.
pub fn ns_of_ms(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX).saturating_mul(1_000_000)
}

/// What all of them take, and may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pressure {
    /// Bytes of memory in use.
    pub memory_bytes: u64,
    /// From here on events leave.
    pub memory_bytes_high: u64,
    /// Bytes that appends wait for.
    pub memory_bytes_wanted: u64,
    /// Bytes that there are.
    pub memory_bytes_max: u64,
    /// Bytes of the journal's segments.
    pub journal_bytes: u64,
    /// From here on events leave.
    pub journal_bytes_high: u64,
}

/// Whose events leave the journal next: where memory is short, those of the chronicle with the
/// most, by their weight; where the journal is long, those of the one that holds on to its beginning. `None`
/// when nothing is short, or a move would not help.
///
/// Pinned events leave for memory only while appends wait for it, and no other events can; for the
/// journal only when it is twice as long. Chronicles with next to nothing in memory leave it only
/// while appends wait.
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
    let journal = || {
        let first = loads.iter().min_by_key(|load| (load.oldest_gsn, load.chronicle)).copied();
        let very_long = pressure.journal_bytes >= pressure.journal_bytes_high.saturating_mul(2);
        first.filter(|load| !load.is_pinned || very_long)
    };
    let short = pressure.is_memory_short().then(memory).flatten();
    let chosen = short.or_else(|| pressure.is_journal_long().then(journal).flatten());
    chosen.map(|load| load.chronicle)
}

/// What a chronicle has above the stories, and may leave the journal by now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Upper {
    /// Events in the journal.
    pub rows: u64,
    /// Bytes of them in memory.
    pub bytes: u64,
    /// Nanoseconds since the oldest of them was committed.
    pub age_ns: i64,
    /// Events in tablets.
    pub tablet_rows: u64,
    /// Bytes of the tablets.
    pub tablet_bytes: u64,
    /// The chronicle has an age of its own: `story_age_max`.
    pub has_age: bool,
    /// How many have acquired it.
    pub acquirers: u32,
}

/// Whether the events of a chronicle leave the journal though nothing is short, because they
/// close the epoch of its next story (F35): their number or bytes, together with those in tablets,
/// or their age. `settings` are those of the chronicle.
pub fn descend(upper: &Upper, settings: &EngineSettings) -> bool {
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

/// Which pieces of one tier are worth being one, by number: at least `fan_in` that overlap at
/// some tick, or that are neighbours and together no larger than `largest`. Those where the
/// most overlap come first: every read of those ticks goes through all of them; of too many,
/// the smallest.
pub fn merge(pieces: &[PieceRecord], largest: Largest, fan_in: usize) -> Option<Vec<u64>> {
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
    Some(best?.iter().map(|piece| piece.id).collect())
}

/// Parts of the time for which events are pinned, within which tablets are merged.
const PIN_PARTS: i64 = 4;

/// As [`merge`], of the tablets. Where events are pinned for a time after their commit, those of
/// different quarters of it stay apart: a tablet is as old as the oldest of its events, and younger
/// ones must not lose their time to them.
pub fn merge_tablets(
    pieces: &[PieceRecord],
    largest: Largest,
    fan_in: usize,
    pin_for_ns: Option<i64>,
) -> Option<Vec<u64>> {
    let mut parts: BTreeMap<i64, Vec<PieceRecord>> = BTreeMap::new();
    for tablet in pieces.iter().filter(|piece| piece.tier() == TierName::Tablet) {
        let part = pin_for_ns.map_or(0, |ns| tablet.since_ns.div_euclid((ns / PIN_PARTS).max(1)));
        parts.entry(part).or_default().push(*tablet);
    }
    parts.values().find_map(|tablets| merge(tablets, largest, fan_in))
}

/// Whether events that were committed at `since_ns` are pinned (F12).
pub fn is_pinned(since_ns: i64, pin_for_ns: i64, now_ns: i64) -> bool {
    age_ns(since_ns, now_ns) < pin_for_ns
}

/// Nanoseconds since `since_ns`. A time after `now_ns` is from before a correction of the clock:
/// nobody knows the age then, and it counts as the longest.
pub fn age_ns(since_ns: i64, now_ns: i64) -> i64 {
    if since_ns > now_ns { i64::MAX } else { now_ns.saturating_sub(since_ns) }
}

/// The pieces that overlap at some tick, where so many do that they must not be in memory all
/// at once.
pub fn deep(pieces: &[PieceRecord], settings: &EngineSettings) -> Option<Vec<u64>> {
    let mut by_shape: BTreeMap<SchemaVersion, Vec<&PieceRecord>> = BTreeMap::new();
    for piece in pieces.iter().filter(|piece| piece.tier() == TierName::Tablet) {
        by_shape.entry(piece.schema_version).or_default().push(piece);
    }
    by_shape.into_values().find_map(|mut alike| {
        alike.sort_by_key(|piece| (piece.ticks.start, piece.id));
        let most = deepest(&alike, FAN_IN_MAX)?;
        let bytes: u64 = most.iter().map(|piece| piece.unpacked_bytes).sum();
        let largest = Largest::tablet(settings);
        let much = bytes > largest.unpacked_bytes.saturating_mul(OVERLAP_SHARE);
        much.then(|| few(most, largest).iter().map(|piece| piece.id).collect())
    })
}

/// Which pieces become stories now, by number; `None` while the epoch is open: the tablets
/// have few events, few bytes, and are young (F35). The oldest ticks come first, as many as
/// one story has; with them the stories that they overlap, where that is worth it. Tablets whose
/// events are pinned stay; those of a chronicle that `acquirers` have acquired stay longer.
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

/// The pieces that a compaction has to do with, by number: tablets, and stories that overlap
/// another piece or are neighbours and small.
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
    unsettled
}

trait Longer {
    fn max_by_len(self, other: Self) -> Self;
}

impl<T> Longer for Option<Vec<T>> {
    fn max_by_len(self, other: Self) -> Self {
        let len = |list: &Self| list.as_ref().map_or(0, Vec::len);
        if len(&other) > len(&self) { other } else { self }
    }
}

/// The pieces that overlap where the most do.
fn deepest<'a>(pieces: &[&'a PieceRecord], fan_in: usize) -> Option<Vec<&'a PieceRecord>> {
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

/// The smallest of pieces that overlap, two or more: all of them are in memory when they are
/// merged.
fn few(mut pieces: Vec<&PieceRecord>, largest: Largest) -> Vec<&PieceRecord> {
    pieces.sort_by_key(|piece| (piece.unpacked_bytes, piece.id));
    let bytes_max = largest.unpacked_bytes.saturating_mul(OVERLAP_SHARE);
    let mut bytes = 0;
    let fits = pieces.iter().take(FAN_IN_MAX).take_while(|piece| {
        bytes += piece.unpacked_bytes;
        bytes <= bytes_max
    });
    let fits = fits.count().max(2);
    pieces.truncate(fits);
    pieces
}

/// The longest run of neighbours that together fill a tablet or less.
fn small<'a>(
    pieces: &[&'a PieceRecord],
    largest: Largest,
    fan_in: usize,
) -> Option<Vec<&'a PieceRecord>> {
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
    Some(run.to_vec())
}

#[cfg(test)]
mod tests;
