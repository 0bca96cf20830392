//! The metrics of the journals: syncs, groups, waits.

use prometheus_client::metrics::gauge::Gauge;

use crate::{
    Histogram, Stopwatch, catalogue,
    registrar::{Instrument as _, Registrar},
};

/// A journal of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JournalName {
    /// The journal of the events.
    Events,
    /// The log of the catalog.
    Catalog,
    /// The log of the manifest.
    Manifest,
}

impl JournalName {
    /// Every journal.
    pub const ALL: [Self; 3] = [Self::Events, Self::Catalog, Self::Manifest];

    /// The value of the label `log`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Catalog => "catalog",
            Self::Manifest => "manifest",
        }
    }
}

/// The metrics of one journal. If made by `default`, they are not part of any registry, and appear
/// on no page.
#[derive(Debug, Clone)]
pub struct JournalMetrics {
    syncs: Histogram,
    group_events: Histogram,
    group_bytes: Histogram,
    waiting: Gauge,
}

impl Default for JournalMetrics {
    fn default() -> Self {
        Self {
            syncs: Histogram::of(&catalogue::JOURNAL_SYNC_SECONDS),
            group_events: Histogram::of(&catalogue::JOURNAL_GROUP_EVENTS),
            group_bytes: Histogram::of(&catalogue::JOURNAL_GROUP_BYTES),
            waiting: Gauge::default(),
        }
    }
}

impl JournalMetrics {
    /// The metrics of all journals.
    pub(crate) fn register(registrar: &mut Registrar) -> Vec<(JournalName, Self)> {
        let names = || JournalName::ALL.map(|journal| [journal.name().to_string()]);
        let syncs = registrar.each(&catalogue::JOURNAL_SYNC_SECONDS, names());
        let group_events = registrar.each(&catalogue::JOURNAL_GROUP_EVENTS, names());
        let group_bytes = registrar.each(&catalogue::JOURNAL_GROUP_BYTES, names());
        let waiting = registrar.each(&catalogue::JOURNAL_APPENDS_WAITING, names());
        let groups = group_events.into_iter().zip(group_bytes);
        JournalName::ALL
            .into_iter()
            .zip(syncs)
            .zip(groups)
            .zip(waiting)
            .map(|(((name, syncs), (group_events, group_bytes)), waiting)| {
                (name, Self { syncs, group_events, group_bytes, waiting })
            })
            .collect()
    }

    /// Records a sync; the caller has started `stopwatch` at the beginning of the sync.
    pub fn synced(&self, stopwatch: Stopwatch) {
        self.syncs.observe_duration(stopwatch.elapsed());
    }

    /// Records a group of appends that was written together.
    pub fn wrote_group(&self, events: u64, bytes: u64) {
        self.group_events.observe(events);
        self.group_bytes.observe(bytes);
    }

    /// Counts an append as waiting, until the result is dropped.
    pub fn wait(&self) -> WaitingAppend {
        self.waiting.inc();
        WaitingAppend(self.waiting.clone())
    }
}

/// Counts an append as waiting for space in the queue, until dropped.
#[derive(Debug)]
pub struct WaitingAppend(Gauge);

impl Drop for WaitingAppend {
    fn drop(&mut self) {
        self.0.dec();
    }
}
