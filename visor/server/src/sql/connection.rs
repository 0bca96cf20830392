//! A connection to a database: over the wire, or to a database opened in this process.

use std::io;

use bytes::Bytes;
use futures::stream::BoxStream;

use super::{
    error::SqlError,
    rows::{ResultColumn, TextRows},
};

mod embedded;
mod wire;

pub use embedded::EmbeddedConnection;
pub use wire::WireConnection;

/// The data of a COPY … FROM STDIN.
pub type CopyData<'a> = BoxStream<'a, io::Result<Bytes>>;

/// Receives a result in parts, without waiting for the end.
pub trait Receiver: Send {
    /// The columns, before any row.
    fn columns(&mut self, columns: &[ResultColumn]) -> io::Result<()>;
    /// Some rows.
    fn rows(&mut self, rows: &TextRows) -> io::Result<()>;
    /// Bytes of COPY … TO STDOUT.
    fn bytes(&mut self, bytes: &[u8]) -> io::Result<()>;
}

/// A connection of either kind.
#[derive(Debug)]
pub enum Connection {
    /// Over the Postgres protocol.
    Wire(Box<WireConnection>),
    /// In this process.
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

    /// Runs a COPY … FROM STDIN; returns the number of stored rows.
    pub async fn copy_in(&mut self, sql: &str, data: CopyData<'_>) -> Result<u64, SqlError> {
        match self {
            Connection::Wire(wire) => wire.copy_in(sql, data).await,
            Connection::Embedded(embedded) => embedded.copy_in(sql, data).await,
        }
    }

    /// The columns of a query's result.
    pub async fn describe(&mut self, sql: &str) -> Result<Vec<ResultColumn>, SqlError> {
        match self {
            Connection::Wire(wire) => wire.describe(sql).await,
            Connection::Embedded(embedded) => embedded.describe(sql).await,
        }
    }

    /// A handle for another thread that cancels the running statement.
    pub fn canceller(&self) -> Canceller {
        match self {
            Connection::Wire(wire) => Canceller::Wire(wire.cancel_token()),
            Connection::Embedded(embedded) => Canceller::Embedded(embedded.canceller()),
        }
    }

    /// Server messages since the last call, as lines.
    pub fn take_notices(&mut self) -> Vec<String> {
        match self {
            Connection::Wire(wire) => wire.take_notices(),
            Connection::Embedded(embedded) => embedded.take_notices(),
        }
    }

    /// Name of the database, for the prompt.
    pub fn database(&self) -> &str {
        match self {
            Connection::Wire(wire) => wire.database(),
            Connection::Embedded(embedded) => embedded.database(),
        }
    }

    /// The description of the server or directory, for the greeting.
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
    /// Through a second connection.
    Wire(tokio_postgres::CancelToken),
    /// Directly.
    Embedded(embedded::EmbeddedCanceller),
}

impl Canceller {
    /// Requests the cancellation; the statement then ends with SQLSTATE 57014.
    pub async fn cancel(&self) {
        match self {
            // A cancel request has no answer; after a failure, the statement simply continues.
            Canceller::Wire(token) => {
                let _ = token.cancel_query(tokio_postgres::NoTls).await;
            }
            Canceller::Embedded(embedded) => embedded.cancel(),
        }
    }
}
