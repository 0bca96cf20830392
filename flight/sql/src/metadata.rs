//! Answers the metadata commands of Flight SQL: lists of databases, schemas, tables and keys.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, Int32Builder, RecordBatch, StringBuilder, UInt8Builder},
    datatypes::{DataType, Field, Schema, SchemaRef},
};
use arrow_flight::{
    error::FlightError,
    sql::{
        Command, CommandGetDbSchemas, CommandGetPrimaryKeys, CommandGetTableTypes,
        CommandGetTables, metadata::GetCatalogsBuilder,
    },
};
use futures::StreamExt as _;
use stratalog_model::{ChronicleDefinition, Error, ErrorKind, Result};
use stratalog_query::{Outcome, Session, quoted};

use crate::{
    caller::Caller,
    sql_info::Facts,
    statement::{prepare, shape},
    wire_types::{convert, outgoing, plain_field},
};

/// The kinds of tables, in the terms of Flight SQL and JDBC.
const TABLE: &str = "TABLE";
const VIEW: &str = "VIEW";
const SYSTEM_TABLE: &str = "SYSTEM TABLE";

/// The schemas whose tables are system tables.
const SYSTEM_SCHEMAS: [&str; 3] = ["pg_catalog", "information_schema", "stratalog"];

/// True if a command asks for metadata.
pub(crate) fn asks_for_metadata(command: &Command) -> bool {
    matches!(
        command,
        Command::CommandGetCatalogs(_)
            | Command::CommandGetDbSchemas(_)
            | Command::CommandGetTables(_)
            | Command::CommandGetTableTypes(_)
            | Command::CommandGetSqlInfo(_)
            | Command::CommandGetXdbcTypeInfo(_)
            | Command::CommandGetPrimaryKeys(_)
            | Command::CommandGetExportedKeys(_)
            | Command::CommandGetImportedKeys(_)
            | Command::CommandGetCrossReference(_)
    )
}

/// The columns of the answer to a metadata command.
///
/// # Errors
/// `FeatureNotSupported` for a command that does not ask for metadata.
pub(crate) fn schema_of(command: &Command, facts: &Facts) -> Result<SchemaRef> {
    Ok(match command {
        Command::CommandGetCatalogs(query) => query.into_builder().schema(),
        Command::CommandGetDbSchemas(query) => query.clone().into_builder().schema(),
        Command::CommandGetTables(query) => query.clone().into_builder().schema(),
        Command::CommandGetTableTypes(query) => query.into_builder().schema(),
        Command::CommandGetSqlInfo(_) => facts.sql(&[])?.schema(),
        Command::CommandGetXdbcTypeInfo(_) => facts.types(None)?.schema(),
        Command::CommandGetPrimaryKeys(_) => primary_keys_schema(),
        Command::CommandGetExportedKeys(_)
        | Command::CommandGetImportedKeys(_)
        | Command::CommandGetCrossReference(_) => foreign_keys_schema(),
        _ => return Err(Error::new(ErrorKind::FeatureNotSupported, "no question about metadata")),
    })
}

/// Answers a metadata command.
///
/// # Errors
/// `UndefinedTable`; `Internal` if the answer cannot be encoded as columns.
pub(crate) async fn answer(
    caller: &Arc<Caller>,
    command: Command,
    facts: &Facts,
) -> Result<RecordBatch> {
    match command {
        Command::CommandGetCatalogs(query) => catalogs(caller, query.into_builder()).await,
        Command::CommandGetDbSchemas(query) => schemas(caller, query).await,
        Command::CommandGetTables(query) => tables(caller, query).await,
        Command::CommandGetTableTypes(query) => table_types(query),
        Command::CommandGetSqlInfo(query) => facts.sql(&query.info),
        Command::CommandGetXdbcTypeInfo(query) => facts.types(query.data_type),
        Command::CommandGetPrimaryKeys(query) => primary_keys(caller, &query),
        // Stratalog has no foreign keys, so the answer has no rows.
        other => Ok(RecordBatch::new_empty(schema_of(&other, facts)?)),
    }
}

fn written(error: FlightError) -> Error {
    Error::internal(format!("an answer about metadata: {error}"))
}

/// Lists the databases. The condition `oid > 5` excludes the aliases with the oids 1 and 5.
async fn catalogs(caller: &Arc<Caller>, mut answer: GetCatalogsBuilder) -> Result<RecordBatch> {
    for row in texts(caller.session(), "SELECT datname::text FROM pg_catalog.pg_database WHERE datallowconn AND oid > 5 ORDER BY 1").await? {
        answer.append(row.into_iter().next().unwrap_or_default());
    }
    answer.build().map_err(written)
}

async fn schemas(caller: &Arc<Caller>, query: CommandGetDbSchemas) -> Result<RecordBatch> {
    let mut answer = query.into_builder();
    let database = &caller.session().login().database;
    for row in
        texts(caller.session(), "SELECT nspname::text FROM pg_catalog.pg_namespace ORDER BY 1")
            .await?
    {
        answer.append(database, row.into_iter().next().unwrap_or_default());
    }
    answer.build().map_err(written)
}

async fn tables(caller: &Arc<Caller>, query: CommandGetTables) -> Result<RecordBatch> {
    let session = caller.session();
    let database = &session.login().database;
    let wanted = |kind: &str| {
        query.table_types.is_empty() || query.table_types.iter().any(|wanted| wanted == kind)
    };
    let listed = "SELECT table_schema::text, table_name::text, table_type::text FROM information_schema.tables ORDER BY 1, 2";
    let with_schema = query.include_schema;
    let rows = texts(session, listed).await?;
    let rows: Vec<(String, String, &str)> = rows
        .into_iter()
        .filter_map(|row| {
            let [schema, name, kind] = <[String; 3]>::try_from(row).ok()?;
            let kind = match kind.as_str() {
                _ if SYSTEM_SCHEMAS.contains(&schema.as_str()) => SYSTEM_TABLE,
                "VIEW" => VIEW,
                _ => TABLE,
            };
            wanted(kind).then_some((schema, name, kind))
        })
        .collect();
    let mut answer = query.into_builder();
    for (schema, name, kind) in rows {
        let columns = match with_schema {
            false => Arc::new(Schema::empty()),
            true => columns(session, &schema, &name).await?,
        };
        answer.append(database, &schema, &name, kind, &columns).map_err(written)?;
    }
    answer.build().map_err(written)
}

/// The columns of a table.
///
/// # Errors
/// `UndefinedTable`.
pub(crate) async fn columns(session: &Arc<Session>, schema: &str, name: &str) -> Result<SchemaRef> {
    if !SYSTEM_SCHEMAS.contains(&schema)
        && let Ok(chronicle) = session.table(Some(schema), name)
    {
        return Ok(columns_of(&chronicle));
    }
    let sql = format!("SELECT * FROM {}.{}", quoted(schema), quoted(name));
    Ok(shape(&*prepare(session, &sql, &[]).await?))
}

fn columns_of(chronicle: &ChronicleDefinition) -> SchemaRef {
    let place = [
        ("ARROW:FLIGHT:SQL:CATALOG_NAME", &chronicle.database),
        ("ARROW:FLIGHT:SQL:SCHEMA_NAME", &chronicle.schema),
        ("ARROW:FLIGHT:SQL:TABLE_NAME", &chronicle.name),
    ];
    let schema = chronicle.arrow_schema();
    let fields = chronicle.columns.iter().zip(schema.fields()).map(|(column, field)| {
        let field = plain_field(field);
        let mut metadata = field.metadata().clone();
        for (key, name) in place {
            metadata.insert(key.to_string(), name.clone());
        }
        if let Some(comment) = &column.comment {
            metadata.insert("ARROW:FLIGHT:SQL:REMARKS".to_string(), comment.clone());
        }
        field.with_metadata(metadata)
    });
    Arc::new(Schema::new(fields.collect::<Vec<Field>>()))
}

fn table_types(query: CommandGetTableTypes) -> Result<RecordBatch> {
    let mut answer = query.into_builder();
    for kind in [SYSTEM_TABLE, TABLE, VIEW] {
        answer.append(kind);
    }
    answer.build().map_err(written)
}

fn primary_keys(caller: &Arc<Caller>, query: &CommandGetPrimaryKeys) -> Result<RecordBatch> {
    let session = caller.session();
    let database = &session.login().database;
    let (mut catalogs, mut schemas, mut tables) =
        (StringBuilder::new(), StringBuilder::new(), StringBuilder::new());
    let (mut columns, mut keys, mut places) =
        (StringBuilder::new(), StringBuilder::new(), Int32Builder::new());
    let elsewhere = query.catalog.as_ref().is_some_and(|name| !name.is_empty() && name != database);
    let named = query.db_schema.as_deref().filter(|name| !name.is_empty());
    let found = match named {
        Some(schema) if SYSTEM_SCHEMAS.contains(&schema) => None,
        _ if elsewhere => None,
        _ => Some(session.table(named, &query.table)?),
    };
    if let Some(chronicle) = found.filter(|chronicle| chronicle.primary_key) {
        let key = chronicle.key_columns.iter().chain([&chronicle.tick_column]);
        for (place, id) in (1..).zip(key) {
            let Some(column) = chronicle.column(*id) else { continue };
            catalogs.append_value(&chronicle.database);
            schemas.append_value(&chronicle.schema);
            tables.append_value(&chronicle.name);
            columns.append_value(&column.name);
            keys.append_value(chronicle.key_name());
            places.append_value(place);
        }
    }
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(catalogs.finish()),
        Arc::new(schemas.finish()),
        Arc::new(tables.finish()),
        Arc::new(columns.finish()),
        Arc::new(places.finish()),
        Arc::new(keys.finish()),
    ];
    RecordBatch::try_new(primary_keys_schema(), arrays).map_err(Error::from)
}

fn primary_keys_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("catalog_name", DataType::Utf8, true),
        Field::new("db_schema_name", DataType::Utf8, true),
        Field::new("table_name", DataType::Utf8, false),
        Field::new("column_name", DataType::Utf8, false),
        Field::new("key_sequence", DataType::Int32, false),
        Field::new("key_name", DataType::Utf8, true),
    ]))
}

fn foreign_keys_schema() -> SchemaRef {
    let rule = UInt8Builder::new().finish().data_type().clone();
    Arc::new(Schema::new(vec![
        Field::new("pk_catalog_name", DataType::Utf8, true),
        Field::new("pk_db_schema_name", DataType::Utf8, true),
        Field::new("pk_table_name", DataType::Utf8, false),
        Field::new("pk_column_name", DataType::Utf8, false),
        Field::new("fk_catalog_name", DataType::Utf8, true),
        Field::new("fk_db_schema_name", DataType::Utf8, true),
        Field::new("fk_table_name", DataType::Utf8, false),
        Field::new("fk_column_name", DataType::Utf8, false),
        Field::new("key_sequence", DataType::Int32, false),
        Field::new("fk_key_name", DataType::Utf8, true),
        Field::new("pk_key_name", DataType::Utf8, true),
        Field::new("update_rule", rule.clone(), false),
        Field::new("delete_rule", rule, false),
    ]))
}

/// Runs a query whose columns are all texts, and returns its rows.
async fn texts(session: &Arc<Session>, sql: &str) -> Result<Vec<Vec<String>>> {
    let prepared = prepare(session, sql, &[]).await?;
    let Outcome::Rows(mut rows) = session.execute(&prepared, Vec::new()).await? else {
        return Err(Error::internal("a question about metadata has no rows"));
    };
    let schema = outgoing(rows.schema());
    let mut all = Vec::new();
    while let Some(batch) = rows.next().await {
        let batch = convert(&batch?, &schema)?;
        let columns: Vec<_> =
            batch.columns().iter().filter_map(|column| column.as_string_opt::<i32>()).collect();
        for row in 0..batch.num_rows() {
            all.push(columns.iter().map(|column| column.value(row).to_string()).collect());
        }
    }
    Ok(all)
}
