//! Line protocol over TCP, as QuestDB's clients send it: nothing is answered. What cannot be read ends
//! the connection, after what came before it is stored.

use std::{sync::Arc, time::Duration};

use stratalog_line::{LineRequest, Outcome, Precision, TableRows};
use stratalog_model::{ErrorKind, Result, store::AppendOptions};
use stratalog_query::Session;
use tokio::{
    io::AsyncReadExt as _,
    net::TcpStream,
    sync::{OwnedSemaphorePermit, mpsc},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::{
    state::State,
    store::{self, Bringer, SchemaTables},
    write::PUBLIC,
};

/// Bytes that are read at a time.
const READ_BYTES: usize = 256 << 10;

/// Batches of a connection that wait to be stored while it goes on reading.
const WAITING: usize = 2;

/// How long lines wait for others before they are stored.
const LINGER: Duration = Duration::from_millis(5);

/// How long a connection may be silent that has sent whole lines: keep-alive tells of those that are
/// gone.
const FOREVER: Duration = Duration::from_secs(365 * 86_400);

/// Serves one connection to its end.
pub(crate) async fn serve(
    state: Arc<State>,
    socket: TcpStream,
    stop: CancellationToken,
    place: OwnedSemaphorePermit,
) {
    state.counts.connected();
    let address = socket.peer_addr().map(|address| address.to_string()).ok();
    let served = match state.session("line protocol over TCP", address.clone()) {
        Ok(session) => {
            let served = converse(&state, socket, &session, stop).await;
            session.close();
            served
        }
        Err(error) => Err(error),
    };
    if let Err(error) = served {
        let client = address.unwrap_or_default();
        tracing::warn!(client, %error, "a connection of line protocol was ended");
    }
    state.counts.disconnected();
    drop(place);
}

/// Reads and parses here; stores in a task of its own, in the same order.
async fn converse(
    state: &Arc<State>,
    mut socket: TcpStream,
    session: &Arc<Session>,
    stop: CancellationToken,
) -> Result<()> {
    let (sender, receiver) = mpsc::channel(WAITING);
    let storing = tokio::spawn(store_all(Arc::clone(state), Arc::clone(session), receiver));
    let read = tokio::select! {
        read = read(state, &mut socket, session, &sender, &stop) => read,
        // The storing has failed: there is no use in reading on.
        () = sender.closed() => Ok(()),
    };
    drop(sender);
    let stored = storing.await.unwrap_or_else(|error| {
        Err(stratalog_model::Error::internal(format!("storing broke off: {error}")))
    });
    stored.and(read)
}

async fn store_all(
    state: Arc<State>,
    session: Arc<Session>,
    mut batches: mpsc::Receiver<Vec<TableRows>>,
) -> Result<()> {
    while let Some(tables) = batches.recv().await {
        let stored =
            store::store(&session, Bringer::LINES, PUBLIC, tables, AppendOptions::default()).await;
        if stored.is_err() {
            state.counts.refused();
        }
        state.counts.rows(stored?.map_or(0, |appended| appended.rows));
    }
    Ok(())
}

async fn read(
    state: &Arc<State>,
    socket: &mut TcpStream,
    session: &Arc<Session>,
    sender: &mpsc::Sender<Vec<TableRows>>,
    stop: &CancellationToken,
) -> Result<()> {
    let tables = SchemaTables { session, schema: PUBLIC };
    let now_ns = || state.service.parts().clock.now_ns();
    let mut parser = state.parser();
    let mut buffer = vec![0; READ_BYTES];
    parser.begin(LineRequest { precision: Precision::Nanosecond, now_ns: now_ns() });
    loop {
        // Others may follow at once; if not, what is there is stored.
        let patience = if parser.rows() > 0 { LINGER } else { FOREVER };
        let count = tokio::select! {
            biased;
            () = stop.cancelled() => Some(Ok(0)),
            count = timeout(patience, socket.read(&mut buffer)) => count.ok(),
        };
        let (count, ended) = match count {
            None => (0, false),
            Some(Ok(count)) => (count, count == 0),
            // A reset after everything was sent is how some clients end.
            Some(Err(error)) => {
                tracing::debug!(%error, "a connection of line protocol broke off");
                (0, true)
            }
        };
        state.counts.bytes(count);
        if parser.rows() == 0 {
            parser.go_on(now_ns());
        }
        parser.push(buffer.get(..count).unwrap_or_default(), &tables)?;
        let full = parser.rows() >= state.settings.batch_rows_max
            || parser.bytes() >= state.settings.batch_bytes_max;
        let refused = parser.lines_failed() > 0;
        if ended || refused {
            // Only a newline makes a line whole: `v=12` may be the half of `v=1234`.
            let cut_off = parser.drop_begun();
            let Outcome { tables: rows, errors, lines_failed, .. } = parser.finish(&tables)?;
            state.counts.lines(rows.iter().map(|rows| rows.rows() as u64).sum(), lines_failed);
            // The receiver ends with an error, which is told instead.
            let _ = sender.send(rows).await;
            state.give_back(parser);
            return match errors.into_iter().next() {
                None if cut_off => Err(stratalog_model::Error::new(
                    ErrorKind::ConnectionFailure,
                    "the connection ended within a line, which was not stored",
                )
                .with_hint("end every line with a newline")),
                None => Ok(()),
                Some(error) => Err(stratalog_model::Error::new(
                    error.kind,
                    format!("{error}: {}", error.original),
                )),
            };
        }
        if full || count == 0 {
            let rows = parser.take();
            parser.refresh();
            state.counts.lines(rows.iter().map(|rows| rows.rows() as u64).sum(), 0);
            if sender.send(rows).await.is_err() {
                return Ok(());
            }
        }
    }
}
