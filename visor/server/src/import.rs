//! `stratalog import`: rows from a file or a pipe into a table, in numbered batches.
//!
//! ```text
//!   file ─► source (CSV | NDJSON | Parquet) ─► batch of COPY data, its lines ─► COPY … FROM STDIN
//!           on its own thread                   producer + sequence = rows so far
//! ```
//! Each batch is one statement: the server stores the complete batch or nothing. With each batch,
//! the import sends the producer's id and a sequence number, which is the number of rows up to the
//! end of the batch (F68). The last stored sequence number is therefore the number of stored rows.
//! A restarted import reads and skips these rows, for any size of the batches. The producer's id is
//! computed from the producer's name and the table's oid. No other table ever gets the same oid.
//! Therefore the numbers of a table never apply to another table, even if it has the name of a
//! dropped table.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::Instant,
};

mod answers;
mod create;
mod infer;
mod load;
mod note;
mod producer;
pub(crate) mod progress;
pub mod source;
mod table;

use answers::{IgnoringReceiver, exists, oid_of};
use load::Load;
use progress::RowProgress;
use source::{Source, SourceOptions};

use crate::sql::{ConnectArguments, error::SqlError, output::CsvOptions};

pub use create::{Shape, create_statement};
pub use note::{METADATA, TableNote};
pub use producer::Producer;
pub use table::{KeyNames, TableName, quote};

/// The format of a file.
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
    /// The format `format` if given; otherwise the format that the extension of `file` names.
    ///
    /// # Errors
    /// No format is given, and the extension is unknown.
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

/// Runs `stratalog import`.
pub fn run(arguments: &ImportArguments) -> ExitCode {
    let Some(runtime) = crate::threads::of_command() else { return ExitCode::FAILURE };
    let result = runtime.block_on(import(arguments));
    // A thread that reads from standard input cannot be interrupted: do not wait for it.
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
            .map_err(|error| with_column_exceptions(error, &source.odd_times()))?;
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

/// Parses `name=value`, an option of CREATE TABLE, on the command line.
fn option_of(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    let (name, value) = (name.trim(), value.trim());
    let is_name = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    match is_name && !name.is_empty() && !value.is_empty() {
        true => Ok((name.to_string(), value.to_string())),
        false => Err(format!("\"{text}\" is not an option with a value, such as granularity=1ms")),
    }
}

/// Adds to an error the names of columns whose values are times except for a few, with the first
/// exception each.
fn with_column_exceptions(error: SqlError, odd: &[(String, String)]) -> SqlError {
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
    /// The options that the flags set.
    ///
    /// # Errors
    /// The delimiter is not an ASCII character.
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

#[cfg(test)]
mod tests;
