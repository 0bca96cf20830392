//! Readers: scans, sealed scans, pinned snapshots and followers; and moves of events.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use stratalog_model::{
    EventStore, Gsn, Snapshot, Tick, TickRange, TickRanges,
    subscribe::{SubscribeFrom, SubscribeRequest, Subscription, Update},
};

use super::{
    requests::producer_of,
    tables::{Read, events_of, projection, scan},
    world::World,
};

/// Maximum number of pinned snapshots.
const PINS_MAX: usize = 3;

/// Maximum duration of an update, in real time.
const UPDATE: Duration = Duration::from_secs(60);

/// A snapshot, and its content at the time of the pin.
pub struct Pin {
    snapshot: Arc<dyn Snapshot>,
    table: usize,
    seen: Vec<Read>,
}

/// A follower of a chronicle, across restarts of the server.
pub struct Follower {
    table: usize,
    /// The next expected position.
    next: u64,
    stream: Option<Subscription>,
}

impl Follower {
    pub fn new(table: usize, next: u64) -> Self {
        Self { table, next, stream: None }
    }

    /// The connection is lost.
    pub fn disconnect(&mut self) {
        self.stream = None;
    }
}

impl World {
    fn any_table(&mut self) -> usize {
        self.random.below(self.plan.tables.len() as u64) as usize
    }

    /// All events of a chronicle in a snapshot; `None` if the disk has halted.
    fn scanned(&self, snapshot: &dyn Snapshot, at: usize, ticks: TickRanges) -> Option<Vec<Read>> {
        match scan(snapshot, &self.plan.tables[at], ticks) {
            Err(_) if self.disk.is_halted() => None,
            found => Some(found.unwrap()),
        }
    }

    /// Reads up to the seal.
    pub fn seal(&mut self) {
        let at = self.any_table();
        let table = Arc::clone(&self.plan.tables[at]);
        let engine = Arc::clone(&self.server().engine);
        self.plan.seen.take_readings();
        let told = engine.seal(&table).unwrap();
        let reading = self.plan.seen.take_readings().pop();
        let snapshot = engine.snapshot();
        let Some(told) = told else {
            let unsealed = !table.time_source.is_clocked() || self.model.chronicles[at].is_new();
            assert!(unsealed, "nothing of {} is sealed", table.name);
            assert_eq!(snapshot.sealed(&table), None);
            return;
        };
        assert_eq!(snapshot.sealed(&table), Some(told));
        let ticks = TickRanges::from_ranges([TickRange::new(Tick::MIN, told.next())]);
        if let Some(found) = self.scanned(snapshot.as_ref(), at, ticks) {
            self.summary.sealed += found.len() as u64;
            self.trace(found.len() as u64);
            let reading = reading.expect("sealed without a look at the clock");
            self.model.chronicles[at].seal(&reading, told.0, found);
        }
    }

    /// Reads everything.
    pub fn read(&mut self) {
        let at = self.any_table();
        self.check(at);
    }

    fn check(&mut self, at: usize) -> Option<(Arc<dyn Snapshot>, Vec<Read>)> {
        let snapshot = self.server().engine.snapshot();
        assert_eq!(snapshot.gsn(), Gsn(self.model.head), "the head of the log");
        let found = self.scanned(snapshot.as_ref(), at, TickRanges::all())?;
        let wanted = self.model.chronicles[at].visible(i64::MAX);
        if found != wanted {
            let lost: Vec<_> = wanted.iter().filter(|read| !found.contains(read)).collect();
            let extra: Vec<_> = found.iter().filter(|read| !wanted.contains(read)).collect();
            panic!("{:?}: lost {lost:?}, not to be found {extra:?}", self.rules[at]);
        }
        Some((snapshot, found))
    }

    /// Checks everything known about the server.
    pub fn check_all(&mut self) {
        for at in 0..self.plan.tables.len() {
            self.check(at);
        }
        let told = self.server().engine.producers();
        let known = self.model.producers();
        let known: Vec<_> = known.map(|(client, number)| (producer_of(client), number)).collect();
        assert_eq!(told, known, "the last statement of each client");
    }

    /// Pins a snapshot, or checks an earlier snapshot again (CL-5).
    pub fn pin(&mut self) {
        if self.pins.len() < PINS_MAX && self.random.chance(50) {
            let table = self.any_table();
            let pinned = self.check(table);
            self.pins.extend(pinned.map(|(snapshot, seen)| Pin { snapshot, table, seen }));
            return;
        }
        if self.pins.is_empty() {
            return;
        }
        let at = self.random.below(self.pins.len() as u64) as usize;
        let Pin { snapshot, table, seen } = self.pins.swap_remove(at);
        if let Some(again) = self.scanned(snapshot.as_ref(), table, TickRanges::all()) {
            assert_eq!(again, seen, "a pinned snapshot has changed");
        }
        if self.random.chance(50) {
            self.pins.push(Pin { snapshot, table, seen });
        }
    }

    /// One follower receives its updates.
    pub fn follow_one(&mut self) {
        let at = self.random.below(self.followers.len() as u64) as usize;
        self.follow(at);
    }

    /// Checks that a follower receives all committed events in order, each once (CL-4).
    pub fn follow(&mut self, at: usize) {
        let engine = Arc::clone(&self.server().engine);
        let follower = &mut self.followers[at];
        let table = &self.plan.tables[follower.table];
        if follower.stream.is_none() {
            let request = SubscribeRequest {
                chronicle: Arc::clone(table),
                from: SubscribeFrom::Gsn(Gsn(follower.next)),
                projection: projection(table),
                batch_rows_max: 16,
            };
            let _inside = self.runtime.enter();
            follower.stream = Some(engine.subscribe(request).unwrap());
        }
        let Some(stream) = &mut follower.stream else { return };
        let chronicle = &self.model.chronicles[follower.table];
        let last = chronicle.committed_from(follower.next).last().map(|(read, _)| read.gsn);
        let Some(last) = last else {
            let told = self.runtime.block_on(async { futures::poll!(stream.next()) });
            assert!(told.is_pending(), "a follower is told what nobody committed: {told:?}");
            return;
        };
        while follower.next <= last {
            let update = async { tokio::time::timeout(UPDATE, stream.next()).await };
            let update = self.runtime.block_on(update).expect("a follower is told nothing");
            let batch = match update {
                Some(Ok(Update::Events(batch))) => batch,
                Some(Err(_)) if self.disk.is_halted() => return,
                other => panic!("a follower is told {other:?}"),
            };
            for told in events_of(&batch) {
                assert!(told.gsn >= follower.next, "a follower is told {told:?} again");
                let before = chronicle.committed_from(follower.next);
                let mut before = before.take_while(|(read, _)| read.gsn < told.gsn);
                let untold = before.find(|(_, replaced)| !replaced);
                assert_eq!(untold, None, "a follower is told {told:?} before that");
                let due = chronicle.committed_from(told.gsn).next().map(|(read, _)| read);
                assert_eq!(due, Some(&told), "a follower is told another event");
                follower.next = told.gsn + 1;
                self.summary.followed += 1;
            }
        }
    }

    /// Moves events down the tiers, or releases moved segments of the journal.
    pub fn move_events(&mut self) {
        let at = self.any_table();
        let id = self.plan.tables[at].id;
        let engine = Arc::clone(&self.server().engine);
        let moved = match self.random.below(10) {
            0..6 => self.runtime.block_on(engine.flush(id)).map(drop),
            6 => self.runtime.block_on(engine.compact(id)).map(drop),
            _ => self.runtime.block_on(engine.release_journal()).map(drop),
        };
        match moved {
            Ok(()) => self.summary.moves += 1,
            Err(error) => assert!(self.disk.is_halted(), "events do not move: {error}"),
        }
    }
}
