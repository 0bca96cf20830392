//! The definition of a chronicle: names, units, and the columns of raw events.

use arrow::{
    array::{Array as _, AsArray as _, RecordBatch},
    datatypes::{DataType, Field, Int64Type, Schema, SchemaRef, TimeUnit},
};
use stratalog_model::{Collision, Granularity, Tick, TickScale, TickSource};

use super::tags::PAYLOAD;
use crate::{
    client::Client,
    connection::within,
    error::{Error, ErrorKind, Result},
    pool::Lease,
    retry::RepeatCondition,
    writer::path_of,
};

/// The definition of an acquired chronicle.
#[derive(Debug)]
pub(crate) struct Table {
    /// The name as the caller of `acquire` wrote it.
    pub(crate) name: String,
    /// Schema and name, quoted for SQL.
    pub(crate) quoted: String,
    /// The name of the time column.
    pub(crate) time: String,
    pub(crate) scale: TickScale,
    pub(crate) collision: Collision,
    pub(crate) source: TickSource,
    /// The columns of a batch of raw events for writing: the payload, and the time unless the
    /// server assigns times. `None` if the table has columns other than time and payload.
    pub(crate) raw: Option<SchemaRef>,
}

impl Table {
    /// Reads the definition of a chronicle in the session of this client.
    ///
    /// # Errors
    /// `InvalidOption` for an invalid name; `Connection`, `Timeout`.
    pub(crate) async fn look_up(client: &Client, name: &str) -> Result<Self> {
        let path = path_of(name)?;
        let (schema, table) = match path.as_slice() {
            [schema, table] => (format!("schema = {}", literal(schema)), table),
            [table] => ("schema = ANY (current_schemas(false))".to_string(), table),
            _ => return Err(Error::protocol(format!("\"{name}\" is not the name of a chronicle"))),
        };
        let sql = format!(
            "SELECT schema, base_ns, native_granularity, collision, time_source, tick_column \
             FROM stratalog.chronicles WHERE name = {} AND {schema} \
             ORDER BY schema = current_schema() DESC LIMIT 1",
            literal(table)
        );
        let found = client.query(&sql).await?.collect().await?;
        let found = found.iter().find(|batch| batch.num_rows() > 0).ok_or_else(|| {
            Error::new(ErrorKind::InvalidOption, format!("chronicle \"{name}\" does not exist"))
                .with_hint("create the chronicle first: Chronolog::create")
        })?;
        let unread = || Error::protocol(format!("the server's description of chronicle {name}"));
        let text = |column| text(found, column).ok_or_else(unread);
        let base_ns = found.columns().get(1).and_then(|at| at.as_primitive_opt::<Int64Type>());
        let base_ns = base_ns.filter(|at| !at.is_empty()).ok_or_else(unread)?.value(0);
        let granularity: Granularity = text(2)?.parse().map_err(|_| unread())?;
        let time = text(5)?.to_string();
        let columns = columns_of(client, &path).await?;
        let source: TickSource = text(4)?.parse().map_err(|_| unread())?;
        let raw = raw_columns(&columns, &time, source);
        Ok(Self {
            name: name.to_string(),
            quoted: format!("{}.{}", identifier(text(0)?), identifier(table)),
            time,
            scale: TickScale::starting_at(base_ns, granularity),
            collision: text(3)?.parse().map_err(|_| unread())?,
            source,
            raw,
        })
    }

    /// The columns of a batch of raw events for writing.
    ///
    /// # Errors
    /// `InvalidOption` if the table has columns other than time and payload.
    pub(crate) fn raw(&self) -> Result<&SchemaRef> {
        self.raw.as_ref().ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidOption,
                format!("{} has no column \"{PAYLOAD}\" of type bytea", self.name),
            )
            .with_hint("read and write the rows with Chronicle::client, in the same session")
        })
    }

    /// The tick that contains `time_ns`; `None` outside of the range of ticks.
    pub(crate) fn tick_of(&self, time_ns: i64) -> Option<i64> {
        self.scale.tick_of(time_ns).ok().map(|tick| tick.0)
    }

    /// The time at which a tick begins, in nanoseconds since 1970; `None` outside of the range of
    /// times.
    pub(crate) fn time_of(&self, tick: i64) -> Option<i64> {
        self.scale.time_ns_of(Tick(tick))
    }
}

fn text(batch: &RecordBatch, column: usize) -> Option<&str> {
    let column = batch.columns().get(column)?.as_string_opt::<i32>()?;
    (!column.is_empty()).then(|| column.value(0))
}

/// Asks the server for the columns of the table `path`: the table's name, or schema and name.
async fn columns_of(client: &Client, path: &[String]) -> Result<SchemaRef> {
    let settings = &client.pool.settings;
    let time = Some(settings.request_timeout.unwrap_or(settings.connect_timeout));
    let fetch = |lease: Lease| {
        let path = path.to_vec();
        async move {
            let schema = within(time, lease.connection.table_schema(&path)).await;
            schema.inspect_err(|error| lease.connection.learn(error))
        }
    };
    client.with_retries(RepeatCondition::Pure, fetch).await
}

/// The columns of a batch of raw events for a table with the columns `columns`. `None` if the table
/// has columns other than time and payload.
fn raw_columns(columns: &Schema, time: &str, source: TickSource) -> Option<SchemaRef> {
    let is_payload =
        |field: &Field| matches!(field.data_type(), DataType::Binary | DataType::BinaryView);
    columns.field_with_name(PAYLOAD).ok().filter(|field| is_payload(field))?;
    let zone = match columns.field_with_name(time).ok()?.data_type() {
        DataType::Timestamp(_, zone) => zone.as_ref().map(|_| "UTC".into()),
        _ => return None,
    };
    let time = Field::new(time, DataType::Timestamp(TimeUnit::Nanosecond, zone), false);
    let payload = Field::new(PAYLOAD, DataType::Binary, false);
    let columns = match source {
        TickSource::Server => vec![payload],
        _ => vec![time, payload],
    };
    Some(SchemaRef::new(Schema::new(columns)))
}

/// Parses `[schema.]name` and quotes both parts for SQL.
///
/// # Errors
/// `InvalidOption` for an invalid name.
pub(crate) fn quoted(name: &str) -> Result<String> {
    let parts = path_of(name)?;
    Ok(parts.iter().map(|part| identifier(part)).collect::<Vec<_>>().join("."))
}

/// Formats a name as a quoted SQL identifier.
pub(crate) fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Formats a text as an SQL literal.
pub(crate) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_texts_are_quoted() {
        assert_eq!(quoted("Public.Events").unwrap(), "\"public\".\"events\"");
        assert_eq!(quoted("\"a\"\"b\"").unwrap(), "\"a\"\"b\"");
        assert!(quoted("a.b.c").is_err());
        assert_eq!(literal("it's"), "'it''s'");
    }

    #[test]
    fn a_raw_chronicle_is_known_by_its_columns() {
        let utc = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        let columns = |payload: DataType| {
            let at = Field::new("at", utc.clone(), false);
            Schema::new(vec![at, Field::new("payload", payload, true)])
        };
        let client = TickSource::Client;
        let raw = raw_columns(&columns(DataType::BinaryView), "at", client).unwrap();
        let nanoseconds = DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
        assert_eq!(raw.field(0).data_type(), &nanoseconds);
        assert_eq!(raw.field(1).data_type(), &DataType::Binary);
        let timed = raw_columns(&columns(DataType::Binary), "at", TickSource::Server).unwrap();
        assert_eq!(timed.fields().len(), 1);
        assert!(raw_columns(&columns(DataType::Utf8), "at", client).is_none());
        assert!(raw_columns(&columns(DataType::Binary), "time", client).is_none());
    }
}
