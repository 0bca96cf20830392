//! Accepts connections, and ends them when the server shuts down.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use bytes::BytesMut;
use socket2::{SockRef, TcpKeepalive};
use stratalog_metrics::{Door, DoorMetrics};
use stratalog_model::{Error, ErrorKind, Result};
use stratalog_query::{CancelKey, Login, QueryService, Session};
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::{
    PgwireSettings,
    budget::Budget,
    connection::{Connection, StepEnd},
    frontend::{MessageLimits, MessageReader},
    lobby::{Lobby, LobbyPlace},
    outbound::{OutboundBuffer, Severity},
    startup::{LONG_SECRET_MINOR, MINOR_MAX, Request, Start, negotiate},
};

/// Maximum number of sockets that have not completed their start-up, among them cancel requests.
const LOBBY_PLACES: usize = 256;

/// The maximal time for sending the final message of a connection.
const FINAL_MESSAGE_TIMEOUT: Duration = Duration::from_secs(2);

/// The two steps of a shutdown.
#[derive(Debug, Clone)]
pub(crate) struct Stop {
    /// First: idle connections end, and running statements may finish.
    pub(crate) soft: CancellationToken,
    /// Then: all work is cancelled.
    pub(crate) hard: CancellationToken,
}

/// Serves PostgreSQL clients on `listener` until `shutdown`. Then idle connections end at once;
/// running statements may finish within the grace period. Returns when every connection has ended.
///
/// # Errors
/// `Io` if the listener fails permanently.
pub async fn serve(
    listener: TcpListener,
    service: Arc<QueryService>,
    settings: PgwireSettings,
    shutdown: CancellationToken,
) -> Result<()> {
    let settings = Arc::new(settings);
    let door = service.parts().metrics.door(Door::Postgres);
    let room = Budget::new(settings.inbound_bytes_max.max(settings.message_bytes_max));
    let stop = Stop { soft: shutdown.clone(), hard: CancellationToken::new() };
    let slots = Arc::new(Semaphore::new(settings.connections_max));
    let lobby = Lobby::new(LOBBY_PLACES);
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
        };
        let (socket, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // The cause is not the listener: the process has no free file descriptor, or the
                // client has disconnected. A pause avoids a busy loop.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            }
        };
        let place = lobby.enter();
        let client = Client {
            service: Arc::clone(&service),
            settings: Arc::clone(&settings),
            stop: stop.clone(),
            room: room.clone(),
            slots: Arc::clone(&slots),
            address,
            door: door.clone(),
        };
        connections.spawn(client.run(socket, place));
    }
    drop(listener);
    let grace = Duration::from_millis(settings.shutdown_grace_ms);
    let all_ended = async { while connections.join_next().await.is_some() {} };
    if timeout(grace, all_ended).await.is_err() {
        stop.hard.cancel();
        let all_ended = async { while connections.join_next().await.is_some() {} };
        if timeout(FINAL_MESSAGE_TIMEOUT * 2, all_ended).await.is_err() {
            connections.abort_all();
        }
    }
    Ok(())
}

/// The context of a connected client: shared services and limits, and the client's address.
struct Client {
    service: Arc<QueryService>,
    settings: Arc<PgwireSettings>,
    stop: Stop,
    /// The memory budget that the large messages of all connections share.
    room: Budget,
    /// Permits for sessions: `connections_max` of them.
    slots: Arc<Semaphore>,
    address: SocketAddr,
    door: DoorMetrics,
}

impl Client {
    async fn run(self, mut socket: TcpStream, place: LobbyPlace) {
        let _open = self.door.connected();
        if let Err(error) = prepare(&socket, &self.settings) {
            tracing::debug!(%error, address = %self.address, "socket options");
        }
        let patience = Duration::from_millis(self.settings.startup_timeout_ms);
        let request = tokio::select! {
            biased;
            () = self.stop.soft.cancelled() => return,
            () = place.is_needed() => {
                self.door.refused();
                tracing::debug!(address = %self.address, "closed a connection before the end of its start-up, for a new connection");
                return;
            }
            request = timeout(patience, negotiate(&mut socket)) => request,
        };
        let refusal = match request {
            Err(_) => {
                Error::new(ErrorKind::QueryCanceled, "canceling authentication due to timeout")
            }
            Ok(Err(error)) => error,
            Ok(Ok(Request::Closed)) => return,
            Ok(Ok(Request::Cancel { process_id, secret })) => {
                self.service.cancel(&CancelKey { process_id, secret });
                return;
            }
            Ok(Ok(Request::Start(start))) => match self.login(&start) {
                Ok((session, slot)) => {
                    drop(place);
                    let outbound = welcome(&session, &start);
                    match outbound {
                        // The future is boxed, so that a connection before its login uses little
                        // memory.
                        Ok(outbound) => {
                            Box::pin(self.converse(socket, session, outbound)).await;
                            return drop(slot);
                        }
                        Err(error) => {
                            session.close();
                            error
                        }
                    }
                }
                Err(error) => error,
            },
        };
        self.door.refused();
        self.door.failed(refusal.kind());
        tracing::info!(address = %self.address, error = refusal.message(), "connection refused");
        let mut outbound = OutboundBuffer::default();
        if outbound.error(Severity::Fatal, &refusal).is_ok() {
            send_final_message(&mut socket, &outbound.bytes).await;
        }
    }

    fn login(&self, start: &Start) -> Result<(Arc<Session>, OwnedSemaphorePermit)> {
        let parameter = |name: &str| start.parameters.get(name).cloned();
        let user = parameter("user").filter(|user| !user.is_empty()).ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidAuthorization,
                "no PostgreSQL user name specified in startup packet",
            )
        })?;
        if parameter("replication")
            .is_some_and(|mode| !matches!(mode.as_str(), "false" | "off" | "no" | "0"))
        {
            return Err(Error::new(
                ErrorKind::FeatureNotSupported,
                "replication connections are not supported",
            ));
        }
        let slot = Arc::clone(&self.slots).try_acquire_owned().map_err(|_| {
            Error::new(ErrorKind::TooManyConnections, "sorry, too many clients already")
                .with_hint("close connections, use a pool, or raise connections_max")
        })?;
        let session = self.service.connect(Login {
            identity: stratalog_query::Identity::Trusted,
            user,
            database: parameter("database")
                .filter(|database| !database.is_empty())
                .unwrap_or_else(|| self.settings.default_database.clone()),
            application_name: parameter("application_name").unwrap_or_default(),
            client_address: Some(self.address.to_string()),
            settings: start.settings()?,
            long_secret: start.minor >= LONG_SECRET_MINOR,
        })?;
        Ok((session, slot))
    }

    async fn converse(&self, socket: TcpStream, session: Arc<Session>, outbound: OutboundBuffer) {
        let (source, sink) = socket.into_split();
        let share = Arc::clone(session.share());
        let room = self.room.clone().within(move |bytes| Some(Box::new(share.hold(bytes).ok()?)));
        let limits = MessageLimits {
            bytes_max: self.settings.message_bytes_max,
            room,
            patience: Duration::from_millis(self.settings.inbound_wait_ms),
        };
        let reader = MessageReader::new(source, BytesMut::new(), limits);
        let mut connection = Connection::new(
            reader,
            sink,
            outbound,
            Arc::clone(&session),
            Arc::clone(&self.settings),
            self.stop.clone(),
            self.door.clone(),
        );
        let ending = connection.run().await;
        session.close();
        if let StepEnd::Fatal(error) = ending {
            self.door.failed(error.kind());
            tracing::info!(address = %self.address, error = error.message(), "connection ended");
            if let Some((mut sink, bytes)) = connection.farewell(&error) {
                send_final_message(&mut sink, &bytes).await;
            }
        }
    }
}

fn prepare(socket: &TcpStream, settings: &PgwireSettings) -> std::io::Result<()> {
    socket.set_nodelay(true)?;
    let idle = Duration::from_secs(settings.keepalive_idle_s.max(1));
    let keepalive =
        TcpKeepalive::new().with_time(idle).with_interval(Duration::from_secs(10)).with_retries(3);
    SockRef::from(socket).set_tcp_keepalive(&keepalive)
}

/// The answers of the server to a successful start-up message.
fn welcome(session: &Session, start: &Start) -> Result<OutboundBuffer> {
    let mut outbound = OutboundBuffer::default();
    let unknown = start.unknown_options();
    if start.minor > MINOR_MAX || !unknown.is_empty() {
        let newest = (3 << 16) | i32::from(start.minor.min(MINOR_MAX));
        outbound.negotiate(newest, unknown)?;
    }
    outbound.authentication_ok()?;
    for name in [
        "server_version",
        "server_encoding",
        "client_encoding",
        "application_name",
        "is_superuser",
        "session_authorization",
        "DateStyle",
        "IntervalStyle",
        "TimeZone",
        "integer_datetimes",
        "standard_conforming_strings",
        "default_transaction_read_only",
        "in_hot_standby",
    ] {
        if let Some(value) = session.setting(name) {
            outbound.parameter_status(name, &value)?;
        }
    }
    outbound.backend_key(session.key())?;
    for notice in session.take_notices() {
        outbound.notice(&notice)?;
    }
    // The messages above have just reported these settings.
    session.take_parameter_changes();
    outbound.ready(session.transaction())?;
    Ok(outbound)
}

/// Sends the final message, then reads and drops input for a short time. Closing a socket with
/// unread input resets the connection, and the client might lose the message.
async fn send_final_message<S: tokio::io::AsyncWrite + Unpin>(socket: &mut S, bytes: &[u8]) {
    let farewell = async {
        socket.write_all(bytes).await?;
        socket.shutdown().await
    };
    // The client may have disconnected.
    let _ = timeout(FINAL_MESSAGE_TIMEOUT, farewell).await;
}
