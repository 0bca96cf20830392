//! What was committed last, for those who follow a chronicle as it grows (F104): one ring for all
//! of them, with one decoded batch for each commit.
//!
//! ```text
//!   commit ─► visible ─► push ─► [ … │ commit │ commit ]   the oldest go when there are many
//!                          └► relay ─► all who wait            └ who is behind them reads history
//! ```
//! The publisher only adds to the ring and wakes one task, the relay: thousands who wait cost it
//! nothing. While nobody follows, there is no ring.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use arrow::{
    array::{AsArray, RecordBatch},
    datatypes::Int64Type,
};
use parking_lot::Mutex;
use stratalog_model::{
    ChronicleDefinition, Error, Granularity, Gsn, Result, SchemaVersion, chronicle::SYSTEM_COLUMNS,
};
use tokio::{
    runtime::Handle,
    sync::{Notify, watch},
};

use crate::{
    memtable::batch::MemoryBatch,
    player::follow::{GSN, memory},
    version::Version,
};

/// Commits in a ring, at most.
const COMMITS_MAX: usize = 4096;

/// A ring has one in so many of the bytes that all rings may have together, at most.
const RING_SHARE: u64 = 4;

/// Bytes of a value that is decoded, and does not lie where it came: a number, or the view of a text.
const DECODED_BYTES: u64 = 16;

/// Bytes of all rings together, and how many there may be.
#[derive(Debug)]
pub struct FeedBytes {
    used: AtomicU64,
    max: u64,
}

impl FeedBytes {
    /// Room for so many.
    pub fn new(max: u64) -> Self {
        Self { used: AtomicU64::new(0), max }
    }
}

/// The ring of a chronicle.
#[derive(Debug)]
pub struct Feed {
    /// Somebody follows.
    active: AtomicBool,
    ring: Mutex<Ring>,
    all_bytes: Arc<FeedBytes>,
    /// For the relay.
    pushed: Notify,
    /// Changes when there is something new.
    wake: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Ring {
    followers: usize,
    relayed: bool,
    /// The ring has all commits from this gsn on.
    from: u64,
    commits: VecDeque<Arc<Commit>>,
    bytes: u64,
    /// The chronicle was dropped.
    ended: bool,
}

/// One commit, and what it looks like to those who follow.
#[derive(Debug)]
pub struct Commit {
    batch: Arc<MemoryBatch>,
    /// Head of the log with it.
    visible: Gsn,
    /// All columns, of the schema version and the index that were asked for last.
    decoded: Mutex<Option<((SchemaVersion, Granularity), RecordBatch)>>,
}

/// What the ring has for somebody.
#[derive(Debug)]
pub enum Taken {
    /// Commits that come next; none yet, if it is empty.
    Commits(Vec<Arc<Commit>>),
    /// Those that come next are not in the ring any more.
    Behind,
    /// The chronicle was dropped.
    Ended,
}

impl Feed {
    /// A ring that nobody follows.
    pub fn new(all_bytes: &Arc<FeedBytes>) -> Arc<Self> {
        Arc::new(Self {
            active: AtomicBool::new(false),
            ring: Mutex::default(),
            all_bytes: Arc::clone(all_bytes),
            pushed: Notify::new(),
            wake: watch::Sender::new(0),
        })
    }

    /// Whether somebody follows.
    pub fn is_active(&self) -> bool {
        self.active.load(Ordering::Acquire)
    }

    /// Somebody follows from here on, until what this returns is dropped; `committed` is the head
    /// of the log. Only under the publisher's lock.
    ///
    /// # Errors
    /// `Internal` outside of a runtime, which the relay needs.
    pub fn follow(self: &Arc<Self>, committed: Gsn) -> Result<Following> {
        let runtime = Handle::try_current()
            .map_err(|_| Error::internal("a subscription outside of a runtime"))?;
        let mut ring = self.ring.lock();
        if ring.followers == 0 {
            ring.from = committed.0 + 1;
        }
        ring.followers += 1;
        self.active.store(true, Ordering::Release);
        if !std::mem::replace(&mut ring.relayed, true) {
            runtime.spawn(relay(Arc::clone(self)));
        }
        Ok(Following { feed: Arc::clone(self), news: self.wake.subscribe() })
    }

    /// A commit is visible. Only under the publisher's lock.
    pub fn push(&self, batch: Arc<MemoryBatch>, visible: Gsn) {
        let mut ring = self.ring.lock();
        if ring.followers == 0 {
            return;
        }
        let bytes = bytes_of(&batch);
        let commit = Commit { batch, visible, decoded: Mutex::default() };
        ring.commits.push_back(Arc::new(commit));
        ring.bytes += bytes;
        let used = self.all_bytes.used.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let mut over = used.saturating_sub(self.all_bytes.max);
        let bytes_max = self.all_bytes.max / RING_SHARE;
        while ring.commits.len() > COMMITS_MAX || ring.bytes > bytes_max || over > 0 {
            let Some(oldest) = ring.commits.pop_front() else { break };
            ring.from = oldest.batch.last_gsn() + 1;
            let bytes = bytes_of(&oldest.batch);
            ring.bytes -= bytes;
            over = over.saturating_sub(bytes);
            self.all_bytes.used.fetch_sub(bytes, Ordering::Relaxed);
        }
        drop(ring);
        self.pushed.notify_one();
    }

    /// Events were deleted: whoever comes now is not to find them here. Only under the publisher's
    /// lock; `committed` is the head of the log.
    pub fn forget(&self, committed: Gsn) {
        let mut ring = self.ring.lock();
        self.empty(&mut ring);
        ring.from = committed.0 + 1;
    }

    /// Wakes all followers: history has events that the ring does not have.
    pub fn announce(&self) {
        self.pushed.notify_one();
    }

    fn empty(&self, ring: &mut Ring) {
        self.all_bytes.used.fetch_sub(ring.bytes, Ordering::Relaxed);
        ring.commits = VecDeque::new();
        ring.bytes = 0;
    }

    /// The chronicle was dropped: nothing will come any more, and nobody is told what there is.
    pub fn end(&self) {
        let mut ring = self.ring.lock();
        ring.ended = true;
        self.empty(&mut ring);
        drop(ring);
        self.pushed.notify_one();
    }

    fn leave(&self) {
        let mut ring = self.ring.lock();
        ring.followers -= 1;
        if ring.followers == 0 {
            self.active.store(false, Ordering::Release);
            self.empty(&mut ring);
            drop(ring);
            self.pushed.notify_one();
        }
    }
}

/// A batch, and what is decoded of it; long values are not, they are read where they lie.
fn bytes_of(batch: &MemoryBatch) -> u64 {
    let values = batch.rows() * (batch.columns().len() + SYSTEM_COLUMNS.len());
    batch.bytes() + values as u64 * DECODED_BYTES
}

/// Tells all who wait, as long as there are any.
async fn relay(feed: Arc<Feed>) {
    let mut relaying = Relaying { feed: Arc::clone(&feed), ended: false };
    loop {
        feed.pushed.notified().await;
        {
            let mut ring = feed.ring.lock();
            if ring.followers == 0 {
                ring.relayed = false;
                relaying.ended = true;
                return;
            }
        }
        feed.wake.send_modify(|news| *news = news.wrapping_add(1));
    }
}

/// The one who relays. Also when its runtime ends before the last follower does.
struct Relaying {
    feed: Arc<Feed>,
    ended: bool,
}

impl Drop for Relaying {
    fn drop(&mut self) {
        if !self.ended {
            self.feed.ring.lock().relayed = false;
        }
    }
}

/// One who follows a chronicle.
#[derive(Debug)]
pub struct Following {
    feed: Arc<Feed>,
    news: watch::Receiver<u64>,
}

impl Following {
    /// The commits from the one with a gsn on: at most `commits_max` of them, and no more than one
    /// beyond those that have `rows_max` rows or `bytes_max` bytes.
    pub fn take(&mut self, gsn: Gsn, commits_max: usize, rows_max: usize, bytes_max: u64) -> Taken {
        // What comes from here on is news.
        self.news.mark_unchanged();
        let ring = self.feed.ring.lock();
        if ring.ended {
            return Taken::Ended;
        }
        if gsn.0 < ring.from {
            return Taken::Behind;
        }
        let first = ring.commits.partition_point(|commit| commit.batch.last_gsn() < gsn.0);
        let (mut rows, mut bytes) = (0, 0);
        let wanted = ring.commits.iter().skip(first).take(commits_max).take_while(|commit| {
            let enough = rows > rows_max || bytes > bytes_max;
            rows += commit.batch.rows();
            bytes += commit.batch.bytes();
            !enough
        });
        Taken::Commits(wanted.cloned().collect())
    }

    /// Returns when there is something new since the last look.
    pub async fn news(&mut self) {
        // The sender lives as long as this.
        let _ = self.news.changed().await;
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.feed.leave();
    }
}

impl Commit {
    /// All columns of a definition, system columns included: decoded once for all who follow.
    fn rows(&self, definition: &Arc<ChronicleDefinition>) -> Result<RecordBatch> {
        let asked = (definition.schema_version, definition.index_granularity());
        let mut decoded = self.decoded.lock();
        if let Some((known, rows)) = decoded.as_ref()
            && *known == asked
        {
            return Ok(rows.clone());
        }
        let nothing_deleted = Arc::new(Version::default());
        let request = memory::everything_of(definition);
        let rows = memory::rows(&self.batch, &request, &nothing_deleted, self.visible)?;
        *decoded = Some((asked, rows.clone()));
        Ok(rows)
    }

    /// Its rows with a gsn or a later one, `rows_max` of them at most, with all columns of a
    /// definition, system columns included; and the position behind them.
    ///
    /// # Errors
    /// `Internal`.
    pub fn behind(
        &self,
        definition: &Arc<ChronicleDefinition>,
        gsn: Gsn,
        rows_max: usize,
    ) -> Result<(RecordBatch, Gsn)> {
        let rows = self.rows(definition)?;
        let gsns = rows.columns().get(definition.columns.len() + GSN);
        let gsns = gsns.and_then(|column| column.as_primitive_opt::<Int64Type>());
        let gsns = gsns.ok_or_else(|| Error::internal("events were read without their gsn"))?;
        let gsns = gsns.values();
        let first = gsns.partition_point(|value| value.cast_unsigned() < gsn.0);
        let count = rows_max.min(gsns.len() - first);
        if count == gsns.len() {
            // The very same arrays for all.
            return Ok((rows, self.batch.gsns().end));
        }
        let next = gsns.get(first + count).map(|next| Gsn(next.cast_unsigned()));
        Ok((rows.slice(first, count), next.unwrap_or(self.batch.gsns().end)))
    }
}
