//! A connection to the server, and the session in which its calls run.
//!
//! ```text
//!   connection:  ├── first, breaks ─┤ ├── second, breaks ─┤ ├── third ──
//!   session:     ├─────────────── one token ──────────────┤ the server restarted: log in again,
//!                                                           set the options again
//! ```
//!
//! A token is not bound to a connection: the open objects of a session survive a broken connection.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use arrow_flight::{
    Action, HandshakeRequest, HandshakeResponse, flight_service_client::FlightServiceClient,
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use tonic::{
    Request, Status,
    metadata::{Ascii, MetadataValue},
    transport::{Channel, Endpoint},
};

use crate::{
    error::{Error, ErrorKind, Result},
    session::{self, Options},
    settings::Settings,
};

/// The interval of keep-alive pings. Without an answer to a ping within `KEEP_ALIVE_TIMEOUT`, the
/// connection counts as broken.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(15);
/// Receive window of a stream, in bytes. With a smaller window, a reader of large events waits for
/// a round trip every few events, and on a busy machine the wait takes longer than the transfer of
/// the events.
const STREAM_WINDOW: u32 = 8 << 20;
/// Receive window of a connection: larger than the sum of all its streams, so that unread rows do
/// not block other calls.
const CONNECTION_WINDOW: u32 = (1 << 31) - 1;
/// Size of an HTTP/2 frame in bytes: each frame has a fixed cost, and other calls on the connection
/// wait until the frame is sent.
const FRAME_BYTES: u32 = 256 << 10;

/// A login: the session on the server, identified by its token.
#[derive(Debug)]
pub(crate) struct Session {
    bearer: MetadataValue<Ascii>,
    lost: AtomicBool,
    /// The version of the client's session options that the session has received.
    pub(crate) options_version: AtomicU64,
}

impl Session {
    /// A session whose calls carry the header `bearer`.
    pub(crate) fn of(bearer: MetadataValue<Ascii>) -> Self {
        Self { bearer, lost: AtomicBool::new(false), options_version: AtomicU64::new(0) }
    }
}

/// A gRPC channel to the server, and the session in which its calls run.
#[derive(Debug, Clone)]
pub(crate) struct Connection {
    client: FlightServiceClient<Channel>,
    pub(crate) session: Arc<Session>,
    suspect: Arc<AtomicBool>,
}

impl Connection {
    /// Connects to the server. Continues the session `before` if it was not lost; otherwise logs
    /// in.
    ///
    /// # Errors
    /// `Connection`, `Timeout`, `Login`, and errors of opening a session. No statement was run.
    pub(crate) async fn open(settings: &Settings, before: Option<Arc<Session>>) -> Result<Self> {
        let what = || format!("connecting to {}", settings.address.display_url());
        let opening = async {
            let channel = channel(settings).await?;
            let client = FlightServiceClient::new(channel)
                .max_decoding_message_size(settings.message_bytes_max);
            let session = match before.filter(|session| !session.lost.load(Ordering::Acquire)) {
                Some(session) => session,
                None => Arc::new(log_in(client.clone(), settings).await?),
            };
            Ok(Self { client, session, suspect: Arc::default() })
        };
        let opened = within(Some(settings.connect_timeout), opening).await;
        opened.map_err(|error: Error| error.during(what()).not_carried_out())
    }

    /// True if the connection may be broken: new calls should use another connection.
    pub(crate) fn is_suspect(&self) -> bool {
        self.suspect.load(Ordering::Acquire) || self.session.lost.load(Ordering::Acquire)
    }

    /// Converts the gRPC status of a failed call into an error. Marks the connection as suspect if
    /// the status indicates a broken connection.
    pub(crate) fn failed(&self, status: Status) -> Error {
        let error = Error::from(status);
        self.learn(&error);
        error
    }

    /// Marks the connection as suspect if `error` indicates a broken connection, or the session as
    /// lost if `error` is a refused login.
    pub(crate) fn learn(&self, error: &Error) {
        match error.kind() {
            ErrorKind::Login => self.session.lost.store(true, Ordering::Release),
            ErrorKind::Connection | ErrorKind::Timeout => {
                self.suspect.store(true, Ordering::Release);
            }
            _ => {}
        }
    }

    /// The generated gRPC client of the channel. A clone is cheap.
    pub(crate) fn client(&self) -> FlightServiceClient<Channel> {
        self.client.clone()
    }

    /// A gRPC request that carries the token of this session.
    pub(crate) fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.metadata_mut().insert("authorization", self.session.bearer.clone());
        request
    }

    /// Runs a Flight action and returns the body of its first answer; empty if there is no answer.
    ///
    /// # Errors
    /// Errors of the server.
    pub(crate) async fn act(&self, name: &str, body: Vec<u8>) -> Result<Bytes> {
        let action = Action { r#type: name.to_string(), body: body.into() };
        let answered = async {
            let mut answers = self.client().do_action(self.request(action)).await?.into_inner();
            Ok(answers.message().await?.map(|answer| answer.body).unwrap_or_default())
        };
        answered.await.map_err(|status| self.failed(status))
    }

    /// Sets options of the session.
    ///
    /// # Errors
    /// `InvalidOption` for refused options.
    pub(crate) async fn set(&self, options: &Options) -> Result<()> {
        if options.is_empty() {
            return Ok(());
        }
        let body = self.act("SetSessionOptions", session::encode_options(options)).await?;
        session::outcome(&body, options)
    }
}

async fn channel(settings: &Settings) -> Result<Channel> {
    let address = &settings.address;
    let refused = |error: &dyn std::error::Error| {
        let cause = std::iter::successors(error.source(), |error| error.source()).last();
        let cause = cause.map_or(error.to_string(), ToString::to_string);
        Error::new(ErrorKind::Connection, cause).with_hint(format!(
            "is the server running, with flight_listen at {}:{}?",
            address.host, address.port
        ))
    };
    // With TLS too, the scheme is http: the connector performs the handshake.
    let endpoint = Endpoint::from_shared(format!("http://{}:{}", address.host, address.port))
        .map_err(|error| refused(&error))?;
    let endpoint = endpoint
        .connect_timeout(settings.connect_timeout)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
        .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(FRAME_BYTES);
    let connected = match &settings.tls {
        Some(tls) => endpoint.connect_with_connector(tls.connector(address)?).await,
        None => endpoint.connect().await,
    };
    connected.map_err(|error| refused(&error))
}

async fn log_in(mut client: FlightServiceClient<Channel>, settings: &Settings) -> Result<Session> {
    let address = &settings.address;
    let mut request = Request::new(stream::iter([HandshakeRequest::default()]));
    let invalid = |what: &str| {
        Error::new(ErrorKind::InvalidOption, format!("the {what} cannot be sent in a header"))
    };
    if let Some(user) = &address.user {
        let pair = format!("{user}:{}", address.password.as_deref().unwrap_or_default());
        let mut basic: MetadataValue<Ascii> = format!("Basic {}", BASE64_STANDARD.encode(pair))
            .parse()
            .map_err(|_| invalid("login"))?;
        basic.set_sensitive(true);
        request.metadata_mut().insert("authorization", basic);
    }
    if let Some(database) = &address.database {
        let name = database.parse().map_err(|_| invalid("name of the database"))?;
        request.metadata_mut().insert("database", name);
    }
    let refused = |status: Status| {
        let error = Error::from(status);
        match (error.kind(), &address.user) {
            (ErrorKind::Login, Some(user)) if error.hint().is_none() => {
                error.with_hint(format!("check the name and the password of the user \"{user}\""))
            }
            _ => error,
        }
    };
    let answer = client.handshake(request).await.map_err(refused)?;
    let header = answer.metadata().get("authorization").cloned();
    let first = answer.into_inner().next().await.transpose().map_err(refused)?;
    let mut bearer = match (header, first) {
        (Some(bearer), _) => bearer,
        (None, Some(HandshakeResponse { payload, .. })) if !payload.is_empty() => {
            let token = std::str::from_utf8(&payload).ok();
            let bearer = token.and_then(|token| format!("Bearer {token}").parse().ok());
            bearer.ok_or_else(|| Error::protocol("the token of the login is not text"))?
        }
        _ => return Err(Error::protocol("the login gave no token")),
    };
    bearer.set_sensitive(true);
    Ok(Session::of(bearer))
}

/// Runs `work` with a timeout.
///
/// # Errors
/// `Timeout`, and errors of `work`.
pub(crate) async fn within<T>(
    time: Option<Duration>,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    let Some(time) = time else { return work.await };
    tokio::time::timeout(time, work).await.unwrap_or_else(|_| {
        Err(Error::new(ErrorKind::Timeout, format!("no answer within {} s", time.as_secs_f64())))
    })
}
