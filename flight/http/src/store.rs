//! Stores rows: first creates missing tables and columns, then appends the rows of all tables
//! atomically.

mod merge;
pub(crate) mod partial;
pub(crate) mod refused_requests;
mod rows;

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, StringViewArray, new_null_array};
use stratalog_line::{TableRows, Tables};
use stratalog_model::{
    ChronicleDefinition, ColumnType, Error, ErrorKind, Result,
    store::{AppendOptions, CommittedAppend},
};
use stratalog_query::{Command, NewChronicle, NewColumn, Session};

use crate::state::State;

/// The time column of tables that a write creates.
const TIME: &str = "time";

/// Approximate bytes of a value, for an estimate of the work to build a batch.
const VALUE_BYTES: usize = 8;

/// Maximum attempts to create an object, or to append rows, while other sessions change the tables.
const TRIES: usize = 4;

/// The tables of one schema, as a session sees them.
#[derive(Debug)]
pub(crate) struct SchemaTables<'a> {
    pub(crate) session: &'a Session,
    pub(crate) schema: &'a str,
}

impl Tables for SchemaTables<'_> {
    fn table(&self, measurement: &str) -> Option<Arc<ChronicleDefinition>> {
        self.session.table(Some(self.schema), measurement).ok()
    }

    fn namespace(&self) -> &str {
        self.schema
    }

    /// True if new tags may become key columns of the table: the table must have a declared primary
    /// key.
    fn takes_new_tags(&self, table: &ChronicleDefinition) -> bool {
        table.primary_key
    }
}

/// The rules for storing the rows of a write protocol.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WriteProtocol {
    /// The name of the protocol in messages and in the list of sessions.
    pub(crate) protocol: &'static str,
    /// The collision rule of tables that a write creates.
    pub(crate) collision: &'static str,
    /// True if the rows of a request with equal key and time are merged into one row.
    pub(crate) merges: bool,
}

impl WriteProtocol {
    /// Line protocol in HTTP requests: lines with equal series and time become one row with all
    /// fields.
    pub(crate) const LINES: Self =
        Self { protocol: "line protocol", collision: "merge", merges: true };

    /// Line protocol over TCP: each line is a row, because no request groups the lines.
    pub(crate) const STREAM: Self = Self { merges: false, ..Self::LINES };
}

/// Stores all rows or none.
///
/// # Errors
/// `DatatypeMismatch`, `InvalidTableDefinition` if a table has changed since the server parsed the
/// rows; errors from creating a table or from the append.
pub(crate) async fn store(
    state: &State,
    session: &Arc<Session>,
    write_protocol: WriteProtocol,
    schema: &str,
    tables: Vec<TableRows>,
    options: AppendOptions,
) -> Result<Option<CommittedAppend>> {
    if tables.is_empty() {
        return Ok(None);
    }
    let mut batches = Vec::with_capacity(tables.len());
    for rows in tables {
        let ready = prepared(state, session, write_protocol, schema, rows).await?;
        batches.push((ready.definition, ready.batch));
    }
    // All requests append to their tables in the order of the table ids, so that two requests
    // cannot deadlock.
    batches.sort_by_key(|(definition, _)| definition.id);
    append_all(state, session, write_protocol, &mut batches, options).await.map(Some)
}

/// Appends all batches or none, in up to [`TRIES`] attempts. Tries again after a deadlock with
/// another append, and after another session has added a column to one of the tables.
async fn append_all(
    state: &State,
    session: &Arc<Session>,
    write_protocol: WriteProtocol,
    batches: &mut [(Arc<ChronicleDefinition>, RecordBatch)],
    options: AppendOptions,
) -> Result<CommittedAppend> {
    let mut tries = 1;
    loop {
        match append_once(state, session, write_protocol, batches, options.clone()).await {
            Err(error) if tries < TRIES && renew(session, batches, &error)? => tries += 1,
            other => return other,
        }
    }
}

/// Prepares another attempt to append after `error`: if other sessions have added columns, converts
/// the batches to the current definitions of their tables. Returns false if another attempt cannot
/// succeed.
///
/// # Errors
/// `UndefinedTable` if a table was dropped.
fn renew(
    session: &Session,
    batches: &mut [(Arc<ChronicleDefinition>, RecordBatch)],
    error: &Error,
) -> Result<bool> {
    if error.kind() != ErrorKind::SerializationFailure {
        return Ok(error.kind() == ErrorKind::DeadlockDetected);
    }
    for (definition, batch) in batches {
        let now = session.table(Some(&definition.schema), &definition.name)?;
        let Some(widened) = widened(definition, batch, &now)? else { return Ok(false) };
        (*definition, *batch) = (now, widened);
    }
    Ok(true)
}

/// Converts `batch` to the columns of `now`, the newer definition of the table: new columns get
/// NULL or their value for existing rows. `None` if a new column allows neither, or if the table's
/// name now belongs to another table.
fn widened(
    definition: &ChronicleDefinition,
    batch: &RecordBatch,
    now: &ChronicleDefinition,
) -> Result<Option<RecordBatch>> {
    if now.id != definition.id {
        return Ok(None);
    }
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(now.columns.len());
    for column in &now.columns {
        let known = definition.position(column.id).and_then(|at| batch.columns().get(at));
        columns.push(match (known, column.missing_value.as_deref()) {
            (Some(known), _) => Arc::clone(known),
            (None, _) if column.nullable => {
                new_null_array(&column.column_type.arrow_type(), batch.num_rows())
            }
            // The column is a new tag, which is now a part of the key.
            (None, Some(missing)) if column.column_type == ColumnType::Text => {
                let values = std::iter::repeat_n(missing, batch.num_rows());
                Arc::new(StringViewArray::from_iter_values(values))
            }
            _ => return Ok(None),
        });
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(Some(RecordBatch::try_new_with_options(now.arrow_schema(), columns, &options)?))
}

async fn append_once(
    state: &State,
    session: &Arc<Session>,
    write_protocol: WriteProtocol,
    batches: &[(Arc<ChronicleDefinition>, RecordBatch)],
    options: AppendOptions,
) -> Result<CommittedAppend> {
    let mut append = session.append(write_protocol.protocol, options)?;
    for (definition, batch) in batches {
        let bytes = batch.get_array_memory_size();
        state.drive(bytes, append.push(definition, batch.clone())).await?;
    }
    append.commit().await
}

/// A batch of rows of one table, ready to be appended.
struct PreparedAppend {
    definition: Arc<ChronicleDefinition>,
    batch: RecordBatch,
    /// For each row of the batch, its index before rows were merged; `None` if no rows were merged.
    kept_rows: Option<Vec<u32>>,
}

/// Creates the table or its missing columns if necessary, and converts `rows` to a batch.
async fn prepared(
    state: &State,
    session: &Arc<Session>,
    write_protocol: WriteProtocol,
    schema: &str,
    rows: TableRows,
) -> Result<PreparedAppend> {
    let definition = ready(state, session, write_protocol, schema, &rows).await?;
    if rows.is_dated() {
        session.check_times(&definition)?;
    }
    let bytes = rows.rows().saturating_mul(definition.columns.len()).saturating_mul(VALUE_BYTES);
    let made = state.compute(bytes, || {
        let batch = rows.into_batch(&definition)?;
        let merged = if write_protocol.merges { merge::merged(&definition, &batch)? } else { None };
        Ok::<_, Error>(match merged {
            None => (batch, None),
            Some(merged) => (merged.batch, Some(merged.kept_rows)),
        })
    });
    let (batch, kept_rows) = made.await?;
    Ok(PreparedAppend { definition, batch, kept_rows })
}

/// Returns the definition of the table for `rows`. Creates the table or its missing columns if
/// necessary.
async fn ready(
    state: &State,
    session: &Arc<Session>,
    write_protocol: WriteProtocol,
    schema: &str,
    rows: &TableRows,
) -> Result<Arc<ChronicleDefinition>> {
    for _ in 0..TRIES {
        match session.table(Some(schema), rows.measurement()) {
            Ok(definition) => {
                let missing = missing_columns(&definition, rows)?;
                if missing.is_empty() {
                    return Ok(definition);
                }
                let count = missing.len();
                let what = match missing.as_slice() {
                    [(_, true)] => "a new tag".to_string(),
                    [_] => "a new field".to_string(),
                    _ => format!("{count} new columns"),
                };
                // One catalog record, and therefore one fsync, adds all columns.
                let id = definition.id;
                let add =
                    |(column, key)| Command::AddColumn { id, column, key, if_not_exists: true };
                let commands = missing.into_iter().map(add).collect();
                session.define(&format!("{}: {what}", write_protocol.protocol), commands).await?;
            }
            Err(error) if error.kind() == ErrorKind::UndefinedTable => {
                let commands = creation(state, session, write_protocol, schema, rows)?;
                session
                    .define(&format!("{}: a new table", write_protocol.protocol), commands)
                    .await?;
            }
            Err(error) => return Err(error),
        }
    }
    Err(Error::new(
        ErrorKind::ObjectInUse,
        format!("table \"{schema}.{}\" is dropped or changed all the time", rows.measurement()),
    ))
}

/// The columns of `rows` that the table lacks. The flag is true for a tag, which becomes a key
/// column.
fn missing_columns(
    definition: &ChronicleDefinition,
    rows: &TableRows,
) -> Result<Vec<(NewColumn, bool)>> {
    let is_missing = |name: &str| definition.column_named(name).is_none();
    let mut tags = rows.new_tags().iter().filter(|tag| is_missing(tag)).peekable();
    if let Some(tag) = tags.next_if(|_| !definition.primary_key) {
        return Err(no_such_key(definition, tag));
    }
    let tags = tags.map(|tag| (joining(tag), true));
    let fields = rows.new_fields().iter().filter(|(name, _)| is_missing(name));
    let fields = fields.map(|(name, column_type)| (nullable(name, column_type), false));
    Ok(tags.chain(fields).collect())
}

/// The definition of a new tag column, which becomes a key column. The column has the value '' in
/// existing rows and in rows without the tag.
fn joining(tag: &str) -> NewColumn {
    NewColumn {
        nullable: false,
        default_sql: Some("''".to_string()),
        missing_value: Some(String::new()),
        ..nullable(tag, &ColumnType::Text)
    }
}

fn no_such_key(definition: &ChronicleDefinition, tag: &str) -> Error {
    Error::new(
        ErrorKind::InvalidTableDefinition,
        format!(
            "tag \"{tag}\" has no column in table \"{}\", and the table has no primary key for a new tag column",
            definition.qualified_name()
        ),
    )
    .with_hint("send the value as a field, or write to another measurement")
}

fn nullable(name: &str, column_type: &ColumnType) -> NewColumn {
    NewColumn {
        name: name.to_string(),
        column_type: column_type.clone(),
        nullable: true,
        default_sql: None,
        missing_value: None,
    }
}

/// The commands that create the table for `rows`, and its schema if necessary.
///
/// # Errors
/// `InsufficientPrivilege` if the table exists, but the session may not know of it.
fn creation(
    state: &State,
    session: &Session,
    write_protocol: WriteProtocol,
    schema: &str,
    rows: &TableRows,
) -> Result<Vec<Command>> {
    let database = session.login().database.clone();
    let catalog = state.service.parts().catalog.state();
    if catalog.chronicle(&database, schema, rows.measurement()).is_some()
        && session.table(Some(schema), rows.measurement()).is_err()
    {
        return Err(Error::new(
            ErrorKind::InsufficientPrivilege,
            format!("permission denied for table {}", rows.measurement()),
        )
        .with_hint("the owner can grant it: GRANT INSERT ON TABLE … TO …"));
    }
    let required = |name: &str, column_type: ColumnType| NewColumn {
        nullable: false,
        ..nullable(name, &column_type)
    };
    let tags = rows.new_tags();
    let mut columns: Vec<NewColumn> =
        tags.iter().map(|tag| required(tag, ColumnType::Text)).collect();
    columns.push(required(TIME, ColumnType::TimestampTz { precision: 9 }));
    columns.extend(rows.new_fields().iter().map(|(name, column_type)| nullable(name, column_type)));
    let key = tags.iter().cloned().chain([TIME.to_string()]).collect();
    let mut commands = Vec::with_capacity(2);
    // Only the creation of a schema needs the right to create schemas.
    if catalog.schema(&database, schema).is_none() {
        commands.push(Command::CreateSchema {
            database: database.clone(),
            name: schema.to_string(),
            if_not_exists: true,
            owner: None,
        });
    }
    commands.push(Command::CreateChronicle(NewChronicle {
        database,
        schema: schema.to_string(),
        name: rows.measurement().to_string(),
        columns,
        primary_key: Some(key),
        options: vec![("collision".to_string(), write_protocol.collision.to_string())],
        if_not_exists: true,
    }));
    Ok(commands)
}
