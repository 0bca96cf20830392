//! Runs statements over the PostgreSQL protocol, with simple queries.

use std::path::Path;

use sqllogictest::DBOutput;
use stratalog::{Server, settings::Listen};
use tokio::task::JoinHandle;
use tokio_postgres::{NoTls, SimpleQueryMessage};

use crate::{
    Failure, Letter,
    mode::{cell_text, in_process},
};

/// A server on a free loopback port.
#[derive(Debug)]
pub struct WireInstance {
    server: Server,
    port: u16,
}

impl WireInstance {
    /// Starts a server over `directory`.
    pub async fn open(directory: &Path) -> Result<Self, Failure> {
        let mut settings = in_process::settings(directory);
        settings.pg_listen = Listen::Address("127.0.0.1:0".to_string());
        settings.flight_listen = Listen::Off;
        settings.http_listen = Listen::Off;
        settings.ilp_listen = Listen::Off;
        let server = Server::open(&settings).await.map_err(in_process::not_started)?;
        let port = server
            .addresses()
            .postgres
            .map(|address| address.port())
            .ok_or_else(|| Failure::of_harness("the server does not listen"))?;
        Ok(Self { server, port })
    }

    /// Opens a connection to the server.
    pub async fn connect(&self) -> Result<WireClient, Failure> {
        // Results show times with nine fraction digits, as in the other modes.
        let parameters = format!(
            "host=127.0.0.1 port={} user=stratalog dbname=stratalog options='-c stratalog.fraction_digits=9'",
            self.port
        );
        let (client, connection) = tokio_postgres::connect(&parameters, NoTls).await?;
        Ok(WireClient { client, driver: tokio::spawn(connection) })
    }

    /// Stops the server.
    pub async fn close(self) -> Result<(), Failure> {
        self.server.close().await.map_err(in_process::not_started)
    }
}

/// A connection to the server.
#[derive(Debug)]
pub struct WireClient {
    client: tokio_postgres::Client,
    driver: JoinHandle<Result<(), tokio_postgres::Error>>,
}

impl WireClient {
    /// Runs an SQL string.
    pub async fn run(&mut self, sql: &str) -> Result<DBOutput<Letter>, Failure> {
        let mut rows = Vec::new();
        let mut types = None;
        let mut count = 0;
        for message in self.client.simple_query(sql).await? {
            match message {
                SimpleQueryMessage::RowDescription(columns) => {
                    types = Some(vec![Letter::Any; columns.len()]);
                }
                SimpleQueryMessage::Row(row) => {
                    rows.push((0..row.len()).map(|at| cell_text(row.get(at))).collect());
                }
                SimpleQueryMessage::CommandComplete(affected) => count = affected,
                _ => {}
            }
        }
        Ok(match types {
            Some(types) => DBOutput::Rows { types, rows },
            None => DBOutput::StatementComplete(count),
        })
    }
}

impl Drop for WireClient {
    fn drop(&mut self) {
        self.driver.abort();
    }
}
