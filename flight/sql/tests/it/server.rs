//! A server on a temporary directory, and clients of it.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use arrow_flight::sql::client::FlightSqlServiceClient;
use stratalog_engine::{Engine, EngineSettings};
use stratalog_flight_sql::FlightSettings;
use stratalog_journal::{Journal, JournalSettings, LocalDisk};
use stratalog_model::{Clock, Disk, EventStore};
use stratalog_query::{Parts, QueryService, QuerySettings};
use stratalog_visor_core::Catalog;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint};

#[derive(Debug)]
struct WallClock;

impl Clock for WallClock {
    fn now_ns(&self) -> i64 {
        let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        i64::try_from(elapsed.as_nanos()).unwrap()
    }

    fn monotonic_ns(&self) -> u64 {
        u64::try_from(self.now_ns()).unwrap()
    }
}

pub struct TestServer {
    pub port: u16,
    _directory: tempfile::TempDir,
}

impl TestServer {
    pub async fn start() -> Self {
        Self::with(FlightSettings::default()).await
    }

    pub async fn with(settings: FlightSettings) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let disk: Arc<dyn Disk> = Arc::new(LocalDisk);
        let clock: Arc<dyn Clock> = Arc::new(WallClock);
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
        let parts = Parts { catalog, store, clock, settings: own, inspector: None, backups: None };
        let service = QueryService::new(parts).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let serving =
            stratalog_flight_sql::serve(listener, service, settings, CancellationToken::new());
        tokio::spawn(serving);
        Self { port, _directory: directory }
    }

    /// A client on a connection of its own.
    pub async fn client(&self) -> FlightSqlServiceClient<Channel> {
        let endpoint = Endpoint::try_from(format!("http://127.0.0.1:{}", self.port)).unwrap();
        FlightSqlServiceClient::new(endpoint.connect().await.unwrap())
    }
}
