//! The state that all moves between tiers share: files, limits and locks.

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

/// The mover: the part of the engine that moves events down the tiers.
#[derive(Debug)]
pub struct Mover {
    /// The journal.
    pub log: Arc<dyn Log>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Settings.
    pub settings: Arc<EngineSettings>,
    /// The publisher, which makes moves visible.
    pub publisher: Arc<Publisher>,
    /// The keeper. Its use of memory and journal decides when events must move.
    pub keeper: Arc<Keeper>,
    /// The files for events that leave the journal; `None` if all events stay in the journal.
    pub files: Option<EngineFiles>,
    /// The lock of moves: only the holder of the lock may move events. Only one move runs at a
    /// time.
    pub move_lock: tokio::sync::Mutex<()>,
    /// The recent moves, and their metrics.
    pub move_history: MoveHistory,
    /// Limits the write rate of merges and stories.
    pub write_throttle: WriteThrottle,
    /// Releases journal segments, and counts the holds that delay the release.
    pub journal_release: JournalRelease,
    /// The blocks of tablets that also stay in memory.
    pub backlog: Backlog,
    /// Estimated commit times of events.
    pub commit_times: CommitTimes,
    /// The runtime on which recovery and the grapher wait for futures.
    pub blocking_pool: BlockingPool,
    /// Counts the sessions with an acquisition of a chronicle; empty without a source of
    /// acquisitions.
    pub acquirers: OnceLock<Arc<dyn Acquirers>>,
    /// Assigns the numbers of new pieces.
    pub piece_counter: PieceCounter,
}

impl Mover {
    /// A mover without running moves.
    ///
    /// # Errors
    /// The error of the operating system if the runtime cannot start.
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

    /// The files other than the log.
    ///
    /// # Errors
    /// `FeatureNotSupported` if the engine has no such files.
    pub fn files(&self) -> Result<&EngineFiles> {
        let none = || Error::not_yet("moving events out of a journal without files beside it");
        self.files.as_ref().ok_or_else(none)
    }

    /// Records the highest committed gsn and the current time, to estimate commit times.
    pub fn note_commits(&self) {
        self.commit_times.note(self.publisher.published().gsn, || self.clock.now_ns());
    }

    /// Number of sessions with an acquisition of a chronicle (F13).
    pub fn acquirers_of(&self, id: ChronicleId) -> u32 {
        self.acquirers.get().map_or(0, |acquirers| acquirers.acquirers(id))
    }
}
