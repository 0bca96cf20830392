//! The state of the keeper outside of the chronicles: what appends and deletes need.

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

/// The part of the engine that takes appends and deletes.
#[derive(Debug)]
pub struct Keeper {
    /// The journal.
    pub log: Arc<dyn Log>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Settings.
    pub settings: Arc<EngineSettings>,
    /// Memory for events.
    pub budget: Arc<Budget>,
    /// The publisher of the commits.
    pub publisher: Arc<Publisher>,
    /// The appends waiting for memory of the budget.
    pub backpressure: Backpressure,
    /// Idempotent producers.
    pub producers: Mutex<Producers>,
    /// Statements waiting for each other.
    pub wait_graph: WaitGraph,
    /// Candidates for the beginning of the journal.
    pub floor_candidates: FloorCandidates,
    last_statement: AtomicU64,
}

impl Keeper {
    /// A keeper without statements.
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

    /// Highest statement id so far.
    pub fn last_statement(&self) -> StatementId {
        StatementId(self.last_statement.load(Ordering::Relaxed))
    }

    /// Marks all statement ids up to `id` as used.
    pub fn seen_statement(&self, id: StatementId) {
        self.last_statement.fetch_max(id.0, Ordering::Relaxed);
    }

    /// Like [`Publisher::publish`], for the steps of a statement with the commit frame at `lsn`.
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

    /// Seals a chronicle with clocked ticks, up to the limit of the clock. Returns the last sealed
    /// tick; `None` before the first event. Without clocked ticks, `late = 'reject'` seals ticks by
    /// the order of commits, and `late = 'accept'` returns `None`.
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
        // Read before the locks: an earlier time seals less.
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
