//! Starts a server on a temporary directory, and connects clients.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use arrow_flight::{
    flight_service_client::FlightServiceClient, sql::client::FlightSqlServiceClient,
};
use stratalog_access::{Access, Authenticator, AuthenticatorSettings};
use stratalog_engine::{Engine, EngineSettings};
use stratalog_flight_sql::FlightSettings;
use stratalog_journal::{Journal, JournalSettings, LocalDisk};
use stratalog_metrics::Metrics;
use stratalog_model::{Clock, Disk, EventStore, Result};
use stratalog_query::{Parts, QueryService, QuerySettings};
use stratalog_visor_core::{Acquisitions, Catalog};
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint};

/// A clock that adds an offset, which the test chooses, to the time of the system.
#[derive(Debug, Default)]
pub struct TestClock {
    ahead_ns: AtomicI64,
}

impl TestClock {
    pub fn advance(&self, by: Duration) {
        let by = i64::try_from(by.as_nanos()).unwrap();
        self.ahead_ns.fetch_add(by, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now_ns(&self) -> i64 {
        let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        i64::try_from(elapsed.as_nanos()).unwrap() + self.ahead_ns.load(Ordering::SeqCst)
    }

    fn monotonic_ns(&self) -> u64 {
        u64::try_from(self.now_ns()).unwrap()
    }
}

pub struct TestServer {
    pub port: u16,
    pub clock: Arc<TestClock>,
    pub service: Arc<QueryService>,
    pub shutdown: CancellationToken,
    pub serving: JoinHandle<Result<()>>,
    _directory: tempfile::TempDir,
}

impl TestServer {
    pub async fn start() -> Self {
        Self::with(FlightSettings::default()).await
    }

    pub async fn with(settings: FlightSettings) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let disk: Arc<dyn Disk> = Arc::new(LocalDisk);
        let test_clock = Arc::new(TestClock::default());
        let clock: Arc<dyn Clock> = Arc::clone(&test_clock) as Arc<dyn Clock>;
        let journal = |name: &str| {
            let path = directory.path().join(name);
            Arc::new(Journal::open(Arc::clone(&disk), path, JournalSettings::default()).unwrap())
        };
        let catalog = Catalog::open(journal("catalog"), Arc::clone(&clock)).unwrap();
        let state = Arc::clone(&catalog);
        let store: Arc<dyn EventStore> =
            Engine::open(journal("events"), Arc::clone(&clock), EngineSettings::default(), &|id| {
                state.state().chronicle_by_id(id).cloned()
            })
            .unwrap();
        let own = QuerySettings::default();
        let parts = Parts {
            catalog,
            store,
            acquisitions: Acquisitions::new(Arc::clone(&clock)),
            clock,
            settings: own,
            inspector: None,
            backups: None,
            files: None,
            metrics: Metrics::new(),
        };
        let service = QueryService::new(parts).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let shutdown = CancellationToken::new();
        let catalog = Arc::clone(&service.parts().catalog);
        let authenticator = Authenticator::new(catalog, AuthenticatorSettings::default(), b"test");
        let access = Access::without_tls(authenticator);
        let serving = stratalog_flight_sql::serve(
            listener,
            Arc::clone(&service),
            access,
            settings,
            shutdown.clone(),
        );
        let serving = tokio::spawn(serving);
        Self { port, clock: test_clock, service, shutdown, serving, _directory: directory }
    }

    pub async fn channel(&self) -> Channel {
        let endpoint = Endpoint::try_from(format!("http://127.0.0.1:{}", self.port)).unwrap();
        endpoint.connect().await.unwrap()
    }

    /// A client of Flight's basic calls, on a connection of its own.
    pub async fn raw(&self) -> FlightServiceClient<Channel> {
        FlightServiceClient::new(self.channel().await).max_encoding_message_size(usize::MAX)
    }

    /// A Flight SQL client on a connection of its own.
    pub async fn client(&self) -> FlightSqlServiceClient<Channel> {
        FlightSqlServiceClient::new(self.channel().await)
    }
}
