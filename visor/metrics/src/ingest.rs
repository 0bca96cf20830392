//! The metrics of line protocol, telemetry, and SQL over HTTP.

use prometheus_client::metrics::{counter::Counter, gauge::Gauge};

use crate::{catalogue, registrar::Registrar};

/// Counters of line protocol, telemetry and SQL over HTTP.
#[derive(Debug, Clone)]
pub struct IngestMetrics {
    bytes: Counter,
    lines: Counter,
    lines_refused: Counter,
    samples: Counter,
    samples_refused: Counter,
    rows: Counter,
    requests_refused: Counter,
    queries: Counter,
    line_connections: Gauge,
}

impl IngestMetrics {
    pub(crate) fn register(registrar: &mut Registrar) -> Self {
        Self {
            bytes: registrar.one(&catalogue::INGEST_BYTES),
            lines: registrar.one(&catalogue::INGEST_LINES),
            lines_refused: registrar.one(&catalogue::INGEST_LINES_REFUSED),
            samples: registrar.one(&catalogue::INGEST_SAMPLES),
            samples_refused: registrar.one(&catalogue::INGEST_SAMPLES_REFUSED),
            rows: registrar.one(&catalogue::INGEST_ROWS),
            requests_refused: registrar.one(&catalogue::INGEST_REQUESTS_REFUSED),
            line_connections: registrar.one(&catalogue::LINE_CONNECTIONS),
            queries: registrar.one(&catalogue::HTTP_QUERIES),
        }
    }

    /// Counts bytes read, after decompression.
    pub fn bytes(&self, count: usize) {
        self.bytes.inc_by(count as u64);
    }

    /// Counts lines that were read: `taken` accepted lines, and `refused` lines.
    pub fn lines(&self, taken: u64, refused: u64) {
        self.lines.inc_by(taken);
        self.lines_refused.inc_by(refused);
    }

    /// Counts samples that were read: `taken` accepted samples, and `refused` samples.
    pub fn samples(&self, taken: u64, refused: u64) {
        self.samples.inc_by(taken);
        self.samples_refused.inc_by(refused);
    }

    /// Counts rows stored.
    pub fn rows(&self, count: u64) {
        self.rows.inc_by(count);
    }

    /// Counts a write request of which everything was refused.
    pub fn refused(&self) {
        self.requests_refused.inc();
    }

    /// Counts a statement over HTTP.
    pub fn query(&self) {
        self.queries.inc();
    }

    /// Counts a new connection of line protocol over TCP.
    pub fn connected(&self) {
        self.line_connections.inc();
    }

    /// Counts the end of a connection of line protocol over TCP.
    pub fn disconnected(&self) {
        self.line_connections.dec();
    }
}
