//! Compares the engine with a simple model under random statements.
//!
//! Several statements are open at once; they push, wait, commit, roll back, return to savepoints
//! and fail in any order, between deletes, schema changes, held snapshots and reopened logs. Every
//! few steps the test compares the engine with the model.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use stratalog_engine::Engine;
use stratalog_model::{
    Append, ChronicleDefinition, Collision, ColumnType, ErrorKind, EventStore, Snapshot, Tick,
    TickRange, TickRanges,
    store::{AppendOptions, OnConflict},
    tier::ScanOrder,
};
use stratalog_sim::Random;

use crate::{fixture::*, memory_log::MemoryLog};

/// Time after which the test cancels a wait for another statement.
const WAIT: Duration = Duration::from_millis(2);

/// A committed event of the model. A dead event is deleted or replaced.
#[derive(Debug, Clone)]
struct Event {
    row: Row,
    gsn: u64,
    dead: bool,
}

struct Statement {
    append: Box<dyn Append>,
    /// What the statement stores and deletes at its commit, in order.
    acts: Vec<Act>,
    /// The savepoints: name, and number of acts before the savepoint.
    savepoints: Vec<(usize, usize)>,
}

/// A row stored by a statement, or a range deleted by a statement.
#[derive(Debug, Clone)]
enum Act {
    Store(Row),
    Delete(TickRange),
}

/// The rows that acts store, including rows that a later act deletes.
fn stored(acts: &[Act]) -> impl Iterator<Item = &Row> {
    acts.iter().filter_map(|act| match act {
        Act::Store(row) => Some(row),
        Act::Delete(_) => None,
    })
}

/// True if acts delete the events at a tick.
fn vacates(acts: &[Act], tick: i64) -> bool {
    acts.iter().any(|act| matches!(act, Act::Delete(range) if range.contains(Tick(tick))))
}

/// The rows that remain after acts on the rows `before`, in order.
fn after(collision: Collision, before: Vec<Row>, acts: &[Act]) -> Vec<Row> {
    let mut rows = before;
    for act in acts {
        match act {
            Act::Store(row) => {
                if collision.replaces() {
                    rows.retain(|other| !same_key(other, row));
                }
                rows.push(row.clone());
            }
            Act::Delete(range) => rows.retain(|row| !range.contains(Tick(row.tick))),
        }
    }
    rows
}

fn same_key(a: &Row, b: &Row) -> bool {
    a.tick == b.tick && a.host == b.host
}

struct Model {
    collision: Collision,
    events: Vec<Event>,
    gsn: u64,
}

impl Model {
    fn alive(&self) -> impl Iterator<Item = &Event> {
        self.events.iter().filter(|event| !event.dead)
    }

    fn taken(&self, row: &Row) -> bool {
        self.alive().any(|event| same_key(&event.row, row))
    }

    /// True if the key of `row` is taken for a statement with the acts `acts`: by another
    /// statement, or by its own acts.
    fn taken_for(&self, acts: &[Act], row: &Row) -> bool {
        let own = after(self.collision, Vec::new(), acts).iter().any(|other| same_key(other, row));
        own || (self.taken(row) && !vacates(acts, row.tick))
    }

    fn commit(&mut self, acts: Vec<Act>) {
        for act in acts {
            let row = match act {
                Act::Store(row) => row,
                Act::Delete(range) => {
                    self.delete(range);
                    continue;
                }
            };
            self.gsn += 1;
            if self.collision.replaces() {
                let same = |event: &&mut Event| same_key(&event.row, &row);
                self.events.iter_mut().filter(same).for_each(|event| event.dead = true);
            }
            self.events.push(Event { row, gsn: self.gsn, dead: false });
        }
    }

    fn delete(&mut self, range: TickRange) {
        for event in &mut self.events {
            event.dead |= range.contains(Tick(event.row.tick));
        }
    }

    fn seen(&self) -> BTreeMap<u64, Row> {
        self.alive().map(|event| (event.gsn, event.row.clone())).collect()
    }
}

struct World {
    random: Random,
    stored: Option<Stored>,
    log: MemoryLog,
    engine: Arc<Engine>,
    definition: Arc<ChronicleDefinition>,
    model: Model,
    open: Vec<Statement>,
    pinned: Vec<(Arc<dyn Snapshot>, Vec<Read>)>,
    clock: i64,
    next_value: f64,
}

impl World {
    fn new(seed: u64, collision: Collision, tablets: bool) -> Self {
        let log = MemoryLog::default();
        let definition = chronicle(1, collision, true);
        let stored = tablets.then(|| Stored::new(seed));
        let engine = open_engine(&log, &definition, stored.as_ref());
        let model = Model { collision, events: Vec::new(), gsn: 0 };
        let random = Random::new(seed);
        let (open, pinned) = (Vec::new(), Vec::new());
        let (clock, next_value) = (0, 0.0);
        Self { random, stored, log, engine, definition, model, open, pinned, clock, next_value }
    }

    /// Moves the committed events into tablets.
    async fn flush(&mut self) {
        if self.stored.is_none() {
            return;
        }
        if self.random.chance(30) {
            self.engine.compact(self.definition.id).await.unwrap();
        } else {
            self.engine.flush(self.definition.id).await.unwrap();
        }
        if self.random.chance(50) {
            self.engine.release_journal().await.unwrap();
        }
    }

    /// Random rows: mostly with new ticks; some late, some before the base, some with a taken key.
    fn rows(&mut self) -> Vec<Row> {
        let count =
            if self.random.chance(70) { 1 + self.random.below(3) } else { self.random.below(40) };
        (0..count)
            .map(|_| {
                self.clock += self.random.below(3) as i64;
                let tick = match self.random.below(10) {
                    0 => self.clock - 200 + self.random.below(200) as i64,
                    1 => -(self.random.below(60) as i64),
                    2 => self.clock - self.random.below(8) as i64,
                    _ => self.clock,
                };
                self.next_value += 1.0;
                row(
                    tick,
                    ["a", "b", "a longer name of a host"][self.random.below(3) as usize],
                    self.next_value,
                )
            })
            .collect()
    }

    /// An open statement, or a new statement.
    fn statement(&mut self) -> Statement {
        if self.open.len() < 4 && (self.open.is_empty() || self.random.chance(40)) {
            let append = self.engine.begin(AppendOptions::default()).unwrap();
            self.open.push(Statement { append, acts: Vec::new(), savepoints: Vec::new() });
        }
        let at = self.random.below(self.open.len() as u64) as usize;
        self.open.swap_remove(at)
    }

    /// Deletes within a statement.
    async fn delete_within(&mut self) {
        let mut statement = self.statement();
        let part = self.random.below(60) as i64;
        let range = match self.random.below(10) {
            0 => TickRange::ALL,
            1 | 2 => TickRange::new(Tick(self.clock - part), Tick::END),
            _ => TickRange::new(Tick::MIN, Tick(self.clock - 2 * part)),
        };
        let deleted = statement.append.delete(&self.definition, range);
        match self.model.collision {
            // The delete may wait for uncommitted merges.
            Collision::Merge => match tokio::time::timeout(WAIT, deleted).await {
                Ok(deleted) => deleted.unwrap(),
                Err(_) => return self.roll_back(statement),
            },
            _ => deleted.await.unwrap(),
        }
        statement.acts.push(Act::Delete(range));
        self.open.push(statement);
    }

    async fn push(&mut self) {
        let rows = self.rows();
        let on_conflict = if self.random.chance(60) { OnConflict::Skip } else { OnConflict::Error };
        let mut statement = self.statement();
        let pending = |open: &[Statement], row: &Row| {
            open.iter().any(|other| stored(&other.acts).any(|other| same_key(other, row)))
        };
        let pending_elsewhere = rows.iter().any(|row| pending(&self.open, row));
        let first = self.model.collision == Collision::First;
        let waits = match self.model.collision {
            Collision::First => pending_elsewhere,
            // A merge also waits for deletes.
            Collision::Merge => !self.open.is_empty(),
            _ => false,
        };
        let batch = batch(&self.definition, &rows);
        let pushed = statement.append.push(&self.definition, batch, on_conflict);
        let outcome = if waits {
            // The push may wait; no other statement runs in this test, so the wait would never end.
            match tokio::time::timeout(WAIT, pushed).await {
                Err(_) => return self.roll_back(statement),
                Ok(outcome) => outcome,
            }
        } else {
            pushed.await
        };
        let admitted = match outcome {
            Ok(admitted) => admitted,
            Err(refused) => {
                assert_eq!(refused.kind(), ErrorKind::UniqueViolation);
                assert!(first && on_conflict == OnConflict::Error);
                let mut before = statement.acts.clone();
                let mut clash = false;
                for row in &rows {
                    clash |= self.model.taken_for(&before, row);
                    before.push(Act::Store(row.clone()));
                }
                assert!(clash, "refused without a reason");
                return self.roll_back(statement);
            }
        };
        let ticks: Vec<i64> = admitted.events.ticks.to_vec();
        match self.model.collision {
            Collision::All | Collision::Last | Collision::Merge => {
                let judged = rows.iter().any(|row| pending(&self.open, row));
                assert!(
                    self.model.collision != Collision::Merge || !judged,
                    "a push with a pending key did not wait"
                );
                assert_eq!(admitted.skipped, 0);
                assert_eq!(ticks, rows.iter().map(|row| row.tick).collect::<Vec<_>>());
                statement.acts.extend(rows.into_iter().map(Act::Store));
            }
            Collision::First => {
                let mut skipped = 0;
                for row in rows {
                    if self.model.taken_for(&statement.acts, &row) {
                        skipped += 1;
                    } else {
                        assert!(!pending(&self.open, &row), "a pending key was judged");
                        statement.acts.push(Act::Store(row));
                    }
                }
                assert_eq!(admitted.skipped, skipped);
                assert!(skipped == 0 || on_conflict == OnConflict::Skip);
            }
            Collision::Next => {
                for (mut row, tick) in rows.into_iter().zip(ticks) {
                    // The given tick is free if the statement deleted its events; a later tick is
                    // free only without any event.
                    let given = row.tick;
                    let free = (given..).find(|tick| {
                        let there = Row { tick: *tick, ..row.clone() };
                        let own = stored(&statement.acts).any(|other| same_key(other, &there));
                        let elsewhere = pending(&self.open, &there);
                        let vacant = !self.model.taken(&there) && !own;
                        let vacated = *tick == given && vacates(&statement.acts, *tick);
                        let cleared = vacated && !self.model.taken_for(&statement.acts, &there);
                        !elsewhere && (vacant || cleared)
                    });
                    assert_eq!(Some(tick), free);
                    row.tick = tick;
                    statement.acts.push(Act::Store(row));
                }
            }
        }
        self.open.push(statement);
    }

    /// Sets a savepoint in a statement, or returns to a savepoint.
    fn savepoint(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let at = self.random.below(self.open.len() as u64) as usize;
        if self.random.chance(40) {
            let statement = self.open.swap_remove(at);
            return self.roll_back(statement);
        }
        let release = self.random.chance(30);
        let Some(statement) = self.open.get_mut(at) else { return };
        if release {
            statement.savepoints.pop();
            let last = statement.savepoints.last();
            statement.append.release(last.map_or(0, |(name, _)| *name));
            return;
        }
        let name = statement.append.savepoint().unwrap();
        statement.savepoints.push((name, statement.acts.len()));
    }

    /// Rolls a statement back to a savepoint; without a savepoint, the statement ends.
    fn roll_back(&mut self, mut statement: Statement) {
        if statement.savepoints.is_empty() {
            return;
        }
        let at = self.random.below(statement.savepoints.len() as u64) as usize;
        statement.savepoints.truncate(at + 1);
        let (name, acts) = statement.savepoints[at];
        statement.append.roll_back_to(name);
        statement.acts.truncate(acts);
        self.open.push(statement);
    }

    async fn end(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let at = self.random.below(self.open.len() as u64) as usize;
        let statement = self.open.swap_remove(at);
        match self.random.below(10) {
            0 | 1 => drop(statement),
            2 if !statement.acts.is_empty() => {
                self.log.fail(Some(ErrorKind::DiskFull));
                assert!(statement.append.commit().await.is_err());
                self.log.fail(None);
            }
            _ => {
                let appended = statement.append.commit().await.unwrap();
                assert_eq!(appended.rows, stored(&statement.acts).count() as u64);
                if appended.rows > 0 {
                    assert_eq!(appended.first_gsn.unwrap().0, self.model.gsn + 1);
                }
                self.model.commit(statement.acts);
            }
        }
    }

    async fn delete(&mut self) {
        let ticks: Vec<i64> = self.model.alive().map(|event| event.row.tick).collect();
        let (Some(min), Some(max)) = (ticks.iter().min(), ticks.iter().max()) else { return };
        let part = self.random.below(30) as i64;
        let range = match self.random.below(10) {
            0 => TickRange::new(Tick(max - part / 3), Tick::END),
            1 => TickRange::new(Tick(min + 1), Tick(min + 2 + part)),
            _ => TickRange::new(Tick::MIN, Tick(min + part)),
        };
        let inside = |tick: &i64| range.contains(Tick(*tick));
        let between = ticks.iter().any(|tick| *tick < range.start.0)
            && ticks.iter().any(|tick| *tick >= range.end.0);
        if self.model.collision == Collision::Merge && !self.open.is_empty() {
            // The delete may wait for uncommitted merges.
            return;
        }
        let result = self.engine.delete(&self.definition, range).await;
        if between {
            assert_eq!(error(result).kind(), ErrorKind::FeatureNotSupported);
            return;
        }
        assert_eq!(result.unwrap() as usize, ticks.iter().filter(|tick| inside(tick)).count());
        self.model.delete(range);
    }

    fn add_column(&mut self) {
        let mut changed = self.definition.as_ref().clone();
        let id = changed.columns.len() as u32 + 10;
        changed.columns.push(column(id, &format!("extra{id}"), ColumnType::Text, true));
        changed.schema_version.0 += 1;
        let ids = changed.columns.iter().map(|column| column.id).collect();
        changed.schema_versions.insert(changed.schema_version, ids);
        self.definition = Arc::new(changed);
        if let Some(stored) = &self.stored {
            stored.define(&self.definition);
        }
    }

    async fn check(&mut self) {
        let snapshot = self.engine.snapshot();
        let found = read(snapshot.as_ref(), &self.definition).await;
        let wrong =
            |pair: &&[Read]| (pair[0].row.tick, pair[0].seq) >= (pair[1].row.tick, pair[1].seq);
        assert_eq!(found.windows(2).find(wrong), None, "not in order");
        let seen: BTreeMap<u64, Row> =
            found.iter().map(|read| (read.gsn, read.row.clone())).collect();
        assert_eq!(seen.len(), found.len());
        let wanted = self.model.seen();
        let missing: Vec<_> = wanted.iter().filter(|event| !seen.contains_key(event.0)).collect();
        let extra: Vec<_> = seen.iter().filter(|event| !wanted.contains_key(event.0)).collect();
        assert!(
            missing.is_empty() && extra.is_empty(),
            "missing {missing:?}, not wanted {extra:?}"
        );
        assert_eq!(seen, wanted);
        assert_eq!(snapshot.gsn().0, self.model.gsn);
        match snapshot.extent(&self.definition, &TickRanges::all()) {
            Some(extent) => assert_eq!(extent.rows, found.len() as u64),
            None => assert!(self.stored.is_some(), "memory always tells"),
        }
        let mut any = request(&self.definition, ScanOrder::Any);
        any.streams = 1 + self.random.below(4) as usize;
        let mut unordered = scan(snapshot.as_ref(), any).await;
        unordered.sort_by_key(|read| (read.row.tick, read.seq));
        assert_eq!(unordered, found);

        // A random read by key, range, order and limit.
        let start = self.clock - self.random.below(150) as i64;
        let range = TickRange::new(Tick(start), Tick(start + self.random.below(100) as i64));
        let mut wanted = request(
            &self.definition,
            [ScanOrder::Ascending, ScanOrder::Descending][self.random.below(2) as usize],
        );
        if self.random.chance(70) {
            wanted.ticks = range.into();
        }
        let host = ["a", "b", "nobody"][self.random.below(3) as usize];
        wanted.keys = vec![host_filter(&[host])];
        wanted.limit = self.random.chance(50).then(|| self.random.below(9) as usize);
        wanted.batch_rows_max = 1 + self.random.below(30) as usize;
        let fits =
            |read: &&Read| read.row.host == host && wanted.ticks.contains(Tick(read.row.tick));
        let mut expected: Vec<Read> = found.iter().filter(fits).cloned().collect();
        if wanted.order == ScanOrder::Descending {
            expected.reverse();
        }
        expected.truncate(wanted.limit.unwrap_or(usize::MAX));
        assert_eq!(scan(snapshot.as_ref(), wanted.clone()).await, expected);
        self.check_own(&snapshot, &found).await;
        for (old, seen) in &self.pinned {
            let again = read(old.as_ref(), &self.definition).await;
            assert_eq!(&again, seen, "a pinned snapshot changed");
            wanted.order = ScanOrder::Ascending;
            wanted.limit = None;
            let expected: Vec<Read> = seen
                .iter()
                .filter(|read| read.row.host == host && wanted.ticks.contains(Tick(read.row.tick)))
                .cloned()
                .collect();
            assert_eq!(
                scan(old.as_ref(), wanted.clone()).await,
                expected,
                "a pinned snapshot by key"
            );
        }
        if !self.pinned.is_empty() {
            let at = self.random.below(self.pinned.len() as u64) as usize;
            let (old, seen) = self.pinned.swap_remove(at);
            self.check_own(&old, &seen).await;
            self.pinned.push((old, seen));
        }
        if self.pinned.len() < 4 && self.random.chance(30) {
            self.pinned.push((snapshot, found));
        } else if self.random.chance(20) {
            self.pinned.pop();
        }
    }

    /// Checks an open statement's own view over a snapshot.
    async fn check_own(&mut self, snapshot: &Arc<dyn Snapshot>, below: &[Read]) {
        if self.open.is_empty() {
            return;
        }
        let at = self.random.below(self.open.len() as u64) as usize;
        let statement = &self.open[at];
        let over = statement.append.over(snapshot).await.unwrap();
        let below = below.iter().map(|read| read.row.clone()).collect();
        let expected = after(self.model.collision, below, &statement.acts);
        let sorted = |mut rows: Vec<Row>| {
            rows.sort_by(|a, b| (a.tick, a.value).partial_cmp(&(b.tick, b.value)).unwrap());
            rows
        };
        // The gsn's are not known yet: arrival numbers take their place.
        let mut wanted = request(&self.definition, ScanOrder::Ascending);
        if stored(&statement.acts).next().is_some() {
            assert!(over.scan(wanted.clone()).is_err());
        }
        wanted.projection[4] = self.definition.columns.len() + 1;
        let found = scan(over.as_ref(), wanted.clone()).await;
        let extent = over.extent(&self.definition, &TickRanges::all());
        assert!(extent.is_none_or(|extent| extent.rows == found.len() as u64));
        let wrong =
            |pair: &&[Read]| (pair[0].row.tick, pair[0].seq) >= (pair[1].row.tick, pair[1].seq);
        assert_eq!(found.windows(2).find(wrong), None, "not in order");
        let rows = |found: &[Read]| found.iter().map(|read| read.row.clone()).collect();
        assert_eq!(sorted(rows(&found)), sorted(expected));
        wanted.keys = vec![host_filter(&["a"])];
        let start = self.clock - self.random.below(150) as i64;
        wanted.ticks = TickRange::new(Tick(start), Tick(start + 50)).into();
        let fits =
            |read: &&Read| read.row.host == "a" && wanted.ticks.contains(Tick(read.row.tick));
        let expected: Vec<Read> = found.iter().filter(fits).cloned().collect();
        assert_eq!(scan(over.as_ref(), wanted).await, expected);
    }

    async fn reopen(&mut self) {
        self.open.clear();
        self.pinned.clear();
        let before = read(self.engine.snapshot().as_ref(), &self.definition).await;
        self.log = MemoryLog::with_frames(self.log.frames());
        if let Some(stored) = &mut self.stored {
            stored.reopen();
        }
        self.engine = open_engine(&self.log, &self.definition, self.stored.as_ref());
        let after = read(self.engine.snapshot().as_ref(), &self.definition).await;
        let lost: Vec<&Read> = before.iter().filter(|read| !after.contains(read)).collect();
        let new: Vec<&Read> = after.iter().filter(|read| !before.contains(read)).collect();
        assert!(lost.is_empty() && new.is_empty(), "lost {lost:?}, new {new:?}");
    }
}

fn open_engine(
    log: &MemoryLog,
    definition: &Arc<ChronicleDefinition>,
    stored: Option<&Stored>,
) -> Arc<Engine> {
    match stored {
        Some(stored) => stored.open(log, definition),
        None => open_with(log, std::slice::from_ref(definition), small()).unwrap(),
    }
}

async fn run(seed: u64, collision: Collision, tablets: bool, steps: usize) {
    let mut world = World::new(seed, collision, tablets);
    for step in 0..steps {
        match world.random.below(100) {
            0..=49 => world.push().await,
            50..=79 => world.end().await,
            80..=89 => world.savepoint(),
            90 => world.delete_within().await,
            91..=92 => world.delete().await,
            93 if world.definition.columns.len() < 9 => world.add_column(),
            94 => world.reopen().await,
            95 => world.flush().await,
            _ => world.check().await,
        }
        if step % 1000 == 999 {
            world.check().await;
        }
    }
    world.check().await;
    world.reopen().await;
    world.check().await;
    world.open.clear();
    world.pinned.clear();
    world.engine.forget(world.definition.id);
    assert_eq!(world.engine.status().memory_bytes, 0);
}

/// Prints the seed if the run panics.
struct Seed(u64, Collision);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "seed {} of collision = '{}'; STRATALOG_SEED={} repeats it",
                self.0, self.1, self.0
            );
        }
    }
}

async fn several(collision: Collision, tablets: bool) {
    let fixed = std::env::var("STRATALOG_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = match fixed {
        Some(seed) => vec![seed],
        None => {
            let fresh = std::collections::hash_map::RandomState::new();
            let fresh = std::hash::BuildHasher::hash_one(&fresh, 0_u64) >> 16;
            vec![1, 2, fresh]
        }
    };
    for seed in seeds {
        let _seed = Seed(seed, collision);
        run(seed, collision, tablets, 3000).await;
    }
}

#[tokio::test]
async fn random_statements_all() {
    several(Collision::All, false).await;
}

#[tokio::test]
async fn random_statements_first() {
    several(Collision::First, false).await;
}

#[tokio::test]
async fn random_statements_last() {
    several(Collision::Last, false).await;
}

#[tokio::test]
async fn random_statements_merge() {
    several(Collision::Merge, false).await;
}

#[tokio::test]
async fn random_statements_next() {
    several(Collision::Next, false).await;
}

#[tokio::test]
async fn random_statements_and_tablets_all() {
    several(Collision::All, true).await;
}

#[tokio::test]
async fn random_statements_and_tablets_first() {
    several(Collision::First, true).await;
}

#[tokio::test]
async fn random_statements_and_tablets_last() {
    several(Collision::Last, true).await;
}

#[tokio::test]
async fn random_statements_and_tablets_merge() {
    several(Collision::Merge, true).await;
}

#[tokio::test]
async fn random_statements_and_tablets_next() {
    several(Collision::Next, true).await;
}
