//! `stratalog export`: writes the rows of a table or a query to a file or a pipe.
//!
//! ```text
//!   one statement, one snapshot ─► rows of text ─► CSV | NDJSON | Parquet ─► FILE.….new ─► FILE
//!                                   some at a time
//! ```
//! The opposite of `stratalog import`: importing the exported file makes the same rows. The file
//! gets its name only when the complete content is on disk; after an error, no file appears.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use stratalog_model::ColumnType;

use crate::{
    import::{
        CsvArguments, FileFormat, METADATA, TableName, TableNote, progress::RowProgress, quote,
        source::Size,
    },
    sql::{
        ConnectArguments,
        connection::{Canceller, Connection, Receiver},
        error::SqlError,
        output::{CsvOptions, NewFile, Output, Target, csv, ndjson, parquet},
        rows::{ResultColumn, TextRows},
        splitter::leading_words,
    },
};

/// Size of the write buffer in bytes.
const BUFFER_BYTES: usize = 256 << 10;

/// Statements for the text form of values: an import must read the values back without loss, under
/// any settings of the server. The statements also switch off the time limit for the export.
const SETTINGS: &[&str] = &[
    "SET TimeZone = 'UTC'",
    "SET DateStyle = 'ISO, YMD'",
    "SET IntervalStyle = 'postgres'",
    "SET bytea_output = 'hex'",
    "SET extra_float_digits = 1",
    "SET stratalog.fraction_digits = 9",
    "SET statement_timeout = 0",
];

/// Writes rows into a file.
#[derive(Debug, Clone, clap::Args)]
pub struct ExportArguments {
    /// The file to write; - is standard output.
    file: PathBuf,
    /// Table to export, in the order of time: name, or schema.name.
    #[arg(long, short = 't', required_unless_present = "query", conflicts_with = "query")]
    table: Option<String>,
    /// Query to export.
    #[arg(long, value_name = "SQL")]
    query: Option<String>,
    /// Format of the file; by default taken from the file extension.
    #[arg(long, value_enum)]
    format: Option<FileFormat>,
    /// Replace an existing file after all rows are written.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    csv: CsvArguments,
    #[command(flatten)]
    connect: ConnectArguments,
}

/// Runs `stratalog export`.
pub fn run(arguments: &ExportArguments) -> ExitCode {
    let Some(runtime) = crate::threads::of_command() else { return ExitCode::FAILURE };
    match runtime.block_on(export(arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of the pipe needs no more rows; this is not an error.
        Err(error) if error.is_broken_pipe() => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{}", error.render(arguments.query.as_deref().unwrap_or("")));
            ExitCode::FAILURE
        }
    }
}

async fn export(arguments: &ExportArguments) -> Result<(), SqlError> {
    let form = RowFormat::of(arguments)?;
    let place = ExportTarget::of(&arguments.file, arguments.force)?;
    let mut connection = arguments.connect.connect("stratalog export").await?;
    for setting in SETTINGS {
        connection.run(setting, &mut EmptyReceiver).await?;
    }
    let (statement, what) = match (&arguments.table, &arguments.query) {
        (Some(table), _) => (all_of(table, &mut connection).await?, table.as_str()),
        (None, Some(query)) => (checked(query)?, "the query"),
        (None, None) => return Err(SqlError::local("give --table or --query")),
    };
    let note = match &arguments.table {
        Some(table) => note_of(table, &mut connection).await?,
        None => None,
    };
    // Reports errors of the statement before the file exists.
    connection.describe(&statement).await?;
    let start = Instant::now();
    let written = Arc::new(AtomicU64::new(0));
    let (target, file) = place.open(&written)?;
    let mut rows = RowForwarder {
        output: form.output(target, note.as_ref()),
        rows: 0,
        written: Arc::clone(&written),
        progress: RowProgress::new(Size::Unknown),
        texts: form.format == FileFormat::Parquet,
    };
    let canceller = connection.canceller();
    let run = connection.run(&statement, &mut rows);
    let ended = tokio::select! {
        ended = run => ended,
        () = stopped() => Err(interrupted(&canceller).await),
    };
    let ended = ended.and_then(|_| Ok(rows.output.end()?));
    rows.progress.finish();
    let count = rows.rows;
    drop(rows);
    ended.map_err(|error| nothing_written(error, &arguments.file))?;
    let to_pipe = file.is_none();
    if let Some((new, file)) = file {
        let kept = place.check_replaceable().and_then(|()| Ok(new.keep(&file)?));
        kept.map_err(|error| nothing_written(error, &arguments.file))?;
    }
    let seconds = start.elapsed().as_secs_f64();
    let bytes = written.load(Ordering::Relaxed);
    let line = format!(
        "{count} rows of {what} into {}, {bytes} bytes, in {seconds:.1} s ({:.0} rows/s)",
        arguments.file.display(),
        count as f64 / seconds.max(1e-9)
    );
    if to_pipe {
        eprintln!("{line}")
    } else {
        println!("{line}")
    }
    // Only Parquet files can contain the note (properties of the table).
    if let (Some(note), true) = (&note, form.format != FileFormat::Parquet) {
        eprintln!("the same event ids again: stratalog import … {}", note.flags());
    }
    Ok(())
}

/// Checks that the query is a single statement and only returns rows; returns the text of the
/// query.
fn checked(query: &str) -> Result<String, SqlError> {
    let first = leading_words(query, 1);
    let reads = match first.first().map(String::as_str) {
        Some(word) => matches!(word, "SELECT" | "WITH" | "VALUES" | "TABLE"),
        None => query.trim_start().starts_with('('),
    };
    if !reads {
        return Err(SqlError::local(
            "--query writes the rows of a query: SELECT, WITH, VALUES or TABLE",
        ));
    }
    Ok(query.to_string())
}

fn nothing_written(error: SqlError, file: &Path) -> SqlError {
    if file.as_os_str() == "-" || error.hint.is_some() {
        return error;
    }
    let hint =
        format!("{} is unchanged: correct the error, and run the command again", file.display());
    error.with_hint(hint)
}

/// Completes when a signal asks the process to stop.
async fn stopped() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminated) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = terminated.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
            return;
        }
    }
    let _ = tokio::signal::ctrl_c().await;
}

async fn interrupted(canceller: &Canceller) -> SqlError {
    canceller.cancel().await;
    SqlError::of("57014", "interrupted")
}

/// The query for all rows of a table, ordered by its time column if it has one.
async fn all_of(table: &str, connection: &mut Connection) -> Result<String, SqlError> {
    let quoted = TableName::parse(table)?.quoted();
    let question = format!(
        "SELECT c.tick_column FROM stratalog.chronicles c \
         JOIN pg_catalog.pg_namespace n ON n.nspname = c.schema \
         JOIN pg_catalog.pg_class t ON t.relname = c.name AND t.relnamespace = n.oid \
         WHERE t.oid = '{}'::regclass",
        quoted.replace('\'', "''")
    );
    let mut tick = TextReceiver(None);
    connection.run(&question, &mut tick).await?;
    Ok(match tick.0 {
        Some(tick) => format!("SELECT * FROM {quoted} ORDER BY {}", quote(&tick)),
        None => format!("SELECT * FROM {quoted}"),
    })
}

/// The note with the properties of the table, for the file's metadata.
async fn note_of(table: &str, connection: &mut Connection) -> Result<Option<TableNote>, SqlError> {
    let mut note = TextReceiver(None);
    let question = TableNote::question(&TableName::parse(table)?.quoted());
    connection.run(&question, &mut note).await?;
    Ok(note.0.and_then(|text| TableNote::parse(&text)))
}

/// How rows are converted to the bytes of the file.
struct RowFormat {
    format: FileFormat,
    csv: CsvOptions,
}

impl RowFormat {
    fn of(arguments: &ExportArguments) -> Result<Self, SqlError> {
        let format = FileFormat::of(arguments.format, &arguments.file)?;
        let csv = arguments.csv.options()?;
        let delimiter = csv.delimiter;
        let confusing = |byte: u8| matches!(byte, b'"' | b'\n' | b'\r') || byte == delimiter;
        if matches!(delimiter, b'"' | b'\n' | b'\r') || csv.null.bytes().any(confusing) {
            return Err(SqlError::local(
                "--delimiter and --null must not contain quotes or line ends, and --null must not contain the delimiter",
            ));
        }
        Ok(Self { format, csv })
    }

    fn output(&self, target: Target, note: Option<&TableNote>) -> Box<dyn Output> {
        match self.format {
            FileFormat::Csv => csv(target, self.csv.clone()),
            FileFormat::Ndjson => ndjson(target),
            FileFormat::Parquet => {
                let note = note.map(|note| (METADATA.to_string(), note.json()));
                parquet(target, note.into_iter().collect())
            }
        }
    }
}

/// The file, pipe or standard output that receives the rows.
struct ExportTarget {
    path: PathBuf,
    force: bool,
}

impl ExportTarget {
    fn of(path: &Path, force: bool) -> Result<Self, SqlError> {
        let place = Self { path: path.to_path_buf(), force };
        place.check_replaceable()?;
        Ok(place)
    }

    /// Refuses to replace an existing file without --force. A special file, such as a pipe, is
    /// written directly.
    fn check_replaceable(&self) -> Result<(), SqlError> {
        let there = self.path.as_os_str() != "-" && self.path.is_file();
        if there && !self.force {
            return Err(SqlError::local(format!("{} exists", self.path.display()))
                .with_hint("give another file, or --force to replace the file"));
        }
        Ok(())
    }

    fn open(&self, written: &Arc<AtomicU64>) -> Result<(Target, NewFileTarget), SqlError> {
        let counted = |inner: Target| -> Target {
            let counted = CountedWriter { inner, written: Arc::clone(written) };
            Box::new(io::BufWriter::with_capacity(BUFFER_BYTES, counted))
        };
        if self.path.as_os_str() == "-" {
            return Ok((counted(Box::new(io::stdout())), None));
        }
        let failed = |error: io::Error| {
            SqlError::of("58030", format!("cannot create {}: {error}", self.path.display()))
        };
        let (new, file) = NewFile::create(&self.path).map_err(failed)?;
        let second = file.try_clone().map_err(failed)?;
        Ok((counted(Box::new(second)), Some((new, file))))
    }
}

/// A new file, still under a temporary name; `None` for standard output.
type NewFileTarget = Option<(NewFile, std::fs::File)>;

struct CountedWriter {
    inner: Target,
    written: Arc<AtomicU64>,
}

impl Write for CountedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.written.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Passes the rows to the output as they arrive.
struct RowForwarder {
    output: Box<dyn Output>,
    rows: u64,
    written: Arc<AtomicU64>,
    progress: RowProgress,
    /// True to write values as text if Parquet lacks their type.
    texts: bool,
}

impl Receiver for RowForwarder {
    fn columns(&mut self, columns: &[ResultColumn]) -> io::Result<()> {
        let mut columns = columns.to_vec();
        for column in columns.iter_mut().filter(|column| self.texts && has_interval(column)) {
            column.column_type = ColumnType::Text;
        }
        self.output.columns(&columns)
    }

    fn rows(&mut self, rows: &TextRows) -> io::Result<()> {
        self.output.rows(rows)?;
        self.rows += rows.len() as u64;
        self.progress.advance(self.written.load(Ordering::Relaxed), self.rows);
        Ok(())
    }

    fn bytes(&mut self, _bytes: &[u8]) -> io::Result<()> {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "a COPY statement is not a query"))
    }
}

/// True for an interval: Parquet's own intervals have only milliseconds, and few programs read
/// them.
fn has_interval(column: &ResultColumn) -> bool {
    let mut inner = &column.column_type;
    while let ColumnType::Array(element) = inner {
        inner = element;
    }
    *inner == ColumnType::Interval
}

/// Receives a result that is a single text; `None` if the result has no row.
struct TextReceiver(Option<String>);

impl Receiver for TextReceiver {
    fn columns(&mut self, _columns: &[ResultColumn]) -> io::Result<()> {
        Ok(())
    }
    fn rows(&mut self, rows: &TextRows) -> io::Result<()> {
        let first = rows.iter().next().and_then(|mut row| row.next().flatten());
        self.0 = first.map(str::to_string);
        Ok(())
    }
    fn bytes(&mut self, _bytes: &[u8]) -> io::Result<()> {
        Ok(())
    }
}

/// Receives the end of a statement without a result.
struct EmptyReceiver;

impl Receiver for EmptyReceiver {
    fn columns(&mut self, _columns: &[ResultColumn]) -> io::Result<()> {
        Ok(())
    }
    fn rows(&mut self, _rows: &TextRows) -> io::Result<()> {
        Ok(())
    }
    fn bytes(&mut self, _bytes: &[u8]) -> io::Result<()> {
        Ok(())
    }
}
