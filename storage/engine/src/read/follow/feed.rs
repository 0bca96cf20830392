//! The feed: a ring buffer of the latest commits of a chronicle. All followers of the chronicle
//! share the ring, and each commit is decoded once (F104).
//!
//! ```text
//!   commit ─► visible ─► push ─► [ … │ commit │ commit ]   the oldest leave a full ring
//!                          └► relay ─► waiting followers       └ slower followers read history
//! ```
//! The publisher only adds to the ring and wakes one task, the relay, which wakes the followers:
//! the cost for the publisher does not depend on the number of followers. The ring is empty while
//! the chronicle has no follower.

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
    invariant,
};
use tokio::{
    runtime::Handle,
    sync::{Notify, watch},
};

use crate::{
    events::batch::MemoryBatch,
    read::follow::memory::{self, GSN},
    version::Version,
};

/// Maximum number of commits in one ring.
const COMMITS_MAX: usize = 4096;

/// One ring may use at most `1 / RING_SHARE` of the bytes of all rings.
const RING_SHARE: u64 = 4;

/// Bytes of a decoded value, without long texts: a number, or the view of a text.
const DECODED_BYTES: u64 = 16;

/// Counts the bytes of all rings together, and has their limit.
#[derive(Debug)]
pub struct FeedBytes {
    used: AtomicU64,
    max: u64,
}

impl FeedBytes {
    /// A count of 0 bytes with the limit `max`.
    pub fn new(max: u64) -> Self {
        Self { used: AtomicU64::new(0), max }
    }
}

/// The ring of the latest commits of a chronicle.
#[derive(Debug)]
pub struct Feed {
    /// True while the chronicle has a follower.
    active: AtomicBool,
    ring: Mutex<Ring>,
    all_bytes: Arc<FeedBytes>,
    /// Wakes the relay after a push.
    pushed: Notify,
    /// Wakes the followers: the number increases with every change of the ring.
    wake: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Ring {
    followers: usize,
    relayed: bool,
    /// The ring has all commits with a gsn at or after `from`.
    from: u64,
    commits: VecDeque<Arc<Commit>>,
    bytes: u64,
    /// True after the chronicle was dropped.
    ended: bool,
}

impl Ring {
    fn assert_consistent(&self) {
        debug_assert!(
            self.followers > 0 || self.commits.is_empty(),
            "a ring without followers has commits"
        );
        debug_assert!(!self.commits.is_empty() || self.bytes == 0, "an empty ring has bytes");
        debug_assert!(
            self.commits.front().is_none_or(|first| self.from <= first.batch.first_gsn()),
            "a ring has commits from before its begin"
        );
    }
}

/// A commit in the ring, and its rows once they are decoded.
#[derive(Debug)]
pub struct Commit {
    batch: Arc<MemoryBatch>,
    /// Highest gsn that is visible with this commit.
    visible: Gsn,
    /// The decoded rows with all columns, and the schema version and index granularity of the
    /// request that decoded them last.
    decoded: Mutex<Option<((SchemaVersion, Granularity), RecordBatch)>>,
}

/// The answer of the ring to a follower's request for the next commits.
#[derive(Debug)]
pub enum RingCommits {
    /// The next commits; empty if no commit has followed yet.
    Commits(Vec<Arc<Commit>>),
    /// The next commits have left the ring: the follower must read history.
    Behind,
    /// The chronicle was dropped.
    Ended,
}

impl Feed {
    /// An empty ring without followers.
    pub fn new(all_bytes: &Arc<FeedBytes>) -> Arc<Self> {
        Arc::new(Self {
            active: AtomicBool::new(false),
            ring: Mutex::default(),
            all_bytes: Arc::clone(all_bytes),
            pushed: Notify::new(),
            wake: watch::Sender::new(0),
        })
    }

    /// True if the chronicle has a follower.
    pub fn is_active(&self) -> bool {
        self.active.load(Ordering::Acquire)
    }

    /// Adds a follower that starts after `committed`, the head of the log. The follower ends when
    /// the result drops. Call only under the publisher's lock.
    ///
    /// # Errors
    /// `Internal` outside of a Tokio runtime: the relay is a task.
    pub fn follow(self: &Arc<Self>, committed: Gsn) -> Result<FeedFollower> {
        let runtime = Handle::try_current()
            .map_err(|_| Error::internal("a subscription outside of a runtime"))?;
        let mut ring = self.ring.lock();
        if ring.followers == 0 {
            ring.from = committed.0 + 1;
        }
        ring.followers += 1;
        ring.assert_consistent();
        self.active.store(true, Ordering::Release);
        if !std::mem::replace(&mut ring.relayed, true) {
            runtime.spawn(relay(Arc::clone(self)));
        }
        Ok(FeedFollower { feed: Arc::clone(self), news: self.wake.subscribe() })
    }

    /// Adds a commit that is visible now. Call only under the publisher's lock.
    pub fn push(&self, batch: Arc<MemoryBatch>, visible: Gsn) {
        let mut ring = self.ring.lock();
        if ring.followers == 0 {
            return;
        }
        let bytes = bytes_of(&batch);
        let commit = Commit { batch, visible, decoded: Mutex::default() };
        let end = ring.commits.back().map_or(0, |last| last.batch.last_gsn());
        invariant!(
            OrderedScans,
            end < commit.batch.first_gsn() && commit.batch.last_gsn() <= commit.visible.0,
            "followers get gsn {} after {end}, at the head {}",
            commit.batch.first_gsn(),
            commit.visible
        );
        ring.commits.push_back(Arc::new(commit));
        ring.bytes += bytes;
        let used = self.all_bytes.used.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let mut over = used.saturating_sub(self.all_bytes.max);
        let bytes_max = self.all_bytes.max / RING_SHARE;
        while ring.commits.len() > COMMITS_MAX || ring.bytes > bytes_max || over > 0 {
            let Some(oldest) = ring.commits.pop_front() else { break };
            ring.from = oldest.batch.last_gsn() + 1;
            let bytes = bytes_of(&oldest.batch);
            debug_assert!(bytes <= ring.bytes, "a commit has more bytes than its ring");
            ring.bytes -= bytes;
            over = over.saturating_sub(bytes);
            self.all_bytes.used.fetch_sub(bytes, Ordering::Relaxed);
        }
        ring.assert_consistent();
        drop(ring);
        self.pushed.notify_one();
    }

    /// Empties the ring after a delete, so that later readers do not find deleted events.
    /// `committed` is the head of the log. Call only under the publisher's lock.
    pub fn forget(&self, committed: Gsn) {
        let mut ring = self.ring.lock();
        self.empty(&mut ring);
        ring.from = committed.0 + 1;
    }

    /// Wakes all followers, because history has events that the ring does not have.
    pub fn announce(&self) {
        self.pushed.notify_one();
    }

    fn empty(&self, ring: &mut Ring) {
        debug_assert!(
            ring.bytes <= self.all_bytes.used.load(Ordering::Relaxed),
            "a ring has more bytes than all rings"
        );
        self.all_bytes.used.fetch_sub(ring.bytes, Ordering::Relaxed);
        ring.commits = VecDeque::new();
        ring.bytes = 0;
        ring.assert_consistent();
    }

    /// Ends the ring of a dropped chronicle: followers receive neither new commits nor the commits
    /// left in the ring.
    pub fn end(&self) {
        let mut ring = self.ring.lock();
        ring.ended = true;
        self.empty(&mut ring);
        drop(ring);
        self.pushed.notify_one();
    }

    fn leave(&self) {
        let mut ring = self.ring.lock();
        debug_assert!(ring.followers > 0, "a follower leaves twice");
        ring.followers -= 1;
        if ring.followers == 0 {
            self.active.store(false, Ordering::Release);
            self.empty(&mut ring);
            drop(ring);
            self.pushed.notify_one();
        }
    }
}

/// Bytes of a batch and of its decoded columns. Long values count once, because the decoded columns
/// point into the batch.
fn bytes_of(batch: &MemoryBatch) -> u64 {
    let values = batch.rows() * (batch.columns().len() + SYSTEM_COLUMNS.len());
    batch.bytes() + values as u64 * DECODED_BYTES
}

/// The relay task: wakes all waiting followers after each change, until the last follower leaves.
async fn relay(feed: Arc<Feed>) {
    let mut relaying = RelayGuard { feed: Arc::clone(&feed), ended: false };
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

/// Guard of the running relay. Its drop also clears the mark of the running relay if the runtime
/// ends before the last follower leaves.
struct RelayGuard {
    feed: Arc<Feed>,
    ended: bool,
}

impl Drop for RelayGuard {
    fn drop(&mut self) {
        if !self.ended {
            self.feed.ring.lock().relayed = false;
        }
    }
}

/// A follower of a chronicle. Its drop ends the following.
#[derive(Debug)]
pub struct FeedFollower {
    feed: Arc<Feed>,
    news: watch::Receiver<u64>,
}

impl FeedFollower {
    /// Returns commits from `gsn` onward, at most `commits_max`. The list ends with the commit at
    /// which it exceeds `rows_max` rows or `bytes_max` bytes.
    pub fn take(
        &mut self,
        gsn: Gsn,
        commits_max: usize,
        rows_max: usize,
        bytes_max: u64,
    ) -> RingCommits {
        // The wait for news ends with the first commit after this point.
        self.news.mark_unchanged();
        let ring = self.feed.ring.lock();
        debug_assert!(ring.followers > 0, "the ring does not know its follower");
        if ring.ended {
            return RingCommits::Ended;
        }
        if gsn.0 < ring.from {
            return RingCommits::Behind;
        }
        let first = ring.commits.partition_point(|commit| commit.batch.last_gsn() < gsn.0);
        let (mut rows, mut bytes) = (0, 0);
        let wanted = ring.commits.iter().skip(first).take(commits_max).take_while(|commit| {
            let enough = rows > rows_max || bytes > bytes_max;
            rows += commit.batch.rows();
            bytes += commit.batch.bytes();
            !enough
        });
        RingCommits::Commits(wanted.cloned().collect())
    }

    /// Waits until the ring has changed since the last [`Self::take`].
    pub async fn news(&mut self) {
        // `self.feed` owns the sender: the wait cannot fail.
        let _ = self.news.changed().await;
    }
}

impl Drop for FeedFollower {
    fn drop(&mut self) {
        self.feed.leave();
    }
}

impl Commit {
    /// The rows of the commit with all columns of a definition, including system columns; decoded
    /// once for all followers.
    fn rows(&self, definition: &Arc<ChronicleDefinition>) -> Result<RecordBatch> {
        let shape = (definition.schema_version, definition.index_granularity());
        let mut decoded = self.decoded.lock();
        if let Some((known, rows)) = decoded.as_ref()
            && *known == shape
        {
            return Ok(rows.clone());
        }
        let nothing_deleted = Arc::new(Version::default());
        let request = memory::request_for_all(definition);
        let rows = memory::rows(&self.batch, &request, &nothing_deleted, self.visible)?;
        debug_assert!(rows.num_rows() <= self.batch.rows(), "a commit shows a row twice");
        *decoded = Some((shape, rows.clone()));
        Ok(rows)
    }

    /// Returns at most `rows_max` rows from `gsn` onward, with all columns of a definition,
    /// including system columns; and the gsn after these rows.
    ///
    /// # Errors
    /// `Internal`.
    pub fn behind(
        &self,
        definition: &Arc<ChronicleDefinition>,
        gsn: Gsn,
        rows_max: usize,
    ) -> Result<(RecordBatch, Gsn)> {
        debug_assert!(rows_max > 0, "a follower takes no rows");
        debug_assert!(gsn.0 <= self.batch.last_gsn(), "a follower has passed the commit");
        let rows = self.rows(definition)?;
        let gsns = rows.columns().get(definition.columns.len() + GSN);
        let gsns = gsns.and_then(|column| column.as_primitive_opt::<Int64Type>());
        let gsns = gsns.ok_or_else(|| Error::internal("events were read without their gsn"))?;
        let gsns = gsns.values();
        let first = gsns.partition_point(|value| value.cast_unsigned() < gsn.0);
        let count = rows_max.min(gsns.len() - first);
        debug_assert!(first + count <= gsns.len() && gsns.is_sorted());
        if count == gsns.len() {
            // All rows are wanted: every follower shares the same arrays.
            return Ok((rows, self.batch.gsns().end));
        }
        let next = gsns.get(first + count).map(|next| Gsn(next.cast_unsigned()));
        Ok((rows.slice(first, count), next.unwrap_or(self.batch.gsns().end)))
    }
}
