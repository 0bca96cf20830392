//! The sent and acknowledged statements, in memory and in a file. The file is fsynced before a
//! statement is sent.

use std::{
    collections::BTreeMap,
    fs::File,
    io::Write,
    path::Path,
    sync::{Arc, Mutex, mpsc},
};

use tokio::sync::oneshot;

use super::changes::Changes;

/// The tables; the tables differ in their collision rules.
pub const TABLES: [Table; 5] = [
    Table { name: "first_disk", collision: "first", durability: "disk" },
    Table { name: "last_disk", collision: "last", durability: "disk" },
    Table { name: "all_disk", collision: "all", durability: "disk" },
    Table { name: "first_relaxed", collision: "first", durability: "relaxed" },
    Table { name: "merge_disk", collision: "merge", durability: "disk" },
];

/// A table with its options.
#[derive(Debug)]
pub struct Table {
    pub name: &'static str,
    pub collision: &'static str,
    pub durability: &'static str,
}

/// The form in which a statement sends its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Insert,
    Copy,
}

/// The known fate of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Sent; without an answer, or without a conclusive answer.
    Unknown,
    /// Acknowledged, or found after a crash.
    Stored,
    /// Absent after a crash, and not sent again.
    Absent,
}

/// A statement: `count` rows of a writer, starting with row `first`.
#[derive(Debug, Clone, Copy)]
pub struct Statement {
    pub first: i64,
    pub count: i64,
    pub payload_bytes: usize,
    pub kind: Kind,
    pub fate: Fate,
}

impl Statement {
    /// The numbers of the rows.
    pub fn rows(&self) -> std::ops::Range<i64> {
        self.first..self.first + self.count
    }
}

/// The ledger. Writers are numbered from 0; a writer's table is `TABLES[writer % 5]`.
#[derive(Debug, Clone)]
pub struct Ledger {
    statements: Arc<Mutex<BTreeMap<i64, Vec<Statement>>>>,
    lines: mpsc::Sender<(String, oneshot::Sender<()>)>,
    /// The changes of another client to other tables.
    pub changes: Changes,
}

impl Ledger {
    /// Makes a new ledger in a file.
    pub fn create(path: &Path) -> std::io::Result<Self> {
        let file = File::create_new(path)?;
        let (lines, receiver) = mpsc::channel();
        std::thread::spawn(move || write_lines(file, &receiver));
        Ok(Self { statements: Arc::default(), lines, changes: Changes::default() })
    }

    /// The table of a writer.
    pub fn table(writer: i64) -> &'static Table {
        &TABLES[writer as usize % TABLES.len()]
    }

    /// Records a statement before its first send.
    pub async fn sending(&self, writer: i64, statement: Statement) {
        self.note(format!("send {writer} {} {}\n", statement.first, statement.count)).await;
        self.statements.lock().unwrap().entry(writer).or_default().push(statement);
    }

    /// Records the acknowledgement of a writer's last statement.
    pub async fn acknowledged(&self, writer: i64) {
        let first = self.change_last(writer, |statement| {
            statement.fate = Fate::Stored;
            statement.first
        });
        self.note(format!("acknowledged {writer} {first:?}\n")).await;
    }

    /// Records that a writer's last statement is sent again.
    pub async fn sending_again(&self, writer: i64) {
        let first = self.change_last(writer, |statement| {
            if statement.fate == Fate::Absent {
                statement.fate = Fate::Unknown;
            }
            statement.first
        });
        self.note(format!("again {writer} {first:?}\n")).await;
    }

    /// The last statement of a writer and its position, counted from 1.
    pub fn last(&self, writer: i64) -> Option<(usize, Statement)> {
        let statements = self.statements.lock().unwrap();
        let own = statements.get(&writer)?;
        Some((own.len(), *own.last()?))
    }

    /// Runs `work` on all statements of all writers.
    pub fn with<T>(&self, work: impl FnOnce(&mut BTreeMap<i64, Vec<Statement>>) -> T) -> T {
        work(&mut self.statements.lock().unwrap())
    }

    /// The number of stored statements.
    pub fn stored(&self) -> u64 {
        self.with(|all| {
            all.values().flatten().filter(|sent| sent.fate == Fate::Stored).count() as u64
        })
    }

    fn change_last<T>(&self, writer: i64, change: impl FnOnce(&mut Statement) -> T) -> Option<T> {
        self.with(|all| Some(change(all.get_mut(&writer)?.last_mut()?)))
    }

    /// Writes a line; the line is durable on return.
    pub async fn note(&self, line: String) {
        let (sender, done) = oneshot::channel();
        self.lines.send((line, sender)).expect("the ledger's thread runs");
        done.await.expect("the ledger was written");
    }
}

/// Writes all waiting lines, syncs once, and answers all.
fn write_lines(mut file: File, lines: &mpsc::Receiver<(String, oneshot::Sender<()>)>) {
    while let Ok(first) = lines.recv() {
        let group: Vec<_> = std::iter::once(first).chain(lines.try_iter()).collect();
        let text: String = group.iter().map(|(line, _)| line.as_str()).collect();
        file.write_all(text.as_bytes()).expect("the ledger can be written");
        file.sync_data().expect("the ledger can be synced");
        for (_, done) in group {
            done.send(()).ok();
        }
    }
}

/// The payload of a row: reproducible, and different for each row.
pub fn payload(writer: i64, n: i64, bytes: usize) -> String {
    let mut random = stratalog_sim::Random::new((writer as u64) << 40 ^ n as u64);
    let mut text = format!("{writer}/{n}/");
    while text.len() < bytes {
        text.push_str(&format!("{:016x}", random.any()));
    }
    text.truncate(bytes.max(1));
    text
}

/// The time of a row, as text.
pub fn time(n: i64) -> String {
    let (seconds, micros) = (n / 1_000_000, n % 1_000_000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("2026-01-01 {hour:02}:{minute:02}:{second:02}.{micros:06}+00")
}
