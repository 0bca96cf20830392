//! The state that all requests share.

use std::{future::poll_fn, pin::pin, sync::Arc, task::Poll, time::Duration};

use parking_lot::Mutex;
use stratalog_access::{Access, Authenticated};
use stratalog_line::{LineLimits, LineParser, RowLimits};
use stratalog_metrics::IngestMetrics;
use stratalog_model::{Error, ErrorKind, Result};
use stratalog_query::{Login, MemoryPromise, QueryService, Session};
use stratalog_telemetry::{Names, TelemetryLimits, TelemetryReader};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit},
    task::block_in_place,
    time::timeout,
};

use crate::{
    HttpSettings, guard::Guard, store::refused_requests::RefusedRequests, writers::Writers,
};

/// Maximum bytes of rows in a parser that the server keeps for another request.
const KEPT_ROWS_BYTES_MAX: usize = 1 << 20;

/// Maximum number of parsers that the server keeps for later requests. A kept parser has cached
/// tables and series.
const PARSERS_MAX: usize = 16;

/// Maximum number of telemetry bodies that are converted to rows at the same time. Each conversion
/// may use the bytes of [`TelemetryLimits`] and [`TELEMETRY_ROWS_BYTES`].
const READERS_MAX: usize = 4;

/// Maximum bytes of the rows from one telemetry body.
const TELEMETRY_ROWS_BYTES: usize = 128 << 20;

/// Maximum number of large appends that use a processor at the same time; appends that wait do not
/// count.
const DRIVING_MAX: usize = 16;

/// Maximum bytes that a task processes in one step on an async thread. Larger work runs with
/// `block_in_place`.
const SHORT_BYTES: usize = 8 << 10;

/// The bytes of one semaphore permit. The memory limit of all bodies counts in these permits.
const UNIT_BYTES: usize = 1024;

/// Memory reserved for a request body: a share of the limit for all bodies, and a share of the
/// memory limit of the process.
pub(crate) type GrantedRoom = (OwnedSemaphorePermit, MemoryPromise);

/// The state that all requests share.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) service: Arc<QueryService>,
    pub(crate) access: Access,
    pub(crate) settings: Arc<HttpSettings>,
    pub(crate) counts: IngestMetrics,
    pub(crate) guard: Guard,
    pub(crate) refused: RefusedRequests,
    parsers: Mutex<Vec<LineParser>>,
    readers: Mutex<Vec<TelemetryReader>>,
    reading: Semaphore,
    names: Names,
    writers: Writers,
    room: Arc<Semaphore>,
    /// Permits for long computations, one per processor. The limit leaves threads free for
    /// connections.
    computing: Semaphore,
    /// Permits for large appends.
    driving: Semaphore,
}

impl State {
    /// Creates the state, when the listener starts.
    pub(crate) fn new(
        service: Arc<QueryService>,
        access: Access,
        settings: Arc<HttpSettings>,
    ) -> Arc<Self> {
        let units = (settings.inbound_bytes_max / UNIT_BYTES).min(Semaphore::MAX_PERMITS);
        let counts = service.parts().metrics.ingest().clone();
        let guard = Guard::new(&settings.hosts, &settings.origins);
        Arc::new(Self {
            service,
            access,
            settings,
            counts,
            guard,
            refused: RefusedRequests::default(),
            parsers: Mutex::default(),
            readers: Mutex::default(),
            reading: Semaphore::new(READERS_MAX),
            names: Names::default(),
            writers: Writers::default(),
            room: Arc::new(Semaphore::new(units)),
            computing: Semaphore::new(threads()),
            driving: Semaphore::new(DRIVING_MAX),
        })
    }

    /// Returns a parser for the lines of a request: a parser of an earlier request, or a new
    /// parser.
    pub(crate) fn parser(&self) -> LineParser {
        self.parsers.lock().pop().unwrap_or_else(|| LineParser::new(LineLimits::default()))
    }

    /// Keeps the parser of a completed request for later requests. Drops a parser that still
    /// contains many rows of a refused request, to free their memory.
    pub(crate) fn give_back(&self, parser: LineParser) {
        if parser.bytes() > KEPT_ROWS_BYTES_MAX {
            return;
        }
        let mut parsers = self.parsers.lock();
        if parsers.len() < PARSERS_MAX {
            parsers.push(parser);
        }
    }

    /// Runs `read`, which converts a telemetry body to rows, within the limit of concurrent
    /// conversions.
    ///
    /// # Errors
    /// `OutOfMemory` after a limited wait; errors of `read`.
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

    /// The session that all write requests of one login share.
    ///
    /// # Errors
    /// The errors of [`QueryService::connect`].
    pub(crate) fn writing(&self, login: &Authenticated) -> Result<Arc<Session>> {
        self.writers.of(login, || self.session(login, "line protocol", None))
    }

    /// Opens a session for a single request.
    ///
    /// # Errors
    /// The errors of [`QueryService::connect_for_request`].
    pub(crate) fn session(
        &self,
        login: &Authenticated,
        name: &str,
        client: Option<String>,
    ) -> Result<Arc<Session>> {
        self.service.connect_for_request(Login {
            identity: login.identity,
            user: login.user.clone(),
            database: self.settings.default_database.clone(),
            application_name: name.to_string(),
            client_address: client,
            settings: login.settings.clone(),
            long_secret: true,
        })
    }

    /// Runs `work`, a computation over about `bytes` bytes. A long computation first waits while
    /// too many others run, and then runs with `block_in_place`, so that it does not block the
    /// tasks of other connections.
    pub(crate) async fn compute<T>(&self, bytes: usize, work: impl FnOnce() -> T) -> T {
        if bytes <= SHORT_BYTES {
            return work();
        }
        let _place = self.computing.acquire().await;
        block_in_place(work)
    }

    /// Runs a future that computes over about `bytes` bytes. Each poll of a long computation needs
    /// a permit. While the future waits, for the store or for another append, it has no permit and
    /// does not delay other appends.
    pub(crate) async fn drive<F: Future>(&self, bytes: usize, future: F) -> F::Output {
        if bytes <= SHORT_BYTES {
            return future.await;
        }
        let mut future = pin!(future);
        loop {
            let permit = self.driving.acquire().await;
            let polled =
                poll_fn(|context| Poll::Ready(block_in_place(|| future.as_mut().poll(context))));
            let polled = polled.await;
            drop(permit);
            match polled {
                Poll::Ready(output) => return output,
                Poll::Pending => until_woken().await,
            }
        }
    }

    /// Reserves memory for `bytes` of bodies without waiting; `None` if the memory is not free.
    pub(crate) fn try_room(&self, bytes: usize) -> Option<GrantedRoom> {
        let room = Arc::clone(&self.room).try_acquire_many_owned(units(bytes)).ok()?;
        Some((room, MemoryPromise::of(bytes)?))
    }

    /// Reserves memory for `bytes` of bodies; waits without a time limit.
    pub(crate) async fn wait_for_room(&self, bytes: usize) -> Result<GrantedRoom> {
        let wanted = Arc::clone(&self.room).acquire_many_owned(units(bytes));
        Ok((wanted.await.map_err(|_| no_room())?, MemoryPromise::default()))
    }

    /// Reserves memory for `bytes` of bodies; waits at most for the setting `room_ms`.
    ///
    /// # Errors
    /// `OutOfMemory` after the wait.
    pub(crate) async fn room(&self, bytes: usize) -> Result<GrantedRoom> {
        let wanted = Arc::clone(&self.room).acquire_many_owned(units(bytes));
        match timeout(Duration::from_millis(self.settings.room_ms), wanted).await {
            Ok(Ok(room)) => Ok((room, MemoryPromise::of(bytes).ok_or_else(no_room)?)),
            _ => Err(no_room()),
        }
    }
}

/// Suspends the task until the next wake-up, which comes from the future that was polled just
/// before.
async fn until_woken() {
    let mut is_first = true;
    poll_fn(|_| match std::mem::take(&mut is_first) {
        true => Poll::Pending,
        false => Poll::Ready(()),
    })
    .await;
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
        "the server has no memory for another request body now; nothing of the request was stored",
    )
    .with_hint("send the request again a little later, or send smaller requests")
}
