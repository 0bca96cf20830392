//! Accepts connections, and ends them in good order.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    extract::DefaultBodyLimit,
    routing::{get, post},
};
use hyper::body::Incoming;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto::Builder, graceful::GracefulShutdown},
};
use socket2::{SockRef, TcpKeepalive};
use stratalog_model::Result;
use stratalog_query::QueryService;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use tower::Service as _;

use crate::{
    HttpSettings, compat, health, metrics, sql, state::State, subscribe, tcp, telemetry, write,
};

/// Bytes of the heads of one request.
const HEAD_BYTES_MAX: usize = 64 << 10;

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
        .route("/exec", get(compat::exec))
        .route("/ping", get(health::ping))
        .route("/health", get(health::health))
        .route("/ready", get(health::ready))
        .route("/version", get(health::version))
        .route("/metrics", get(metrics::metrics))
        // Bodies have limits of their own, before and after they are decompressed.
        .layer(DefaultBodyLimit::disable())
        .with_state(state)
}

/// Answers HTTP clients on the first listener, and takes line protocol on the second, until `shutdown`;
/// returns when every request has ended, or was given up after the grace period.
///
/// # Errors
/// `Io` when the listener fails for good.
pub async fn serve(
    (http, lines): (Option<TcpListener>, Option<TcpListener>),
    service: Arc<QueryService>,
    settings: HttpSettings,
    shutdown: CancellationToken,
) -> Result<()> {
    let state = State::new(service, Arc::new(settings));
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
    let places = Arc::new(Semaphore::new(state.settings.connections_max));
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
        .timer(TokioTimer::new())
        .keep_alive_interval(patience)
        .max_header_list_size(u32::try_from(HEAD_BYTES_MAX).unwrap_or(u32::MAX));
    let routes = routes(Arc::clone(&state));
    let mut connections = JoinSet::new();
    while let Some((socket, place)) = accept(&listener, &places, &shutdown).await {
        while connections.try_join_next().is_some() {}
        let routes = routes.clone();
        let service = hyper::service::service_fn(move |request: hyper::Request<Incoming>| {
            routes.clone().call(request)
        });
        let connection = builder.serve_connection(TokioIo::new(socket), service).into_owned();
        let connection = graceful.watch(connection);
        connections.spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection of HTTP broke off");
            }
            drop(place);
        });
    }
    let grace = Duration::from_millis(state.settings.shutdown_grace_ms);
    if timeout(grace, graceful.shutdown()).await.is_err() {
        connections.abort_all();
    }
    Ok(())
}

async fn take_lines(
    listener: TcpListener,
    state: Arc<State>,
    shutdown: CancellationToken,
) -> Result<()> {
    let places = Arc::new(Semaphore::new(state.settings.connections_max));
    let mut connections = JoinSet::new();
    while let Some((socket, place)) = accept(&listener, &places, &shutdown).await {
        while connections.try_join_next().is_some() {}
        connections.spawn(tcp::serve(Arc::clone(&state), socket, shutdown.clone(), place));
    }
    let grace = Duration::from_millis(state.settings.shutdown_grace_ms);
    let all = async { while connections.join_next().await.is_some() {} };
    if timeout(grace, all).await.is_err() {
        connections.abort_all();
    }
    Ok(())
}

/// The next socket, and its place; those that find none wait in the system's queue. `None` when no more
/// are wanted.
async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
    shutdown: &CancellationToken,
) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let next = async {
        let place = Arc::clone(places).acquire_owned().await.ok()?;
        loop {
            match listener.accept().await {
                Ok((socket, _)) => {
                    let keepalive = TcpKeepalive::new().with_time(Duration::from_secs(60));
                    let prepared = socket
                        .set_nodelay(true)
                        .and_then(|()| SockRef::from(&socket).set_tcp_keepalive(&keepalive));
                    if let Err(error) = prepared {
                        tracing::debug!(%error, "socket options");
                    }
                    return Some((socket, place));
                }
                // Out of descriptors, or a client that left at once: do not spin.
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
        next = next => next,
    }
}
