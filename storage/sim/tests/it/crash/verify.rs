//! Compares the state of the server with the ledger.

use std::{
    collections::{BTreeMap, HashMap},
    time::{SystemTime, UNIX_EPOCH},
};

use tokio_postgres::Client;

use super::{
    ledger::{Fate, Ledger, Statement, TABLES, Table, payload, time},
    writer::connect,
};

/// The accident, which determines the value of acknowledgements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// A process died: all acknowledged statements are there.
    Process,
    /// A machine died: `relaxed` statements may be lost, from some statement of each writer on.
    Machine,
}

/// A row of a table without the key.
struct Row {
    gsn: i64,
    payload: String,
}

/// Checks every table, and settles statements without an answer.
pub async fn verify(address: &str, ledger: &Ledger, loss: Loss) -> Result<u64, String> {
    ledger.changes.check(address).await?;
    let client = connect(address).await.map_err(|error| format!("cannot connect: {error}"))?;
    let mut rows = 0;
    for (at, table) in TABLES.iter().enumerate() {
        let mut found = read(&client, table).await?;
        rows += found.len() as u64;
        ledger.with(|all| {
            let mut own =
                all.iter_mut().filter(|(writer, _)| **writer as usize % TABLES.len() == at);
            own.try_for_each(|(writer, sent)| check_writer(table, *writer, sent, &mut found, loss))
        })?;
        if let Some((writer, n)) = found.keys().next() {
            return Err(format!(
                "{}: row {n} of writer {writer}, and {} more, were never sent",
                table.name,
                found.len() - 1
            ));
        }
    }
    Ok(rows)
}

/// Reads every row; fails for a duplicate row.
async fn read(client: &Client, table: &Table) -> Result<HashMap<(i64, i64), Row>, String> {
    let failed =
        |error: tokio_postgres::Error| format!("{}: cannot be read: {error:?}", table.name);
    let sql = format!("SELECT writer, n, _gsn, payload, time FROM {}", table.name);
    let mut found = HashMap::new();
    for row in client.query(&sql, &[]).await.map_err(failed)? {
        let (writer, n): (i64, i64) = (row.get(0), row.get(1));
        let time_stored: SystemTime = row.get(4);
        let micros = time_stored.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_micros());
        if micros % 86_400_000_000 != n as u128 {
            return Err(format!("{}: row {n} has not the time {}", table.name, time(n)));
        }
        let payload: Option<String> = row.get(3);
        let value = Row { gsn: row.get(2), payload: payload.unwrap_or_default() };
        if found.insert((writer, n), value).is_some() {
            return Err(format!("{}: row {n} of writer {writer} is there twice", table.name));
        }
    }
    let counted = client.query_one(&format!("SELECT count(*) FROM {}", table.name), &[]).await;
    let counted: i64 = counted.map_err(failed)?.get(0);
    if counted != found.len() as i64 {
        return Err(format!("{}: count(*) is {counted} of {}", table.name, found.len()));
    }
    Ok(found)
}

/// Removes a writer's rows from `found`, and checks the rows.
fn check_writer(
    table: &Table,
    writer: i64,
    sent: &mut [Statement],
    found: &mut HashMap<(i64, i64), Row>,
    loss: Loss,
) -> Result<(), String> {
    let mut order = BTreeMap::new();
    let excusable = loss == Loss::Machine && table.durability == "relaxed";
    let mut lost_from = None;
    for statement in sent {
        let mut here = 0;
        for n in statement.rows() {
            let Some(row) = found.remove(&(writer, n)) else { continue };
            if row.payload != payload(writer, n, statement.payload_bytes) {
                return Err(format!(
                    "{}: row {n} of writer {writer} has a wrong payload",
                    table.name
                ));
            }
            here += 1;
            order.insert(n, row.gsn);
        }
        let what = format!(
            "{}: {here} of the {} rows from {} of writer {writer}",
            table.name, statement.count, statement.first
        );
        match (here == statement.count, here == 0, statement.fate) {
            (true, _, Fate::Stored | Fate::Unknown) => {
                if let Some(first) = lost_from {
                    return Err(format!("{what} are there, and those from {first} are lost"));
                }
                statement.fate = Fate::Stored;
            }
            (_, true, Fate::Unknown | Fate::Absent) => statement.fate = Fate::Absent,
            (_, true, Fate::Stored) if excusable => {
                lost_from = lost_from.or(Some(statement.first));
                statement.fate = Fate::Absent;
            }
            (_, true, Fate::Stored) => return Err(format!("{what}: acknowledged, and lost")),
            (_, _, Fate::Absent) => return Err(format!("{what}: absent before, and back")),
            (_, _, fate) => return Err(format!("{what}: a statement in part ({fate:?})")),
        }
    }
    for ((n, gsn), (next, next_gsn)) in order.iter().zip(order.iter().skip(1)) {
        if gsn >= next_gsn {
            return Err(format!(
                "{}: writer {writer} sent {n} before {next}, but their gsn's are {gsn} and {next_gsn}",
                table.name
            ));
        }
    }
    Ok(())
}
