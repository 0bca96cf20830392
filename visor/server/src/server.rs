//! A database with its listeners.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use stratalog_model::Error;
use stratalog_pgwire::PgwireSettings;
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::{
    Embedded, StartError,
    settings::{Listen, Settings},
};

/// How long listeners may take beyond the grace period that they keep themselves.
const LAST_GRACE: Duration = Duration::from_secs(5);

/// A running server.
#[derive(Debug)]
pub struct Server {
    embedded: Embedded,
    pg_address: Option<SocketAddr>,
    /// Cancelled when no more connections are wanted.
    stop: CancellationToken,
    listeners: Vec<JoinHandle<Result<(), Error>>>,
    grace: Duration,
}

impl Server {
    /// Takes the addresses and the data directory of `settings`, recovers, and begins to
    /// serve. Clients that connect during recovery wait for it.
    ///
    /// # Errors
    /// [`StartError`]: what stands in the way.
    pub async fn open(settings: &Settings) -> Result<Self, StartError> {
        let listener = match &settings.pg_listen {
            Listen::Off => None,
            Listen::Address(address) => {
                Some(bind(address, "pg-listen", settings.remote_without_password).await?)
            }
        };
        let embedded = Embedded::open(settings).await?;
        let mut server = Self {
            embedded,
            pg_address: None,
            stop: CancellationToken::new(),
            listeners: Vec::new(),
            grace: Duration::from_millis(settings.shutdown_grace_ms),
        };
        if let Some(listener) = listener {
            let address = listener.local_addr().map_err(|error| StartError::AddressUnusable {
                address: settings.pg_listen.to_string(),
                setting: "pg-listen",
                reason: error.to_string(),
            })?;
            server.pg_address = Some(address);
            let pgwire = PgwireSettings {
                connections_max: settings.connections_max,
                message_bytes_max: settings.message_bytes_max.as_usize(),
                shutdown_grace_ms: settings.shutdown_grace_ms,
                ..PgwireSettings::default()
            };
            let service = Arc::clone(server.embedded.service());
            let stop = server.stop.clone();
            let serving = stratalog_pgwire::serve(listener, service, pgwire, stop);
            server.listeners.push(tokio::spawn(serving));
        }
        Ok(server)
    }

    /// Where the Postgres protocol is spoken, with the port that port 0 became.
    pub fn pg_address(&self) -> Option<SocketAddr> {
        self.pg_address
    }

    /// The database behind the listeners.
    pub fn embedded(&self) -> &Embedded {
        &self.embedded
    }

    /// The line that says where clients may connect.
    pub fn ready_line(&self) -> String {
        let address = self.pg_address.map_or("off".to_string(), |address| address.to_string());
        format!(
            "{}postgres {address}, data directory {}, process {}",
            crate::demo::child::READY,
            self.embedded.directory().display(),
            std::process::id()
        )
    }

    /// Stops: no new connections; running statements may finish for the grace period, then
    /// they are cancelled; then everything is written, synced and closed. What was
    /// acknowledged is on disk before it was acknowledged, so nothing is lost even if this
    /// is cut short (CL-1).
    ///
    /// # Errors
    /// What a part says that could not close cleanly.
    pub async fn close(self) -> Result<(), StartError> {
        let Self { embedded, stop, mut listeners, grace, .. } = self;
        stop.cancel();
        let result = wait_all(&mut listeners, grace + LAST_GRACE).await;
        for listener in &listeners {
            tracing::warn!("a listener does not end; its connections are cut off");
            listener.abort();
        }
        let closed = tokio::task::spawn_blocking(move || embedded.close());
        let closed = closed.await.unwrap_or_else(|error| {
            Err(Error::internal(format!("closing broke off: {error}")).into())
        });
        result.map_err(StartError::from).and(closed)
    }
}

/// Waits until the listeners have ended, at most so long; removes those that have.
async fn wait_all(
    listeners: &mut Vec<JoinHandle<Result<(), Error>>>,
    at_most: Duration,
) -> Result<(), Error> {
    let deadline = tokio::time::Instant::now() + at_most;
    let mut result = Ok(());
    while let Some(listener) = listeners.last_mut() {
        match tokio::time::timeout_at(deadline, listener).await {
            Err(_) => return result,
            Ok(Ok(ended)) => result = result.and(ended),
            Ok(Err(broken)) => {
                let error = Error::internal(format!("a listener broke off: {broken}"));
                result = result.and(Err(error));
            }
        }
        listeners.pop();
    }
    result
}

async fn bind(
    address: &str,
    setting: &'static str,
    remote_without_password: bool,
) -> Result<TcpListener, StartError> {
    let unusable = |error: io::Error| match error.kind() {
        io::ErrorKind::AddrInUse => {
            StartError::AddressTaken { address: address.to_string(), setting }
        }
        _ => StartError::AddressUnusable {
            address: address.to_string(),
            setting,
            reason: error.to_string(),
        },
    };
    let addresses: Vec<SocketAddr> =
        tokio::net::lookup_host(address).await.map_err(unusable)?.collect();
    let local = |ip: IpAddr| ip.to_canonical().is_loopback();
    if !remote_without_password && !addresses.iter().all(|address| local(address.ip())) {
        return Err(StartError::OpenToAll { address: address.to_string(), setting });
    }
    TcpListener::bind(addresses.as_slice()).await.map_err(unusable)
}
