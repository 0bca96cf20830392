//! A connection to a server, or to a database that this process has opened.

use std::io;

use bytes::Bytes;
use futures::stream::BoxStream;

use super::{
    error::SqlError,
    rows::{ResultColumn, TextRows},
};

mod embedded;
mod target;
mod tls;
mod wire;

pub use embedded::EmbeddedConnection;
pub use target::Target;
pub use tls::ClientTls;
pub use wire::WireConnection;

/// The data of a COPY … FROM STDIN.
pub type CopyData<'a> = BoxStream<'a, io::Result<Bytes>>;

/// Receives a result in parts as they arrive.
pub trait Receiver: Send {
    /// Receives the columns, before any row.
    fn columns(&mut self, columns: &[ResultColumn]) -> io::Result<()>;
    /// Receives the next rows.
    fn rows(&mut self, rows: &TextRows) -> io::Result<()>;
    /// Receives the next bytes of COPY … TO STDOUT.
    fn bytes(&mut self, bytes: &[u8]) -> io::Result<()>;
}

/// A connection to a server, or to a database in this process.
#[derive(Debug)]
pub enum Connection {
    /// A connection to a server, over the Postgres protocol.
    Wire(Box<WireConnection>),
    /// A session of a database that this process has opened.
    Embedded(EmbeddedConnection),
}

impl Connection {
    /// Runs a statement other than COPY … FROM STDIN; returns its command tag.
    pub async fn run(
        &mut self,
        sql: &str,
        receiver: &mut dyn Receiver,
    ) -> Result<String, SqlError> {
        match self {
            Connection::Wire(wire) => wire.run(sql, receiver).await,
            Connection::Embedded(embedded) => embedded.run(sql, receiver).await,
        }
    }

    /// Runs COPY … FROM STDIN with `data`; returns the number of stored rows.
    pub async fn copy_in(&mut self, sql: &str, data: CopyData<'_>) -> Result<u64, SqlError> {
        match self {
            Connection::Wire(wire) => wire.copy_in(sql, data).await,
            Connection::Embedded(embedded) => embedded.copy_in(sql, data).await,
        }
    }

    /// The columns that the result of the query `sql` would have.
    pub async fn describe(&mut self, sql: &str) -> Result<Vec<ResultColumn>, SqlError> {
        match self {
            Connection::Wire(wire) => wire.describe(sql).await,
            Connection::Embedded(embedded) => embedded.describe(sql).await,
        }
    }

    /// A handle by which another thread can cancel the running statement.
    pub fn canceller(&self) -> Canceller {
        match self {
            Connection::Wire(wire) => {
                let (token, tls) = wire.cancel_token();
                Canceller::Wire(token, tls)
            }
            Connection::Embedded(embedded) => Canceller::Embedded(embedded.canceller()),
        }
    }

    /// The messages (NOTICE) that have arrived since the last call, as lines.
    pub fn take_notices(&mut self) -> Vec<String> {
        match self {
            Connection::Wire(wire) => wire.take_notices(),
            Connection::Embedded(embedded) => embedded.take_notices(),
        }
    }

    /// The name of the database, for the prompt.
    pub fn database(&self) -> &str {
        match self {
            Connection::Wire(wire) => wire.database(),
            Connection::Embedded(embedded) => embedded.database(),
        }
    }

    /// A description of the server or directory, for the greeting.
    pub fn place(&self) -> String {
        match self {
            Connection::Wire(wire) => wire.place(),
            Connection::Embedded(embedded) => embedded.place(),
        }
    }
}

/// Cancels the running statement of its connection.
#[derive(Clone)]
pub enum Canceller {
    /// Cancels over a second connection to the server.
    Wire(tokio_postgres::CancelToken, ClientTls),
    /// Cancels in this process.
    Embedded(embedded::EmbeddedCanceller),
}

impl Canceller {
    /// Requests the cancellation. The running statement then ends with SQLSTATE 57014.
    pub async fn cancel(&self) {
        match self {
            // A cancel request has no answer. If it fails, the statement simply continues.
            Canceller::Wire(token, tls) => {
                let _ = token.cancel_query(tls.clone()).await;
            }
            Canceller::Embedded(embedded) => embedded.cancel(),
        }
    }
}
