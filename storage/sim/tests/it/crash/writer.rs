//! A client that writes, loses its connection, and retries.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures::SinkExt;
use stratalog_sim::Random;
use tokio_postgres::{Client, Error, NoTls, error::SqlState};

use super::{
    ledger::{Fate, Kind, Ledger, Statement, payload, time},
    verify::Loss,
};

/// The statements of this writer are larger than a frame, and are stored in parts.
const LARGE_WRITER: i64 = 2;
const LARGE_ROWS: i64 = 5000;

/// Connects; the connection ends with the client.
pub async fn connect(address: &str) -> Result<Client, Error> {
    let (host, port) = address.rsplit_once(':').expect("an address has a port");
    let config = format!("host={host} port={port} user=stratalog dbname=stratalog");
    let (client, connection) = tokio_postgres::connect(&config, NoTls).await?;
    tokio::spawn(async move {
        // The client reports the end of the connection, too.
        connection.await.ok();
    });
    Ok(client)
}

/// The server to write to, and the end of the writing.
#[derive(Debug)]
pub struct Connection {
    pub address: String,
    /// Set before the end.
    pub ending: Arc<AtomicBool>,
    /// The kind of the end.
    pub loss: Loss,
}

impl Connection {
    /// Whether the end has begun.
    pub fn is_ending(&self) -> bool {
        self.ending.load(Ordering::SeqCst)
    }

    /// Whether a just received answer counts. After the shutdown of its disk, a server continues
    /// for a moment, and ext4 may report success for a lost sync; a real power cut would have
    /// prevented the answer.
    pub fn counts(&self) -> bool {
        self.loss == Loss::Process || !self.is_ending()
    }
}

/// Writes until the connection is lost; a loss before the announced end is an error.
pub async fn write(
    connection: Connection,
    ledger: Ledger,
    writer: i64,
    mut random: Random,
) -> Result<(), String> {
    let outcome = write_on(&connection, &ledger, writer, &mut random).await;
    match outcome {
        Err(error) if connection.is_ending() || error.is_closed() => Ok(()),
        Err(error) if error.as_db_error().is_none() => Ok(()),
        Err(error) => Err(format!("writer {writer}: {error:?}")),
        Ok(()) => Ok(()),
    }
}

async fn write_on(
    connection: &Connection,
    ledger: &Ledger,
    writer: i64,
    random: &mut Random,
) -> Result<(), Error> {
    let client = connect(&connection.address).await?;
    let table = Ledger::table(writer);
    if table.collision == "all" {
        let producer = format!("00000000-0000-4000-8000-{writer:012}");
        client.batch_execute(&format!("SET stratalog.producer = '{producer}'")).await?;
    }
    if let Some((position, last)) = ledger.last(writer)
        && random.chance(60)
    {
        ledger.sending_again(writer).await;
        send(&client, writer, position, last, random.chance(50)).await?;
        if !connection.counts() {
            return Ok(());
        }
        ledger.acknowledged(writer).await;
    }
    loop {
        let position = ledger.last(writer).map_or(0, |(position, _)| position) + 1;
        let statement = next_statement(ledger, writer, random);
        if writer == LARGE_WRITER {
            // Leaves time for the other writers, and limits the number of rows to read back.
            tokio::time::sleep(Duration::from_millis(random.below(200))).await;
        }
        ledger.sending(writer, statement).await;
        send(&client, writer, position, statement, false).await?;
        if !connection.counts() {
            return Ok(());
        }
        ledger.acknowledged(writer).await;
        // Also after an answer: a client may not have seen the answer.
        if random.chance(5) {
            ledger.sending_again(writer).await;
            send(&client, writer, position, statement, random.chance(50)).await?;
        }
    }
}

fn next_statement(ledger: &Ledger, writer: i64, random: &mut Random) -> Statement {
    let first = ledger.last(writer).map_or(0, |(_, last)| last.first + last.count);
    let (kind, count, payload_bytes) = match random.below(10) {
        _ if writer == LARGE_WRITER => (Kind::Copy, LARGE_ROWS, 2000),
        0..6 => (Kind::Insert, 1, random.between(10, 300) as usize),
        6..8 => (Kind::Insert, random.between(2, 50) as i64, 40),
        _ => (Kind::Copy, random.between(1, 400) as i64, 60),
    };
    Statement { first, count, payload_bytes, kind, fate: Fate::Unknown }
}

/// Sends a statement. If the rows are there already, the send succeeds: the statement was sent
/// before.
async fn send(
    client: &Client,
    writer: i64,
    position: usize,
    statement: Statement,
    conflicts_skipped: bool,
) -> Result<(), Error> {
    let table = Ledger::table(writer);
    if table.collision == "all" {
        let set = format!("SET stratalog.producer_sequence = {position}");
        client.batch_execute(&set).await?;
    }
    let of_row = |n| Some(payload(writer, n, statement.payload_bytes));
    let sent = match statement.kind {
        Kind::Insert => {
            let conflict = match (conflicts_skipped, table.collision) {
                (true, "first") => " ON CONFLICT DO NOTHING",
                _ => "",
            };
            insert(client, table.name, writer, statement, of_row, conflict).await
        }
        Kind::Copy => copy(client, table.name, writer, statement, of_row).await,
    };
    if table.collision == "merge" && sent.is_ok() {
        // Sends the rows again with NULL payloads: a merge must keep the first payloads.
        return match statement.kind {
            Kind::Insert => insert(client, table.name, writer, statement, |_| None, "").await,
            Kind::Copy => copy(client, table.name, writer, statement, |_| None).await,
        };
    }
    match sent {
        Err(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => Ok(()),
        outcome => outcome,
    }
}

async fn insert(
    client: &Client,
    table: &str,
    writer: i64,
    statement: Statement,
    payload: impl Fn(i64) -> Option<String>,
    conflict: &str,
) -> Result<(), Error> {
    let rows: Vec<String> = statement
        .rows()
        .map(|n| {
            let payload = payload(n).map_or("NULL".to_string(), |text| format!("'{text}'"));
            format!("('{}', {writer}, {n}, {payload})", time(n))
        })
        .collect();
    let sql = format!(
        "INSERT INTO {table} (time, writer, n, payload) VALUES {}{conflict}",
        rows.join(", ")
    );
    client.batch_execute(&sql).await
}

async fn copy(
    client: &Client,
    table: &str,
    writer: i64,
    statement: Statement,
    payload: impl Fn(i64) -> Option<String>,
) -> Result<(), Error> {
    let sql = format!("COPY {table} (time, writer, n, payload) FROM STDIN");
    let mut sink = pin!(client.copy_in::<_, Bytes>(&sql).await?);
    let mut text = String::new();
    for n in statement.rows() {
        let payload = payload(n).unwrap_or("\\N".to_string());
        text.push_str(&format!("{}\t{writer}\t{n}\t{payload}\n", time(n)));
        if text.len() > 256 << 10 {
            sink.send(Bytes::from(std::mem::take(&mut text))).await?;
        }
        if statement.count == LARGE_ROWS && n + 100 == statement.rows().end {
            // Most parts are stored, but the statement is incomplete.
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
    sink.send(Bytes::from(text)).await?;
    sink.finish().await?;
    Ok(())
}
