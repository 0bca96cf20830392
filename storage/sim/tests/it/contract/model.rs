//! The promises as lists: no index, no tier, no thread.

use std::collections::{BTreeMap, BTreeSet};

use stratalog_model::{Acceptance, ClockReading, Collision, ErrorKind, TickSource};

use super::{
    clocks::SECOND,
    tables::{Asked, Read, Rules, number_of},
};

/// A used window may be used again for this time, in any case.
const REMEMBERED_NS: i64 = 30 * SECOND as i64;

/// A used window is forgotten after this time.
const FORGOTTEN_NS: i64 = 2 * REMEMBERED_NS;

/// The maximum round trip that counts in any table.
const ROUND_TRIP_NS_MAX: u64 = 60 * SECOND;

/// The maximum round trip that counts, in multiples of the table's floor.
const ROUND_TRIP_FLOORS_MAX: u64 = 10;

/// An event with its place: tick and arrival number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    pub host: usize,
    pub tick: i64,
    pub seq: u64,
    pub event: i64,
}

/// The required result of a statement at its arrival.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Refused(ErrorKind),
    /// Another statement with an unknown fate holds one of the keys.
    Waits,
    /// The stored rows, and their ticks.
    Admitted(Vec<(usize, i64)>),
}

/// A committed event.
#[derive(Debug)]
struct Stored {
    read: Read,
    replaced: bool,
}

/// The places of an open statement.
#[derive(Debug)]
struct Held {
    placed: Vec<Placed>,
    /// The lowest tick of the skipped rows.
    skipped: i64,
}

/// One chronicle.
#[derive(Debug)]
pub struct Chronicle {
    pub rules: Rules,
    stored: Vec<Stored>,
    open: BTreeMap<u64, Held>,
    /// The first tick that new events may still have.
    horizon: i64,
    /// The tick of the last restart: earlier ticks are refused.
    opened: i64,
    /// The last sealed tick, and the events up to this tick.
    told: i64,
    sealed: Vec<Read>,
    /// Used windows: the time of use, and the first time of the window.
    windows: Vec<(i64, i64)>,
}

/// All chronicles, and the order of commits.
#[derive(Debug)]
pub struct Model {
    pub chronicles: Vec<Chronicle>,
    /// The last position.
    pub head: u64,
    /// The last committed statement of each client.
    producers: BTreeMap<usize, u64>,
    /// Statements committed without an event, because all rows were skipped.
    empty: BTreeSet<(usize, u64)>,
}

impl Chronicle {
    fn new(rules: Rules) -> Self {
        Self {
            rules,
            stored: Vec::new(),
            open: BTreeMap::new(),
            horizon: i64::MIN,
            opened: i64::MIN,
            told: i64::MIN,
            sealed: Vec::new(),
            windows: Vec::new(),
        }
    }

    pub fn is_clocked(&self) -> bool {
        self.rules.source != TickSource::Column
    }

    /// Whether no event was ever stored: then nothing is sealed.
    pub fn is_new(&self) -> bool {
        self.stored.is_empty()
    }

    fn is_stored(&self, host: usize, tick: i64) -> bool {
        let mut there = self.stored.iter().filter(|stored| !stored.replaced);
        there.any(|stored| stored.read.host == host && stored.read.tick == tick)
    }

    fn is_held(&self, host: usize, tick: i64, but: u64) -> bool {
        let others = self.open.iter().filter(|(statement, _)| **statement != but);
        let mut held = others.flat_map(|(_, held)| &held.placed);
        held.any(|placed| placed.host == host && placed.tick == tick)
    }

    /// The requested ticks.
    fn asked(&self, rows: &[Asked], now: Option<&ClockReading>) -> Vec<i64> {
        match (self.rules.source, now) {
            (TickSource::Server, Some(now)) => {
                vec![self.rules.tick_of_us(now.now_ns.div_euclid(1_000)); rows.len()]
            }
            _ => rows.iter().map(|row| self.rules.tick_of_us(row.time_us)).collect(),
        }
    }

    /// The uncertainty of the clock plus the floor.
    fn least_ns(&self, now: &ClockReading) -> i64 {
        (self.rules.floor_ms * 1_000_000 + now.uncertainty_ns) as i64
    }

    /// The reach of a session's window into the past.
    fn back_ns(&self, session: &Acceptance, now: &ClockReading) -> i64 {
        let floors_ns = ROUND_TRIP_FLOORS_MAX * self.rules.floor_ms * 1_000_000;
        let round_trip_ns = session.round_trip_ns.min(ROUND_TRIP_NS_MAX).min(floors_ns);
        self.least_ns(now).max(round_trip_ns as i64)
    }

    /// Records that a session has checked its window.
    pub fn note(&mut self, session: &Acceptance, now: &ClockReading) {
        if self.is_clocked() {
            self.windows.push((now.now_ns, self.back_ns(session, now)));
        }
    }

    /// Whether another statement holds the key of a row.
    pub fn waits(&self, statement: u64, rows: &[Asked], now: Option<&ClockReading>) -> bool {
        let mut asked = rows.iter().zip(self.asked(rows, now));
        matches!(self.rules.collision, Collision::First | Collision::Merge)
            && asked.any(|(row, tick)| self.is_held(row.host, tick, statement))
    }

    /// The required result of a statement that read the clock at `now`.
    pub fn judge(
        &self,
        statement: u64,
        rows: &[Asked],
        skip: bool,
        session: &Acceptance,
        now: Option<&ClockReading>,
    ) -> Verdict {
        let asked = self.asked(rows, now);
        let mut until = i64::MAX;
        if self.is_clocked() {
            let now = now.expect("nobody looked at the clock");
            let from_ns = (now.now_ns - self.back_ns(session, now)).max(session.since_ns);
            let from = self.rules.tick_of(from_ns).max(self.horizon).max(self.opened);
            until = self.rules.tick_of(now.now_ns + self.least_ns(now));
            if asked.iter().any(|tick| *tick < from || *tick > until) {
                return Verdict::Refused(ErrorKind::OutsideWindow);
            }
        }
        let taken = match self.rules.source {
            TickSource::Client => ErrorKind::TickTaken,
            _ => ErrorKind::UniqueViolation,
        };
        let mut own: BTreeSet<(usize, i64)> = BTreeSet::new();
        let mut kept = Vec::new();
        for (at, (row, mut tick)) in rows.iter().zip(asked).enumerate() {
            match self.rules.collision {
                Collision::All | Collision::Last => {}
                Collision::Next => {
                    while self.is_stored(row.host, tick)
                        || self.is_held(row.host, tick, statement)
                        || own.contains(&(row.host, tick))
                    {
                        tick += 1;
                    }
                    if tick > until {
                        return Verdict::Refused(ErrorKind::OutsideWindow);
                    }
                }
                Collision::First | Collision::Merge if self.is_held(row.host, tick, statement) => {
                    return Verdict::Waits;
                }
                Collision::Merge => {}
                Collision::First => {
                    let there = self.is_stored(row.host, tick) || own.contains(&(row.host, tick));
                    match (there, skip) {
                        (false, _) => {}
                        (true, true) => continue,
                        (true, false) => return Verdict::Refused(taken),
                    }
                }
            }
            own.insert((row.host, tick));
            kept.push((at, tick));
        }
        Verdict::Admitted(kept)
    }

    /// Records the places of a statement. The skipped rows of the statement requested ticks from
    /// `skipped` on.
    pub fn hold(&mut self, statement: u64, placed: Vec<Placed>, skipped: i64) {
        let open = self.open.values().flat_map(|held| &held.placed).map(|placed| placed.seq);
        let given: Vec<u64> =
            self.stored.iter().map(|stored| stored.read.seq).chain(open).collect();
        let again = placed.iter().find(|placed| given.contains(&placed.seq));
        assert_eq!(again, None, "an arrival number is given again");
        if !placed.is_empty() {
            self.open.insert(statement, Held { placed, skipped });
        }
    }

    /// Removes a failed statement.
    pub fn release(&mut self, statement: u64) {
        self.open.remove(&statement);
    }

    /// The lowest requested tick of a statement's rows that are not stored.
    pub fn skipped(
        &self,
        rows: &[Asked],
        now: Option<&ClockReading>,
        kept: &[(usize, i64)],
    ) -> i64 {
        let asked = self.asked(rows, now).into_iter().enumerate();
        let skipped = asked.filter(|(at, _)| kept.iter().all(|(kept, _)| kept != at));
        skipped.map(|(_, tick)| tick).min().unwrap_or(i64::MAX)
    }

    /// The number of a statement's rows that are not at their requested tick.
    pub fn moved(&self, rows: &[Asked], now: Option<&ClockReading>, kept: &[(usize, i64)]) -> u64 {
        let asked = self.asked(rows, now);
        kept.iter().filter(|(at, tick)| asked[*at] != *tick).count() as u64
    }

    fn store(&mut self, placed: Placed, client: usize, gsn: u64) {
        let Placed { host, tick, seq, event } = placed;
        let mut all = self.stored.iter();
        let twice = all.any(|stored| stored.read.client == client && stored.read.event == event);
        assert!(!twice, "event {event} of client {client} is stored twice");
        if self.rules.collision.replaces() {
            let same = |stored: &&mut Stored| stored.read.host == host && stored.read.tick == tick;
            self.stored.iter_mut().filter(same).for_each(|stored| stored.replaced = true);
        }
        let read = Read { tick, seq, gsn, host, client, event };
        self.stored.push(Stored { read, replaced: false });
    }

    /// The rows that a read must return, up to a tick.
    pub fn visible(&self, through: i64) -> Vec<Read> {
        let there = self.stored.iter().filter(|stored| !stored.replaced);
        let mut visible: Vec<Read> =
            there.map(|stored| stored.read.clone()).filter(|read| read.tick <= through).collect();
        visible.sort_unstable();
        visible
    }

    /// The events from a position on, in the order of commits, each with its replaced flag.
    pub fn committed_from(&self, gsn: u64) -> impl Iterator<Item = (&Read, bool)> {
        let from = self.stored.partition_point(|stored| stored.read.gsn < gsn);
        self.stored[from..].iter().map(|stored| (&stored.read, stored.replaced))
    }

    /// The number of replaced events.
    pub fn replaced(&self) -> u64 {
        self.stored.iter().filter(|stored| stored.replaced).count() as u64
    }

    /// Checks a seal: the server states, when its clock shows `now`, that no new event can have a
    /// tick up to `told`, and that `found` are the events up to this tick.
    pub fn seal(&mut self, now: &ClockReading, told: i64, found: Vec<Read>) {
        let (horizon, before) = (told + 1, self.horizon);
        assert!(horizon >= before, "the sealed tick went back to {told}, from {before}");
        let least_ns = self.least_ns(now);
        let reaches = |back_ns: i64| self.rules.tick_of(now.now_ns - back_ns);
        let held = self.open.values().flat_map(|held| &held.placed).map(|placed| placed.tick);
        let held = held.min().unwrap_or(i64::MAX);
        // After a restart, a chronicle with events is sealed up to the restart.
        if horizon > before && horizon != self.opened {
            assert!(horizon <= reaches(least_ns), "sealed too early: {told}");
            assert!(horizon <= held, "{told} is sealed, and {held} is to come");
            for (used_ns, back_ns) in &self.windows {
                let counts = now.now_ns - used_ns < REMEMBERED_NS;
                assert!(!counts || horizon <= reaches(*back_ns), "{told} is in a window");
            }
        }
        let recent = self.windows.iter().filter(|used| now.now_ns - used.0 < FORGOTTEN_NS);
        let widest_ns = recent.map(|used| used.1).fold(least_ns, i64::max);
        let skipped = self.open.values().map(|held| held.skipped).fold(held, i64::min);
        assert!(horizon >= reaches(widest_ns).min(skipped), "nothing is sealed after {told}");
        assert_eq!(found, self.visible(told), "up to {told}, which is sealed");
        assert!(found.starts_with(&self.sealed), "what was sealed has changed");
        let mut later = found[self.sealed.len()..].iter();
        assert!(later.all(|read| read.tick > self.told), "something came after it was sealed");
        (self.horizon, self.told, self.sealed) = (horizon, told, found);
    }

    /// The server restarts at this time.
    fn restart(&mut self, opened_ns: i64) {
        self.open.clear();
        self.windows.clear();
        if self.is_clocked() {
            let opened = self.rules.tick_of(opened_ns);
            assert!(opened >= self.horizon, "a start takes back what is sealed");
            self.opened = opened;
            if !self.is_new() {
                self.horizon = opened;
            }
        }
    }
}

impl Model {
    pub fn new(rules: impl IntoIterator<Item = Rules>) -> Self {
        Self {
            chronicles: rules.into_iter().map(Chronicle::new).collect(),
            head: 0,
            producers: BTreeMap::new(),
            empty: BTreeSet::new(),
        }
    }

    /// The server restarts: no statement is open, and the clock shows `opened_ns`.
    pub fn restart(&mut self, opened_ns: i64) {
        self.chronicles.iter_mut().for_each(|chronicle| chronicle.restart(opened_ns));
    }

    /// Whether a client's statement, or a later statement of the client, was committed.
    pub fn is_committed(&self, client: usize, number: u64) -> bool {
        self.producers.get(&client).is_some_and(|last| number <= *last)
    }

    /// Whether the events of a client's statement are stored, apart from skipped events.
    pub fn has(&self, client: usize, number: u64) -> bool {
        let mut stored = self.chronicles.iter().flat_map(|chronicle| &chronicle.stored);
        let of = |read: &Read| read.client == client && number_of(read.event) == number;
        self.empty.contains(&(client, number)) || stored.any(|stored| of(&stored.read))
    }

    /// Commits an open statement. Returns the number of its events.
    pub fn commit(&mut self, statement: u64, at: usize, client: usize, number: u64) -> u64 {
        let held = self.chronicles[at].open.remove(&statement);
        let placed = held.map(|held| held.placed).unwrap_or_default();
        self.commit_rows(placed, at, client, number)
    }

    /// Commits these events.
    pub fn commit_rows(
        &mut self,
        placed: Vec<Placed>,
        at: usize,
        client: usize,
        number: u64,
    ) -> u64 {
        let rows = placed.len() as u64;
        if rows == 0 {
            self.empty.insert((client, number));
        }
        for placed in placed {
            self.head += 1;
            self.chronicles[at].store(placed, client, self.head);
        }
        let last = self.producers.entry(client).or_default();
        *last = number.max(*last);
        rows
    }

    /// The places of an open statement.
    pub fn held(&self, statement: u64, at: usize) -> Vec<Placed> {
        let held = self.chronicles[at].open.get(&statement);
        held.map(|held| held.placed.clone()).unwrap_or_default()
    }

    /// The clients, and the last committed statement of each client.
    pub fn producers(&self) -> impl Iterator<Item = (usize, u64)> {
        self.producers.iter().map(|(client, number)| (*client, *number))
    }
}
