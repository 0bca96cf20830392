//! Accepts connections, and ends them when the server shuts down.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use bytes::BytesMut;
use socket2::{SockRef, TcpKeepalive};
use stratalog_access::{Access, Alpn, Authenticated, ClientOrigin, ConnectionPlace, TlsPeer};
use stratalog_metrics::{Door, DoorMetrics};
use stratalog_model::{Error, ErrorKind, Result};
use stratalog_query::{CancelKey, Login, QueryService, Session};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::{
    PgwireSettings, authentication,
    budget::Budget,
    connection::{Connection, StepEnd},
    frontend::{MessageLimits, MessageReader},
    lobby::{Lobby, LobbyPlace},
    outbound::{OutboundBuffer, Severity},
    startup::{Encryption, LONG_SECRET_MINOR, MINOR_MAX, Request, Start, negotiate},
    stream::ClientStream,
};

/// Maximum number of sockets that have not completed their start-up, among them cancel requests.
const LOBBY_PLACES: usize = 256;

/// The first byte of a TLS handshake. A start-up packet begins with the first byte of its length,
/// which is 0.
const TLS_HANDSHAKE: u8 = 0x16;

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
    access: Access,
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
            access: access.clone(),
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
    access: Access,
    settings: Arc<PgwireSettings>,
    stop: Stop,
    /// The memory budget that the large messages of all connections share.
    room: Budget,
    /// Permits for sessions: `connections_max` of them.
    slots: Arc<Semaphore>,
    address: SocketAddr,
    door: DoorMetrics,
}

/// A client that has logged in.
struct Welcomed {
    session: Arc<Session>,
    /// The answers to the login.
    outbound: OutboundBuffer,
    /// The session's permit.
    slot: OwnedSemaphorePermit,
}

impl Client {
    async fn run(self, socket: TcpStream, place: LobbyPlace) {
        let _open = self.door.connected();
        if let Err(error) = prepare(&socket, &self.settings) {
            tracing::debug!(%error, address = %self.address, "socket options");
        }
        let counted = self.access.authenticator.admit(self.address.ip());
        let patience = Duration::from_millis(self.settings.startup_timeout_ms);
        let mut stream = ClientStream::Plain(socket);
        let welcomed = tokio::select! {
            biased;
            () = self.stop.soft.cancelled() => return,
            () = place.is_needed() => {
                self.door.refused();
                tracing::debug!(address = %self.address, "closed a connection before the end of its start-up, for a new connection");
                return;
            }
            // The future is boxed, so that a connection after its login uses little memory.
            welcomed = timeout(patience, Box::pin(self.arrive(&mut stream, counted))) => welcomed,
        };
        let refusal = match welcomed {
            Err(_) => {
                Error::new(ErrorKind::QueryCanceled, "canceling authentication due to timeout")
            }
            Ok(Err(error)) => error,
            // TLS ends with a message; without it, the client of a cancel request reports an error.
            Ok(Ok(None)) => return send_final_message(&mut stream, &[]).await,
            Ok(Ok(Some((welcomed, _counted)))) => {
                drop(place);
                let Welcomed { session, outbound, slot } = welcomed;
                // The futures are boxed, so that a connection before its login uses little memory.
                match stream {
                    ClientStream::Plain(socket) => {
                        let (source, sink) = socket.into_split();
                        Box::pin(self.converse(source, sink, session, outbound)).await;
                    }
                    ClientStream::Tls(socket) => {
                        let (source, sink) = tokio::io::split(*socket);
                        Box::pin(self.converse(source, sink, session, outbound)).await;
                    }
                    ClientStream::Closed => session.close(),
                }
                return drop(slot);
            }
        };
        self.door.refused();
        self.door.failed(refusal.kind());
        tracing::info!(address = %self.address, error = refusal.message(), "connection refused");
        let mut outbound = OutboundBuffer::default();
        if outbound.error(Severity::Fatal, &refusal).is_ok() {
            send_final_message(&mut stream, &outbound.bytes).await;
        }
    }

    /// Answers a client from its first byte to its login. `None` if the client has disconnected, or
    /// has only cancelled a statement. `counted` is the connection's place within the limit of its
    /// address.
    ///
    /// # Errors
    /// The error for the client before the connection ends.
    async fn arrive(
        &self,
        stream: &mut ClientStream,
        counted: Result<ConnectionPlace>,
    ) -> Result<Option<(Welcomed, ConnectionPlace)>> {
        let mut peer = TlsPeer::default();
        let mut encryption = match self.access.tls {
            None => Encryption::Unavailable,
            Some(_) => Encryption::Available,
        };
        if encryption == Encryption::Available && begins_with_tls(stream).await {
            peer = self.encrypt(stream).await?;
            if peer.protocol.as_deref() != Some(Alpn::POSTGRES_NAME) {
                return Err(Error::new(
                    ErrorKind::ProtocolViolation,
                    "received direct SSL connection request without ALPN protocol negotiation \
                     extension",
                ));
            }
            encryption = Encryption::Established;
        }
        let start = loop {
            match negotiate(stream, encryption).await? {
                Request::Closed => return Ok(None),
                Request::Encrypt => {
                    peer = self.encrypt(stream).await?;
                    encryption = Encryption::Established;
                }
                Request::Cancel { process_id, secret } => {
                    self.service.cancel(&CancelKey { process_id, secret });
                    return Ok(None);
                }
                Request::Start(start) => break start,
            }
        };
        let counted = counted?;
        let user = user(&start)?;
        let mut outbound = OutboundBuffer::default();
        negotiated(&start, &mut outbound)?;
        let origin = ClientOrigin {
            address: self.address,
            door: Door::Postgres,
            encrypted: encryption == Encryption::Established,
        };
        let authenticator = &self.access.authenticator;
        let login =
            authentication::log_in(stream, authenticator, user, origin, &peer, &mut outbound)
                .await?;
        let Some(login) = login else { return Ok(None) };
        let (session, slot) = self.open_session(&start, login)?;
        match welcome(&session, &mut outbound) {
            Ok(()) => Ok(Some((Welcomed { session, outbound, slot }, counted))),
            Err(error) => {
                session.close();
                Err(error)
            }
        }
    }

    /// Performs a TLS handshake.
    async fn encrypt(&self, stream: &mut ClientStream) -> Result<TlsPeer> {
        let socket = std::mem::replace(stream, ClientStream::Closed);
        let (ClientStream::Plain(socket), Some(tls)) = (socket, &self.access.tls) else {
            return Err(Error::internal("the connection cannot be encrypted"));
        };
        let patience = Duration::from_millis(self.settings.startup_timeout_ms);
        let (socket, peer) = tls.accept(socket, Alpn::Postgres, patience).await?;
        *stream = ClientStream::Tls(Box::new(socket));
        Ok(peer)
    }

    fn open_session(
        &self,
        start: &Start,
        login: Authenticated,
    ) -> Result<(Arc<Session>, OwnedSemaphorePermit)> {
        let parameter = |name: &str| start.parameters.get(name).cloned();
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
        // Settings of the client override settings of the role.
        let mut settings = login.settings;
        settings.extend(start.settings()?);
        let session = self.service.connect(Login {
            identity: login.identity,
            user: login.user,
            database: parameter("database")
                .filter(|database| !database.is_empty())
                .unwrap_or_else(|| self.settings.default_database.clone()),
            application_name: parameter("application_name").unwrap_or_default(),
            client_address: Some(self.address.to_string()),
            settings,
            long_secret: start.minor >= LONG_SECRET_MINOR,
        })?;
        Ok((session, slot))
    }

    async fn converse<R, W>(
        &self,
        source: R,
        sink: W,
        session: Arc<Session>,
        outbound: OutboundBuffer,
    ) where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
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

/// True if the first byte of a connection begins a TLS handshake.
async fn begins_with_tls(stream: &ClientStream) -> bool {
    let mut first = [0; 1];
    match stream {
        ClientStream::Plain(socket) => {
            matches!(socket.peek(&mut first).await, Ok(1)) && first == [TLS_HANDSHAKE]
        }
        ClientStream::Tls(_) | ClientStream::Closed => false,
    }
}

fn user(start: &Start) -> Result<&str> {
    let user = start.parameters.get("user").filter(|user| !user.is_empty());
    user.map(String::as_str).ok_or_else(|| {
        Error::new(
            ErrorKind::InvalidAuthorization,
            "no PostgreSQL user name specified in startup packet",
        )
    })
}

/// Writes NegotiateProtocolVersion if the client asks for more than the server supports.
fn negotiated(start: &Start, outbound: &mut OutboundBuffer) -> Result<()> {
    let unknown = start.unknown_options();
    if start.minor > MINOR_MAX || !unknown.is_empty() {
        let newest = (3 << 16) | i32::from(start.minor.min(MINOR_MAX));
        outbound.negotiate(newest, unknown)?;
    }
    Ok(())
}

/// Writes the answers of the server to a successful login.
fn welcome(session: &Session, outbound: &mut OutboundBuffer) -> Result<()> {
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
    outbound.ready(session.transaction())
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
