//! Accepts connections, and closes them when the server shuts down.

use std::{sync::Arc, time::Duration};

use arrow_flight::flight_service_server::FlightServiceServer;
use futures::{Stream, stream};
use socket2::{SockRef, TcpKeepalive};
use stratalog_access::{Access, Alpn};
use stratalog_flight_wire::Seal;
use stratalog_metrics::{Door, DoorMetrics};
use stratalog_model::{Error, Result};
use stratalog_query::QueryService;
use tokio::{
    net::TcpListener,
    sync::{Semaphore, mpsc},
};
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;

use crate::{
    FlightSettings,
    answers::Answers,
    caller::Callers,
    connection::{
        Connection,
        silence::{self, Lobby},
    },
    service::Flight,
};

/// The interval of HTTP/2 keep-alive pings on an idle connection.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(30);
/// The time in which a client must answer a keep-alive ping.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(20);
/// The interval at which expired logins are removed.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(30);
/// The flow-control window of a stream, in bytes.
const STREAM_WINDOW: u32 = 4 << 20;
/// The flow-control window of a connection, in bytes.
const CONNECTION_WINDOW: u32 = 16 << 20;
/// Maximum bytes of an HTTP/2 frame. Larger frames are cheaper, because each frame has a constant
/// cost. But the other streams of the connection wait until a frame is sent.
const FRAME_BYTES: u32 = 256 << 10;

/// Serves Flight clients on `listener` until `shutdown`. Returns when every call has ended, or
/// after the grace period.
///
/// # Errors
/// `Io` if the listener fails permanently; `Internal` if the server cannot create the key that
/// protects tickets.
pub async fn serve(
    listener: TcpListener,
    service: Arc<QueryService>,
    access: Access,
    settings: FlightSettings,
    shutdown: CancellationToken,
) -> Result<()> {
    let settings = Arc::new(settings);
    let seal = Seal::random()?;
    let authenticator = Arc::clone(&access.authenticator);
    let callers =
        Callers::new(Arc::clone(&service), authenticator, Arc::clone(&settings), seal.clone());
    let callers = Arc::new(callers);
    let counting = Arc::clone(&service);
    let door = service.parts().metrics.door(Door::Flight);
    let flight =
        Flight::new(service, Arc::clone(&settings), Arc::clone(&callers), seal, shutdown.clone())?;
    let calls = FlightServiceServer::new(flight)
        .max_decoding_message_size(settings.message_bytes_max)
        .max_encoding_message_size(usize::MAX);
    let places = Arc::new(Semaphore::new(settings.connections_max));
    let grace = Duration::from_millis(settings.shutdown_grace_ms);
    let serving = Server::builder()
        .concurrency_limit_per_connection(settings.calls_max)
        .http2_keepalive_interval(Some(KEEP_ALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEP_ALIVE_TIMEOUT))
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(FRAME_BYTES)
        .add_service(Answers { calls, service: counting, door: door.clone() })
        .serve_with_incoming_shutdown(
            incoming(listener, access, places, door),
            shutdown.clone().cancelled_owned(),
        );
    let expiring = async {
        let mut every = tokio::time::interval(EXPIRY_INTERVAL);
        loop {
            every.tick().await;
            callers.expire();
        }
    };
    let cut_off = async {
        shutdown.cancelled().await;
        tokio::time::sleep(grace).await;
    };
    let served = tokio::select! {
        served = serving => served,
        () = cut_off => Ok(()),
        () = expiring => Ok(()),
    };
    served.map_err(|error| Error::internal(format!("the Flight listener failed: {error}")))
}

/// Accepts sockets, and performs their TLS handshakes. When the limit of connections is reached, the
/// server closes the oldest connection that has made no call; without such a connection, a new
/// socket waits.
fn incoming(
    listener: TcpListener,
    access: Access,
    places: Arc<Semaphore>,
    door: DoorMetrics,
) -> impl Stream<Item = std::io::Result<Connection>> {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(accept_all(listener, access, places, door, sender));
    stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|connection| (Ok(connection), receiver))
    })
}

/// Accepts sockets until the receiver of the connections is dropped.
async fn accept_all(
    listener: TcpListener,
    access: Access,
    places: Arc<Semaphore>,
    door: DoorMetrics,
    sender: mpsc::Sender<Connection>,
) {
    let lobby = Lobby::default();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = sender.closed() => return,
        };
        let (socket, address) = match accepted {
            Ok(accepted) => accepted,
            // The process has no free file descriptor, or the client has disconnected. A pause
            // avoids a busy loop.
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            }
        };
        prepare(&socket);
        let open = door.connected();
        let counted = match access.authenticator.admit(address.ip()) {
            Ok(counted) => counted,
            Err(error) => {
                door.refused();
                tracing::debug!(%address, error = error.message(), "a connection was refused");
                continue;
            }
        };
        if places.available_permits() == 0 {
            lobby.make_room();
        }
        let place = tokio::select! {
            place = Arc::clone(&places).acquire_owned() => place,
            () = sender.closed() => return,
        };
        let Ok(place) = place else { return };
        let (lobby_place, access, door) = (lobby.enter(), access.clone(), door.clone());
        let sender = sender.clone();
        tokio::spawn(async move {
            let arriving =
                access.arrive(socket, address, (Door::Flight, Alpn::Flight), silence::PATIENCE);
            let arrived = tokio::select! {
                arrived = arriving => arrived,
                () = lobby_place.must_leave() => return door.refused(),
                () = sender.closed() => return,
            };
            match arrived {
                Ok(arrived) => {
                    let places = (place, counted);
                    let connection = Connection::new(arrived, lobby_place, places, (open, door));
                    // After a failed send, the listener has ended.
                    let _ = sender.send(connection).await;
                }
                Err(error) => {
                    door.refused();
                    tracing::debug!(%address, error = error.message(), "a connection was refused");
                }
            }
        });
    }
}

fn prepare(socket: &tokio::net::TcpStream) {
    let keepalive = TcpKeepalive::new().with_time(Duration::from_secs(60));
    let prepared =
        socket.set_nodelay(true).and_then(|()| SockRef::from(socket).set_tcp_keepalive(&keepalive));
    if let Err(error) = prepared {
        tracing::debug!(%error, "socket options");
    }
}
