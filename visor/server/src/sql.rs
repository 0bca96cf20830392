//! `stratalog sql`: runs statements from the terminal, the command line, files and pipes.
//!
//! ```text
//!   line ─► splitter ─► statement ─► connection (wire | embedded) ─► rows of text ─► output
//! ```

use std::{
    io::{self, BufReader, IsTerminal as _},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
};

pub mod connection;
mod editor;
pub mod error;
pub mod output;
pub mod rows;
pub mod shell;
pub mod splitter;

use connection::{Connection, EmbeddedConnection, Target, WireConnection};
use error::SqlError;
use output::{Format, OutputOptions, TableOptions};
use shell::{NextAction, Shell};

use crate::{Embedded, settings::Settings};

/// What to connect to; shared by `sql`, `import` and `export`.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct ConnectArguments {
    /// Server as a URL, postgres://user@host:port/database; with TLS, add
    /// ?sslmode=verify-full&sslrootcert=FILE.
    /// The password may also be in PGPASSWORD or in ~/.pgpass.
    #[arg(long, env = "STRATALOG_URL", conflicts_with_all = ["host", "port", "user", "database", "data_dir"])]
    pub url: Option<String>,
    /// Server's host.
    #[arg(long, short = 'H', default_value = "127.0.0.1")]
    pub host: String,
    /// Server's port.
    #[arg(long, short = 'p', default_value_t = 5433)]
    pub port: u16,
    /// User.
    #[arg(long, short = 'U', default_value = "stratalog")]
    pub user: String,
    /// Database.
    #[arg(long, short = 'd', default_value = "stratalog")]
    pub database: String,
    /// Open this existing data directory without a server. No server may have the directory open.
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
}

impl ConnectArguments {
    /// Connects to the server, or opens the data directory.
    ///
    /// # Errors
    /// An invalid URL, a server that does not answer, or an unusable directory.
    pub async fn connect(&self, application_name: &str) -> Result<Connection, SqlError> {
        if let Some(directory) = &self.data_dir {
            let settings =
                Settings { data_dir: directory.display().to_string(), ..Settings::default() };
            let embedded = Embedded::open_existing(&settings)
                .await
                .map_err(|error| SqlError::local(error.to_string()))?;
            return Ok(Connection::Embedded(EmbeddedConnection::connect(
                Arc::new(embedded),
                &self.user,
                &self.database,
            )?));
        }
        let mut target = match &self.url {
            Some(url) => Target::of_url(url)?,
            None => {
                let mut config = tokio_postgres::Config::new();
                config.host(&self.host).port(self.port).user(&self.user).dbname(&self.database);
                Target::of_config(config)?
            }
        };
        let config = &mut target.config;
        if config.get_application_name().is_none() {
            config.application_name(application_name);
        }
        if config.get_options().is_none() {
            config.options("-c stratalog.fraction_digits=9");
        }
        config.connect_timeout(std::time::Duration::from_secs(10));
        Ok(Connection::Wire(Box::new(WireConnection::connect(target).await?)))
    }
}

/// Runs SQL: typed, from `-c`, from `-f`, or from standard input.
#[derive(Debug, Clone, clap::Args)]
pub struct SqlArguments {
    #[command(flatten)]
    connect: ConnectArguments,
    /// Run these statements, in the order given, and exit.
    #[arg(long, short = 'c', value_name = "SQL")]
    command: Vec<String>,
    /// Run the statements of this file, after the statements of -c, and exit; - is standard input.
    #[arg(long, short = 'f', value_name = "FILE")]
    file: Vec<PathBuf>,
    /// Format of results.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Write results into this file.
    #[arg(long, short = 'o', value_name = "FILE")]
    output: Option<PathBuf>,
    /// One line per value.
    #[arg(long, short = 'x')]
    expanded: bool,
}

/// Runs `stratalog sql`. After a failed statement of -c, -f or a pipe, runs no further statement,
/// and fails.
pub fn run(arguments: &SqlArguments) -> ExitCode {
    match run_on_runtime(arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{}", error.render(""));
            ExitCode::FAILURE
        }
    }
}

fn run_on_runtime(arguments: &SqlArguments) -> Result<bool, SqlError> {
    if arguments.format == Format::Parquet && arguments.output.is_none() {
        return Err(SqlError::local("--format parquet writes a file: add --output FILE"));
    }
    let runtime = crate::threads::runtime()?;
    let scripted = !arguments.command.is_empty() || !arguments.file.is_empty();
    let typed = !scripted && io::stdin().is_terminal();
    let connection = runtime.block_on(arguments.connect.connect("stratalog sql"))?;
    let options = OutputOptions {
        format: arguments.format,
        table: TableOptions { expanded: arguments.expanded, width_max: shell::terminal_width() },
        file: arguments.output.clone(),
    };
    let mut shell = Shell::new(connection, runtime.handle().clone(), options, typed)?;
    if typed {
        editor::converse(&mut shell)?;
        return Ok(true);
    }
    let stdin = || BufReader::new(io::stdin());
    for command in &arguments.command {
        // A COPY statement in -c reads its data from standard input.
        let mut text = io::Cursor::new(command.as_bytes());
        let next = if splitter::leading_words(command, 1).first().is_some_and(|word| word == "COPY")
        {
            shell.line(&format!("{};", command.trim_end().trim_end_matches(';')), &mut stdin())
        } else {
            shell.script(&mut text)?
        };
        if next == NextAction::Stop {
            return Ok(!shell.failed());
        }
    }
    for file in &arguments.file {
        let next = if file.as_os_str() == "-" {
            shell.script(&mut stdin())?
        } else {
            let opened = std::fs::File::open(file).map_err(|error| {
                SqlError::local(format!("cannot read {}: {error}", file.display()))
            })?;
            shell.script(&mut BufReader::new(opened))?
        };
        if next == NextAction::Stop {
            return Ok(!shell.failed());
        }
    }
    if !scripted {
        shell.script(&mut stdin())?;
    }
    Ok(!shell.failed())
}
