//! CREATE INDEX and DROP INDEX.

use datafusion::sql::sqlparser::ast::{CreateIndex, Expr, IndexColumn, IndexType, ObjectName};
use stratalog_model::{Error, ErrorKind, IndexKind, Result};
use stratalog_postgres::names;
use stratalog_visor_core::{access::Privilege, catalog::Command};

use crate::{Notice, Session};

/// Plans CREATE INDEX. USING bloom or inverted creates an index. For PostgreSQL's own index
/// methods, the statement creates nothing and sends a notice: migrations and pandas send the
/// statement, and an index changes no result.
///
/// # Errors
/// `UndefinedTable`, `UndefinedColumn`, `InsufficientPrivilege`; `FeatureNotSupported` for UNIQUE, which would change the
/// stored data, and for clauses that Stratalog's indexes do not support.
pub fn create(session: &Session, tree: &CreateIndex) -> Result<Vec<Command>> {
    let refused = |what: &str| Err(Error::new(ErrorKind::FeatureNotSupported, what.to_string()));
    if tree.unique {
        return Err(Error::new(
            ErrorKind::FeatureNotSupported,
            "CREATE UNIQUE INDEX is not supported: keys are fixed at the creation of a table",
        )
        .with_hint("use PRIMARY KEY in CREATE TABLE"));
    }
    let chronicle = session.chronicle(&tree.table_name)?;
    let kind = match &tree.using {
        Some(IndexType::Bloom) => Some(IndexKind::Bloom),
        Some(IndexType::Custom(method)) => match names::fold(method).parse() {
            Ok(kind) => Some(kind),
            Err(()) => {
                let missing = format!("access method \"{}\" does not exist", names::fold(method));
                return Err(Error::new(ErrorKind::UndefinedObject, missing)
                    .with_hint("use bloom, or inverted for words of texts"));
            }
        },
        _ => None,
    };
    let Some(kind) = kind else {
        // The catalog, which checks the owner otherwise, does not see this statement.
        session.authorize_on(Privilege::Ownership, chronicle.id)?;
        for column in &tree.columns {
            if let Expr::Identifier(name) = &column.column.expr
                && chronicle.column_named(&names::fold(name)).is_none()
            {
                let message = format!("column \"{}\" does not exist", names::fold(name));
                return Err(Error::new(ErrorKind::UndefinedColumn, message));
            }
        }
        session.say(Notice {
            hint: Some(
                "the PRIMARY KEY of the table finds time and key columns; USING bloom or inverted makes an index for other columns"
                    .to_string(),
            ),
            ..Notice::new(format!(
                "no index is made: every block of \"{}\" contains the range of values of each column",
                chronicle.name
            ))
        });
        return Ok(Vec::new());
    };
    if tree.predicate.is_some() {
        return refused("an index of a part of the rows (WHERE) is not supported");
    }
    if !tree.include.is_empty() {
        return refused("INCLUDE is not supported: an index of this method contains no columns");
    }
    if !tree.with.is_empty() || !tree.index_options.is_empty() {
        return refused("options of an index are not supported");
    }
    if tree.nulls_distinct.is_some() {
        return refused("NULLS DISTINCT needs a unique index; unique indexes are not supported");
    }
    let plain = |column: &IndexColumn| {
        let options = &column.column.options;
        column.operator_class.is_none() && options.asc.is_none() && options.nulls_first.is_none()
    };
    if !tree.columns.iter().all(plain) {
        return refused("columns of an index of this method have no order and no operator class");
    }
    let columns = tree.columns.iter().map(|column| match &column.column.expr {
        Expr::Identifier(name) => Ok(names::fold(name)),
        other => Err(Error::new(
            ErrorKind::FeatureNotSupported,
            format!("an index of an expression, {other}, is not supported: name a column"),
        )),
    });
    let name = tree.name.as_ref().map(names::single).transpose()?;
    Ok(vec![Command::CreateIndex {
        id: chronicle.id,
        name,
        kind,
        columns: columns.collect::<Result<_>>()?,
        if_not_exists: tree.if_not_exists,
    }])
}

/// Plans DROP INDEX. A name without a schema is looked up on the search path.
///
/// # Errors
/// `UndefinedObject`, without IF EXISTS.
pub fn drop(session: &Session, if_exists: bool, objects: &[ObjectName]) -> Result<Vec<Command>> {
    let database = session.database().to_string();
    let mut commands = Vec::with_capacity(objects.len());
    for object in objects {
        let (schema, name) = names::table(object, &database)?;
        let schema = match schema {
            Some(schema) => schema,
            None => {
                let state = session.catalog();
                let path = session.variables().parsed().search_path;
                let found = path.iter().find(|schema| {
                    state.index(&database, schema, &name).is_some()
                        || state.keyed_by(&database, schema, &name).is_some()
                });
                let first = || session.creation_schema().unwrap_or_else(|_| "public".to_string());
                found.cloned().unwrap_or_else(first)
            }
        };
        let command = Command::DropIndex { database: database.clone(), schema, name, if_exists };
        if !commands.contains(&command) {
            commands.push(command);
        }
    }
    Ok(commands)
}
