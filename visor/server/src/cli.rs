//! The command line.

use std::{io::Write as _, process::ExitCode};

use clap::{Parser, Subcommand, ValueEnum};

use crate::{
    backup, certificate, check, clock, demo, export, import, serve, settings, sql, token, user,
};

/// Events in a tiered, time-ordered log, with SQL over all events.
#[derive(Debug, Parser)]
#[command(name = "stratalog", version, max_term_width = 100)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the server
    Serve(serve::ServeArguments),
    /// Run SQL: typed, or from -c, -f or a pipe
    Sql(sql::SqlArguments),
    /// Store the rows of a CSV, NDJSON or Parquet file in a table
    Import(import::ImportArguments),
    /// Write the rows of a table or a query into a CSV, NDJSON or Parquet file
    Export(export::ExportArguments),
    /// Verify all files of a data directory, and optionally repair damage
    Check(check::CheckArguments),
    /// Show or confirm the clock of a data directory, or correct the time of the database
    Clock(clock::ClockArguments),
    /// Copy a database to a folder or an object store
    Backup(backup::BackupArguments),
    /// List the backups of a place, or remove old ones
    Backups(backup::BackupsArguments),
    /// Restore a backup into a new data directory
    Restore(backup::RestoreArguments),
    /// Create, change, drop or list users
    User(user::UserArguments),
    /// Create, list or revoke tokens for programs
    Token(token::TokenArguments),
    /// Make a certificate for TLS
    Certificate(certificate::CertificateArguments),
    /// Demonstrate load, queries, kill and recovery on a temporary server, in about a minute
    Demo(demo::DemoArguments),
    /// Print a page of the manual, generated from the program
    #[command(hide = true)]
    Docs {
        /// The page of the manual to print.
        #[arg(value_enum)]
        page: Page,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Page {
    Settings,
}

/// Parses the command line, runs the command, and returns the exit status of the process.
pub fn run() -> ExitCode {
    match CommandLine::parse().command {
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Sql(arguments) => sql::run(&arguments),
        Command::Import(arguments) => import::run(&arguments),
        Command::Export(arguments) => export::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Clock(arguments) => clock::run(&arguments),
        Command::Backup(arguments) => backup::run_backup(&arguments),
        Command::Backups(arguments) => backup::run_backups(&arguments),
        Command::Restore(arguments) => backup::run_restore(&arguments),
        Command::User(arguments) => user::run(&arguments),
        Command::Token(arguments) => token::run(&arguments),
        Command::Certificate(arguments) => certificate::run(&arguments),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Docs { page: Page::Settings } => {
            let page = settings::settings_page();
            match std::io::stdout().write_all(page.as_bytes()) {
                Ok(()) => ExitCode::SUCCESS,
                Err(_) => ExitCode::FAILURE,
            }
        }
    }
}
