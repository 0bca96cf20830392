//! The metrics of the process.
//!
//! *What it is*: the list of all metrics with types, labels, units and buckets ([`METRICS`]), one
//! registry, and a type for the metrics of each part: doors, statements, journals, moves, ingestion.
//!
//! *What it deliberately is not*: it does not store history, and does not trace. The crate has no
//! thread and uses no lock: an observation costs a few atomic additions. No metric has a label with
//! the name of a table, a user or a client, so the number of series is fixed at the start.
//!
//! *Data path*: [`Metrics::new`] → each part of the server gets its metrics → atomic additions →
//! [`Metrics::page`] → Prometheus' text format.

mod catalogue;
mod door;
mod histogram;
mod ingest;
mod journal;
mod moves;
mod query;
mod registrar;
mod status;
mod stopwatch;

use std::sync::Arc;

use prometheus_client::{encoding::prometheus_text, registry::Registry};

pub use self::{
    catalogue::{METRICS, Metric},
    door::{Door, DoorMetrics, OpenConnection, RequestClass, RequestTimer},
    histogram::Histogram,
    ingest::IngestMetrics,
    journal::{JournalMetrics, JournalName, WaitingAppend},
    moves::MoveMetrics,
    query::{PlanningStep, QueryMetrics, StatementClass},
    status::ServerStatus,
    stopwatch::Stopwatch,
};
use self::{door::DoorSeries, registrar::Registrar};

/// The content type of [`Metrics::page`].
pub const CONTENT_TYPE: &str = prometheus_text::CONTENT_TYPE;

/// The registry, and the metrics of all parts.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    doors: Arc<DoorSeries>,
    journals: Vec<(JournalName, JournalMetrics)>,
    queries: QueryMetrics,
    moves: MoveMetrics,
    ingest: IngestMetrics,
}

impl Metrics {
    /// Makes all metrics, with the value zero.
    pub fn new() -> Arc<Self> {
        let mut registrar = Registrar::default();
        let ingest = IngestMetrics::register(&mut registrar);
        let doors = Arc::new(DoorSeries::register(&mut registrar));
        let queries = QueryMetrics::register(&mut registrar);
        let journals = JournalMetrics::register(&mut registrar);
        let moves = MoveMetrics::register(&mut registrar);
        Arc::new(Self { registry: registrar.into(), doors, journals, queries, moves, ingest })
    }

    /// The metrics of one door.
    pub fn door(&self, door: Door) -> DoorMetrics {
        DoorMetrics::new(door, Arc::clone(&self.doors))
    }

    /// The metrics of a journal.
    pub fn journal(&self, name: JournalName) -> JournalMetrics {
        let found = self.journals.iter().find(|(known, _)| *known == name);
        found.map(|(_, metrics)| metrics.clone()).unwrap_or_default()
    }

    /// The metrics of statements.
    pub fn queries(&self) -> &QueryMetrics {
        &self.queries
    }

    /// The metrics of moves between tiers.
    pub fn moves(&self) -> &MoveMetrics {
        &self.moves
    }

    /// The metrics of line protocol and telemetry.
    pub fn ingest(&self) -> &IngestMetrics {
        &self.ingest
    }

    /// All metrics in Prometheus' text format; `status` is the current state of the server.
    pub fn page(&self, status: &ServerStatus<'_>) -> String {
        let mut page = String::new();
        status::write(status, &mut page);
        // A write to a String cannot fail.
        let _ = prometheus_text::encode(&mut page, &self.registry);
        page
    }
}

/// The value of a series on a page made by [`Metrics::page`]; `None` for an unknown series.
pub fn value_on_page(page: &str, series: &str) -> Option<f64> {
    page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
}

#[cfg(test)]
mod tests;
