//! The publisher: assigns gsn's to durable events, and makes new versions visible (CL-4, CL-5).
//!
//! ```text
//!   durable events ─► gsn's, under the lock ─► new versions ─► published ─► followers woken
//!   changes of versions (merges, moves, deletes), one at a time ─┘
//!
//!   locks, in the order in which they may be taken:
//!     publisher  ─►  chronicle state  ─►  published, producers, budget
//!   a snapshot locks only `published`; admission locks only the state of one chronicle
//! ```

use std::sync::Arc;

use parking_lot::Mutex;
use stratalog_model::{ChronicleId, Gsn, Result, invariant};
use tokio::sync::watch;

use super::{
    Version,
    published_versions::{PinnedVersion, PublishedVersions},
    untidy::UntidyChronicles,
};
use crate::{
    events::{batch::MemoryBatch, budget::Budget},
    ingest::{
        chronicle::Chronicle,
        chronicles::{self, Chronicles},
        step::Step,
    },
    read::follow::feed::FeedFollower,
    settings::EngineSettings,
};

/// The published versions of all chronicles, and the lock for changes of versions.
#[derive(Debug)]
pub struct Publisher {
    /// The chronicles.
    pub chronicles: Chronicles,
    /// Settings.
    pub settings: Arc<EngineSettings>,
    /// Memory budget for events.
    pub budget: Arc<Budget>,
    /// The chronicles whose batches are worth a merge or a copy.
    pub untidy: UntidyChronicles,
    /// Highest committed gsn. Only the holder of this lock (the publisher's lock) may change
    /// versions.
    committed: Mutex<u64>,
    published: Mutex<Arc<PublishedVersions>>,
    /// Highest published gsn.
    head: watch::Sender<u64>,
}

impl Publisher {
    /// A publisher without versions.
    pub fn new(
        chronicles: Chronicles,
        settings: &Arc<EngineSettings>,
        budget: &Arc<Budget>,
    ) -> Self {
        Self {
            chronicles,
            settings: Arc::clone(settings),
            budget: Arc::clone(budget),
            untidy: UntidyChronicles::default(),
            committed: Mutex::default(),
            published: Mutex::default(),
            head: watch::Sender::new(0),
        }
    }

    /// The state that is visible now.
    pub fn published(&self) -> Arc<PublishedVersions> {
        Arc::clone(&self.published.lock())
    }

    /// A receiver of the highest published gsn, which also reports each change.
    pub fn head(&self) -> watch::Receiver<u64> {
        self.head.subscribe()
    }

    /// Assigns gsn's to durable events, and makes the events, and the deletes between them, visible
    /// at once. `note` receives the highest gsn before the events become visible. Returns the first
    /// gsn. Called when the log has completed the commit frame, in lsn order.
    ///
    /// # Errors
    /// `UndefinedTable` if a chronicle was dropped: no reader sees its events.
    pub fn publish(&self, steps: Vec<Step>, note: impl FnOnce(u64)) -> Result<u64> {
        let mut forgotten = false;
        let mut committed = self.committed.lock();
        let first = *committed + 1;
        let mut versions = Vec::with_capacity(steps.len());
        let mut followed: Vec<(Arc<Chronicle>, Arc<MemoryBatch>)> = Vec::new();
        let mut deleted = Vec::new();
        for step in steps {
            let chunk = match step {
                Step::Events(chunk) => chunk,
                Step::Delete(deletion) => {
                    let chronicle = &deletion.chronicle;
                    match deletion.carry_out(Gsn(*committed)) {
                        Some(pinned) => versions.push(pinned),
                        None => forgotten = true,
                    }
                    // After a delete, followers find the earlier events that remain in the version,
                    // and not in the ring.
                    followed.retain(|(known, _)| !Arc::ptr_eq(known, chronicle));
                    deleted.push(Arc::clone(chronicle));
                    continue;
                }
            };
            let rows = chunk.rows() as u64;
            let (batch, mut reserved) = chunk.into_batch(*committed + 1);
            debug_assert_eq!(batch.first_gsn(), *committed + 1, "a gsn is left out");
            debug_assert_eq!(batch.rows() as u64, rows);
            *committed += rows;
            let chronicle = Arc::clone(&reserved.chronicle);
            let sealed = self.settings.compaction_rows_max;
            match chronicle.commit(batch, &mut reserved, sealed) {
                Some(version) => {
                    if chronicle.feed().is_active()
                        && let Some(batch) = version.batches().next_back()
                    {
                        followed.push((Arc::clone(&chronicle), Arc::clone(batch)));
                    }
                    versions.push(PinnedVersion { chronicle, version });
                }
                None => forgotten = true,
            }
        }
        note(*committed);
        self.show(*committed, versions);
        // After `show`, so that a woken follower finds the commit visible.
        for (chronicle, batch) in followed {
            chronicle.feed().push(batch, Gsn(*committed));
        }
        for chronicle in deleted {
            chronicle.feed().announce();
        }
        if forgotten { Err(chronicles::dropped()) } else { Ok(first) }
    }

    /// Removes a dropped chronicle and its version.
    pub fn forget(&self, id: ChronicleId) {
        let _publisher = self.committed.lock();
        self.chronicles.forget(id);
        Arc::make_mut(&mut self.published.lock()).versions.remove(&id);
    }

    /// Sets the highest committed gsn after recovery.
    pub fn set_committed(&self, gsn: u64) {
        let mut committed = self.committed.lock();
        debug_assert!(*committed <= gsn, "the highest committed gsn goes back");
        *committed = gsn;
    }

    /// Runs `change` under the publisher's lock, and publishes the version that it returns.
    /// `change` receives the highest committed gsn.
    pub fn change<T>(&self, change: impl FnOnce(Gsn) -> (Option<PinnedVersion>, T)) -> T {
        let committed = self.committed.lock();
        let (pinned, result) = change(Gsn(*committed));
        self.show(*committed, pinned);
        result
    }

    /// Adds a follower of a chronicle that starts at the head of the log. Also returns the highest
    /// committed gsn.
    ///
    /// # Errors
    /// `Internal` outside of a Tokio runtime.
    pub fn follow(&self, chronicle: &Chronicle) -> Result<(FeedFollower, Gsn)> {
        let committed = self.committed.lock();
        let following = chronicle.feed().follow(Gsn(*committed))?;
        Ok((following, Gsn(*committed)))
    }

    /// True if this version is the published version of the chronicle.
    pub fn shows(&self, id: ChronicleId, version: &Arc<Version>) -> bool {
        let published = self.published.lock();
        published.versions.get(&id).is_some_and(|pinned| Arc::ptr_eq(&pinned.version, version))
    }

    /// Makes the highest gsn and new versions visible. If a snapshot still has the current state,
    /// this function copies the list of all chronicles. Without any change, it returns before the
    /// copy.
    pub fn show(&self, gsn: u64, versions: impl IntoIterator<Item = PinnedVersion>) {
        let mut versions = versions.into_iter().peekable();
        let mut untidy = Vec::new();
        let mut guard = self.published.lock();
        invariant!(
            SnapshotsFrozen,
            guard.gsn <= Gsn(gsn),
            "the head goes back from gsn {} to {gsn}",
            guard.gsn
        );
        if versions.peek().is_none() && guard.gsn == Gsn(gsn) {
            return;
        }
        let published = Arc::make_mut(&mut guard);
        published.gsn = Gsn(gsn);
        for pinned in versions {
            let id = pinned.chronicle.id();
            if self.chronicles.is_forgotten(id) {
                continue;
            }
            let many = pinned.version.tail().len() >= self.settings.compaction_fan_in;
            if many || pinned.chronicle.is_worn() {
                untidy.push(id);
            }
            published.versions.insert(id, pinned);
        }
        drop(guard);
        self.head.send_if_modified(|head| std::mem::replace(head, gsn) != gsn);
        if !untidy.is_empty() {
            self.untidy.add(untidy);
        }
    }
}
