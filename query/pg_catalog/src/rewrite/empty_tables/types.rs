//! Determines the types of the result columns of a query that is rewritten to return no rows.

use datafusion::sql::sqlparser::{
    ast::{
        ArrayElemTypeDef, BinaryOperator, DataType, Expr, FunctionArg, FunctionArgExpr,
        FunctionArguments, Ident, Query, SelectItem, SetExpr, UnaryOperator, Value,
    },
    dialect::PostgreSqlDialect,
    parser::Parser,
};

use super::{super::expression::called, system_name, table_name};
use crate::{functions::known_type, spec::system_table};

/// The type of an expression that uses columns of the system tables `tables`; text if the type is
/// unknown.
pub(super) fn of(expr: &Expr, tables: &[(&str, &str)]) -> DataType {
    known_type_of(expr, tables).unwrap_or(DataType::Text)
}

/// Gives a column of a UNION branch the type `oid` if the column has a type such as `regclass`. The
/// other branches of the UNION contain plain oids.
pub(super) fn as_union_column(item: &mut SelectItem) {
    if let SelectItem::ExprWithAlias { expr: Expr::Cast { data_type, .. }, .. } = item
        && (*data_type == DataType::Regclass || data_type.to_string().contains("reg"))
        && let Some(oid) = type_named("oid")
    {
        *data_type = oid;
    }
}

/// The SQL type for the name of a PostgreSQL type; `None` if no cast to the type exists.
fn type_named(name: &str) -> Option<DataType> {
    let (element, array) = match name.strip_suffix("[]") {
        Some(element) => (element, "[]"),
        None => (name, ""),
    };
    let text = match element {
        "char" => format!("\"char\"{array}"),
        // Casts to these types do not exist.
        "inet" | "pg_lsn" | "anyarray" => return None,
        _ => name.to_string(),
    };
    Parser::new(&PostgreSqlDialect {}).try_with_sql(&text).ok()?.parse_data_type().ok()
}

fn known_type_of(expr: &Expr, tables: &[(&str, &str)]) -> Option<DataType> {
    match expr {
        Expr::Identifier(name) => column(name, tables),
        Expr::CompoundIdentifier(parts) => column(parts.last()?, tables),
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => known_type_of(inner, tables),
        Expr::Cast { data_type, .. } => Some(data_type.clone()),
        Expr::Value(value) => match &value.value {
            Value::Boolean(_) => Some(DataType::Boolean),
            Value::Number(digits, _) => digits.parse::<i32>().ok().map(|_| DataType::Integer(None)),
            _ => None,
        },
        Expr::BinaryOp { left, op, .. } => match op {
            BinaryOperator::Plus | BinaryOperator::Minus | BinaryOperator::Multiply => {
                known_type_of(left, tables)
            }
            BinaryOperator::StringConcat => None,
            _ => Some(DataType::Boolean),
        },
        Expr::UnaryOp { op: UnaryOperator::Not, .. }
        | Expr::Exists { .. }
        | Expr::IsNull(_)
        | Expr::IsNotNull(_)
        | Expr::IsTrue(_)
        | Expr::IsNotTrue(_)
        | Expr::IsFalse(_)
        | Expr::IsNotFalse(_)
        | Expr::Like { .. }
        | Expr::ILike { .. }
        | Expr::InList { .. }
        | Expr::InSubquery { .. }
        | Expr::AnyOp { .. }
        | Expr::AllOp { .. }
        | Expr::Between { .. } => Some(DataType::Boolean),
        Expr::Case { conditions, else_result, .. } => {
            let results = conditions.iter().map(|when| &when.result);
            results.chain(else_result.as_deref()).find_map(|result| known_type_of(result, tables))
        }
        Expr::Subquery(query) => of_query(query),
        Expr::Function(_) => of_function(expr, tables),
        _ => None,
    }
}

fn column(name: &Ident, tables: &[(&str, &str)]) -> Option<DataType> {
    match name.value.as_str() {
        "tableoid" => return type_named("oid"),
        "xmin" | "xmax" => return type_named("xid"),
        _ => {}
    }
    let columns = tables.iter().filter_map(|(schema, table)| system_table(schema, table));
    let mut columns = columns.flat_map(|table| &table.columns);
    let column = columns.find(|column| column.name == name.value)?;
    match column.pg_type {
        Some(pg_type) => type_named(pg_type),
        None => type_named(&column.column_type.to_string()),
    }
}

fn of_query(query: &Query) -> Option<DataType> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let factors = select.from.iter().flat_map(|from| {
        std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation))
    });
    let tables: Vec<_> = factors.filter_map(table_name).filter_map(system_name).collect();
    match select.projection.first()? {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
            known_type_of(expr, &tables)
        }
        _ => None,
    }
}

fn of_function(expr: &Expr, tables: &[(&str, &str)]) -> Option<DataType> {
    let name = called(expr)?;
    let Expr::Function(function) = expr else { return None };
    let FunctionArguments::List(list) = &function.args else { return None };
    let mut arguments = list.args.iter().filter_map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    });
    match name.as_str() {
        "count" => Some(DataType::BigInt(None)),
        "coalesce" | "greatest" | "least" => {
            arguments.find_map(|argument| known_type_of(argument, tables))
        }
        "min" | "max" | "nullif" | "first_value" => known_type_of(arguments.next()?, tables),
        "json_build_object" | "json_agg" | "row_to_json" | "to_json" => Some(DataType::JSON),
        "bool_and" | "bool_or" | "every" => Some(DataType::Boolean),
        "array_agg" => type_named(&format!("{}[]", of(arguments.next()?, tables))),
        "unnest" => match known_type_of(arguments.next()?, tables)? {
            DataType::Array(ArrayElemTypeDef::SquareBracket(element, _)) => Some(*element),
            _ => None,
        },
        name if name.starts_with("has_") || name.ends_with("_is_visible") => {
            Some(DataType::Boolean)
        }
        name => type_named(known_type(name)?.1),
    }
}
