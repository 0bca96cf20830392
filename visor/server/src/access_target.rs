//! What the commands `user` and `token` change: the catalog of a data directory, or a server.
//!
//! ```text
//!   AccessCommand ─┬─ --data-dir ─► Catalog::apply, as Identity::System
//!                  └─ otherwise ──► SQL ─► server
//! ```

use std::sync::Arc;

use stratalog_query::{Command, Identity};
use stratalog_visor_core::{
    CatalogState,
    access::{AccessCommand, RoleOptions},
};

use crate::{
    Embedded,
    settings::Settings,
    sql::{
        ConnectArguments,
        connection::{Connection, Receiver},
        error::SqlError,
        rows::{ResultColumn, TextRows},
    },
};

/// The catalog that a command changes.
pub(crate) enum AccessTarget {
    /// A data directory that no server has open.
    Offline(Embedded),
    /// A server.
    Online(Box<Connection>),
}

impl AccessTarget {
    /// Opens the data directory, or connects to the server. If `creates` is true, a missing data
    /// directory is created.
    ///
    /// # Errors
    /// An unusable directory, or a server that does not answer.
    pub(crate) async fn open(connect: &ConnectArguments, creates: bool) -> Result<Self, SqlError> {
        let Some(directory) = &connect.data_dir else {
            let connection = connect.connect("stratalog user").await?;
            return Ok(Self::Online(Box::new(connection)));
        };
        let settings =
            Settings { data_dir: directory.display().to_string(), ..Settings::default() };
        let opened = match creates {
            true => Embedded::open(&settings).await,
            false => Embedded::open_existing(&settings).await,
        };
        Ok(Self::Offline(opened.map_err(|error| SqlError::local(error.to_string()))?))
    }

    /// Carries out a command. Notices go to standard error.
    ///
    /// # Errors
    /// The errors of the catalog or of the server.
    pub(crate) async fn apply(&mut self, command: AccessCommand) -> Result<(), SqlError> {
        match self {
            Self::Offline(embedded) => {
                let applied =
                    embedded.catalog().apply(Identity::System, Command::Access(command)).await?;
                applied.notices.iter().for_each(|notice| eprintln!("NOTICE:  {notice}"));
            }
            Self::Online(connection) => {
                let sql = statement(&command).ok_or_else(|| {
                    SqlError::local(format!("{} has no statement", command.tag()))
                })?;
                connection.run(&sql, &mut ResultTexts::default()).await?;
                connection.take_notices().iter().for_each(|notice| eprintln!("{notice}"));
            }
        }
        Ok(())
    }

    /// The rows of a query on a server; `None` for a data directory.
    ///
    /// # Errors
    /// The errors of the server.
    pub(crate) async fn query(
        &mut self,
        sql: &str,
    ) -> Result<Option<Vec<Vec<Option<String>>>>, SqlError> {
        let Self::Online(connection) = self else { return Ok(None) };
        let mut receiver = ResultTexts::default();
        connection.run(sql, &mut receiver).await?;
        Ok(Some(receiver.0))
    }

    /// The catalog's state of a data directory; `None` for a server.
    pub(crate) fn state(&self) -> Option<Arc<CatalogState>> {
        match self {
            Self::Offline(embedded) => Some(embedded.catalog().state()),
            Self::Online(_) => None,
        }
    }

    /// Closes the data directory.
    ///
    /// # Errors
    /// Errors from closing a part.
    pub(crate) async fn close(self) -> Result<(), SqlError> {
        let Self::Offline(embedded) = self else { return Ok(()) };
        match tokio::task::spawn_blocking(move || embedded.close()).await {
            Ok(closed) => closed.map_err(|error| SqlError::local(error.to_string())),
            Err(error) => Err(SqlError::local(format!("closing failed: {error}"))),
        }
    }
}

/// An SQL identifier.
pub(crate) fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// An SQL text constant.
pub(crate) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The statement for a command; `None` for commands that these programs do not use.
fn statement(command: &AccessCommand) -> Option<String> {
    Some(match command {
        AccessCommand::CreateRole { name, options, member_of, .. } => {
            let groups: Vec<String> = member_of.iter().map(|group| identifier(group)).collect();
            let groups = match groups.is_empty() {
                true => String::new(),
                false => format!(" IN ROLE {}", groups.join(", ")),
            };
            format!("CREATE ROLE {}{}{groups}", identifier(name), role_options(options))
        }
        AccessCommand::AlterRole { name, options } => {
            format!("ALTER ROLE {}{}", identifier(name), role_options(options))
        }
        AccessCommand::RenameRole { from, to } => {
            format!("ALTER ROLE {} RENAME TO {}", identifier(from), identifier(to))
        }
        AccessCommand::DropRole { name, .. } => format!("DROP ROLE {}", identifier(name)),
        AccessCommand::GrantRole { role, member, .. } => {
            format!("GRANT {} TO {}", identifier(role), identifier(member))
        }
        AccessCommand::RevokeRole { role, member, .. } => {
            format!("REVOKE {} FROM {}", identifier(role), identifier(member))
        }
        AccessCommand::DropToken { name, role } => {
            format!("CALL stratalog.revoke_token({}, {})", literal(name), literal(role))
        }
        _ => return None,
    })
}

fn role_options(options: &RoleOptions) -> String {
    let flags = [
        (options.superuser, "SUPERUSER"),
        (options.create_role, "CREATEROLE"),
        (options.create_database, "CREATEDB"),
        (options.login, "LOGIN"),
    ];
    let mut text = String::new();
    for (value, word) in flags {
        match value {
            Some(true) => text.push_str(&format!(" {word}")),
            Some(false) => text.push_str(&format!(" NO{word}")),
            None => {}
        }
    }
    match &options.password {
        Some(Some(verifier)) => {
            text.push_str(&format!(" PASSWORD {}", literal(&verifier.to_string())));
        }
        Some(None) => text.push_str(" PASSWORD NULL"),
        None => {}
    }
    match options.connections_max {
        Some(Some(most)) => text.push_str(&format!(" CONNECTION LIMIT {most}")),
        Some(None) => text.push_str(" CONNECTION LIMIT -1"),
        None => {}
    }
    match options.valid_until_ns {
        Some(Some(ns)) => text.push_str(&format!(" VALID UNTIL {}", literal(&time_text(ns)))),
        Some(None) => text.push_str(" VALID UNTIL 'infinity'"),
        None => {}
    }
    text
}

/// A time as text that SQL can read.
pub(crate) fn time_text(ns: i64) -> String {
    chrono::DateTime::from_timestamp_nanos(ns).format("%Y-%m-%d %H:%M:%S+00").to_string()
}

/// Parses the end of a validity: a duration from now such as `90d`, a date, a time with its zone,
/// or `infinity`, which is `None`.
///
/// # Errors
/// A text that is none of these.
pub(crate) fn parse_end(option: &str, text: &str) -> Result<Option<i64>, SqlError> {
    if text.eq_ignore_ascii_case("infinity") {
        return Ok(None);
    }
    if let Ok(ms) = stratalog_model::tiering::duration_ms(option, text) {
        let ns = i64::try_from(ms.saturating_mul(1_000_000)).unwrap_or(i64::MAX);
        return Ok(Some(now_ns().saturating_add(ns)));
    }
    let date = chrono::NaiveDate::parse_from_str(text, "%Y-%m-%d");
    let time = match date {
        Ok(date) => date.and_hms_opt(0, 0, 0).map(|time| time.and_utc()),
        Err(_) => chrono::DateTime::parse_from_rfc3339(text).ok().map(|time| time.to_utc()),
    };
    let ns = time.and_then(|time| time.timestamp_nanos_opt());
    ns.map(Some).ok_or_else(|| {
        SqlError::local(format!("--{option}: \"{text}\" is neither a duration nor a time"))
            .with_hint("write for example 90d, 12h, 2027-01-31, 2027-01-31T12:00:00Z or infinity")
    })
}

fn now_ns() -> i64 {
    chrono::Utc::now().timestamp_nanos_opt().unwrap_or(i64::MAX)
}

/// Prints rows as columns of equal width.
pub(crate) fn print_columns(heads: &[&str], rows: &[Vec<String>]) {
    let widths: Vec<usize> = heads
        .iter()
        .enumerate()
        .map(|(at, head)| {
            let cells = rows.iter().filter_map(|row| row.get(at));
            cells.map(|cell| cell.chars().count()).chain([head.len()]).max().unwrap_or(0)
        })
        .collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded: Vec<String> =
            cells.zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        println!("{}", padded.join("  ").trim_end());
    };
    line(&mut heads.iter().copied());
    for row in rows {
        line(&mut row.iter().map(String::as_str));
    }
}

/// Runs a command on a new runtime, and prints its error.
pub(crate) fn run(
    command: impl Future<Output = Result<(), SqlError>> + Send,
) -> std::process::ExitCode {
    let Some(runtime) = crate::threads::of_command() else {
        return std::process::ExitCode::FAILURE;
    };
    match runtime.block_on(command) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}", error.render(""));
            std::process::ExitCode::FAILURE
        }
    }
}

/// Receives the rows of a result as texts.
#[derive(Debug, Default)]
struct ResultTexts(Vec<Vec<Option<String>>>);

impl Receiver for ResultTexts {
    fn columns(&mut self, _: &[ResultColumn]) -> std::io::Result<()> {
        Ok(())
    }

    fn rows(&mut self, rows: &TextRows) -> std::io::Result<()> {
        for row in rows.iter() {
            self.0.push(row.map(|value| value.map(str::to_string)).collect());
        }
        Ok(())
    }

    fn bytes(&mut self, _: &[u8]) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use stratalog_visor_core::access::Verifier;

    use super::*;

    #[test]
    fn statements_quote_names_and_send_no_password() {
        let verifier = Verifier::of_password("geheim", 4096).unwrap();
        let options = RoleOptions {
            login: Some(true),
            superuser: Some(false),
            password: Some(Some(verifier)),
            ..RoleOptions::default()
        };
        let sql = statement(&AccessCommand::CreateRole {
            name: "a\"b".to_string(),
            options,
            member_of: vec!["pg_monitor".to_string()],
            members: Vec::new(),
            admins: Vec::new(),
            if_not_exists: false,
        })
        .unwrap();
        assert!(
            sql.starts_with("CREATE ROLE \"a\"\"b\" NOSUPERUSER LOGIN PASSWORD 'SCRAM-SHA-256$")
        );
        assert!(sql.ends_with(" IN ROLE \"pg_monitor\"") && !sql.contains("geheim"));
    }

    #[test]
    fn ends_are_durations_dates_and_times() {
        assert_eq!(parse_end("expires", "infinity").unwrap(), None);
        assert_eq!(parse_end("expires", "1970-01-02").unwrap(), Some(86_400_000_000_000));
        assert_eq!(parse_end("expires", "1970-01-01T00:00:01Z").unwrap(), Some(1_000_000_000));
        assert!(parse_end("expires", "90d").unwrap().unwrap() > now_ns());
        assert!(parse_end("expires", "soon").is_err());
    }
}
