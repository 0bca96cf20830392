//! Runs statements and `\` commands, and shows their results.

use std::{
    fs::File,
    io::{self, BufRead, BufWriter, IsTerminal as _, Write},
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use tokio::runtime::Handle;

use super::{
    connection::{Connection, CopyData, Receiver},
    error::SqlError,
    output::{Format, Output, OutputOptions, Target, output},
    rows::{ResultColumn, TextRows},
    splitter::{Splitter, leading_words},
};

mod command;

pub use command::HELP;

/// Number of bytes of COPY data that are sent at a time.
const COPY_BYTES: usize = 64 << 10;

/// What the caller of the shell does after a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextAction {
    /// Pass the next line.
    More,
    /// Stop, after `\q` or an error in a script.
    Stop,
}

/// A shell on one connection.
pub struct Shell {
    connection: Connection,
    runtime: Handle,
    options: OutputOptions,
    file: Option<SharedFile>,
    timing: bool,
    /// True if a user types: the shell then shows command tags and times, and continues after
    /// errors.
    interactive: bool,
    failed: bool,
    splitter: Splitter,
}

impl Shell {
    /// Makes a shell with `runtime` for the statements. The calling thread must not be a thread of
    /// the runtime.
    pub fn new(
        connection: Connection,
        runtime: Handle,
        options: OutputOptions,
        interactive: bool,
    ) -> io::Result<Self> {
        let mut shell = Self {
            connection,
            runtime,
            options: OutputOptions::default(),
            file: None,
            timing: false,
            interactive,
            failed: false,
            splitter: Splitter::default(),
        };
        shell.set_output_file(options.file.clone(), options.format)?;
        shell.options = options;
        Ok(shell)
    }

    /// True if a statement has failed.
    pub fn failed(&self) -> bool {
        self.failed
    }

    /// What the shell is connected to, for the greeting.
    pub fn place(&self) -> String {
        self.connection.place()
    }

    /// The prompt for the next line.
    pub fn prompt(&self) -> String {
        format!("{}{}> ", self.connection.database(), self.splitter.prompt_sign())
    }

    /// Discards an incomplete statement.
    pub fn clear(&mut self) {
        self.splitter.clear();
    }

    /// Handles a line. `rest` provides the lines after it, because they may be data of a COPY …
    /// FROM STDIN.
    pub fn line(&mut self, line: &str, rest: &mut dyn BufRead) -> NextAction {
        let trimmed = line.trim();
        if self.splitter.is_empty() && trimmed.starts_with('\\') {
            return self.command(trimmed);
        }
        for statement in self.splitter.push(&format!("{line}\n")) {
            if self.statement(&statement, rest) == NextAction::Stop {
                return NextAction::Stop;
            }
        }
        NextAction::More
    }

    /// Runs a script up to its end. The last statement needs no semicolon.
    pub fn script(&mut self, input: &mut dyn BufRead) -> io::Result<NextAction> {
        let mut line = String::new();
        loop {
            line.clear();
            if input.read_line(&mut line)? == 0 {
                break;
            }
            let text = line.trim_end_matches(['\n', '\r']).to_string();
            if self.line(&text, input) == NextAction::Stop {
                return Ok(NextAction::Stop);
            }
        }
        match self.splitter.finish() {
            Some(statement) => Ok(self.statement(&statement, input)),
            None => Ok(NextAction::More),
        }
    }

    /// Runs a statement and shows its result or its error.
    fn statement(&mut self, sql: &str, rest: &mut dyn BufRead) -> NextAction {
        let start = Instant::now();
        let is_copy_in = leading_words(sql, 1).first().is_some_and(|word| word == "COPY")
            && leading_words(sql, usize::MAX).windows(2).any(|pair| pair == ["FROM", "STDIN"]);
        let result = if is_copy_in { self.copy_in(sql, rest) } else { self.query(sql) };
        for notice in self.connection.take_notices() {
            eprintln!("{notice}");
        }
        match result {
            Ok(tag) => {
                if !tag.is_empty() && self.options.format == Format::Table && self.file.is_none() {
                    say(&tag);
                }
            }
            // The reader of a pipe needs no more output, as in `stratalog sql … | head`.
            Err(error) if error.is_broken_pipe() => return NextAction::Stop,
            Err(error) => {
                self.failed = true;
                eprintln!("{}", error.render(sql));
                if !self.interactive {
                    return NextAction::Stop;
                }
                if error.connection_lost {
                    eprintln!("The connection is lost. Leave with \\q and start again.");
                }
            }
        }
        if self.timing {
            eprintln!("Time: {:.3} ms", start.elapsed().as_secs_f64() * 1000.0);
        }
        NextAction::More
    }

    /// Runs a statement. Returns the command tag to show, or an empty text.
    fn query(&mut self, sql: &str) -> Result<String, SqlError> {
        let mut receiver =
            ResultPrinter { options: self.options.clone(), file: self.file.clone(), output: None };
        let canceller = self.connection.canceller();
        let connection = &mut self.connection;
        let runtime = self.runtime.clone();
        let tag = runtime.block_on(async {
            let mut running = std::pin::pin!(connection.run(sql, &mut receiver));
            loop {
                tokio::select! {
                    result = &mut running => break result,
                    Ok(()) = tokio::signal::ctrl_c() => canceller.cancel().await,
                }
            }
        })?;
        match receiver.output {
            // The table format shows the number of rows itself.
            Some(mut output) => {
                output.end()?;
                Ok(if tag.starts_with("SELECT") || tag.starts_with("COPY") || is_word(&tag) {
                    String::new()
                } else {
                    tag
                })
            }
            None => Ok(tag),
        }
    }

    fn copy_in(&mut self, sql: &str, rest: &mut dyn BufRead) -> Result<String, SqlError> {
        if self.interactive {
            eprintln!("Enter the data, then a line with \\. alone.");
        }
        // A separate thread reads the lines and sends them to a channel, from which the statement
        // gets its data.
        let (sender, receiver) = tokio::sync::mpsc::channel::<io::Result<Bytes>>(4);
        let data: CopyData<'_> = stream::unfold(receiver, |mut receiver| async move {
            receiver.recv().await.map(|item| (item, receiver))
        })
        .boxed();
        let connection = &mut self.connection;
        let runtime = &self.runtime;
        let rows = std::thread::scope(|scope| {
            let running = scope.spawn(move || runtime.block_on(connection.copy_in(sql, data)));
            read_copy_data(rest, &sender);
            drop(sender);
            running.join().unwrap_or_else(|_| Err(SqlError::local("the statement failed")))
        })?;
        Ok(format!("COPY {rows}"))
    }

    /// Sets the file to which results are written; `None` for standard output.
    fn set_output_file(&mut self, path: Option<PathBuf>, format: Format) -> io::Result<()> {
        self.file = match (&path, format) {
            // A Parquet file is created when its result arrives.
            (Some(_), Format::Parquet) | (None, _) => None,
            (Some(path), _) => Some(SharedFile::create(path)?),
        };
        self.options.file = path;
        Ok(())
    }
}

/// Prints a line to standard output; ignores a closed output.
fn say(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}

fn is_word(tag: &str) -> bool {
    matches!(tag, "SHOW" | "EXPLAIN")
}

/// Sends COPY data until a line that consists of `\.`, or until the end of the input.
fn read_copy_data(rest: &mut dyn BufRead, sender: &tokio::sync::mpsc::Sender<io::Result<Bytes>>) {
    let (mut bytes, mut line) = (Vec::new(), Vec::new());
    loop {
        line.clear();
        match rest.read_until(b'\n', &mut line) {
            Ok(0) => break,
            Ok(_) if matches!(line.as_slice(), b"\\.\n" | b"\\.\r\n" | b"\\.") => break,
            Ok(_) => bytes.extend_from_slice(&line),
            Err(error) => {
                let _ = sender.blocking_send(Err(error));
                return;
            }
        }
        // Read all data even if the statement has failed and receives nothing, because these lines
        // are not SQL.
        if bytes.len() >= COPY_BYTES {
            let _ = sender.blocking_send(Ok(std::mem::take(&mut bytes).into()));
        }
    }
    let _ = sender.blocking_send(Ok(bytes.into()));
}

/// Prints a result in the chosen format.
struct ResultPrinter {
    options: OutputOptions,
    file: Option<SharedFile>,
    output: Option<Box<dyn Output>>,
}

impl ResultPrinter {
    fn target(&self) -> Target {
        match &self.file {
            Some(file) => Box::new(BufWriter::new(file.clone())),
            None => Box::new(BufWriter::new(io::stdout())),
        }
    }
}

impl Receiver for ResultPrinter {
    fn columns(&mut self, columns: &[ResultColumn]) -> io::Result<()> {
        let mut options = self.options.clone();
        if self.file.is_some() {
            options.table.width_max = None;
        }
        let mut output = output(&options, self.target())?;
        output.columns(columns)?;
        self.output = Some(output);
        Ok(())
    }

    fn rows(&mut self, rows: &TextRows) -> io::Result<()> {
        self.output.as_mut().map_or(Ok(()), |output| output.rows(rows))
    }

    fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &self.file {
            Some(file) => file.clone().write_all(bytes),
            None => io::stdout().write_all(bytes).and_then(|()| io::stdout().flush()),
        }
    }
}

/// A file that receives several results one after the other.
#[derive(Clone)]
struct SharedFile(Arc<Mutex<File>>);

impl SharedFile {
    fn create(path: &std::path::Path) -> io::Result<Self> {
        File::create(path).map(|file| Self(Arc::new(Mutex::new(file)))).map_err(|error| {
            io::Error::new(error.kind(), format!("cannot create {}: {error}", path.display()))
        })
    }
}

impl Write for SharedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).flush()
    }
}

/// The width of the terminal in characters: `COLUMNS`, or the width of standard output. `None` if
/// the output is a file or a pipe.
pub fn terminal_width() -> Option<usize> {
    if let Some(columns) = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok()) {
        return Some(columns);
    }
    if !io::stdout().is_terminal() {
        return None;
    }
    terminal_size::terminal_size().map(|(width, _)| usize::from(width.0))
}
