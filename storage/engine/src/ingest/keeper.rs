//! The state of the keeper that all chronicles share, for appends and deletes.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use parking_lot::Mutex;
use stratalog_model::{
    ChronicleDefinition, Clock, LatePolicy, Log, Lsn, ProducerId, Result, StatementId, Tick,
};

use super::{backpressure::Backpressure, outcome::WaitGraph, producers::Producers, step::Step};
use crate::{
    events::budget::Budget,
    settings::EngineSettings,
    tiering::collect::floor_candidates::FloorCandidates,
    version::{published_versions::PinnedVersion, publisher::Publisher},
};

/// The keeper: the part of the engine that accepts appends and deletes.
#[derive(Debug)]
pub struct Keeper {
    /// The journal.
    pub log: Arc<dyn Log>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Settings.
    pub settings: Arc<EngineSettings>,
    /// Memory budget for events.
    pub budget: Arc<Budget>,
    /// Publishes the versions of the chronicles: makes commits visible.
    pub publisher: Arc<Publisher>,
    /// The appends that wait for memory of `budget`.
    pub backpressure: Backpressure,
    /// The last committed number of each idempotent producer.
    pub producers: Mutex<Producers>,
    /// The wait graph of statements, for the detection of deadlocks.
    pub wait_graph: WaitGraph,
    /// The statements whose frames the journal must still keep.
    pub floor_candidates: FloorCandidates,
    last_statement: AtomicU64,
}

impl Keeper {
    /// A new keeper without running statements.
    pub fn new(
        log: Arc<dyn Log>,
        clock: Arc<dyn Clock>,
        settings: &Arc<EngineSettings>,
        budget: &Arc<Budget>,
        publisher: &Arc<Publisher>,
    ) -> Self {
        Self {
            log,
            clock,
            settings: Arc::clone(settings),
            budget: Arc::clone(budget),
            publisher: Arc::clone(publisher),
            backpressure: Backpressure::default(),
            producers: Mutex::new(Producers::new(settings.producers_max)),
            wait_graph: WaitGraph::default(),
            floor_candidates: FloorCandidates::default(),
            last_statement: AtomicU64::new(0),
        }
    }

    /// A new statement id, never used before.
    pub fn next_statement(&self) -> StatementId {
        StatementId(self.last_statement.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Highest statement id assigned until now.
    pub fn last_statement(&self) -> StatementId {
        StatementId(self.last_statement.load(Ordering::Relaxed))
    }

    /// Marks all statement ids up to `id` as used.
    pub fn seen_statement(&self, id: StatementId) {
        self.last_statement.fetch_max(id.0, Ordering::Relaxed);
    }

    /// Like [`Publisher::publish`], for the steps of one append, whose commit frame is at `lsn`.
    /// Also records the commit of the producer's number.
    ///
    /// # Errors
    /// `UndefinedTable` for a forgotten chronicle.
    pub fn publish(
        &self,
        steps: Vec<Step>,
        producer: Option<(ProducerId, u64)>,
        lsn: Lsn,
    ) -> Result<u64> {
        debug_assert!(!steps.is_empty() || producer.is_some(), "a commit of nothing");
        self.publisher.publish(steps, |committed| {
            if let Some((producer, number)) = producer {
                self.producers.lock().committed(producer, number);
            }
            self.floor_candidates.committed(
                lsn,
                committed,
                self.last_statement.load(Ordering::Relaxed),
            );
        })
    }

    /// Moves the seal of a chronicle forward, and returns the last sealed tick: the tick up to
    /// which no further event can arrive. With clocked ticks, the clock limits the seal; returns
    /// `None` before the first event. Without clocked ticks, `late = 'reject'` seals the ticks
    /// before the highest committed tick, and `late = 'accept'` returns `None`.
    ///
    /// # Errors
    /// `UndefinedTable` for a forgotten chronicle.
    pub fn seal(&self, definition: &ChronicleDefinition) -> Result<Option<Tick>> {
        let chronicles = &self.publisher.chronicles;
        if !definition.time_source.is_clocked() {
            return match definition.late {
                LatePolicy::Reject => Ok(chronicles.chronicle(definition)?.sealed_by_order()),
                LatePolicy::Accept => Ok(None),
            };
        }
        let chronicle = chronicles.chronicle(definition)?;
        // Read before the locks are taken: an earlier time only seals less.
        let now = self.clock.reading();
        Ok(self.publisher.change(|_| {
            let version = chronicle.seal(definition, &now);
            let sealed = chronicle.state().version.open_from().map(before);
            let news = version.filter(|version| !self.publisher.shows(chronicle.id(), version));
            let pinned =
                news.map(|version| PinnedVersion { chronicle: Arc::clone(&chronicle), version });
            (pinned, sealed)
        }))
    }
}

/// The tick before `tick`.
fn before(tick: Tick) -> Tick {
    Tick(tick.0.saturating_sub(1))
}
