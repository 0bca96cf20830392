//! A short scenario with two chronicles and all kinds of moves, and the expected events at each
//! instant under any failure.

use std::sync::Arc;

use stratalog_model::{
    ChronicleDefinition, Collision, Durability, ErrorKind, EventStore, Log, Result, Snapshot, Tick,
    TickRange, store::MoveCounts,
};
use stratalog_sim::{Crash, FaultyDisk};

use crate::{fixture::*, life::*};

/// The steps of the scenario. Chronicle 0 keeps the last event of a key; chronicle 1 is dropped.
#[derive(Debug, Clone, Copy)]
pub enum Step {
    /// Events of a host, one for each tick from the first tick to before the second tick.
    Append(usize, &'static str, i64, i64),
    /// Deletes the events of chronicle 0 before a tick.
    Delete(i64),
    Flush(usize),
    Compact(usize),
    Trim,
    /// Pins a snapshot.
    Pin,
    /// Checks that the pinned snapshot has not changed, and drops the snapshot.
    Unpin,
    /// Drops chronicle 1.
    Forget,
}

impl Step {
    /// True if the step only moves events, or makes room.
    pub fn moves(self) -> bool {
        matches!(self, Self::Flush(_) | Self::Compact(_) | Self::Trim)
    }
}

pub const SCENARIO: [Step; 18] = [
    Step::Append(0, "a", 0, 30),
    Step::Append(1, "a", 0, 6),
    Step::Flush(0),
    // Late events; some replace events of tablets.
    Step::Append(0, "a", 3, 6),
    Step::Append(0, "b", 8, 11),
    Step::Delete(2),
    Step::Pin,
    Step::Flush(0),
    Step::Append(0, "a", 30, 34),
    Step::Compact(0),
    Step::Flush(1),
    Step::Trim,
    Step::Unpin,
    Step::Forget,
    Step::Append(0, "a", 20, 23),
    Step::Delete(5),
    Step::Trim,
    Step::Append(0, "b", 40, 42),
];

/// The events of both chronicles.
pub type State = [Rows; 2];

/// A server, and its expected events.
pub struct World {
    pub disk: FaultyDisk,
    pub life: Option<Life>,
    pub definitions: Vec<Arc<ChronicleDefinition>>,
    /// The state after each acknowledged step, in order.
    pub history: Vec<State>,
    /// Index in `history` of the first state that is possible after a power cut.
    durable: usize,
    /// The states that are possible after a step without an answer, or after a step that failed for
    /// good.
    pub possible: Vec<State>,
    pub pinned: Option<(Arc<dyn Snapshot>, State)>,
    /// The value of the next append; each append has a different value.
    pub value: f64,
}

impl World {
    pub fn new(seed: u64, durability: Durability) -> Self {
        let made = |id, collision| {
            let mut made = definition(id, collision, true);
            made.durability = durability;
            Arc::new(made)
        };
        let definitions = vec![made(1, Collision::Last), made(2, Collision::First)];
        let disk = FaultyDisk::new(seed);
        let life = Life::try_open(&disk, false, &definitions, &Sizes::tiny()).unwrap();
        let (history, possible) = (vec![State::default()], Vec::new());
        let life = Some(life);
        Self { disk, life, definitions, history, durable: 0, possible, pinned: None, value: 0.0 }
    }

    pub fn life(&self) -> &Life {
        self.life.as_ref().unwrap()
    }

    pub fn state(&self) -> &State {
        self.history.last().unwrap()
    }

    pub fn poisoned(&self) -> [bool; 2] {
        self.life().journals.each_ref().map(|journal| journal.status().poisoned.is_some())
    }

    /// The state after a step.
    pub fn after(&self, step: Step) -> State {
        let mut after = self.state().clone();
        match step {
            Step::Append(at, host, from, to) => {
                let rows = (from..to).map(|tick| ((tick, host.to_string()), self.value));
                after[at].extend(rows);
            }
            Step::Delete(end) => after[0].retain(|(tick, _), _| *tick >= end),
            Step::Forget => after[1].clear(),
            _ => {}
        }
        after
    }

    pub async fn act(&mut self, step: Step) -> Result<()> {
        let engine = Arc::clone(&self.life().engine);
        let definition = |at: usize| Arc::clone(&self.definitions[at]);
        let moved = match step {
            Step::Append(at, host, from, to) => {
                let rows: Vec<Row> = (from..to).map(|tick| row(tick, host, self.value)).collect();
                append(&engine, &definition(at), &rows).await.map(|_| MoveCounts::default())
            }
            Step::Delete(end) => {
                let range = TickRange::new(Tick::MIN, Tick(end));
                engine.delete(&definition(0), range).await.map(|_| MoveCounts::default())
            }
            Step::Flush(at) => engine.flush(definition(at).id).await,
            Step::Compact(at) => engine.compact(definition(at).id).await,
            Step::Trim => engine.release_journal().await.map(|_| MoveCounts::default()),
            Step::Pin => {
                self.pinned = Some((engine.snapshot(), self.state().clone()));
                Ok(MoveCounts::default())
            }
            Step::Unpin => match &self.pinned {
                None => Ok(MoveCounts::default()),
                Some((snapshot, seen)) => {
                    for (definition, seen) in self.definitions.iter().zip(seen) {
                        let found = try_read(snapshot.as_ref(), definition).await?;
                        assert_eq!(&found, seen, "a pinned snapshot changed");
                    }
                    self.pinned = None;
                    Ok(MoveCounts::default())
                }
            },
            Step::Forget => {
                engine.forget(definition(1).id);
                self.definitions.truncate(1);
                Ok(MoveCounts::default())
            }
        }?;
        self.history.push(self.after(step));
        if moved.rows > 0 || self.definitions[0].durability == Durability::Disk {
            self.durable = self.history.len() - 1;
        }
        Ok(())
    }

    /// Checks that a read returns the expected state.
    pub async fn check(&self) {
        assert!(self.shows(self.state()).await, "not {:?}", self.state());
    }

    /// True if a read returns the expected state; reads again after a failed read.
    async fn shows(&self, expected: &State) -> bool {
        for (definition, expected) in self.definitions.iter().zip(expected) {
            let found = match self.life().try_rows(definition).await {
                Err(error) if error.kind() == ErrorKind::Io => self.life().rows(definition).await,
                found => found.unwrap(),
            };
            if found != *expected {
                return false;
            }
        }
        true
    }

    /// Makes a step. After a failure, records the possible states, and makes the step again.
    pub async fn step(&mut self, step: Step, told: &[ErrorKind]) {
        self.value += 1.0;
        let Err(error) = self.act(step).await else {
            // A failed read changes nothing: one check after the failure is enough.
            if !self.disk.is_failing() {
                self.check().await;
            }
            return;
        };
        assert!(told.contains(&error.kind()), "{step:?}: {error}");
        self.check().await;
        let poisoned = self.poisoned();
        if poisoned[0] {
            self.possible.push(self.after(step));
        }
        let Err(again) = self.act(step).await else { return self.check().await };
        // Only a stopped log fails again.
        let stopped = again.message().contains("has stopped for good");
        assert!(stopped && poisoned != [false; 2], "{step:?}, again: {again}");
        assert!(!step.moves() || poisoned[1] || self.durable + 1 < self.history.len(), "{step:?}");
        self.check().await;
    }

    /// Crashes the server, and starts it again.
    pub async fn restart(&mut self, crash: Crash) {
        self.pinned = None;
        let disk = self.disk.crash(crash);
        if let Some(life) = self.life.take() {
            life.close();
        }
        self.disk = disk;
        self.reopen(crash).await;
    }

    /// Opens the disk.
    pub fn try_start(&self) -> Result<Life> {
        Life::try_open(&self.disk, true, &self.definitions, &Sizes::tiny())
    }

    async fn reopen(&mut self, crash: Crash) {
        let life = self.try_start().unwrap();
        let mut found = State::default();
        for (found, definition) in found.iter_mut().zip(&self.definitions) {
            *found = life.rows(definition).await;
        }
        if self.definitions.len() < 2 {
            self.history.iter_mut().chain(&mut self.possible).for_each(|state| state[1].clear());
        }
        let from = match crash {
            Crash::Kill => self.history.len() - 1,
            Crash::PowerCut => self.durable,
        };
        let mut known = self.history[from..].iter().chain(&self.possible);
        assert!(known.any(|state| *state == found), "{found:?} instead of {:?}", self.state());
        self.history = vec![found];
        self.possible.clear();
        self.durable = 0;
        life.engine.release_journal().await.unwrap();
        assert_eq!(files(&self.disk), life.named(), "files that nobody names");
        self.life = Some(life);
    }

    /// Checks that every kind of step works, and that its effect survives the next start.
    pub async fn goes_on(&mut self) {
        let steps = [
            Step::Append(0, "a", 2, 9),
            Step::Flush(0),
            Step::Append(0, "b", 9, 12),
            Step::Compact(0),
            Step::Trim,
        ];
        for step in steps {
            self.value += 100.0;
            self.act(step).await.unwrap();
            self.check().await;
        }
        self.restart(Crash::PowerCut).await;
    }
}

/// Prints the position of a run at a panic.
pub struct At(pub String);

impl Drop for At {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.0);
        }
    }
}
