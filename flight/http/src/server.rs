//! Accepts HTTP connections, and closes them when the server shuts down.

use std::{
    cell::Cell,
    convert::Infallible,
    future::poll_fn,
    net::SocketAddr,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use axum::{
    Router,
    body::Body,
    extract::DefaultBodyLimit,
    middleware,
    response::Response,
    routing::{get, post},
};
use bytes::Bytes;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{
        conn::auto::Builder,
        graceful::{GracefulShutdown, Watcher},
    },
};
use socket2::{SockRef, TcpKeepalive};
use stratalog_access::{Access, Alpn, Arrived};
use stratalog_metrics::{Door, DoorMetrics, OpenConnection, RequestTimer};
use stratalog_model::{Error, ErrorKind, Result};
use stratalog_query::QueryService;
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use tower::Service as _;

use crate::{
    HttpSettings, compat,
    connection_limit::{ConnectionLimit, ConnectionPermit, RunningRequest},
    guard::{self, Arrival},
    health,
    login::{self, Client},
    metrics, problem,
    request_limit::{RequestLimit, RequestPlace, WatchedBody},
    sql,
    state::State,
    subscribe, tcp, telemetry, write,
};

/// Maximum bytes of the request line and headers of a request.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// Number of connections that the server accepts beyond `connections_max`, so that health checks
/// still succeed when all other connections are busy.
const RESERVED_PLACES: usize = 64;

/// Seconds from 1970 to the end of the year 9999, the last year that an HTTP date can have.
const DATE_SECONDS_END: u64 = 253_402_300_800;

/// Routes that do not count toward the limit of running requests.
const ALWAYS: [&str; 5] = ["/health", "/ready", "/ping", "/version", "/metrics"];

fn routes(state: Arc<State>) -> Router {
    Router::new()
        .route("/write", post(write::one))
        .route("/api/v2/write", post(write::two))
        .route("/api/v3/write_lp", post(write::three))
        .route("/api/v1/write", post(telemetry::remote_write))
        .route("/v1/metrics", post(telemetry::metrics))
        .route("/v1/logs", post(telemetry::logs))
        .route("/api/v3/query_sql", get(sql::ask).post(sql::ask))
        .route("/api/sql", get(sql::ask).post(sql::ask))
        .route("/api/v1/subscribe", get(subscribe::subscribe))
        .route("/query", get(compat::query).post(compat::query))
        .route("/exec", get(compat::exec).post(compat::exec))
        .route("/ping", get(health::ping))
        .route("/health", get(health::health))
        .route("/ready", get(health::ready))
        .route("/version", get(health::version))
        .route("/metrics", get(metrics::metrics))
        .route_layer(middleware::from_fn_with_state(Arc::clone(&state), login::require))
        // `DecodedBody` limits bodies before and after decompression.
        .layer(DefaultBodyLimit::disable())
        .layer(middleware::from_fn_with_state(Arc::clone(&state), guard::check))
        .with_state(state)
}

/// Serves HTTP clients on the first listener, and line protocol on the second, until `shutdown`.
/// Returns when every request has ended, or after the grace period.
///
/// # Errors
/// `Io` when the listener fails permanently.
pub async fn serve(
    (http, lines): (Option<TcpListener>, Option<TcpListener>),
    service: Arc<QueryService>,
    access: Access,
    settings: HttpSettings,
    shutdown: CancellationToken,
) -> Result<()> {
    let state = State::new(service, access, Arc::new(settings));
    let taking = async {
        match lines {
            Some(lines) => take_lines(lines, Arc::clone(&state), shutdown.clone()).await,
            None => Ok(()),
        }
    };
    let answering = async {
        match http {
            Some(http) => answer(http, Arc::clone(&state), shutdown.clone()).await,
            None => Ok(()),
        }
    };
    let (answered, taken) = tokio::join!(answering, taking);
    answered.and(taken)
}

async fn answer(
    listener: TcpListener,
    state: Arc<State>,
    shutdown: CancellationToken,
) -> Result<()> {
    let patience = Duration::from_millis(state.settings.patience_ms);
    let connection_limit =
        ConnectionLimit::new(state.settings.connections_max.saturating_add(RESERVED_PLACES));
    let requests = RequestLimit::new(state.settings.connections_max);
    let graceful = GracefulShutdown::new();
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(patience)
        .max_buf_size(HEAD_BYTES_MAX.max(512 << 10))
        .keep_alive(true);
    builder
        .http2()
        // hyper panics when a Date header is outside of the years 1970 to 9999.
        .auto_date_header(false)
        .timer(TokioTimer::new())
        .keep_alive_interval(patience)
        .max_header_list_size(u32::try_from(HEAD_BYTES_MAX).unwrap_or(u32::MAX));
    let routes = routes(Arc::clone(&state));
    let door = state.service.parts().metrics.door(Door::Http);
    let mut connections = JoinSet::new();
    while let Some(accepted) = accept(&listener, &connection_limit, &door, &shutdown).await {
        while connections.try_join_next().is_some() {}
        let connection = HttpConnection {
            state: Arc::clone(&state),
            routes: routes.clone(),
            requests: requests.clone(),
            door: door.clone(),
            builder: builder.clone(),
        };
        let serving = connection.serve(accepted, graceful.watcher(), shutdown.clone());
        connections.spawn(serving);
    }
    let grace = Duration::from_millis(state.settings.shutdown_grace_ms);
    if timeout(grace, graceful.shutdown()).await.is_err() {
        connections.abort_all();
    }
    Ok(())
}

/// What a connection of HTTP needs.
struct HttpConnection {
    state: Arc<State>,
    routes: Router,
    requests: RequestLimit,
    door: DoorMetrics,
    builder: Builder<TokioExecutor>,
}

impl HttpConnection {
    /// Serves a connection until its end.
    async fn serve(self, accepted: Accepted, watcher: Watcher, shutdown: CancellationToken) {
        let Accepted { socket, address, permit, open: _open } = accepted;
        let Self { state, routes, requests, door, builder } = self;
        let patience = Duration::from_millis(state.settings.patience_ms);
        let Ok(_counted) = state.access.authenticator.admit(address.ip()).inspect_err(|error| {
            door.refused();
            tracing::debug!(%address, error = error.message(), "an HTTP connection was refused");
        }) else {
            return;
        };
        let arriving = state.access.arrive(socket, address, (Door::Http, Alpn::Http), patience);
        let arrived = tokio::select! {
            arrived = arriving => arrived,
            () = permit.must_leave() => {
                door.refused();
                return;
            }
            () = shutdown.cancelled() => return,
        };
        let Arrived { stream, origin, peer } = match arrived {
            Ok(arrived) => arrived,
            Err(error) => {
                door.refused();
                tracing::debug!(%address, error = error.message(), "an HTTP connection was refused");
                return;
            }
        };
        let client = Client { origin, certificate_names: peer.certificate_names.into() };
        let closing = door.clone();
        let arrival = stream.local_address().map(Arrival);
        let speaker = Arc::clone(&permit);
        let service = hyper::service::service_fn(move |mut request: hyper::Request<Incoming>| {
            let (running, mut routes) = (speaker.begin(), routes.clone());
            let timer = metrics::class_of(request.uri().path()).map(|class| door.begin(class));
            let door = door.clone();
            if let Some(arrival) = arrival {
                request.extensions_mut().insert(arrival);
            }
            request.extensions_mut().insert(client.clone());
            let place = match ALWAYS.contains(&request.uri().path()) {
                true => Some(None),
                false => requests.try_enter().map(Some),
            };
            async move {
                let (response, place) = match place {
                    Some(place) => {
                        let request = request.map(|body| WatchedBody::new(body, place.clone()));
                        (routes.call(request).await?, place)
                    }
                    None => (too_many(), None),
                };
                if let Some(kind) = response.extensions().get::<ErrorKind>() {
                    door.failed(*kind);
                }
                Ok::<_, Infallible>(response.map(|body| CountedBody {
                    body,
                    _running: running,
                    _place: place,
                    _timer: timer,
                }))
            }
        });
        let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
        let mut connection = pin!(watcher.watch(connection));
        let connection = poll_fn(|context| match thread_has_date() {
            true => connection.as_mut().poll(context).map(Some),
            false => Poll::Ready(None),
        });
        tokio::select! {
            ended = connection => match ended {
                Some(Ok(())) => {}
                Some(Err(error)) => {
                    tracing::debug!(%error, "an HTTP connection failed");
                }
                None => {
                    tracing::warn!("closed an HTTP connection: the machine's clock is outside of the years 1970 to 9999");
                }
            },
            () = permit.must_leave() => {
                closing.refused();
                tracing::debug!("closed an idle HTTP connection for a new connection");
            }
            () = permit.stays_silent(patience) => {
                closing.refused();
                tracing::debug!("an HTTP connection was closed before its first request");
            }
        }
    }
}

thread_local! {
    /// True if hyper has formatted the date on this thread.
    static IS_DATED: Cell<bool> = const { Cell::new(false) };
}

/// True if hyper can poll an HTTP/1 connection on this thread without a panic. At each poll hyper
/// formats the thread's date, even with `auto_date_header(false)`, and panics outside of the years
/// 1970 to 9999. If the clock goes back, hyper keeps its earlier date.
fn thread_has_date() -> bool {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since_1970) if since_1970.as_secs() < DATE_SECONDS_END => {
            IS_DATED.set(true);
            true
        }
        Ok(_) => false,
        Err(_) => IS_DATED.get(),
    }
}

fn too_many() -> Response {
    let error = Error::new(
        ErrorKind::TooManyConnections,
        "the server has reached the maximum number of simultaneous requests",
    )
    .with_hint("send the request again a little later, or raise connections_max");
    problem::answer(&error, problem::body(&error))
}

/// The body of a response. The request counts as running until the server has sent the body or
/// dropped it.
struct CountedBody {
    body: Body,
    _running: RunningRequest,
    _place: Option<Arc<RequestPlace>>,
    _timer: Option<RequestTimer>,
}

impl hyper::body::Body for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        hyper::body::Body::is_end_stream(&self.body)
    }

    fn size_hint(&self) -> SizeHint {
        hyper::body::Body::size_hint(&self.body)
    }
}

async fn take_lines(
    listener: TcpListener,
    state: Arc<State>,
    shutdown: CancellationToken,
) -> Result<()> {
    let connection_limit = ConnectionLimit::new(state.settings.connections_max);
    let mut connections = JoinSet::new();
    let door = state.service.parts().metrics.door(Door::Lines);
    while let Some(accepted) = accept(&listener, &connection_limit, &door, &shutdown).await {
        while connections.try_join_next().is_some() {}
        let Accepted { socket, address, permit, open } = accepted;
        let serving = tcp::serve(Arc::clone(&state), (socket, address), shutdown.clone(), permit);
        connections.spawn(async move {
            let _open = open;
            serving.await;
        });
    }
    let grace = Duration::from_millis(state.settings.shutdown_grace_ms);
    let all = async { while connections.join_next().await.is_some() {} };
    if timeout(grace, all).await.is_err() {
        connections.abort_all();
    }
    Ok(())
}

/// An accepted socket with its place in the limit of connections.
struct Accepted {
    socket: TcpStream,
    address: SocketAddr,
    permit: Arc<ConnectionPermit>,
    open: OpenConnection,
}

/// Accepts the next socket, and counts it toward the connection limit. Waits while the limit is
/// reached and all sockets are busy. `None` after `shutdown`.
async fn accept(
    listener: &TcpListener,
    connection_limit: &ConnectionLimit,
    door: &DoorMetrics,
    shutdown: &CancellationToken,
) -> Option<Accepted> {
    let next = async {
        loop {
            match listener.accept().await {
                Ok((socket, address)) => {
                    let keepalive = TcpKeepalive::new().with_time(Duration::from_secs(60));
                    let prepared = socket
                        .set_nodelay(true)
                        .and_then(|()| SockRef::from(&socket).set_tcp_keepalive(&keepalive));
                    if let Err(error) = prepared {
                        tracing::debug!(%error, "socket options");
                    }
                    let open = door.connected();
                    let permit = connection_limit.enter().await;
                    return Accepted { socket, address, permit, open };
                }
                // The process has no free file descriptor, or the client has already disconnected.
                // A pause avoids a busy loop.
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        }
    };
    tokio::select! {
        biased;
        () = shutdown.cancelled() => None,
        next = next => Some(next),
    }
}
