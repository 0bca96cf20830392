//! Starts a server on a temporary directory, and connects clients.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use stratalog_access::{Access, Authenticator, AuthenticatorSettings};
use stratalog_engine::{Engine, EngineSettings};
use stratalog_journal::{Journal, JournalSettings, LocalDisk};
use stratalog_metrics::Metrics;
use stratalog_model::{Clock, Disk, EventStore};
use stratalog_pgwire::PgwireSettings;
use stratalog_query::{Parts, QueryService, QuerySettings};
use stratalog_visor_core::{Acquisitions, Catalog};
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_postgres::{Client, Config, NoTls, error::SqlState};
use tokio_util::sync::CancellationToken;

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

pub struct Server {
    pub port: u16,
    pub shutdown: CancellationToken,
    pub serving: JoinHandle<stratalog_model::Result<()>>,
    _directory: tempfile::TempDir,
}

impl Server {
    pub async fn start() -> Self {
        Self::with(PgwireSettings::default()).await
    }

    pub async fn with(settings: PgwireSettings) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let disk: Arc<dyn Disk> = Arc::new(LocalDisk);
        let clock: Arc<dyn Clock> = Arc::new(WallClock);
        let journal = |name: &str| {
            let path = directory.path().join(name);
            Arc::new(Journal::open(Arc::clone(&disk), path, JournalSettings::default()).unwrap())
        };
        let catalog = Catalog::open(journal("catalog"), Arc::clone(&clock)).unwrap();
        let access = Access::without_tls(Authenticator::new(
            Arc::clone(&catalog),
            AuthenticatorSettings::default(),
            b"secret",
        ));
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
        let serving = tokio::spawn(stratalog_pgwire::serve(
            listener,
            service,
            access,
            settings,
            shutdown.clone(),
        ));
        Self { port, shutdown, serving, _directory: directory }
    }

    pub fn config(&self) -> Config {
        let mut config = Config::new();
        config.host("127.0.0.1").port(self.port).user("tester").dbname("stratalog");
        config
    }

    pub async fn client(&self) -> Client {
        connect(&self.config()).await.unwrap()
    }
}

pub async fn connect(config: &Config) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = config.connect(NoTls).await?;
    tokio::spawn(async move {
        let _ = connection.await;
    });
    Ok(client)
}

/// SQLSTATE of an error.
pub fn code(error: &tokio_postgres::Error) -> &str {
    error.code().map_or("none", SqlState::code)
}

/// Waits until `condition` is true.
pub async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    for _ in 0..500 {
        if condition().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("never: {what}");
}

/// A statement that runs for a very long time.
pub const FOREVER: &str = "SELECT count(*) FROM generate_series(1, 1000000) AS a(x), \
     generate_series(1, 1000000) AS b(y) WHERE (a.x * b.y) % 7 = 3";
