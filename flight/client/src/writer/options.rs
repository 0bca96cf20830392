//! The options of a writer.

use std::{sync::Arc, time::Duration};

use arrow::array::{Array as _, AsArray as _};
use arrow::datatypes::Int64Type;
use stratalog_model::Durability;
use uuid::Uuid;

use super::{Writer, ledger::Limits};
use crate::{
    client::Client,
    connection::within,
    error::{Error, ErrorKind, Result},
    pool::{Lease, Pool},
    retry::{RepeatCondition, RetryPolicy},
};

/// The writer fills a message with rows up to all but 1/16 of the maximal size. The rest is for
/// metadata and encoding.
const MESSAGE_RESERVE_PARTS: usize = 16;

/// The settings of a writer.
#[derive(Debug, Clone)]
pub(crate) struct WriterSettings {
    /// The table's name in error messages.
    pub(crate) table: String,
    pub(crate) path: Vec<String>,
    pub(crate) producer: Uuid,
    pub(crate) producer_is_new: bool,
    pub(crate) durability: Option<Durability>,
    pub(crate) limits: Limits,
    pub(crate) piece_bytes_max: usize,
    pub(crate) buffer_bytes_max: usize,
    pub(crate) write_timeout: Duration,
    pub(crate) acknowledge_timeout: Duration,
    pub(crate) retry: RetryPolicy,
}

/// Options of a [`Writer`], made by [`Client::writer`].
#[derive(Debug, Clone)]
#[must_use = "a writer begins with open()"]
pub struct WriterBuilder {
    pool: Arc<Pool>,
    table: String,
    producer: Option<Uuid>,
    durability: Option<Durability>,
    limits: Limits,
    buffer_bytes_max: usize,
    write_timeout: Duration,
    acknowledge_timeout: Duration,
    retry: RetryPolicy,
}

impl WriterBuilder {
    pub(crate) fn new(pool: Arc<Pool>, table: &str) -> Self {
        Self {
            pool,
            table: table.to_string(),
            producer: None,
            durability: None,
            limits: Limits {
                rows_max: 65_536,
                bytes_max: 4 << 20,
                linger: Duration::from_millis(5),
                in_flight_max: 8,
                refuses_whole: false,
            },
            buffer_bytes_max: 64 << 20,
            write_timeout: Duration::from_secs(60),
            acknowledge_timeout: Duration::from_secs(60),
            retry: RetryPolicy::within(Duration::from_secs(300)),
        }
    }

    /// The producer, for a process that continues the writes of an earlier process. Only one writer
    /// at a time may use a producer. Default: a new producer.
    pub fn producer(mut self, producer: Uuid) -> Self {
        self.producer = Some(producer);
        self
    }

    /// The durability of acknowledgements; default: the durability of the table.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// Maximal number of rows in a parcel; default 65,536. A parcel is the batch that the writer
    /// sends in one message.
    pub fn batch_rows_max(mut self, rows: usize) -> Self {
        self.limits.rows_max = rows;
        self
    }

    /// Approximate maximal bytes of a parcel (see [`Self::batch_rows_max`]); default 4 MiB.
    pub fn batch_bytes_max(mut self, bytes: usize) -> Self {
        self.limits.bytes_max = bytes;
        self
    }

    /// The linger time: the writer delays rows for this time, to send them together with later
    /// rows. Default: 5 milliseconds.
    pub fn linger(mut self, time: Duration) -> Self {
        self.limits.linger = time;
        self
    }

    /// Maximal number of sent parcels without an acknowledgement; default 8.
    pub fn in_flight_max(mut self, batches: usize) -> Self {
        self.limits.in_flight_max = batches;
        self
    }

    /// If true, a time outside of the acceptance window refuses all events of a parcel. If false,
    /// the writer then sends the events again one by one.
    pub(crate) fn refuses_whole(mut self, whole: bool) -> Self {
        self.limits.refuses_whole = whole;
        self
    }

    /// Maximal bytes of buffered rows; default 64 MiB. A batch above the limit waits until the
    /// buffer is empty.
    pub fn buffer_bytes_max(mut self, bytes: usize) -> Self {
        self.buffer_bytes_max = bytes;
        self
    }

    /// Timeout of [`Writer::write`] while the buffer is full; default 60 seconds.
    pub fn write_timeout(mut self, time: Duration) -> Self {
        self.write_timeout = time;
        self
    }

    /// The connection counts as broken if the server acknowledges nothing for this time; default 60
    /// seconds.
    pub fn acknowledge_timeout(mut self, time: Duration) -> Self {
        self.acknowledge_timeout = time;
        self
    }

    /// The policy for repeated attempts after failures; each acknowledgement resets the count of
    /// attempts. Default: any number of attempts within five minutes.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = policy;
        self
    }

    /// Looks up the table, and starts the writer.
    ///
    /// # Errors
    /// `InvalidOption`; `Sql` if the table does not exist; `Connection`, `Timeout`, `Login`.
    pub async fn open(self) -> Result<Writer> {
        let pool = Arc::clone(&self.pool);
        let settings = self.settings()?;
        let client = Client { pool: Arc::clone(&pool) };
        let time = Some(pool.settings.request_timeout.unwrap_or(pool.settings.connect_timeout));
        let looked_up = |lease: Lease| {
            let path = settings.path.clone();
            async move {
                let schema = within(time, lease.connection.table_schema(&path)).await;
                schema.inspect_err(|error| lease.connection.learn(error))
            }
        };
        let schema = client
            .with_retries(RepeatCondition::Pure, looked_up)
            .await
            .map_err(|error| error.during(format!("a writer to {}", settings.table)))?;
        let last = match settings.producer_is_new {
            true => None,
            false => last_sequence(&client, settings.producer).await?,
        };
        Ok(Writer::start(pool, settings, schema, last))
    }

    fn settings(self) -> Result<WriterSettings> {
        let refused = |what: String| Err(Error::new(ErrorKind::InvalidOption, what));
        let message = self.pool.settings.message_bytes_max;
        let piece_bytes_max = message - message / MESSAGE_RESERVE_PARTS;
        let limits = &self.limits;
        for (name, value) in [
            ("batch_rows_max", limits.rows_max),
            ("batch_bytes_max", limits.bytes_max),
            ("in_flight_max", limits.in_flight_max),
            ("buffer_bytes_max", self.buffer_bytes_max),
        ] {
            if value == 0 {
                return refused(format!("{name} is 0: 1 or more"));
            }
        }
        if limits.bytes_max > piece_bytes_max {
            return refused(format!(
                "batch_bytes_max is {}, and message_bytes_max of the client leaves {piece_bytes_max}",
                limits.bytes_max
            ));
        }
        if self.retry.attempts_max == 0 {
            return refused("a policy of 0 tries does nothing: 1 or more".to_string());
        }
        Ok(WriterSettings {
            path: path_of(&self.table)?,
            table: self.table,
            producer: self.producer.unwrap_or_else(Uuid::new_v4),
            producer_is_new: self.producer.is_none(),
            durability: self.durability,
            limits: self.limits,
            piece_bytes_max,
            buffer_bytes_max: self.buffer_bytes_max,
            write_timeout: self.write_timeout,
            acknowledge_timeout: self.acknowledge_timeout,
            retry: self.retry,
        })
    }
}

async fn last_sequence(client: &Client, producer: Uuid) -> Result<Option<u64>> {
    let sql =
        format!("SELECT last_sequence FROM stratalog.producers WHERE producer = '{producer}'");
    for batch in client.query(&sql).await?.collect().await? {
        let numbers =
            batch.columns().first().and_then(|column| column.as_primitive_opt::<Int64Type>());
        if let Some(numbers) = numbers.filter(|numbers| !numbers.is_empty()) {
            return Ok(u64::try_from(numbers.value(0)).ok());
        }
    }
    Ok(None)
}

/// Parses `table` or `schema.table` in SQL syntax into names. A name without quotes becomes lower
/// case.
pub(crate) fn path_of(table: &str) -> Result<Vec<String>> {
    let refused = || {
        Error::new(ErrorKind::InvalidOption, format!("\"{table}\" is not the name of a table"))
            .with_hint("table, schema.table, or with quotes: \"My Table\"")
    };
    let mut path = Vec::new();
    let mut rest = table;
    loop {
        let (name, after) = match rest.strip_prefix('"') {
            Some(quoted) => unquoted(quoted).ok_or_else(refused)?,
            None => {
                let (name, after) = rest.split_at(rest.find(['.', '"']).unwrap_or(rest.len()));
                (name.to_lowercase(), after)
            }
        };
        if name.is_empty() {
            return Err(refused());
        }
        path.push(name);
        match after.strip_prefix('.') {
            Some(after) => rest = after,
            None if after.is_empty() && path.len() <= 2 => return Ok(path),
            None => return Err(refused()),
        }
    }
}

/// Reads a quoted name whose opening quote is already consumed. Returns the name and the text after
/// the closing quote.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut rest = text;
    loop {
        let (part, after) = rest.split_once('"')?;
        name.push_str(part);
        match after.strip_prefix('"') {
            Some(more) => {
                name.push('"');
                rest = more;
            }
            None => return Some((name, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_sql_reads_them() {
        for (text, path) in [
            ("cpu", vec!["cpu"]),
            ("Public.CPU", vec!["public", "cpu"]),
            ("\"My.Schema\".\"a\"\"b\"", vec!["My.Schema", "a\"b"]),
            ("\"X\".y", vec!["X", "y"]),
        ] {
            assert_eq!(path_of(text).unwrap(), path, "{text}");
        }
        for wrong in ["", ".", "a.", ".a", "a.b.c", "\"a", "\"\"", "\"a\"b", "a\"b\""] {
            assert!(path_of(wrong).is_err(), "{wrong}");
        }
    }
}
