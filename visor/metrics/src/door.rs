//! The doors (listeners) of the server: metrics of connections, requests and errors for each
//! protocol.

use std::sync::Arc;

use prometheus_client::metrics::{counter::Counter, gauge::Gauge};
use stratalog_model::ErrorKind;

use crate::{Histogram, Stopwatch, catalogue, registrar::Registrar};

/// A listener of the server, with its protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    /// The Postgres protocol.
    Postgres,
    /// Arrow Flight SQL.
    Flight,
    /// HTTP.
    Http,
    /// Line protocol over TCP.
    Lines,
}

impl Door {
    /// Every door, in the order of the declaration.
    pub const ALL: [Self; 4] = [Self::Postgres, Self::Flight, Self::Http, Self::Lines];

    /// The value of the label `door`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Flight => "flight",
            Self::Http => "http",
            Self::Lines => "lines",
        }
    }
}

/// A class of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestClass {
    /// Postgres: a Query message.
    Simple,
    /// Postgres: an Execute message.
    Extended,
    /// Flight: GetFlightInfo, GetSchema, PollFlightInfo and ListFlights.
    FlightInfo,
    /// Flight: DoGet.
    FlightGet,
    /// Flight: DoPut and DoExchange.
    FlightPut,
    /// Flight: Handshake, DoAction and ListActions.
    FlightAction,
    /// HTTP: SQL.
    HttpQuery,
    /// HTTP: line protocol.
    HttpWrite,
    /// HTTP: Prometheus remote write and OTLP.
    HttpTelemetry,
    /// HTTP: health, version and metrics.
    HttpStatus,
    /// Line protocol over TCP: the append of a batch of lines.
    LineBatch,
}

impl RequestClass {
    /// All classes, in the order of the declaration.
    pub const ALL: [Self; 11] = [
        Self::Simple,
        Self::Extended,
        Self::FlightInfo,
        Self::FlightGet,
        Self::FlightPut,
        Self::FlightAction,
        Self::HttpQuery,
        Self::HttpWrite,
        Self::HttpTelemetry,
        Self::HttpStatus,
        Self::LineBatch,
    ];

    /// The door on which requests of this class arrive.
    pub fn door(self) -> Door {
        match self {
            Self::Simple | Self::Extended => Door::Postgres,
            Self::FlightInfo | Self::FlightGet | Self::FlightPut | Self::FlightAction => {
                Door::Flight
            }
            Self::HttpQuery | Self::HttpWrite | Self::HttpTelemetry | Self::HttpStatus => {
                Door::Http
            }
            Self::LineBatch => Door::Lines,
        }
    }

    /// The value of the label `request`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Simple => "simple",
            Self::Extended => "extended",
            Self::FlightInfo => "info",
            Self::FlightGet => "get",
            Self::FlightPut => "put",
            Self::FlightAction => "action",
            Self::HttpQuery => "query",
            Self::HttpWrite | Self::LineBatch => "write",
            Self::HttpTelemetry => "telemetry",
            Self::HttpStatus => "status",
        }
    }
}

/// The metric series of all doors.
#[derive(Debug)]
pub(crate) struct DoorSeries {
    /// Open connections, by door.
    connections: Vec<Gauge>,
    accepted: Vec<Counter>,
    refused: Vec<Counter>,
    /// Durations of requests, by class of requests.
    requests: Vec<Histogram>,
    /// The classes of SQLSTATEs (their first two characters), sorted.
    classes: Vec<&'static str>,
    /// Errors, by door and then by class of SQLSTATEs.
    errors: Vec<Counter>,
}

impl DoorSeries {
    pub(crate) fn register(registrar: &mut Registrar) -> Self {
        let doors = || Door::ALL.map(|door| [door.name().to_string()]);
        let requests = RequestClass::ALL
            .map(|class| [class.door().name().to_string(), class.name().to_string()]);
        let classes = sqlstate_classes();
        let errors = Door::ALL.iter().flat_map(|door| {
            classes.iter().map(move |class| [door.name().to_string(), (*class).to_string()])
        });
        Self {
            connections: registrar.each(&catalogue::DOOR_CONNECTIONS, doors()),
            accepted: registrar.each(&catalogue::DOOR_CONNECTIONS_ACCEPTED, doors()),
            refused: registrar.each(&catalogue::DOOR_CONNECTIONS_REFUSED, doors()),
            requests: registrar.each(&catalogue::DOOR_REQUEST_SECONDS, requests),
            errors: registrar.each(&catalogue::DOOR_ERRORS, errors),
            classes,
        }
    }
}

/// The first two characters of all SQLSTATEs.
fn sqlstate_classes() -> Vec<&'static str> {
    let mut classes: Vec<&str> =
        ErrorKind::ALL.iter().filter_map(|kind| kind.sqlstate().get(..2)).collect();
    classes.sort_unstable();
    classes.dedup();
    classes
}

/// The metrics of a door.
#[derive(Debug, Clone)]
pub struct DoorMetrics {
    door: Door,
    series: Arc<DoorSeries>,
}

impl DoorMetrics {
    pub(crate) fn new(door: Door, series: Arc<DoorSeries>) -> Self {
        Self { door, series }
    }

    /// Counts an accepted connection. The connection counts as open until the result is dropped.
    pub fn connected(&self) -> OpenConnection {
        if let Some(accepted) = self.series.accepted.get(self.door as usize) {
            accepted.inc();
        }
        let open = self.series.connections.get(self.door as usize).cloned().unwrap_or_default();
        open.inc();
        OpenConnection(open)
    }

    /// Counts a connection that the server closed, either before its first request or to free a
    /// slot for another connection.
    pub fn refused(&self) {
        if let Some(refused) = self.series.refused.get(self.door as usize) {
            refused.inc();
        }
    }

    /// Starts the measurement of a request. The measurement ends when the result is dropped.
    pub fn begin(&self, class: RequestClass) -> RequestTimer {
        let histogram = self.series.requests.get(class as usize).cloned();
        RequestTimer { histogram, stopwatch: Stopwatch::start() }
    }

    /// Counts an error sent to the client.
    pub fn failed(&self, kind: ErrorKind) {
        self.failed_with(kind.sqlstate());
    }

    /// Counts an error sent to the client, given by its SQLSTATE. An SQLSTATE whose class does not
    /// belong to any [`ErrorKind`] is not counted.
    pub fn failed_with(&self, sqlstate: &str) {
        let DoorSeries { classes, errors, .. } = &*self.series;
        let found = classes.binary_search_by(|class| (*class).cmp(sqlstate.get(..2).unwrap_or("")));
        if let Ok(at) = found
            && let Some(count) = errors.get(self.door as usize * classes.len() + at)
        {
            count.inc();
        }
    }
}

/// Counts a connection as open until dropped.
#[derive(Debug)]
pub struct OpenConnection(Gauge);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Measures a request until dropped.
#[derive(Debug)]
pub struct RequestTimer {
    histogram: Option<Histogram>,
    stopwatch: Stopwatch,
}

impl Drop for RequestTimer {
    fn drop(&mut self) {
        if let Some(histogram) = &self.histogram {
            histogram.observe_duration(self.stopwatch.elapsed());
        }
    }
}
