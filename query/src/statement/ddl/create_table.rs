//! CREATE TABLE and CREATE CHRONICLE.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    ColumnDef, ColumnOption, CreateTable, CreateTableOptions, Expr, HiveFormat, IndexColumn,
    SqlOption, TableConstraint, UnaryOperator, Value,
    helpers::stmt_create_table::CreateTableBuilder,
};
use stratalog_model::{ColumnType, Error, ErrorKind, Result};
use stratalog_postgres::{names, parse, types::column_type, walk};
use stratalog_text::{TextStyle, write_value};
use stratalog_visor_core::catalog::{NewChronicle, NewColumn};

use crate::{
    Session,
    statement::insert::{self, cells::Cell, compute::ComputeContext},
};

/// Converts a CREATE TABLE to the command for the catalog.
///
/// # Errors
/// `FeatureNotSupported` for unsupported clauses; an error in another clause.
pub async fn command(session: &Session, tree: &CreateTable) -> Result<NewChronicle> {
    refuse(tree)?;
    let (schema, name) = names::table(&tree.name, session.connected_to())?;
    let schema = match schema {
        Some(schema) => schema,
        None => session.creation_schema()?,
    };
    let mut columns = Vec::with_capacity(tree.columns.len());
    let mut primary_key: Option<Vec<String>> = None;
    for definition in &tree.columns {
        let (column, is_key) = column(session, definition).await?;
        if is_key {
            set_key(&mut primary_key, vec![column.name.clone()], &name)?;
        }
        columns.push(column);
    }
    for constraint in &tree.constraints {
        match constraint {
            TableConstraint::PrimaryKey(key) => {
                let key = key.columns.iter().map(key_column).collect::<Result<Vec<_>>>()?;
                set_key(&mut primary_key, key, &name)?;
            }
            other => return Err(constraint_error(other)),
        }
    }
    let options = match &tree.table_options {
        CreateTableOptions::None => Vec::new(),
        CreateTableOptions::With(options) => self::options(options)?,
        _ => return Err(Error::new(ErrorKind::SyntaxError, "table options are written WITH (…)")),
    };
    Ok(NewChronicle {
        database: session.database().to_string(),
        schema,
        name,
        columns,
        primary_key,
        options,
        if_not_exists: tree.if_not_exists,
    })
}

fn refuse(tree: &CreateTable) -> Result<()> {
    if tree.query.is_some() {
        return Err(Error::not_yet("CREATE TABLE AS"));
    }
    if tree.temporary || tree.global.is_some() {
        return Err(Error::not_yet("a temporary table"));
    }
    if tree.like.is_some() {
        return Err(Error::not_yet("CREATE TABLE … LIKE"));
    }
    if tree.inherits.is_some() || tree.partition_of.is_some() || tree.partition_by.is_some() {
        return Err(Error::new(
            ErrorKind::FeatureNotSupported,
            "inheritance and partitions are not supported: the server divides a table by time automatically",
        ));
    }
    if tree.external || tree.location.is_some() || tree.file_format.is_some() {
        return Err(Error::new(
            ErrorKind::FeatureNotSupported,
            "external tables are not supported",
        )
        .with_hint("stratalog import reads files into a table"));
    }
    // Every further clause that the parser knows belongs to another system.
    let known = CreateTableBuilder::new(tree.name.clone())
        .if_not_exists(tree.if_not_exists)
        .columns(tree.columns.clone())
        .constraints(tree.constraints.clone())
        .table_options(tree.table_options.clone())
        .hive_formats(tree.hive_formats.clone().filter(|format| *format == HiveFormat::default()))
        .build();
    if *tree != known {
        return Err(Error::new(
            ErrorKind::SyntaxError,
            "this form of CREATE TABLE does not exist in PostgreSQL",
        ));
    }
    Ok(())
}

fn no_constraint(what: &str, hint: Option<&str>) -> Error {
    let error =
        Error::new(ErrorKind::FeatureNotSupported, format!("{what} constraints are not supported"));
    match hint {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}

/// The error for a constraint other than PRIMARY KEY.
pub fn constraint_error(constraint: &TableConstraint) -> Error {
    match constraint {
        TableConstraint::Unique(_) => no_constraint("UNIQUE", Some("use PRIMARY KEY")),
        TableConstraint::ForeignKey(_) => no_constraint("FOREIGN KEY", None),
        TableConstraint::Check(_) => no_constraint("CHECK", None),
        TableConstraint::PrimaryKeyUsingIndex(_) => no_constraint("PRIMARY KEY USING INDEX", None),
        TableConstraint::UniqueUsingIndex(_) => no_constraint("UNIQUE USING INDEX", None),
        other => no_constraint(&other.to_string(), None),
    }
}

fn set_key(key: &mut Option<Vec<String>>, columns: Vec<String>, table: &str) -> Result<()> {
    if key.is_some() {
        return Err(Error::new(
            ErrorKind::InvalidTableDefinition,
            format!("multiple primary keys for table \"{table}\" are not allowed"),
        ));
    }
    *key = Some(columns);
    Ok(())
}

/// The name of the column in one element of a key.
///
/// # Errors
/// `SyntaxError` for an expression.
pub fn key_column(column: &IndexColumn) -> Result<String> {
    match &column.column.expr {
        Expr::Identifier(ident) => Ok(names::fold(ident)),
        other => Err(Error::new(
            ErrorKind::SyntaxError,
            format!("a primary key names columns, not {other}"),
        )),
    }
}

/// Converts a column definition; the second result is true if the definition contains PRIMARY KEY.
async fn column(session: &Session, definition: &ColumnDef) -> Result<(NewColumn, bool)> {
    let column_type = column_type(&definition.data_type)?;
    let mut nullable = None;
    let mut is_key = false;
    let mut default_sql = None;
    for option in &definition.options {
        match &option.option {
            ColumnOption::Null => nullable = Some(nullable.unwrap_or(true)),
            ColumnOption::NotNull => {
                if nullable == Some(true) {
                    return Err(Error::new(
                        ErrorKind::SyntaxError,
                        format!(
                            "conflicting NULL/NOT NULL declarations for column \"{}\"",
                            definition.name
                        ),
                    ));
                }
                nullable = Some(false);
            }
            ColumnOption::PrimaryKey(_) => is_key = true,
            ColumnOption::Default(expr) => {
                default_sql = default(session, expr, &column_type, &definition.name.value).await?;
            }
            ColumnOption::Unique(_) => {
                return Err(no_constraint("UNIQUE", Some("use PRIMARY KEY")));
            }
            ColumnOption::ForeignKey(_) => return Err(no_constraint("FOREIGN KEY", None)),
            ColumnOption::Check(_) => return Err(no_constraint("CHECK", None)),
            ColumnOption::Generated { .. } | ColumnOption::Identity(_) => {
                return Err(Error::not_yet("a generated column"));
            }
            ColumnOption::Collation(name) if is_default_collation(&name.to_string()) => {}
            ColumnOption::Collation(name) => {
                return Err(Error::new(
                    ErrorKind::FeatureNotSupported,
                    format!("collation {name} is not supported: text is ordered by its bytes"),
                ));
            }
            other => {
                return Err(Error::new(
                    ErrorKind::FeatureNotSupported,
                    format!("column option {other} is not supported"),
                ));
            }
        }
    }
    Ok((
        NewColumn {
            name: names::fold(&definition.name),
            column_type,
            nullable: nullable.unwrap_or(true),
            default_sql,
            missing_value: None,
        },
        is_key,
    ))
}

fn is_default_collation(name: &str) -> bool {
    let bare = name.trim_start_matches("pg_catalog.").trim_matches('"');
    matches!(bare, "default" | "C" | "POSIX" | "ucs_basic")
}

/// Converts the column definition of ADD COLUMN; the second result is true if the column joins the
/// key. Existing rows show the column's default, and the default must therefore be a constant.
///
/// # Errors
/// `FeatureNotSupported` for a default that is no constant.
pub async fn added_column(session: &Session, definition: &ColumnDef) -> Result<(NewColumn, bool)> {
    let (mut column, is_key) = column(session, definition).await?;
    if is_key {
        column.nullable = false;
        if column.default_sql.is_none() && column.column_type == ColumnType::Text {
            column.default_sql = Some("''".to_string());
        }
    }
    if let Some(sql) = &column.default_sql {
        let expr = parse::expression(sql)?;
        let cell = Cell::of(&expr, Some(&column.column_type), &mut Vec::new())?;
        if !matches!(cell, Cell::Text(_) | Cell::Number(_) | Cell::Boolean(_)) {
            return Err(Error::not_yet("ADD COLUMN with a DEFAULT that is not a constant")
                .with_hint("older rows show the default: the default must be one value"));
        }
        let computing = ComputeContext::constants(session);
        let array = insert::values::one_value(
            &computing,
            cell,
            &column.column_type,
            &column.name,
            insert::DEFAULT_EXPRESSIONS,
        )
        .await?;
        let field = column.column_type.arrow_field(&column.name, true);
        column.missing_value = write_value(&array, 0, &field, &TextStyle::default())?;
    }
    Ok((column, is_key))
}

/// The SQL text of a DEFAULT, checked by one evaluation; `None` for DEFAULT NULL.
async fn default(
    session: &Session,
    expr: &Expr,
    column_type: &ColumnType,
    name: &str,
) -> Result<Option<String>> {
    let cell = Cell::of(expr, Some(column_type), &mut Vec::new())?;
    match &cell {
        Cell::Null => return Ok(None),
        Cell::Default | Cell::Parameter(_) => {
            return Err(Error::new(ErrorKind::SyntaxError, "a DEFAULT must be an expression"));
        }
        Cell::Expression(inner) if has_subquery(inner) => {
            return Err(Error::new(
                ErrorKind::FeatureNotSupported,
                "cannot use subquery in DEFAULT expression",
            ));
        }
        _ => {}
    }
    let computing = ComputeContext::constants(session);
    insert::values::one_value(&computing, cell, column_type, name, insert::DEFAULT_EXPRESSIONS)
        .await?;
    Ok(Some(expr.to_string()))
}

fn has_subquery(expr: &Expr) -> bool {
    let found = walk::expressions(expr, |inner| match inner {
        Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// Converts WITH (…) options to names and texts, in order.
///
/// # Errors
/// `SyntaxError` for an entry that is no option.
pub fn options(options: &[SqlOption]) -> Result<Vec<(String, String)>> {
    options
        .iter()
        .map(|option| match option {
            SqlOption::KeyValue { key, value } => Ok((names::fold(key), option_text(value)?)),
            SqlOption::Ident(name) => Ok((names::fold(name), "true".to_string())),
            other => {
                Err(Error::new(ErrorKind::SyntaxError, format!("\"{other}\" is not an option")))
            }
        })
        .collect()
}

fn option_text(value: &Expr) -> Result<String> {
    match value {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text)
            | Value::DoubleQuotedString(text)
            | Value::EscapedStringLiteral(text) => Ok(text.clone()),
            Value::Number(number, _) => Ok(number.clone()),
            Value::Boolean(value) => Ok(value.to_string()),
            other => Err(bad_option(&other.to_string())),
        },
        Expr::Identifier(ident) => Ok(ident.value.clone()),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => Ok(format!("-{}", option_text(expr)?)),
        other => Err(bad_option(&other.to_string())),
    }
}

fn bad_option(value: &str) -> Error {
    Error::new(ErrorKind::SyntaxError, format!("the value of an option is a constant, not {value}"))
}
