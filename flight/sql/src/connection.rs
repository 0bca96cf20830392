//! The TCP connection of a client. A call without a token belongs to a login of its connection.

mod outbox;
pub(crate) mod silence;

use std::{
    collections::HashMap,
    io::IoSlice,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use parking_lot::Mutex;
use stratalog_access::{Arrived, Authenticated, ClientOrigin, ConnectionPlace, ServerStream};
use stratalog_metrics::{DoorMetrics, OpenConnection};
use stratalog_model::{Error, ErrorKind, Result};
use stratalog_query::Identity;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::OwnedSemaphorePermit,
};
use tonic::transport::server::Connected;

use self::{
    outbox::Outbox,
    silence::{LobbyPlace, Silence, silent},
};
use crate::caller::Caller;

/// Maximum number of logins of one connection without tokens. Each login has another user or
/// database.
const CALLERS_MAX: usize = 16;

/// User, identity and database of a login.
type CallerKey = (String, Identity, String);

/// The client of a connection, with the logins for calls without a token.
#[derive(Debug)]
pub(crate) struct Peer {
    origin: ClientOrigin,
    /// The names in the client's verified certificate; empty without a certificate.
    certificate_names: Vec<String>,
    callers: Mutex<HashMap<CallerKey, Arc<Caller>>>,
    /// The connection's place among the connections that have made no call; `None` after the first
    /// call.
    lobby_place: Mutex<Option<LobbyPlace>>,
}

impl Peer {
    /// The client's address.
    pub(crate) fn address(&self) -> SocketAddr {
        self.origin.address
    }

    /// Where the client comes from.
    pub(crate) fn origin(&self) -> ClientOrigin {
        self.origin
    }

    /// The names in the client's verified certificate; empty without a certificate.
    pub(crate) fn certificate_names(&self) -> &[String] {
        &self.certificate_names
    }

    /// Records that the connection has made a call. From now on the server does not close the
    /// connection to make room for a new connection.
    pub(crate) fn called(&self) {
        drop(self.lobby_place.lock().take());
    }

    /// The connection's login as a user, for a database. Creates a missing login with `make`.
    ///
    /// # Errors
    /// `LimitExceeded`, and errors of `make`; `Shutdown` if another session has terminated the
    /// login's session.
    pub(crate) fn caller(
        &self,
        login: &Authenticated,
        database: &str,
        make: impl FnOnce() -> Result<Arc<Caller>>,
    ) -> Result<Arc<Caller>> {
        let mut callers = self.callers.lock();
        let name = (login.user.clone(), login.identity, database.to_string());
        if let Some(caller) = callers.get(&name) {
            let goes_on = caller.session().check_terminated().and(caller.check_login());
            let caller = Arc::clone(caller);
            // Only this call fails; the next call opens a new session.
            goes_on.inspect_err(|_| drop(callers.remove(&name)))?;
            return Ok(caller);
        }
        if callers.len() >= CALLERS_MAX {
            callers.retain(|_, caller| caller.check_login().is_ok());
        }
        if callers.len() >= CALLERS_MAX {
            return Err(Error::new(
                ErrorKind::LimitExceeded,
                format!("a connection names more than {CALLERS_MAX} users and databases"),
            )
            .with_hint("use one connection for each session, or log in by Handshake for a token"));
        }
        let caller = make()?;
        callers.insert(name, Arc::clone(&caller));
        Ok(caller)
    }

    /// Removes the login of a client that has closed its session.
    pub(crate) fn forget(&self, caller: &Arc<Caller>) {
        self.callers.lock().retain(|_, known| !Arc::ptr_eq(known, caller));
    }
}

/// The socket of an open connection, with the client's logins, and with the permit that counts the
/// connection.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: ServerStream,
    outbox: Outbox,
    peer: Arc<Peer>,
    silence: Silence,
    /// The metrics in which a connection without any call counts as refused; `None` after the
    /// count.
    door: Option<DoorMetrics>,
    _places: (OwnedSemaphorePermit, ConnectionPlace),
    _open: OpenConnection,
}

impl Connection {
    /// Creates a connection from a socket that the listener has accepted, after its TLS handshake.
    pub(crate) fn new(
        arrived: Arrived,
        lobby_place: LobbyPlace,
        places: (OwnedSemaphorePermit, ConnectionPlace),
        (open, door): (OpenConnection, DoorMetrics),
    ) -> Self {
        let Arrived { stream: socket, origin, peer } = arrived;
        let silence = lobby_place.silence();
        let lobby_place = Mutex::new(Some(lobby_place));
        let certificate_names = peer.certificate_names;
        let callers = Mutex::default();
        let peer = Arc::new(Peer { origin, certificate_names, callers, lobby_place });
        Self {
            socket,
            outbox: Outbox::new(),
            peer,
            silence,
            door: Some(door),
            _places: places,
            _open: open,
        }
    }
}

impl Connected for Connection {
    type ConnectInfo = Arc<Peer>;

    fn connect_info(&self) -> Self::ConnectInfo {
        Arc::clone(&self.peer)
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let Self { socket, outbox, silence, door, .. } = &mut *self;
        outbox.poll_kept_bytes(socket, context);
        if silence.is_over(context) {
            if let Some(door) = door.take() {
                door.refused();
            }
            return silent();
        }
        let before = buffer.filled().len();
        let read = Pin::new(socket).poll_read(context, buffer);
        let bytes = buffer.filled().len().saturating_sub(before);
        silence.count_received(bytes);
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        let Self { socket, outbox, .. } = &mut *self;
        outbox.write(socket, context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        let Self { socket, outbox, .. } = &mut *self;
        outbox.flush(socket, context)
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        let Self { socket, outbox, .. } = &mut *self;
        ready!(outbox.send(socket, context))?;
        Pin::new(socket).poll_shutdown(context)
    }
}
