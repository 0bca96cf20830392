//! A client that creates, alters, truncates and drops tables, writes in blocks, and has statements
//! that time out.
//!
//! Additional checks besides the checks of the writers: after a crash, the tables, their columns
//! and their rows are those after the last acknowledged change, or after the change without an
//! answer. A failed or rolled back change has no effect.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    ops::Range,
    sync::{Arc, Mutex},
};

use stratalog_sim::Random;
use tokio_postgres::{Client, Error, error::SqlState};

use super::{
    ledger::{Ledger, time},
    writer::{Connection, connect},
};

/// Names of the tables.
const NAMES: [&str; 4] = ["changing_a", "changing_b", "changing_c", "changing_d"];
const COLUMNS: [&str; 3] = ["extra_a", "extra_b", "extra_c"];
/// Rows of a statement that may time out.
const MANY: i64 = 20_000;

/// The tables and their rows.
type Tables = BTreeMap<String, Table>;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Table {
    columns: BTreeSet<String>,
    rows: BTreeSet<i64>,
}

/// The form of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Alone,
    Block,
    RolledBack,
    /// With a statement timeout that may expire.
    Limited,
}

#[derive(Debug, Clone)]
enum Change {
    Create(String),
    Drop(String),
    Rename(String, String),
    AddColumn(String, &'static str),
    DeleteBefore(String, i64),
    DeleteFrom(String, i64),
    Insert(String, Range<i64>, How),
}

impl Change {
    /// A random possible change.
    fn next(tables: &Tables, random: &mut Random) -> Self {
        let free: Vec<&str> =
            NAMES.into_iter().filter(|name| !tables.contains_key(*name)).collect();
        let unused = free.get(random.below(free.len().max(1) as u64) as usize);
        let taken = tables.iter().nth(random.below(tables.len().max(1) as u64) as usize);
        let Some((name, table)) = taken else { return Self::Create(free[0].to_string()) };
        let name = name.clone();
        let next = table.rows.last().map_or(0, |last| last + 1);
        // From the oldest row to behind the newest.
        let oldest = table.rows.first().copied().unwrap_or(0);
        let middle = oldest + random.below((next - oldest + 1) as u64) as i64;
        let column = COLUMNS.into_iter().find(|column| !table.columns.contains(*column));
        let few = next..next + random.between(1, 50) as i64;
        match (random.below(16), unused, column) {
            (0, Some(unused), _) => Self::Create((*unused).to_string()),
            (1, ..) => Self::Drop(name),
            (2, Some(unused), _) => Self::Rename(name, (*unused).to_string()),
            (3, _, Some(column)) => Self::AddColumn(name, column),
            (4, ..) => Self::DeleteBefore(name, middle),
            (5, ..) => Self::DeleteFrom(name, middle),
            (6, ..) => Self::Insert(name, few, How::RolledBack),
            (7, ..) => Self::Insert(name, next..next + MANY, How::Limited),
            (8..=10, ..) => Self::Insert(name, few, How::Block),
            _ => Self::Insert(name, few, How::Alone),
        }
    }

    /// Applies the change to the tables.
    fn apply(&self, tables: &mut Tables) {
        match self {
            Self::Create(name) => {
                let columns = ["n", "time"].map(str::to_string).into();
                tables.insert(name.clone(), Table { columns, rows: BTreeSet::new() });
            }
            Self::Drop(name) => drop(tables.remove(name)),
            Self::Rename(from, to) => {
                if let Some(table) = tables.remove(from) {
                    tables.insert(to.clone(), table);
                }
            }
            Self::AddColumn(name, column) => {
                tables.entry(name.clone()).or_default().columns.insert((*column).to_string());
            }
            Self::DeleteBefore(name, first) => {
                tables.entry(name.clone()).or_default().rows.retain(|n| n >= first);
            }
            Self::DeleteFrom(name, first) => {
                tables.entry(name.clone()).or_default().rows.retain(|n| n < first);
            }
            Self::Insert(_, _, How::RolledBack) => {}
            Self::Insert(name, rows, _) => {
                tables.entry(name.clone()).or_default().rows.extend(rows.clone());
            }
        }
    }

    async fn send(&self, client: &Client) -> Result<(), Error> {
        let sql = match self {
            Self::Create(name) => {
                format!("CREATE TABLE {name} (time timestamptz PRIMARY KEY, n bigint NOT NULL)")
            }
            Self::Drop(name) => format!("DROP TABLE {name}"),
            Self::Rename(from, to) => format!("ALTER TABLE {from} RENAME TO {to}"),
            Self::AddColumn(name, column) => {
                // One of the columns joins the key; earlier and later events are in one series.
                let key = if *column == "extra_b" { "PRIMARY KEY" } else { "" };
                format!("ALTER TABLE {name} ADD COLUMN {column} text {key}")
            }
            Self::DeleteBefore(name, n) => {
                format!("DELETE FROM {name} WHERE time < '{}'", time(*n))
            }
            Self::DeleteFrom(name, n) => {
                format!("DELETE FROM {name} WHERE time >= '{}'", time(*n))
            }
            Self::Insert(name, rows, _) => format!(
                "INSERT INTO {name} (time, n) SELECT timestamptz '{}' + n * interval '1 microsecond', n \
                 FROM generate_series({}, {}) AS numbers (n)",
                time(0),
                rows.start,
                rows.end - 1
            ),
        };
        let (before, after) = match self {
            Self::Insert(_, _, How::Block) => ("BEGIN", "COMMIT"),
            Self::Insert(_, _, How::RolledBack) => ("BEGIN", "ROLLBACK"),
            Self::Insert(_, _, How::Limited) => ("SET statement_timeout = 6", ""),
            _ => ("", ""),
        };
        client.batch_execute(before).await?;
        client.batch_execute(&sql).await?;
        client.batch_execute(after).await
    }
}

/// The known state of the changes.
#[derive(Debug, Default)]
struct State {
    /// The tables after all settled changes.
    tables: Tables,
    /// The change without an answer.
    pending: Option<Change>,
    settled: u64,
    timed_out: u64,
    /// The last changes and their results, for error messages.
    recent: VecDeque<String>,
}

/// Maximum number of changes in an error message.
const RECENT_MAX: usize = 40;

impl State {
    fn note(&mut self, what: String) {
        self.recent.push_back(what);
        if self.recent.len() > RECENT_MAX {
            self.recent.pop_front();
        }
    }
}

/// The changes so far; clones share the state.
#[derive(Debug, Clone, Default)]
pub struct Changes(Arc<Mutex<State>>);

impl Changes {
    /// The numbers of acknowledged changes and of changes that timed out.
    pub fn counts(&self) -> (u64, u64) {
        let state = self.0.lock().unwrap();
        (state.settled, state.timed_out)
    }

    /// Makes changes until the connection is lost; a loss before the announced end is an error.
    pub async fn make(
        self,
        connection: Connection,
        ledger: Ledger,
        mut random: Random,
    ) -> Result<(), String> {
        match self.make_on(&connection, &ledger, &mut random).await {
            Err(Broken::Connection(error))
                if connection.is_ending() || error.is_closed() || error.as_db_error().is_none() =>
            {
                Ok(())
            }
            Err(Broken::Connection(error)) => {
                let pending = self.0.lock().unwrap().pending.clone();
                Err(self.told(&format!("{pending:?}: {error:?}")))
            }
            Err(Broken::Promise(broken)) => Err(self.told(&broken)),
            Ok(()) => Ok(()),
        }
    }

    /// An error with the changes before it.
    fn told(&self, error: &str) -> String {
        let recent: Vec<String> = self.0.lock().unwrap().recent.iter().cloned().collect();
        format!("{error}\nbefore it:\n{}", recent.join("\n"))
    }

    async fn make_on(
        &self,
        connection: &Connection,
        ledger: &Ledger,
        random: &mut Random,
    ) -> Result<(), Broken> {
        let client = connect(&connection.address).await?;
        loop {
            let change = Change::next(&self.0.lock().unwrap().tables, random);
            ledger.note(format!("change {change:?}\n")).await;
            {
                let mut state = self.0.lock().unwrap();
                state.note(format!("{change:?}"));
                state.pending = Some(change.clone());
            }
            let limited = matches!(change, Change::Insert(_, _, How::Limited));
            let sent = change.send(&client).await;
            if !connection.counts() {
                return Ok(());
            }
            let timed_out = match sent {
                Err(error) if limited && error.code() == Some(&SqlState::QUERY_CANCELED) => true,
                outcome => outcome.map(|()| false)?,
            };
            self.settle(timed_out);
            ledger.note(format!("changed {}\n", !timed_out)).await;
            if limited {
                // The timeout applies to RESET, too, and a busy machine may need longer.
                loop {
                    match client.batch_execute("RESET statement_timeout").await {
                        Err(error) if error.code() == Some(&SqlState::QUERY_CANCELED) => {}
                        outcome => break outcome?,
                    }
                }
            }
            if timed_out || random.chance(10) {
                self.check_on(&client).await?;
            }
        }
    }

    fn settle(&self, timed_out: bool) {
        let mut state = self.0.lock().unwrap();
        if timed_out {
            state.note("timed out".to_string());
        }
        if let Some(change) = state.pending.take()
            && !timed_out
        {
            change.apply(&mut state.tables);
        }
        state.settled += u64::from(!timed_out);
        state.timed_out += u64::from(timed_out);
    }

    /// Checks the state of a server, and settles a change without an answer.
    pub async fn check(&self, address: &str) -> Result<(), String> {
        let client = connect(address).await.map_err(|error| format!("cannot connect: {error}"))?;
        self.check_on(&client).await.map_err(|broken| match broken {
            Broken::Connection(error) => format!("the changed tables cannot be read: {error:?}"),
            Broken::Promise(broken) => self.told(&broken),
        })
    }

    async fn check_on(&self, client: &Client) -> Result<(), Broken> {
        let found = found(client).await?;
        let mut state = self.0.lock().unwrap();
        state.note(format!("looked at: {}", summary(&found)));
        let pending = state.pending.take();
        if found == state.tables {
            return Ok(());
        }
        let known = state.tables.clone();
        if let Some(change) = &pending {
            change.apply(&mut state.tables);
        }
        if found == state.tables {
            return Ok(());
        }
        Err(Broken::Promise(format!(
            "the tables are not those that were acknowledged ({}), nor what {pending:?} makes of \
             them: {}",
            summary(&known),
            summary(&found)
        )))
    }
}

enum Broken {
    Connection(Error),
    Promise(String),
}

impl From<Error> for Broken {
    fn from(error: Error) -> Self {
        Self::Connection(error)
    }
}

/// The tables of the server.
async fn found(client: &Client) -> Result<Tables, Broken> {
    let columns = "SELECT table_name::text, column_name::text FROM information_schema.columns \
                   WHERE table_name LIKE 'changing%'";
    let mut found = Tables::new();
    for row in client.query(columns, &[]).await? {
        found.entry(row.get(0)).or_default().columns.insert(row.get(1));
    }
    for (name, table) in &mut found {
        let sql = format!("SELECT n FROM {name}");
        for row in client.query(&sql, &[]).await? {
            let n: i64 = row.get(0);
            if !table.rows.insert(n) {
                return Err(Broken::Promise(format!("{name}: row {n} is there twice")));
            }
        }
    }
    Ok(found)
}

fn summary(tables: &Tables) -> String {
    let lines: Vec<String> = tables
        .iter()
        .map(|(name, table)| {
            let (count, ends) = (table.rows.len(), (table.rows.first(), table.rows.last()));
            format!("{name} {:?} with {count} rows {ends:?}", table.columns)
        })
        .collect();
    lines.join("; ")
}
