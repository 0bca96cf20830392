//! Rows straight into tables: statement ingest, and batches with an acknowledgement each.

use std::{collections::HashMap, sync::Arc};

use arrow::datatypes::Schema;
use arrow_flight::sql::{CommandStatementIngest, TableExistsOption, TableNotExistOption};
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use serde::{Deserialize, Serialize};
use stratalog_model::{
    ColumnType, Durability, Error, ErrorKind, ProducerId, Result,
    store::{AppendOptions, Appended},
};
use stratalog_query::{Command, Ingest, NewChronicle, NewColumn, Session, TransactionState};
use tonic::Status;
use uuid::Uuid;

use crate::{
    bound::{Arrived, Batches, Inbound},
    caller::Caller,
    status::refused,
    transaction::carry_out,
};

/// Acknowledgements as JSON.
pub(crate) type Told = stream::BoxStream<'static, Result<Bytes, Status>>;

/// The option that names the key of a new table; all others are those of CREATE TABLE … WITH.
const PRIMARY_KEY: &str = "primary_key";

/// CommandStatementIngest: all rows of the call, and the table if it is new, or nothing.
///
/// # Errors
/// `UndefinedTable`, `DuplicateTable`; `FeatureNotSupported` for replacing and temporary tables; what
/// is wrong with the rows.
pub(crate) async fn statement(
    caller: &Arc<Caller>,
    wanted: CommandStatementIngest,
    messages: Inbound,
) -> Result<i64> {
    if wanted.temporary {
        return Err(Error::new(ErrorKind::FeatureNotSupported, "temporary tables are not offered")
            .with_hint("ingest into a table, and DROP it when it is no longer needed"));
    }
    let session = caller.session_of(wanted.transaction_id.as_deref())?;
    if let Some(catalog) = wanted.catalog.as_deref().filter(|name| !name.is_empty())
        && catalog != session.login().database
    {
        return Err(Error::new(
            ErrorKind::FeatureNotSupported,
            format!(
                "the session is in the database \"{}\", not in \"{catalog}\"",
                session.login().database
            ),
        )
        .with_hint("connect to that database"));
    }
    let mut batches = Batches::new(messages);
    let schema = batches.schema().await?.ok_or_else(|| {
        Error::new(ErrorKind::ProtocolViolation, "the rows have no schema: the call sent no data")
    })?;
    if session.transaction() != TransactionState::Idle {
        return fill(&session, &wanted, schema, batches).await;
    }
    // In a block of its own: a table without its rows is none that anybody asked for.
    let session = session.twin()?;
    let done = async {
        carry_out(&session, "BEGIN").await?;
        let count = fill(&session, &wanted, schema, batches).await?;
        carry_out(&session, "COMMIT").await?;
        Ok(count)
    };
    let done = done.await;
    session.close();
    done
}

async fn fill(
    session: &Arc<Session>,
    wanted: &CommandStatementIngest,
    schema: Arc<Schema>,
    mut batches: Batches,
) -> Result<i64> {
    let named = wanted.schema.as_deref().filter(|name| !name.is_empty());
    let table = wanted.table.as_str();
    let options = wanted.table_definition_options.unwrap_or_default();
    let if_missing = TableNotExistOption::try_from(options.if_not_exist);
    let if_there = TableExistsOption::try_from(options.if_exists);
    let chronicle = match session.table(named, table) {
        Ok(_) if if_there == Ok(TableExistsOption::Replace) => {
            return Err(Error::new(
                ErrorKind::FeatureNotSupported,
                format!(
                    "table \"{table}\" exists, and is not replaced: events that were stored stay"
                ),
            )
            .with_hint("append to it, or DROP TABLE first"));
        }
        Ok(_) if if_there == Ok(TableExistsOption::Fail) => {
            return Err(Error::new(
                ErrorKind::DuplicateTable,
                format!("relation \"{table}\" already exists"),
            ));
        }
        Ok(chronicle) => {
            if let Some(option) = wanted.options.keys().min() {
                return Err(Error::new(
                    ErrorKind::InvalidParameterValue,
                    format!("option \"{option}\" is for new tables, and table \"{table}\" exists"),
                )
                .with_hint("leave it out, or ALTER TABLE … SET (…)"));
            }
            chronicle
        }
        Err(error)
            if error.kind() == ErrorKind::UndefinedTable
                && if_missing == Ok(TableNotExistOption::Create) =>
        {
            let new = new_table(session, named, table, &schema, &wanted.options)?;
            session.define("CREATE TABLE", vec![Command::CreateChronicle(new)]).await?;
            session.table(named, table)?
        }
        Err(error) => return Err(error),
    };
    let ingest = session.ingest(chronicle, schema).await?;
    let mut statement = ingest.begin(&format!("ingest into {table}"))?;
    while let Some(arrived) = batches.next().await {
        let arrived = arrived?;
        statement.push(&arrived.batch).await.map_err(|error| at(error, arrived.number))?;
    }
    Ok(i64::try_from(statement.finish().await?).unwrap_or(i64::MAX))
}

/// A table with the columns of a schema.
fn new_table(
    session: &Session,
    schema: Option<&str>,
    table: &str,
    columns: &Schema,
    options: &HashMap<String, String>,
) -> Result<NewChronicle> {
    let columns = columns.fields().iter().map(|field| {
        let column_type = ColumnType::from_arrow_field(field).ok_or_else(|| {
            Error::new(
                ErrorKind::DatatypeMismatch,
                format!(
                    "column \"{}\" has the type {}, which no column can have",
                    field.name(),
                    field.data_type()
                ),
            )
            .with_hint("nested values can be stored as jsonb: send them as text")
        })?;
        Ok(NewColumn {
            name: field.name().clone(),
            column_type,
            nullable: field.is_nullable(),
            default_sql: None,
            missing_value: None,
        })
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let primary_key = options.get(PRIMARY_KEY).map(|names| {
        names.split(',').map(|name| name.trim().trim_matches('"').to_string()).collect()
    });
    let mut with: Vec<(String, String)> = options
        .iter()
        .filter(|(name, _)| *name != PRIMARY_KEY)
        .map(|(name, value)| (name.to_ascii_lowercase(), value.clone()))
        .collect();
    with.sort();
    Ok(NewChronicle {
        database: session.login().database.clone(),
        schema: match schema {
            Some(schema) => schema.to_string(),
            None => session.schema_for_new()?,
        },
        name: table.to_string(),
        columns,
        primary_key,
        options: with,
        if_not_exists: false,
    })
}

/// What a message of rows may say besides, as JSON in its `app_metadata`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Wish {
    /// Who sends: a UUID.
    producer: Option<String>,
    /// The number of this batch; one not above the producer's last is not stored again.
    sequence: Option<u64>,
    /// What the acknowledgement means; the table's own without it.
    durability: Option<String>,
}

/// What is answered for a batch, as JSON.
#[derive(Debug, Serialize)]
struct Acknowledged {
    /// Number of the batch in the call, from 1.
    batch: u64,
    /// Rows stored.
    rows: u64,
    /// Gsn of the first and of the last; null when nothing was stored.
    first_gsn: Option<u64>,
    last_gsn: Option<u64>,
    /// What is certain now.
    durability: String,
    /// The producer had it acknowledged before.
    duplicate: bool,
    /// The number that the producer gave it.
    #[serde(skip_serializing_if = "Option::is_none")]
    sequence: Option<u64>,
}

/// Batches for the table of a path, each an append of its own, acknowledged in order.
///
/// # Errors
/// `UndefinedTable`, `ProtocolViolation`; what is wrong with a batch comes in its turn, and ends the
/// call: those before it are stored.
pub(crate) async fn by_path(
    caller: &Arc<Caller>,
    path: &[String],
    messages: Inbound,
) -> Result<Told> {
    let (named, table) = match path {
        [table] => (None, table.as_str()),
        [schema, table] => (Some(schema.as_str()), table.as_str()),
        _ => {
            return Err(Error::new(
                ErrorKind::ProtocolViolation,
                format!("a path of {} names is no table", path.len()),
            )
            .with_hint("[table] or [schema, table]"));
        }
    };
    let session = Arc::clone(caller.session());
    let chronicle = session.table(named, table)?;
    let mut batches = Batches::new(messages);
    let Some(schema) = batches.schema().await? else { return Ok(stream::empty().boxed()) };
    let ingest = session.ingest(chronicle, schema).await?;
    let what = format!("rows for {table}");
    let state = Some((batches, ingest, session, what, Arc::clone(caller)));
    let told = stream::unfold(state, |state| async move {
        let (mut batches, ingest, session, what, caller) = state?;
        let arrived = match batches.next().await? {
            Ok(arrived) => arrived,
            Err(error) => return Some((Err(refused(error)), None)),
        };
        caller.touch();
        let number = arrived.number;
        match store(&session, &ingest, &what, arrived).await {
            Ok(told) => Some((Ok(told), Some((batches, ingest, session, what, caller)))),
            Err(error) => Some((Err(refused(at(error, number))), None)),
        }
    });
    Ok(told.boxed())
}

async fn store(
    session: &Arc<Session>,
    ingest: &Ingest,
    what: &str,
    arrived: Arrived,
) -> Result<Bytes> {
    let wish = match arrived.metadata.as_ref() {
        b"" => Wish::default(),
        json => serde_json::from_slice(json).map_err(|error| {
            Error::new(
                ErrorKind::InvalidParameterValue,
                format!("the metadata of the batch cannot be read: {error}"),
            )
            .with_hint("{\"producer\": \"a UUID\", \"sequence\": 1, \"durability\": \"disk\"}, each of them optional")
        })?,
    };
    let producer = match (wish.producer, wish.sequence) {
        (Some(producer), Some(sequence)) => {
            let producer = Uuid::parse_str(&producer).map_err(|_| {
                Error::new(
                    ErrorKind::InvalidTextRepresentation,
                    format!("the producer \"{producer}\" is no UUID"),
                )
            })?;
            Some((ProducerId(producer.as_u128()), sequence))
        }
        (None, None) => None,
        _ => {
            return Err(Error::new(
                ErrorKind::InvalidParameterValue,
                "a producer needs a sequence, and a sequence a producer",
            ));
        }
    };
    let durability = wish.durability.map(|text| text.parse::<Durability>()).transpose()?;
    let rows = ingest.rows(&arrived.batch).await?;
    let mut append = session.append(what, AppendOptions { durability, producer })?;
    append.push(ingest.table(), rows).await?;
    let Appended { first_gsn, last_gsn, rows, durability, duplicate } = append.commit().await?;
    let told = Acknowledged {
        batch: arrived.number,
        rows,
        first_gsn: first_gsn.map(|gsn| gsn.0),
        last_gsn: last_gsn.map(|gsn| gsn.0),
        durability: durability.to_string(),
        duplicate,
        sequence: wish.sequence,
    };
    let json = serde_json::to_vec(&told)
        .map_err(|error| Error::internal(format!("an acknowledgement: {error}")))?;
    Ok(json.into())
}

fn at(error: Error, batch: u64) -> Error {
    error.with_context(format!("batch {batch}"))
}
