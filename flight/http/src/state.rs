//! What requests share.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use stratalog_line::{LineLimits, LineParser, RowLimits};
use stratalog_model::{Error, ErrorKind, Result};
use stratalog_query::{Login, QueryService, Session, has_memory};
use stratalog_telemetry::{Names, TelemetryLimits, TelemetryReader};
use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit},
    task::block_in_place,
    time::timeout,
};

use crate::{HttpSettings, guard::Guard, metrics::Counts, store::refused::RefusedRequests};

/// Bytes of rows that a parser still has when it is kept for another request, at most.
const KEPT_ROWS_BYTES_MAX: usize = 1 << 20;

/// Parsers that wait for the next request; each knows tables and series.
const PARSERS_MAX: usize = 16;

/// Bodies of telemetry that become rows at a time: each may have bytes of [`TelemetryLimits`], and rows of
/// [`TELEMETRY_ROWS_BYTES`].
const READERS_MAX: usize = 4;

/// Bytes of the rows of one body of telemetry.
const TELEMETRY_ROWS_BYTES: usize = 128 << 20;

/// Appends of many rows at a time.
const DRIVING_MAX: usize = 16;

/// Bytes of work that a thread of connections does between two others: what takes longer makes way.
const SHORT_BYTES: usize = 8 << 10;

/// Bytes of one unit of room.
const UNIT_BYTES: usize = 1024;

/// Everything that a request needs.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) service: Arc<QueryService>,
    pub(crate) settings: Arc<HttpSettings>,
    pub(crate) counts: Counts,
    pub(crate) guard: Guard,
    pub(crate) refused: RefusedRequests,
    parsers: Mutex<Vec<LineParser>>,
    readers: Mutex<Vec<TelemetryReader>>,
    reading: Semaphore,
    names: Names,
    writing: Mutex<Option<Arc<Session>>>,
    room: Arc<Semaphore>,
    /// Places for long computations: threads of connections are left to connections.
    computing: Semaphore,
    /// Places for appends of many rows, which may wait for the store.
    driving: Semaphore,
}

impl State {
    /// Nothing yet.
    pub(crate) fn new(service: Arc<QueryService>, settings: Arc<HttpSettings>) -> Arc<Self> {
        let units = (settings.inbound_bytes_max / UNIT_BYTES).min(Semaphore::MAX_PERMITS);
        let guard = Guard::new(&settings.hosts, &settings.origins);
        Arc::new(Self {
            service,
            settings,
            counts: Counts::default(),
            guard,
            refused: RefusedRequests::default(),
            parsers: Mutex::default(),
            readers: Mutex::default(),
            reading: Semaphore::new(READERS_MAX),
            names: Names::default(),
            writing: Mutex::default(),
            room: Arc::new(Semaphore::new(units)),
            computing: Semaphore::new(threads()),
            driving: Semaphore::new(DRIVING_MAX),
        })
    }

    /// A parser for one request.
    pub(crate) fn parser(&self) -> LineParser {
        self.parsers.lock().pop().unwrap_or_else(|| LineParser::new(LineLimits::default()))
    }

    /// Takes back the parser of a request that has ended. A parser with the rows of a refused request is
    /// dropped, and frees the memory of the rows.
    pub(crate) fn give_back(&self, parser: LineParser) {
        if parser.bytes() > KEPT_ROWS_BYTES_MAX {
            return;
        }
        let mut parsers = self.parsers.lock();
        if parsers.len() < PARSERS_MAX {
            parsers.push(parser);
        }
    }

    /// Reads one body of telemetry, when fewer than so many others are read.
    ///
    /// # Errors
    /// `OutOfMemory` when there is no place for too long; what reading says.
    pub(crate) async fn read<T>(
        &self,
        read: impl FnOnce(&mut TelemetryReader) -> Result<T>,
    ) -> Result<(T, SemaphorePermit<'_>)> {
        let patience = Duration::from_millis(self.settings.room_ms);
        let Ok(Ok(place)) = timeout(patience, self.reading.acquire()).await else {
            return Err(no_room());
        };
        let reader = self.readers.lock().pop();
        let mut reader = reader.unwrap_or_else(|| {
            TelemetryReader::with_names(self.telemetry_limits(), self.names.clone())
        });
        let read = read(&mut reader);
        self.readers.lock().push(reader);
        Ok((read?, place))
    }

    fn telemetry_limits(&self) -> TelemetryLimits {
        let limits = TelemetryLimits::default();
        TelemetryLimits {
            body_bytes_max: limits.body_bytes_max.min(self.settings.decoded_bytes_max),
            batch_bytes_max: TELEMETRY_ROWS_BYTES,
            rows: RowLimits { table_bytes_max: TELEMETRY_ROWS_BYTES, ..limits.rows },
            ..limits
        }
    }

    /// The session in which requests write.
    ///
    /// # Errors
    /// As [`QueryService::connect`].
    pub(crate) fn writing(&self) -> Result<Arc<Session>> {
        let mut writing = self.writing.lock();
        if let Some(session) = writing.as_ref().filter(|session| session.check_terminated().is_ok())
        {
            return Ok(Arc::clone(session));
        }
        let session = self.session("line protocol", None)?;
        Ok(Arc::clone(writing.insert(session)))
    }

    /// A session of its own.
    ///
    /// # Errors
    /// As [`QueryService::connect_for_request`].
    pub(crate) fn session(&self, name: &str, client: Option<String>) -> Result<Arc<Session>> {
        self.service.connect_for_request(Login {
            user: self.settings.default_user.clone(),
            database: self.settings.default_database.clone(),
            application_name: name.to_string(),
            client_address: client,
            settings: Vec::new(),
            long_secret: true,
        })
    }

    /// Computes something that works through about so many bytes. Long computations leave the thread to
    /// other connections, and run beside few others.
    pub(crate) async fn compute<T>(&self, bytes: usize, work: impl FnOnce() -> T) -> T {
        if bytes <= SHORT_BYTES {
            return work();
        }
        let _place = self.computing.acquire().await;
        block_in_place(work)
    }

    /// Drives a future that computes for as long as so many bytes take, away from the threads of
    /// connections.
    pub(crate) async fn drive<F: Future>(&self, bytes: usize, future: F) -> F::Output {
        if bytes <= SHORT_BYTES {
            return future.await;
        }
        let _place = self.driving.acquire().await;
        let runtime = Handle::current();
        block_in_place(|| runtime.block_on(future))
    }

    /// Room for so many bytes of bodies, if it is there.
    pub(crate) fn try_room(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let room = Arc::clone(&self.room).try_acquire_many_owned(units(bytes)).ok();
        room.filter(|_| has_memory(bytes))
    }

    /// Room for so many bytes of bodies, whenever it comes.
    pub(crate) async fn some_room(&self, bytes: usize) -> Result<OwnedSemaphorePermit> {
        let wanted = Arc::clone(&self.room).acquire_many_owned(units(bytes));
        wanted.await.map_err(|_| no_room())
    }

    /// Room for so many bytes of bodies; waits for it a while.
    ///
    /// # Errors
    /// `OutOfMemory` when there is none for too long.
    pub(crate) async fn room(&self, bytes: usize) -> Result<OwnedSemaphorePermit> {
        let wanted = Arc::clone(&self.room).acquire_many_owned(units(bytes));
        match timeout(Duration::from_millis(self.settings.room_ms), wanted).await {
            Ok(Ok(room)) if has_memory(bytes) => Ok(room),
            _ => Err(no_room()),
        }
    }
}

fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX)
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn no_room() -> Error {
    Error::new(
        ErrorKind::OutOfMemory,
        "the server has no room for another request body now; nothing of it was stored",
    )
    .with_hint("send it again a little later, or in smaller requests")
}
