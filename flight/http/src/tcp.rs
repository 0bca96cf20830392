//! Line protocol over TCP, for QuestDB's clients. The protocol has no answers. A refused line ends
//! the connection: the server stores the lines before the refused line, and none after it.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use futures::FutureExt as _;
use stratalog_access::{Alpn, Arrived, Authenticated, ServerStream};
use stratalog_line::{LineParser, LineRequest, Outcome, Precision, TableRows};
use stratalog_metrics::{Door, RequestClass};
use stratalog_model::{Error, ErrorKind, Result, store::AppendOptions};
use stratalog_query::Session;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    net::TcpStream,
    sync::mpsc,
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    body::Room,
    connection_limit::{ConnectionPermit, RunningRequest},
    state::State,
    store::{self, SchemaTables, WriteProtocol},
    write::PUBLIC,
};

/// Size of the read buffer.
const READ_BYTES: usize = 256 << 10;

/// Maximum number of batches that wait to be stored while their connection continues to read.
const WAITING: usize = 2;

/// Maximum time that received lines wait for further lines, to be stored together.
const LINGER: Duration = Duration::from_millis(5);

/// Maximum bytes that the server still reads from a connection before closing it to make room for
/// another connection.
const LAST_BYTES_MAX: usize = 4 << 20;

/// The initial memory reservation of a connection for its rows, in bytes.
const FIRST_BYTES: usize = 64 << 10;

/// Maximum length in bytes of a first line that the server examines for an HTTP request line.
const REQUEST_LINE_BYTES_MAX: usize = 16 << 10;

/// Rows to be stored, and their memory reservation.
type Batch = (Vec<TableRows>, Room);

/// Serves a connection until its end.
pub(crate) async fn serve(
    state: Arc<State>,
    (socket, address): (TcpStream, SocketAddr),
    stop: CancellationToken,
    permit: Arc<ConnectionPermit>,
) {
    state.counts.connected();
    let served = log_in_and_serve(&state, (socket, address), stop, &permit).await;
    if let Err(error) = served {
        state.service.parts().metrics.door(Door::Lines).failed(error.kind());
        tracing::warn!(client = %address, %error, "a connection of line protocol was ended");
    }
    state.counts.disconnected();
}

/// Performs the TLS handshake and the login of a connection, and serves the connection.
async fn log_in_and_serve(
    state: &Arc<State>,
    (socket, address): (TcpStream, SocketAddr),
    stop: CancellationToken,
    permit: &Arc<ConnectionPermit>,
) -> Result<()> {
    let patience = Duration::from_millis(state.settings.patience_ms);
    let authenticator = &state.access.authenticator;
    let _counted = authenticator.admit(address.ip())?;
    if state.access.tls.is_none() && authenticator.is_required() {
        return Err(no_login());
    }
    let arriving = state.access.arrive(socket, address, (Door::Lines, Alpn::Lines), patience);
    let arrived = tokio::select! {
        arrived = arriving => arrived,
        () = permit.must_leave() => {
            state.service.parts().metrics.door(Door::Lines).refused();
            return Ok(());
        }
        () = stop.cancelled() => return Ok(()),
    };
    let Arrived { stream, origin, peer } = match arrived {
        Ok(arrived) => arrived,
        Err(error) => {
            state.service.parts().metrics.door(Door::Lines).refused();
            tracing::debug!(client = %address, error = error.message(), "a connection of line protocol was refused");
            return Ok(());
        }
    };
    let login = match authenticator.certificate_user(&peer.certificate_names) {
        Some(user) => authenticator.certificate(&peer.certificate_names, user, origin).await?,
        None => None,
    };
    let login = match login {
        Some(login) => login,
        None if authenticator.is_required() => return Err(no_login()),
        None => authenticator.trust(&state.settings.default_user, origin).await?,
    };
    detect_and_serve(state, stream, &login, address, stop, permit).await
}

fn no_login() -> Error {
    Error::new(
        ErrorKind::InvalidAuthorization,
        "line protocol over TCP needs a client certificate of a role, because the server has users",
    )
    .with_hint(
        "send the lines to the port of HTTP with a token, or connect by TLS with a certificate \
         of tls_client_ca_file",
    )
}

/// Waits for the first bytes of a connection. Refuses HTTP requests; serves line protocol
/// otherwise.
async fn detect_and_serve(
    state: &Arc<State>,
    mut socket: ServerStream,
    login: &Authenticated,
    address: SocketAddr,
    stop: CancellationToken,
    permit: &Arc<ConnectionPermit>,
) -> Result<()> {
    let patience = Duration::from_millis(state.settings.patience_ms);
    let mut begun = vec![0; READ_BYTES];
    let count = tokio::select! {
        biased;
        () = stop.cancelled() => return Ok(()),
        () = permit.must_leave() => {
            state.service.parts().metrics.door(Door::Lines).refused();
            tracing::debug!("closed a silent connection of line protocol for a new connection");
            return Ok(());
        }
        read = timeout(patience, first_line(&mut socket, &mut begun)) => match read {
            Ok(Ok(count)) => count,
            Ok(Err(error)) => return Err(Error::io("the first line", error)),
            Err(_) => {
                state.service.parts().metrics.door(Door::Lines).refused();
                tracing::debug!("a connection of line protocol was closed before its first line");
                return Ok(());
            }
        },
    };
    begun.truncate(count);
    if is_http(&begun) {
        return Err(Error::new(
            ErrorKind::ProtocolViolation,
            "received an HTTP request on the port of line protocol; nothing of the request was stored",
        )
        .with_hint("send requests to the port of HTTP, http_listen"));
    }
    let running = permit.begin();
    let session = state.session(login, "line protocol over TCP", Some(address.to_string()))?;
    let served = read_and_store(state, (socket, permit, running), begun, &session, stop).await;
    session.close();
    served
}

/// Reads into `buffer` until the buffer contains a complete line or [`REQUEST_LINE_BYTES_MAX`]
/// bytes. Returns the number of bytes.
async fn first_line(
    socket: &mut (impl AsyncRead + Unpin),
    buffer: &mut [u8],
) -> std::io::Result<usize> {
    let mut count = 0;
    loop {
        let rest = buffer.get_mut(count..).unwrap_or_default();
        let more = socket.read(rest).await?;
        let read = rest.get(..more).unwrap_or_default();
        let ended = more == 0 || read.contains(&b'\n');
        count += more;
        if ended || count >= REQUEST_LINE_BYTES_MAX || !may_be_http(buffer.get(..count)) {
            return Ok(count);
        }
    }
}

/// True if `bytes` may be the beginning of an HTTP request line: capital letters, then a space.
fn may_be_http(bytes: Option<&[u8]>) -> bool {
    let bytes = bytes.unwrap_or_default();
    let method = bytes.iter().take_while(|byte| byte.is_ascii_uppercase()).count();
    method > 0 && method <= 16 && matches!(bytes.get(method), None | Some(b' '))
}

/// True if the first line is an HTTP request line. A web page can make a browser send an HTTP
/// request whose body contains line protocol.
fn is_http(bytes: &[u8]) -> bool {
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let version = line.rsplit(|byte| *byte == b' ').next().unwrap_or_default();
    let known = matches!(version, b"HTTP/1.0" | b"HTTP/1.1" | b"HTTP/2.0");
    may_be_http(Some(line)) && known
}

/// Reads and parses lines; another task stores the rows in the same order.
async fn read_and_store(
    state: &Arc<State>,
    (mut socket, permit, running): (ServerStream, &Arc<ConnectionPermit>, RunningRequest),
    begun: Vec<u8>,
    session: &Arc<Session>,
    stop: CancellationToken,
) -> Result<()> {
    let (sender, receiver) = mpsc::channel(WAITING);
    let storing = tokio::spawn(store_all(Arc::clone(state), Arc::clone(session), receiver));
    let mut reader = Reader {
        state,
        tables: SchemaTables { session, schema: PUBLIC },
        parser: state.parser(),
        room: Room::default(),
        reserved: 0,
        sender: &sender,
        permit,
        running: Some(running),
        silent_since: Instant::now(),
    };
    let read = tokio::select! {
        read = reader.read(&mut socket, begun, &stop) => read,
        // The storing task has failed, so further lines would be lost.
        () = sender.closed() => Ok(()),
    };
    state.give_back(reader.parser);
    drop(sender);
    let stored = storing
        .await
        .unwrap_or_else(|error| Err(Error::internal(format!("storing failed: {error}"))));
    stored.and(read)
}

async fn store_all(
    state: Arc<State>,
    session: Arc<Session>,
    mut batches: mpsc::Receiver<Batch>,
) -> Result<()> {
    let door = state.service.parts().metrics.door(Door::Lines);
    while let Some((tables, room)) = batches.recv().await {
        let options = AppendOptions::default();
        let timer = door.begin(RequestClass::LineBatch);
        let stored =
            store::store(&state, &session, WriteProtocol::STREAM, PUBLIC, tables, options).await;
        drop(timer);
        drop(room);
        if stored.is_err() {
            state.counts.refused();
        }
        state.counts.rows(stored?.map_or(0, |appended| appended.rows));
    }
    Ok(())
}

/// Reads the lines of one connection, and passes their rows to the task that stores them.
struct Reader<'a> {
    state: &'a Arc<State>,
    tables: SchemaTables<'a>,
    parser: LineParser,
    /// The memory reservation of rows that are not yet passed to the storing task.
    room: Room,
    reserved: usize,
    sender: &'a mpsc::Sender<Batch>,
    permit: &'a Arc<ConnectionPermit>,
    /// Marks the connection as running. `None` after a long silence: the server may then close this
    /// connection to make room for a new connection.
    running: Option<RunningRequest>,
    /// The beginning of the client's silence: the end of the last complete line, the end of the
    /// last wait for the store, or the start of the connection. Bytes of an incomplete line do not
    /// end the silence.
    silent_since: Instant,
}

impl Reader<'_> {
    async fn read(
        &mut self,
        socket: &mut ServerStream,
        begun: Vec<u8>,
        stop: &CancellationToken,
    ) -> Result<()> {
        self.parser.begin(LineRequest { precision: Precision::Nanosecond, now_ns: self.now_ns() });
        self.parser.stop_at_error();
        let silence = Duration::from_millis(self.state.settings.patience_ms);
        let mut buffer = begun;
        let mut ended = buffer.is_empty();
        if !ended && !self.take(&buffer).await? {
            return Ok(());
        }
        buffer.resize(READ_BYTES, 0);
        self.silent_since = Instant::now();
        loop {
            if self.parser.rows() == 0 && self.silent_since.elapsed() >= silence {
                self.running = None;
            }
            if ended || self.parser.lines_failed() > 0 {
                return self.end().await;
            }
            // Lines that arrive within [`LINGER`] join the present rows; then the rows are stored.
            let patience = match self.parser.rows() {
                0 => silence,
                _ => LINGER,
            };
            let is_running = self.running.is_some();
            let count = tokio::select! {
                biased;
                () = stop.cancelled() => Some(Ok(0)),
                () = self.permit.must_leave(), if !is_running => {
                    self.state.service.parts().metrics.door(Door::Lines).refused();
                    tracing::debug!("closed a silent connection of line protocol for a new connection");
                    return self.leave(socket, &mut buffer).await;
                }
                count = timeout(patience, socket.read(&mut buffer)) => count.ok(),
            };
            let goes_on = match count {
                None if self.parser.rows() > 0 => self.hand_over().await,
                None => {
                    self.running = None;
                    true
                }
                Some(Ok(0)) => {
                    ended = true;
                    true
                }
                Some(Ok(count)) => {
                    let goes_on = self.take(buffer.get(..count).unwrap_or_default()).await?;
                    if self.parser.rows() > 0 {
                        self.silent_since = Instant::now();
                        self.running.get_or_insert_with(|| self.permit.begin());
                    }
                    goes_on
                }
                // Some clients reset the connection after they have sent all data.
                Some(Err(error)) => {
                    tracing::debug!(%error, "a connection of line protocol failed");
                    ended = true;
                    true
                }
            };
            if !goes_on {
                return Ok(());
            }
        }
    }

    /// Passes all complete lines that have arrived to the storing task, before the server closes
    /// the connection to make room for another connection.
    async fn leave(&mut self, socket: &mut ServerStream, buffer: &mut [u8]) -> Result<()> {
        let mut left = LAST_BYTES_MAX;
        while left > 0
            && let Some(Ok(count @ 1..)) = socket.read(buffer).now_or_never()
        {
            left = left.saturating_sub(count);
            if !self.take(buffer.get(..count).unwrap_or_default()).await? {
                return Ok(());
            }
        }
        self.end().await
    }

    /// Parses bytes, and passes every full batch of rows to the storing task. Returns `false` if
    /// the storing task has ended.
    async fn take(&mut self, bytes: &[u8]) -> Result<bool> {
        self.state.counts.bytes(bytes.len());
        let most = self.state.settings.batch_bytes_max;
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.reserved == 0 {
                self.room.wait_for(self.state, FIRST_BYTES).await?;
                self.reserved = FIRST_BYTES;
            }
            if self.parser.rows() == 0 {
                self.parser.continue_stream(self.now_ns());
            }
            let (parser, tables, reserved) = (&mut self.parser, &self.tables, self.reserved);
            let taken = self
                .state
                .compute(rest.len().max(reserved - FIRST_BYTES), || {
                    parser.push_within(rest, reserved, tables)
                })
                .await?;
            rest = rest.get(taken..).unwrap_or_default();
            let larger = reserved.saturating_mul(2).min(most);
            let full = self.parser.bytes() >= reserved;
            let grows = full && larger > reserved && self.room.try_grow_to(self.state, larger);
            if grows {
                self.reserved = larger;
            }
            let many = self.parser.rows() >= self.state.settings.batch_rows_max;
            if (full && !grows || many) && !self.hand_over().await {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Passes the parsed rows to the storing task. Returns `false` if the storing task has ended.
    async fn hand_over(&mut self) -> bool {
        let rows = self.parser.take();
        self.parser.refresh();
        self.state.counts.lines(rows.iter().map(|rows| rows.rows() as u64).sum(), 0);
        self.reserved = 0;
        let is_taken = self.sender.send((rows, std::mem::take(&mut self.room))).await.is_ok();
        // The client is not silent while the server waits for the store.
        self.silent_since = Instant::now();
        is_taken
    }

    async fn end(&mut self) -> Result<()> {
        // Only a newline completes a line: `v=12` may be the beginning of `v=1234`.
        let cut_off = self.parser.drop_incomplete_line();
        let Outcome { tables: rows, errors, lines_failed, .. } =
            self.parser.finish(&self.tables)?;
        self.state.counts.lines(rows.iter().map(|rows| rows.rows() as u64).sum(), lines_failed);
        // If the send fails, the storing task has failed and reports its own error.
        let _ = self.sender.send((rows, std::mem::take(&mut self.room))).await;
        match errors.into_iter().next() {
            None if cut_off => Err(Error::new(
                ErrorKind::ConnectionFailure,
                "the connection ended within a line; the incomplete line was not stored",
            )
            .with_hint("end every line with a newline")),
            None => Ok(()),
            Some(error) => Err(Error::new(error.kind, format!("{error}: {}", error.original))),
        }
    }

    fn now_ns(&self) -> i64 {
        self.state.service.parts().clock.now_ns()
    }
}

#[cfg(test)]
mod tests;
