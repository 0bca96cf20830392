//! A connection to a server over the Postgres protocol.

use std::{
    io::IsTerminal as _,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
};

use futures::{SinkExt as _, StreamExt as _, TryStreamExt as _, future::poll_fn};
use stratalog_model::ColumnType;
use tokio_postgres::{AsyncMessage, Client, Config, SimpleQueryMessage, types::Type};

use super::{ClientTls, CopyData, Receiver, Target};
use crate::sql::{
    error::SqlError,
    rows::{ResultColumn, TextRows},
    splitter::leading_words,
};

/// Number of rows that are passed to the receiver at a time.
const ROWS_AT_A_TIME: usize = 1024;

/// A client of a server.
pub struct WireConnection {
    client: Client,
    notices: Arc<Mutex<Vec<String>>>,
    database: String,
    place: String,
    tls: ClientTls,
}

impl std::fmt::Debug for WireConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WireConnection").field("place", &self.place).finish_non_exhaustive()
    }
}

/// True if the server asked for a password, and the configuration has none.
fn lacks_password(error: &tokio_postgres::Error, config: &Config) -> bool {
    let cause = std::error::Error::source(error).map(ToString::to_string);
    config.get_password().is_none() && cause.is_some_and(|cause| cause == "password missing")
}

impl WireConnection {
    /// Connects to a server. Asks on the terminal for a missing password.
    ///
    /// # Errors
    /// The error of the server, or an error of the connection.
    pub async fn connect(target: Target) -> Result<Self, SqlError> {
        let Target { mut config, tls } = target;
        let place = place_of(&config);
        let mut connected = config.connect(tls.clone()).await;
        if let Err(error) = &connected
            && lacks_password(error, &config)
            && std::io::stdin().is_terminal()
        {
            let prompt = format!("Password for {}: ", config.get_user().unwrap_or("stratalog"));
            let asked = tokio::task::spawn_blocking(|| rpassword::prompt_password(prompt)).await;
            let password = asked
                .map_err(std::io::Error::other)
                .flatten()
                .map_err(|error| SqlError::local(format!("cannot read the password: {error}")))?;
            config.password(password);
            connected = config.connect(tls.clone()).await;
        }
        let (client, mut connection) = connected.map_err(|error| {
            let without_password = lacks_password(&error, &config);
            let refused = SqlError::from(error);
            let hint = match (without_password, refused.connection_lost) {
                (true, _) => {
                    Some("set PGPASSWORD, or write the password to the file that PGPASSFILE names")
                }
                (_, true) => Some(
                    "start a server with `stratalog serve`, or open a directory with --data-dir",
                ),
                _ => None,
            };
            SqlError {
                hint: refused.hint.clone().or_else(|| hint.map(Into::into)),
                message: format!("cannot connect to {place}: {}", refused.message),
                ..refused
            }
        })?;
        let notices = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&notices);
        tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await
            {
                if let AsyncMessage::Notice(notice) = message {
                    let mut line = format!("{}:  {}", notice.severity(), notice.message());
                    for (label, part) in [("DETAIL", notice.detail()), ("HINT", notice.hint())] {
                        if let Some(part) = part {
                            line.push_str(&format!("\n{label}:  {part}"));
                        }
                    }
                    heard.lock().unwrap_or_else(PoisonError::into_inner).push(line);
                }
            }
        });
        let database = config.get_dbname().or(config.get_user()).unwrap_or("stratalog").to_string();
        Ok(Self { client, notices, database, place, tls })
    }

    pub(super) async fn run(
        &mut self,
        sql: &str,
        receiver: &mut dyn Receiver,
    ) -> Result<String, SqlError> {
        let words = leading_words(sql, 2);
        if words.first().is_some_and(|word| word == "COPY") {
            return self.copy_out(sql, receiver).await;
        }
        let described =
            if may_return_rows(&words, sql) { self.describe(sql).await? } else { Vec::new() };
        let mut stream = pin!(self.client.simple_query_raw(sql).await?);
        let mut rows = TextRows::default();
        let mut affected = 0;
        while let Some(message) = stream.next().await {
            match message? {
                SimpleQueryMessage::RowDescription(names) => {
                    let columns: Vec<ResultColumn> = if described.len() == names.len() {
                        described.clone()
                    } else {
                        names
                            .iter()
                            .map(|column| ResultColumn {
                                name: column.name().to_string(),
                                column_type: ColumnType::Text,
                            })
                            .collect()
                    };
                    rows = TextRows::new(columns.len());
                    receiver.columns(&columns)?;
                }
                SimpleQueryMessage::Row(row) => {
                    for at in 0..row.len() {
                        rows.push(row.try_get(at)?);
                    }
                    if rows.len() >= ROWS_AT_A_TIME {
                        receiver.rows(&rows)?;
                        rows.clear();
                    }
                }
                SimpleQueryMessage::CommandComplete(count) => affected = count,
                _ => {}
            }
        }
        if !rows.is_empty() {
            receiver.rows(&rows)?;
        }
        Ok(tag(&words, affected))
    }

    pub(super) async fn copy_in(&mut self, sql: &str, data: CopyData<'_>) -> Result<u64, SqlError> {
        let mut sink = pin!(self.client.copy_in(sql).await?);
        let mut data = pin!(data);
        while let Some(bytes) = data.try_next().await? {
            if let Err(error) = sink.send(bytes).await {
                // The server reports the reason only after the client has ended the data.
                sink.finish().await?;
                return Err(error.into());
            }
        }
        Ok(sink.finish().await?)
    }

    async fn copy_out(
        &mut self,
        sql: &str,
        receiver: &mut dyn Receiver,
    ) -> Result<String, SqlError> {
        let mut stream = pin!(self.client.copy_out(sql).await?);
        while let Some(bytes) = stream.try_next().await? {
            receiver.bytes(&bytes)?;
        }
        Ok("COPY".to_string())
    }

    pub(super) async fn describe(&mut self, sql: &str) -> Result<Vec<ResultColumn>, SqlError> {
        let statement = self.client.prepare(sql).await?;
        let columns = statement.columns().iter();
        Ok(columns
            .map(|column| ResultColumn {
                name: column.name().to_string(),
                column_type: column_type(column.type_(), column.type_modifier()),
            })
            .collect())
    }

    pub(super) fn cancel_token(&self) -> (tokio_postgres::CancelToken, ClientTls) {
        (self.client.cancel_token(), self.tls.clone())
    }

    pub(super) fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut *self.notices.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn database(&self) -> &str {
        &self.database
    }

    pub(super) fn place(&self) -> String {
        self.place.clone()
    }
}

fn place_of(config: &Config) -> String {
    use tokio_postgres::config::Host;
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(host)) => host.clone(),
        #[cfg(unix)]
        Some(Host::Unix(path)) => path.display().to_string(),
        None => config.get_hostaddrs().first().map_or("?".to_string(), ToString::to_string),
    };
    format!("{host}:{}", config.get_ports().first().unwrap_or(&5432))
}

fn may_return_rows(words: &[String], sql: &str) -> bool {
    match words.first().map(String::as_str) {
        Some("SELECT" | "WITH" | "VALUES" | "TABLE" | "SHOW" | "EXPLAIN" | "EXECUTE") => true,
        Some("INSERT" | "DELETE") => sql.to_ascii_uppercase().contains("RETURNING"),
        _ => sql.trim_start().starts_with('('),
    }
}

/// The command tag of a statement. The client library passes on only the number of rows.
fn tag(words: &[String], rows: u64) -> String {
    let first = words.first().map_or("", String::as_str);
    match first {
        "INSERT" => format!("INSERT 0 {rows}"),
        "DELETE" | "SELECT" | "UPDATE" => format!("{first} {rows}"),
        "CREATE" | "DROP" | "ALTER" | "TRUNCATE" | "DISCARD" => words.join(" "),
        "WITH" | "VALUES" | "TABLE" | "" => format!("SELECT {rows}"),
        other => other.to_string(),
    }
}

/// The column type for a type of the Postgres protocol; text for an unknown type.
fn column_type(pg: &Type, modifier: i32) -> ColumnType {
    let precision = || u8::try_from(modifier).ok().filter(|digits| matches!(digits, 0 | 3 | 6 | 9));
    let element = |inner: ColumnType| ColumnType::Array(Box::new(inner));
    match *pg {
        Type::BOOL => ColumnType::Boolean,
        Type::INT2 => ColumnType::SmallInt,
        Type::INT4 => ColumnType::Integer,
        Type::INT8 | Type::OID => ColumnType::BigInt,
        Type::FLOAT4 => ColumnType::Real,
        Type::FLOAT8 => ColumnType::Double,
        Type::NUMERIC | Type::NUMERIC_ARRAY => {
            // The modifier of numeric is (precision << 16 | scale) + 4.
            let packed = modifier.checked_sub(4).filter(|packed| *packed >= 0);
            let part =
                |shift: u32| packed.and_then(|packed| u8::try_from((packed >> shift) & 0x7ff).ok());
            let number = match (part(16), part(0)) {
                (Some(precision @ 1..=38), Some(scale)) if scale <= precision => {
                    ColumnType::Numeric { precision, scale }
                }
                _ => ColumnType::NUMERIC,
            };
            if *pg == Type::NUMERIC { number } else { element(number) }
        }
        Type::BYTEA => ColumnType::Bytea,
        Type::TIMESTAMP => ColumnType::Timestamp { precision: precision().unwrap_or(9) },
        Type::TIMESTAMPTZ => ColumnType::TimestampTz { precision: precision().unwrap_or(9) },
        Type::DATE => ColumnType::Date,
        Type::TIME => ColumnType::Time,
        Type::INTERVAL => ColumnType::Interval,
        Type::UUID => ColumnType::Uuid,
        Type::JSON | Type::JSONB => ColumnType::Jsonb,
        Type::BOOL_ARRAY => element(ColumnType::Boolean),
        Type::INT2_ARRAY => element(ColumnType::SmallInt),
        Type::INT4_ARRAY => element(ColumnType::Integer),
        Type::INT8_ARRAY => element(ColumnType::BigInt),
        Type::FLOAT4_ARRAY => element(ColumnType::Real),
        Type::FLOAT8_ARRAY => element(ColumnType::Double),
        Type::TEXT_ARRAY | Type::VARCHAR_ARRAY => element(ColumnType::Text),
        Type::TIMESTAMP_ARRAY => {
            element(ColumnType::Timestamp { precision: precision().unwrap_or(9) })
        }
        Type::TIMESTAMPTZ_ARRAY => {
            element(ColumnType::TimestampTz { precision: precision().unwrap_or(9) })
        }
        Type::DATE_ARRAY => element(ColumnType::Date),
        Type::TIME_ARRAY => element(ColumnType::Time),
        Type::INTERVAL_ARRAY => element(ColumnType::Interval),
        Type::BYTEA_ARRAY => element(ColumnType::Bytea),
        Type::UUID_ARRAY => element(ColumnType::Uuid),
        Type::JSONB_ARRAY => element(ColumnType::Jsonb),
        _ => ColumnType::Text,
    }
}
