//! Runs a database with its listeners.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use stratalog_access::Access;
use stratalog_flight_sql::FlightSettings;
use stratalog_http::HttpSettings;
use stratalog_model::Error;
use stratalog_pgwire::PgwireSettings;
use stratalog_query::Certificates as _;
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::{
    Embedded, StartError, access,
    settings::{Listen, Settings, available_memory_bytes},
};

/// Minimum memory for the pending requests of HTTP and line protocol together, in bytes.
const INBOUND_BYTES_MIN: usize = 64 << 20;

/// How long the server waits for a listener after the grace period, before it abandons the
/// listener.
const LISTENER_TIMEOUT: Duration = Duration::from_secs(5);

/// The addresses of the listeners. A port 0 in the settings is replaced by the actual port.
#[derive(Debug, Clone, Copy, Default)]
pub struct Addresses {
    /// The address of the Postgres protocol; `None` if off.
    pub postgres: Option<SocketAddr>,
    /// The address of Arrow Flight SQL; `None` if off.
    pub flight: Option<SocketAddr>,
    /// The address of HTTP; `None` if off.
    pub http: Option<SocketAddr>,
    /// The address of line protocol over TCP; `None` if off.
    pub lines: Option<SocketAddr>,
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    embedded: Embedded,
    addresses: Addresses,
    /// Cancelled at a shutdown: the listeners then accept no new connections.
    stop: CancellationToken,
    listeners: Vec<JoinHandle<Result<(), Error>>>,
    grace: Duration,
    access: Access,
}

impl Server {
    /// Binds the addresses, opens the data directory, recovers the database, and begins to serve.
    /// Clients that connect during the recovery wait until it ends.
    ///
    /// # Errors
    /// [`StartError`] with the reason for the failed start.
    pub async fn open(settings: &Settings) -> Result<Self, StartError> {
        crate::memory::watch(settings);
        let tls = access::load_tls(settings).await?;
        let open = async |listen: &Listen, setting| {
            OpenListener::open(listen, setting, settings, tls.is_some()).await
        };
        let postgres = open(&settings.pg_listen, "pg-listen").await?;
        let flight = open(&settings.flight_listen, "flight-listen").await?;
        let http = open(&settings.http_listen, "http-listen").await?;
        let lines = open(&settings.ilp_listen, "ilp-listen").await?;
        let embedded = Embedded::open(settings).await?;
        for listener in [&postgres, &flight, &http, &lines].into_iter().flatten() {
            listener.check_users(settings, &embedded)?;
        }
        let access = access::open(settings, &embedded, tls);
        let mut server = Self {
            embedded,
            addresses: Addresses::default(),
            stop: CancellationToken::new(),
            listeners: Vec::new(),
            grace: Duration::from_millis(settings.shutdown_grace_ms),
            access: access.clone(),
        };
        if let Some(tls) = access.tls.clone() {
            let (catalog, stop) = (Arc::clone(server.embedded.catalog()), server.stop.clone());
            let watching = access::watch_expiry(tls, move || catalog.now_ns());
            tokio::spawn(stop.run_until_cancelled_owned(watching));
        }
        let stop = || server.stop.clone();
        let service = || Arc::clone(server.embedded.service());
        if let Some(OpenListener { listener, address, .. }) = postgres {
            server.addresses.postgres = Some(address);
            let pgwire = PgwireSettings {
                connections_max: settings.connections_max,
                message_bytes_max: settings.message_bytes_max.as_usize(),
                shutdown_grace_ms: settings.shutdown_grace_ms,
                ..PgwireSettings::default()
            };
            let serving =
                stratalog_pgwire::serve(listener, service(), access.clone(), pgwire, stop());
            server.listeners.push(tokio::spawn(serving));
        }
        if let Some(OpenListener { listener, address, .. }) = flight {
            server.addresses.flight = Some(address);
            let flight = FlightSettings {
                connections_max: settings.connections_max,
                message_bytes_max: settings.message_bytes_max.as_usize(),
                shutdown_grace_ms: settings.shutdown_grace_ms,
                ..FlightSettings::default()
            };
            let serving =
                stratalog_flight_sql::serve(listener, service(), access.clone(), flight, stop());
            server.listeners.push(tokio::spawn(serving));
        }
        server.addresses.http = http.as_ref().map(|door| door.address);
        server.addresses.lines = lines.as_ref().map(|door| door.address);
        let own = HttpSettings {
            connections_max: settings.connections_max,
            body_bytes_max: settings.message_bytes_max.as_usize(),
            inbound_bytes_max: inbound_bytes(settings),
            shutdown_grace_ms: settings.shutdown_grace_ms,
            hosts: format!("{},{}", settings.http_hosts, listen_host(&settings.http_listen)),
            origins: settings.http_origins.clone(),
            ..HttpSettings::default()
        };
        if http.is_some() || lines.is_some() {
            let doors = (http.map(|door| door.listener), lines.map(|door| door.listener));
            let serving = stratalog_http::serve(doors, service(), access.clone(), own, stop());
            server.listeners.push(tokio::spawn(serving));
        }
        Ok(server)
    }

    /// The addresses for clients.
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// The database behind the listeners.
    pub fn embedded(&self) -> &Embedded {
        &self.embedded
    }

    /// Reads the certificate files again, at SIGHUP. The result is in the log.
    pub async fn reload(&self) {
        let certificates = access::ServerCertificates(self.access.tls.clone());
        if self.access.tls.is_none() {
            tracing::info!("SIGHUP: the server has no certificate to reload");
        } else {
            // The error is in the log.
            let _ = certificates.reload().await;
        }
    }

    /// The "ready" line with the addresses, for users and scripts.
    pub fn ready_line(&self) -> String {
        let text_of = |address: Option<SocketAddr>| {
            address.map_or("off".to_string(), |address| address.to_string())
        };
        format!(
            "{}postgres {}, flight {}, http {}, lines {}, data directory {}, process {}",
            crate::demo::child::READY,
            text_of(self.addresses.postgres),
            text_of(self.addresses.flight),
            text_of(self.addresses.http),
            text_of(self.addresses.lines),
            self.embedded.directory().display(),
            std::process::id()
        )
    }

    /// Stops the server. The listeners accept no new connections. Running statements may finish
    /// within the grace period; afterwards they are cancelled. Then all data is written and synced,
    /// and all parts are closed. Even an interrupted shutdown loses no acknowledged data, because
    /// data is on disk before its acknowledgement (CL-1).
    ///
    /// # Errors
    /// Errors from closing a part.
    pub async fn close(self) -> Result<(), StartError> {
        let Self { embedded, stop, mut listeners, grace, .. } = self;
        // End waiting statements first: a statement that waits for a chronicle must not acquire it
        // when another connection ends.
        embedded.service().end_subscriptions();
        stop.cancel();
        let result = wait_all(&mut listeners, grace + LISTENER_TIMEOUT).await;
        for listener in &listeners {
            tracing::warn!(
                "a listener does not end; the server closes the connections of the listener"
            );
            listener.abort();
        }
        let closed = tokio::task::spawn_blocking(move || embedded.close());
        let closed = closed.await.unwrap_or_else(|error| {
            Err(Error::internal(format!("closing failed: {error}")).into())
        });
        result.map_err(StartError::from).and(closed)
    }
}

/// Memory for the pending requests of HTTP and line protocol, in bytes: a quarter of the memory for
/// events.
fn inbound_bytes(settings: &Settings) -> usize {
    let events = settings.memory_bytes_max.bytes(available_memory_bytes());
    let quarter = usize::try_from(events / 4).unwrap_or(usize::MAX);
    quarter.clamp(INBOUND_BYTES_MIN, HttpSettings::default().inbound_bytes_max)
}

/// The host of a listen address.
fn listen_host(listen: &Listen) -> &str {
    match listen {
        Listen::Off => "",
        Listen::Address(address) => address.rsplit_once(':').map_or("", |(host, _)| host),
    }
}

/// Waits at most `at_most` until the listeners end; removes the listeners that have ended from the
/// list.
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
                let error = Error::internal(format!("a listener failed: {broken}"));
                result = result.and(Err(error));
            }
        }
        listeners.pop();
    }
    result
}

/// An open listener and its address.
struct OpenListener {
    listener: TcpListener,
    address: SocketAddr,
    setting: &'static str,
}

impl OpenListener {
    /// Binds the address in a setting; `None` if the setting is `off`.
    async fn open(
        listen: &Listen,
        setting: &'static str,
        settings: &Settings,
        has_tls: bool,
    ) -> Result<Option<Self>, StartError> {
        let Listen::Address(text) = listen else { return Ok(None) };
        let unusable = |error: io::Error| match error.kind() {
            io::ErrorKind::AddrInUse => StartError::AddressTaken { address: text.clone(), setting },
            _ => StartError::AddressUnusable {
                address: text.clone(),
                setting,
                reason: error.to_string(),
            },
        };
        let addresses: Vec<SocketAddr> =
            tokio::net::lookup_host(text).await.map_err(unusable)?.collect();
        if !has_tls && !addresses.iter().all(is_local) {
            return Err(open_to_all(text, setting, settings, has_tls));
        }
        let listener = TcpListener::bind(addresses.as_slice()).await.map_err(unusable)?;
        let address = listener.local_addr().map_err(unusable)?;
        Ok(Some(Self { listener, address, setting }))
    }

    /// Refuses a listener that other machines can reach while nobody can log in.
    fn check_users(&self, settings: &Settings, embedded: &Embedded) -> Result<(), StartError> {
        if is_local(&self.address) || access::has_user(embedded.catalog().state().access()) {
            return Ok(());
        }
        Err(open_to_all(&self.address.to_string(), self.setting, settings, true))
    }
}

fn is_local(address: &SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

fn open_to_all(
    address: &str,
    setting: &'static str,
    settings: &Settings,
    has_tls: bool,
) -> StartError {
    let data_dir = settings.data_dir.clone();
    StartError::OpenToAll { address: address.to_string(), setting, has_tls, data_dir }
}
