//! `stratalog import`: rows from a file or a pipe into a table, in numbered batches.
//!
//! ```text
//!   file ─► source (CSV | NDJSON | Parquet) ─► batch of COPY data, its lines ─► COPY … FROM STDIN
//!           on its own thread                   producer + sequence = rows so far
//! ```
//! Each batch is one statement: stored completely or not at all. Its number is the count of rows up
//! to its end, sent together with the producer's id (F68). The last stored number is therefore the
//! number of stored rows: a restarted import reads and skips the stored rows, for any size of its
//! batches. The producer's id is derived from its name and the table's oid. No other table ever
//! gets the same oid: the numbers of a table do not apply to another table, even to a new table
//! with the name of a dropped table.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::Instant,
};

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use uuid::Uuid;

mod create;
mod infer;
mod note;
pub(crate) mod progress;
pub mod source;
mod table;

use progress::RowProgress;
use source::{Batch, Source, SourceOptions};

use crate::sql::{
    ConnectArguments,
    connection::{Connection, Receiver},
    error::SqlError,
    output::CsvOptions,
    rows::{ResultColumn, TextRows},
};

pub use create::{Shape, create_statement};
pub use note::{METADATA, TableNote};
pub use table::{KeyNames, TableName, quote};

/// Size of a portion of COPY data.
const CHUNK_BYTES: usize = 256 << 10;

/// What is in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum FileFormat {
    /// Values between delimiters, one record per line; quotes may hold line ends.
    Csv,
    /// One JSON object per line.
    Ndjson,
    /// Parquet.
    Parquet,
}

impl FileFormat {
    /// The given format, or the format of the extension of `file`.
    ///
    /// # Errors
    /// An unknown extension without a given format.
    pub fn of(format: Option<Self>, file: &Path) -> Result<Self, SqlError> {
        let ending = file.extension().and_then(|ending| ending.to_str()).unwrap_or("");
        match (format, ending.to_ascii_lowercase().as_str()) {
            (Some(format), _) => Ok(format),
            (None, "csv" | "tsv" | "txt") => Ok(Self::Csv),
            (None, "ndjson" | "jsonl" | "json") => Ok(Self::Ndjson),
            (None, "parquet" | "pq") => Ok(Self::Parquet),
            (None, _) => Err(SqlError::local(format!(
                "the name of {} does not tell its format: give --format csv, ndjson or parquet",
                file.display()
            ))),
        }
    }
}

/// Stores the rows of a file.
#[derive(Debug, Clone, clap::Args)]
pub struct ImportArguments {
    /// The file; - is standard input.
    file: PathBuf,
    /// Table that takes the rows: name, or schema.name.
    #[arg(long, short = 't')]
    table: String,
    /// Format of the input; by default taken from the file extension.
    #[arg(long, value_enum)]
    format: Option<FileFormat>,
    /// Create a missing table from the columns of the input.
    #[arg(long)]
    create: bool,
    /// Key columns of the new table, separated by commas. A name in double quotes may contain
    /// commas.
    #[arg(long, requires = "create", value_parser = KeyNames::parse)]
    key: Vec<KeyNames>,
    /// Time column of the new table; by default the first column with times.
    #[arg(long, requires = "create")]
    time: Option<String>,
    /// Option of the new table, as in CREATE TABLE … WITH; repeatable. A Parquet file written by
    /// `stratalog export --table` contains granularity, base and collision of the exported table.
    #[arg(long = "with", value_name = "NAME=VALUE", requires = "create", value_parser = option_of)]
    options: Vec<(String, String)>,
    /// Number of rows read to find the column types of the new table.
    #[arg(long, default_value_t = 100_000, value_name = "ROWS", requires = "create")]
    infer_rows: usize,
    #[command(flatten)]
    csv: CsvArguments,
    /// Rows of one batch. A batch is stored completely or not at all.
    #[arg(long, default_value_t = 50_000, value_name = "ROWS", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    batch_rows: u64,
    /// Name of this import, any text. A repeated import with the same name into the same table
    /// skips the rows that are already stored.
    #[arg(long, value_name = "ID")]
    producer: Option<String>,
    #[command(flatten)]
    connect: ConnectArguments,
}

/// How CSV is written.
#[derive(Debug, Clone, clap::Args)]
pub struct CsvArguments {
    /// CSV: the first line names the columns (default).
    #[arg(long, overrides_with = "no_header")]
    header: bool,
    /// CSV: no header line; the values are in the order of the columns.
    #[arg(long)]
    no_header: bool,
    /// CSV: the character between values.
    #[arg(long, default_value = ",", value_name = "CHARACTER")]
    delimiter: String,
    /// CSV: the unquoted text that means NULL.
    #[arg(long, default_value = "", value_name = "TEXT")]
    null: String,
}

/// `stratalog import`.
pub fn run(arguments: &ImportArguments) -> ExitCode {
    let Some(runtime) = crate::threads::of_command() else { return ExitCode::FAILURE };
    let result = runtime.block_on(import(arguments));
    // A reader blocked on standard input cannot be woken.
    runtime.shutdown_background();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}", error.render(""));
            ExitCode::FAILURE
        }
    }
}

async fn import(arguments: &ImportArguments) -> Result<(), SqlError> {
    let options = source_options(arguments)?;
    let mut connection = arguments.connect.connect("stratalog import").await?;
    let table = TableName::parse(&arguments.table)?;
    let mut source = tokio::task::spawn_blocking(move || source::open(options))
        .await
        .map_err(|error| SqlError::local(error.to_string()))??;
    let mut made = None;
    if arguments.create {
        let shape = Shape {
            key: arguments.key.iter().flat_map(KeyNames::names).cloned().collect(),
            time: arguments.time.clone(),
            options: arguments.options.clone(),
        };
        let shape = shape.with_note(source.note(), &source.columns()?);
        let statement = create_statement(&table.quoted(), &source.columns()?, &shape)
            .map_err(|error| with_odd_times(error, &source.odd_times()))?;
        let found = exists(&table, &mut connection).await?;
        connection.run(&statement, &mut IgnoringReceiver).await?;
        made = (!found).then(|| table.quoted());
    }
    let columns = connection.describe(&format!("SELECT * FROM {} LIMIT 0", table.quoted())).await?;
    source.bind(&columns)?;
    let oid = oid_of(&table, &mut connection).await?;
    let producer = Producer::new(arguments.producer.as_deref(), oid);
    let mut load = Load {
        statement: copy_statement(&table, source.as_ref()),
        rows_stored: 0,
        rows_skipped: 0,
        rows_before: 0,
        producer,
        made,
    };
    let start = Instant::now();
    let progress = RowProgress::new(source.size());
    let result = load.all(&mut connection, source, arguments.batch_rows, &progress).await;
    progress.finish();
    match result {
        Ok(()) => {
            load.check_end()?;
            let seconds = start.elapsed().as_secs_f64();
            let skipped = match (load.rows_skipped, load.rows_stored) {
                (0, _) => String::new(),
                (rows, 0) => format!(
                    "; all {rows} rows were stored before under this --producer: for another input, give another name"
                ),
                (rows, _) => format!(
                    "; skipped the first {rows} rows of the input: {rows} rows were stored before under this --producer"
                ),
            };
            let rate = load.rows_stored as f64 / seconds.max(1e-9);
            println!(
                "{} rows into {} in {seconds:.1} s ({rate:.0} rows/s){skipped}",
                load.rows_stored, arguments.table
            );
            Ok(())
        }
        Err(error) => Err(load.explained(error, arguments)),
    }
}

/// Parses an option of CREATE TABLE on the command line.
fn option_of(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    let (name, value) = (name.trim(), value.trim());
    let is_name = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    match is_name && !name.is_empty() && !value.is_empty() {
        true => Ok((name.to_string(), value.to_string())),
        false => Err(format!("\"{text}\" is not an option with a value, such as granularity=1ms")),
    }
}

/// Adds the columns with a single wrong value among times.
fn with_odd_times(error: SqlError, odd: &[(String, String)]) -> SqlError {
    let odd: Vec<String> = odd
        .iter()
        .map(|(column, value)| format!("time column \"{column}\" contains \"{value}\""))
        .collect();
    match odd.is_empty() {
        true => error,
        false => SqlError { detail: Some(odd.join("; ").into()), ..error },
    }
}

fn source_options(arguments: &ImportArguments) -> Result<SourceOptions, SqlError> {
    let format = FileFormat::of(arguments.format, &arguments.file)?;
    let CsvOptions { header, delimiter, null } = arguments.csv.options()?;
    Ok(SourceOptions {
        file: arguments.file.clone(),
        format,
        header,
        delimiter,
        null,
        infer_rows: if arguments.create { arguments.infer_rows.max(1) } else { 0 },
    })
}

impl CsvArguments {
    /// The options of the flags.
    pub(crate) fn options(&self) -> Result<CsvOptions, SqlError> {
        let text = &self.delimiter;
        let delimiter = match (text.as_str(), text.as_bytes()) {
            ("\\t" | "tab", _) => b'\t',
            (_, [one]) => *one,
            _ => {
                return Err(SqlError::local(format!(
                    "--delimiter \"{text}\" must be one ASCII character, or tab"
                )));
            }
        };
        Ok(CsvOptions { header: !self.no_header, delimiter, null: self.null.clone() })
    }
}

/// A running load of rows into the table.
struct Load {
    statement: String,
    rows_stored: u64,
    rows_skipped: u64,
    /// Rows stored by the producer before this import.
    rows_before: u64,
    producer: Producer,
    /// The quoted name of the table, if this import made the table.
    made: Option<String>,
}

impl Load {
    async fn all(
        &mut self,
        connection: &mut Connection,
        mut source: Box<dyn Source>,
        batch_rows: u64,
        progress: &RowProgress,
    ) -> Result<(), SqlError> {
        let setting = format!("SET stratalog.producer = '{}'", self.producer.id);
        connection.run(&setting, &mut IgnoringReceiver).await?;
        let before = self.producer.rows_stored(connection).await?;
        self.rows_before = before;
        let (sender, mut batches) = tokio::sync::mpsc::channel::<Result<Batch, SqlError>>(1);
        tokio::task::spawn_blocking(move || {
            let mut skip = before;
            loop {
                // A batch ends at the end of the stored rows: it is stored completely or not at
                // all.
                let rows_max = if skip > 0 { batch_rows.min(skip) } else { batch_rows };
                let item = match source.next_batch(rows_max) {
                    Ok(Some(batch)) => Ok(batch),
                    Ok(None) => return,
                    Err(error) => Err(error),
                };
                let last = item.is_err();
                skip = skip.saturating_sub(item.as_ref().map_or(0, |batch| batch.rows));
                if sender.blocking_send(item).is_err() || last {
                    return;
                }
            }
        });
        let interrupted = || SqlError::of("57014", "interrupted");
        loop {
            let batch = tokio::select! {
                batch = batches.recv() => batch,
                Ok(()) = tokio::signal::ctrl_c() => return Err(interrupted()),
            };
            let Some(batch) = batch.transpose()? else { return Ok(()) };
            let (rows, position) = (batch.rows, batch.end);
            if self.rows_skipped < self.rows_before {
                self.rows_skipped += rows;
                progress.advance(position, self.rows_skipped);
                continue;
            }
            let canceller = connection.canceller();
            let stored = tokio::select! {
                stored = self.one(connection, batch) => stored?,
                Ok(()) = tokio::signal::ctrl_c() => {
                    canceller.cancel().await;
                    return Err(interrupted());
                }
            };
            if stored == 0 {
                self.rows_skipped += rows;
            } else {
                self.rows_stored += stored;
            }
            progress.advance(position, self.rows_stored + self.rows_skipped);
        }
    }

    /// Refuses an input with fewer rows than stored: it is another input.
    fn check_end(&self) -> Result<(), SqlError> {
        let (rows, before) = (self.rows_skipped, self.rows_before);
        if rows >= before {
            return Ok(());
        }
        Err(SqlError::of(
            "22023",
            format!(
                "the input ends after {rows} rows, but {before} rows are stored under this --producer: the input is another one"
            ),
        )
        .with_hint("for another input, give another --producer, or no --producer"))
    }

    /// Sends a batch; returns the number of stored rows, 0 when the rows were stored before.
    async fn one(&self, connection: &mut Connection, batch: Batch) -> Result<u64, SqlError> {
        let sequence = batch.first_row + batch.rows - 1;
        let setting = format!("SET stratalog.producer_sequence = {sequence}");
        connection.run(&setting, &mut IgnoringReceiver).await?;
        let Batch { bytes, lines, .. } = batch;
        let mut rest = Bytes::from(bytes);
        let chunks = std::iter::from_fn(move || {
            let chunk = rest.split_to(rest.len().min(CHUNK_BYTES));
            (!chunk.is_empty()).then_some(Ok(chunk))
        });
        connection
            .copy_in(&self.statement, stream::iter(chunks).boxed())
            .await
            .map_err(|error| lines.relabel(error))
    }

    /// Adds the number of stored rows, and the command to continue.
    fn explained(&self, error: SqlError, arguments: &ImportArguments) -> SqlError {
        let done = self.rows_stored + self.rows_skipped.max(self.rows_before);
        let detail = match (&error.detail, done) {
            (Some(detail), _) => format!("{detail}\n         "),
            (None, _) => String::new(),
        };
        let stored = match (done, &self.made) {
            (0, None) => "Nothing is stored.".to_string(),
            (0, Some(table)) => format!("No row is stored; the new table {table} exists."),
            _ => format!("Rows 1 to {done} are stored; no row of the failed batch is stored."),
        };
        let hint = error.hint.clone().map(|hint| format!("{hint}\n       ")).unwrap_or_default();
        let resume = match (&arguments.producer, done) {
            (_, 0) => match (&self.made, arguments.create) {
                (Some(table), _) => format!(
                    "the table {table} exists now, without rows: correct the error, and run the command again; or, if a column has the wrong type, drop the table (DROP TABLE {table}), and run the command again with a larger --infer-rows"
                ),
                (None, true) => {
                    "correct the error, and run the command again; the table existed before this command, and --create does not change its columns"
                        .to_string()
                }
                (None, false) => "correct the error, and run the command again".to_string(),
            },
            (Some(_), _) => {
                "correct the error, and run the same command again: the command skips the stored rows"
                    .to_string()
            }
            (None, _) => format!(
                "correct the error, and run the command again with --producer {}: the command skips the stored rows",
                self.producer.name
            ),
        };
        SqlError {
            detail: Some(format!("{detail}{stored}").into()),
            hint: Some(format!("{hint}{resume}").into()),
            ..error
        }
    }
}

fn copy_statement(table: &TableName, source: &dyn Source) -> String {
    let columns = match source.names() {
        Some(names) => {
            let quoted: Vec<String> = names.iter().map(|name| quote(name)).collect();
            format!(" ({})", quoted.join(", "))
        }
        None => String::new(),
    };
    format!("COPY {}{columns} FROM STDIN ({})", table.quoted(), source.copy_options())
}

/// The producer of numbered batches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Producer {
    /// The name from the command line; a random name by default.
    pub name: String,
    /// The id sent to the server.
    pub id: Uuid,
}

impl Producer {
    /// The producer for a name and a table's oid: the same arguments always give the same id.
    pub fn new(name: Option<&str>, table: u32) -> Self {
        let name = name.map_or_else(|| Uuid::new_v4().to_string(), str::to_string);
        let id = Uuid::from_u128(fnv1a(format!("{table} {name}").as_bytes()));
        Self { name, id }
    }

    /// The number of rows stored by the producer.
    async fn rows_stored(&self, connection: &mut Connection) -> Result<u64, SqlError> {
        let question =
            format!("SELECT last_sequence FROM stratalog.producers WHERE producer = '{}'", self.id);
        let mut answer = NumberReceiver(0);
        connection.run(&question, &mut answer).await?;
        Ok(answer.0)
    }
}

/// FNV-1a with 128 bits: the same result on every machine and in every release.
fn fnv1a(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, |hash: u128, byte| {
        (hash ^ u128::from(*byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    })
}

/// Whether a table exists.
async fn exists(table: &TableName, connection: &mut Connection) -> Result<bool, SqlError> {
    let quoted = table.quoted().replace('\'', "''");
    let question = format!("SELECT CASE WHEN to_regclass('{quoted}') IS NULL THEN 0 ELSE 1 END");
    let mut answer = NumberReceiver(0);
    connection.run(&question, &mut answer).await?;
    Ok(answer.0 > 0)
}

/// The oid of a table: a table made again after a drop has another oid.
async fn oid_of(table: &TableName, connection: &mut Connection) -> Result<u32, SqlError> {
    let quoted = table.quoted();
    let question = format!("SELECT '{}'::regclass::oid", quoted.replace('\'', "''"));
    let mut answer = NumberReceiver(0);
    connection.run(&question, &mut answer).await?;
    match u32::try_from(answer.0) {
        Ok(oid) if oid > 0 => Ok(oid),
        _ => Err(SqlError::local(format!("the server returned no oid of {quoted}"))),
    }
}

/// Receives a result of one number, or of no row.
struct NumberReceiver(u64);

impl Receiver for NumberReceiver {
    fn columns(&mut self, _columns: &[ResultColumn]) -> std::io::Result<()> {
        Ok(())
    }
    fn rows(&mut self, rows: &TextRows) -> std::io::Result<()> {
        let cell = rows.iter().next().and_then(|mut row| row.next().flatten());
        if let Some(text) = cell {
            self.0 = text.parse().map_err(std::io::Error::other)?;
        }
        Ok(())
    }
    fn bytes(&mut self, _bytes: &[u8]) -> std::io::Result<()> {
        Ok(())
    }
}

/// Receives and ignores the result of a statement.
struct IgnoringReceiver;

impl Receiver for IgnoringReceiver {
    fn columns(&mut self, _columns: &[ResultColumn]) -> std::io::Result<()> {
        Ok(())
    }
    fn rows(&mut self, _rows: &TextRows) -> std::io::Result<()> {
        Ok(())
    }
    fn bytes(&mut self, _bytes: &[u8]) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
