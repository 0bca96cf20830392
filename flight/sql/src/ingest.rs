//! The command CommandStatementIngest: stores the rows of a call in a table, and creates the table
//! if necessary.

use std::{collections::HashMap, sync::Arc};

use arrow::datatypes::Schema;
use arrow_flight::sql::{CommandStatementIngest, TableExistsOption, TableNotExistOption};
use stratalog_flight_wire::{Batches, InboundMessages};
use stratalog_model::{ColumnType, Error, ErrorKind, Result};
use stratalog_query::{Command, NewChronicle, NewColumn, Session, TransactionState};

use crate::{caller::Caller, transaction::run_command};

/// The name of the option with the key columns of a new table. All other options go into CREATE
/// TABLE … WITH.
const PRIMARY_KEY: &str = "primary_key";

/// Stores all rows of the call, in a new table if the client asks for one. After an error nothing
/// is changed.
///
/// # Errors
/// `UndefinedTable`, `DuplicateTable`; `FeatureNotSupported` for replacing a table and for
/// temporary tables; errors of the rows.
pub(crate) async fn statement(
    caller: &Arc<Caller>,
    wanted: CommandStatementIngest,
    messages: InboundMessages,
) -> Result<i64> {
    if wanted.temporary {
        return Err(Error::new(ErrorKind::FeatureNotSupported, "temporary tables are not offered")
            .with_hint("ingest into a table, and DROP the table after use"));
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
        .with_hint("connect to the other database"));
    }
    let mut batches = Batches::new(messages, caller.settings.batch_limits());
    let schema = batches.schema().await?.ok_or_else(|| {
        Error::new(ErrorKind::ProtocolViolation, "the rows have no schema: the call sent no data")
    })?;
    if session.transaction() != TransactionState::Idle {
        return fill(&session, &wanted, schema, batches).await;
    }
    // A transaction block in a separate session, so that after a failure no empty table remains.
    let session = session.twin()?;
    let done = async {
        run_command(&session, "BEGIN").await?;
        let count = fill(&session, &wanted, schema, batches).await?;
        run_command(&session, "COMMIT").await?;
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
                    "table \"{table}\" exists, and cannot be replaced: stored events are permanent"
                ),
            )
            .with_hint("append to the table, or DROP TABLE first"));
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
                .with_hint("omit the option, or use ALTER TABLE … SET (…)"));
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

/// The CREATE TABLE statement for the columns of a schema.
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
                    "column \"{}\" has the type {}, which is not supported for columns",
                    field.name(),
                    field.data_type()
                ),
            )
            .with_hint("store nested values as jsonb: send the values as text")
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

/// Adds the number of the batch to an error, as its context.
pub(crate) fn at(error: Error, batch: u64) -> Error {
    error.with_context(format!("batch {batch}"))
}
