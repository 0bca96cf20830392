//! The state of moves between tiers: files, limits and locks.

use std::sync::{Arc, OnceLock};

use stratalog_model::{Acquirers, ChronicleId, Clock, Error, Log, Result};

use super::{
    backlog::Backlog, commit_times::CommitTimes, files::EngineFiles,
    journal_release::JournalRelease, move_history::MoveHistory, piece_numbers::PieceCounter,
    write_throttle::WriteThrottle,
};
use crate::{
    blocking_pool::BlockingPool, ingest::keeper::Keeper, settings::EngineSettings,
    version::publisher::Publisher,
};

/// The part of the engine that moves events down the tiers.
#[derive(Debug)]
pub struct Mover {
    /// The journal.
    pub log: Arc<dyn Log>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Settings.
    pub settings: Arc<EngineSettings>,
    /// The publisher of the moves.
    pub publisher: Arc<Publisher>,
    /// The keeper: its memory and its journal are the reasons for moves.
    pub keeper: Arc<Keeper>,
    /// Files for events that leave the journal; `None` keeps all events in the journal.
    pub files: Option<EngineFiles>,
    /// The lock for moves of events: one move at a time.
    pub move_lock: tokio::sync::Mutex<()>,
    /// Statistics of the moves.
    pub move_history: MoveHistory,
    /// Write rate of merges and stories.
    pub write_throttle: WriteThrottle,
    /// Holders of the journal's segments.
    pub journal_release: JournalRelease,
    /// Events both in tablets and in memory.
    pub backlog: Backlog,
    /// Commit times of events.
    pub commit_times: CommitTimes,
    /// Runtime for waits of recovery and of the grapher.
    pub blocking_pool: BlockingPool,
    /// Counts the sessions with an acquisition of a chronicle; empty without a source of
    /// acquisitions.
    pub acquirers: OnceLock<Arc<dyn Acquirers>>,
    /// The numbers of the pieces.
    pub piece_counter: PieceCounter,
}

impl Mover {
    /// A mover without moves.
    ///
    /// # Errors
    /// The error of the system when the runtime for waits cannot start.
    pub fn new(keeper: &Arc<Keeper>, files: Option<EngineFiles>) -> Result<Self> {
        let settings = &keeper.settings;
        Ok(Self {
            log: Arc::clone(&keeper.log),
            clock: Arc::clone(&keeper.clock),
            settings: Arc::clone(settings),
            publisher: Arc::clone(&keeper.publisher),
            keeper: Arc::clone(keeper),
            files,
            move_lock: tokio::sync::Mutex::default(),
            move_history: MoveHistory::default(),
            write_throttle: WriteThrottle::new(settings.move_bytes_per_second_max),
            journal_release: JournalRelease::default(),
            backlog: Backlog::new(settings.backlog_bytes_max),
            commit_times: CommitTimes::default(),
            blocking_pool: BlockingPool::new()?,
            acquirers: OnceLock::new(),
            piece_counter: PieceCounter::default(),
        })
    }

    /// The files beside the log.
    ///
    /// # Errors
    /// `FeatureNotSupported` without files.
    pub fn files(&self) -> Result<&EngineFiles> {
        let none = || Error::not_yet("moving events out of a journal without files beside it");
        self.files.as_ref().ok_or_else(none)
    }

    /// Records the time of the latest commit.
    pub fn note_commits(&self) {
        self.commit_times.note(self.publisher.published().gsn, || self.clock.now_ns());
    }

    /// Number of sessions with an acquisition of a chronicle (F13).
    pub fn acquirers_of(&self, id: ChronicleId) -> u32 {
        self.acquirers.get().map_or(0, |acquirers| acquirers.acquirers(id))
    }
}
