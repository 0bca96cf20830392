//! Names: identifiers folded to lower case like in PostgreSQL, and the names of result columns.

use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, DataType, Expr, Ident, ObjectName, ObjectNamePart, Query,
    SelectItem, SetExpr, TrimWhereField,
};
use stratalog_model::{Error, ErrorKind, Result};

mod cast_functions;
mod computed_names;
pub mod ctes;
pub mod replays;
mod resolver;
pub mod row_counts;
pub mod schemas;
pub mod wildcards;

pub use cast_functions::{CLOCK_FUNCTIONS, type_of_function};
pub use resolver::NameResolver;

/// The name of an identifier: folded to lower case unless quoted.
pub fn fold(ident: &Ident) -> String {
    match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_lowercase(),
    }
}

/// The name in double quotes, so that SQL reads exactly this name, with any characters.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The parts of a dotted name.
///
/// # Errors
/// `SyntaxError` for a part other than an identifier.
pub fn parts(name: &ObjectName) -> Result<Vec<String>> {
    name.0
        .iter()
        .map(|part| match part {
            ObjectNamePart::Identifier(ident) => Ok(fold(ident)),
            ObjectNamePart::Function(_) => {
                Err(Error::new(ErrorKind::SyntaxError, format!("\"{name}\" is not a name")))
            }
        })
        .collect()
}

/// The schema, if given, and the name of a table of the session's database.
///
/// # Errors
/// `FeatureNotSupported` for a name in another database, `SyntaxError` for too many parts.
pub fn table(name: &ObjectName, database: &str) -> Result<(Option<String>, String)> {
    let parts = parts(name)?;
    match parts.as_slice() {
        [table] => Ok((None, table.clone())),
        [schema, table] => Ok((Some(schema.clone()), table.clone())),
        [named, schema, table] if named == database => Ok((Some(schema.clone()), table.clone())),
        [_, _, _] => Err(Error::new(
            ErrorKind::FeatureNotSupported,
            format!("cross-database references are not supported: {name}"),
        )),
        _ => Err(Error::new(
            ErrorKind::SyntaxError,
            format!("improper qualified name (too many dotted names): {name}"),
        )),
    }
}

/// The name, if it has no schema.
///
/// # Errors
/// `SyntaxError` for a name with several parts.
pub fn single(name: &ObjectName) -> Result<String> {
    match parts(name)?.as_slice() {
        [one] => Ok(one.clone()),
        _ => Err(Error::new(ErrorKind::SyntaxError, format!("\"{name}\" must not be qualified"))),
    }
}

/// PostgreSQL's names for the columns of a query result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputNames {
    before: Vec<String>,
    wildcard: bool,
    after: Vec<String>,
}

impl OutputNames {
    /// The names for a result of `columns` columns; `None` means that the planner's name stays.
    pub fn resolve(&self, columns: usize) -> Vec<Option<String>> {
        let fixed = self.before.len() + self.after.len();
        if columns < fixed || (!self.wildcard && columns != fixed) {
            return vec![None; columns];
        }
        let open = std::iter::repeat_n(None, columns - fixed);
        self.before
            .iter()
            .cloned()
            .map(Some)
            .chain(open)
            .chain(self.after.iter().cloned().map(Some))
            .collect()
    }
}

/// Determines the names of a query's result columns. Also makes duplicate names in the select list
/// distinct: PostgreSQL allows duplicate names, but the planner refuses them.
pub fn name_output(query: &mut Query) -> OutputNames {
    computed_names::make_reachable(query);
    computed_names::hide_shadowing(query);
    let mut names = OutputNames { before: Vec::new(), wildcard: false, after: Vec::new() };
    name_body(&mut query.body, &mut names);
    names
}

fn name_body(body: &mut SetExpr, names: &mut OutputNames) {
    match body {
        SetExpr::Select(select) => {
            let wildcards = select.projection.iter().filter(|item| is_wildcard(item)).count();
            if wildcards > 1 {
                names.wildcard = true;
                return;
            }
            let distinct = select.distinct.is_some();
            let mut seen: Vec<String> = Vec::new();
            for item in &mut select.projection {
                if is_wildcard(item) {
                    names.wildcard = true;
                    continue;
                }
                let name = name_of_item(item);
                let repeated = seen.contains(&name) || (wildcards > 0 && is_column(item));
                if repeated || !distinct && is_computed(item) {
                    alias(item, &format!("{name}\u{1}{}", seen.len()));
                }
                seen.push(name.clone());
                if names.wildcard { names.after.push(name) } else { names.before.push(name) }
            }
        }
        SetExpr::Query(query) => name_body(&mut query.body, names),
        SetExpr::SetOperation { left, right, .. } => {
            // The first branch names the columns of a set operation; the names of the other
            // branches must only be distinct.
            name_body(left, names);
            let mut ignored =
                OutputNames { before: Vec::new(), wildcard: false, after: Vec::new() };
            name_body(right, &mut ignored);
        }
        // VALUES has the columns column1, column2 …; other bodies keep the planner's names.
        _ => names.wildcard = true,
    }
}

/// True for `*` or `t.*`.
pub fn is_wildcard(item: &SelectItem) -> bool {
    matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(_, _))
}

fn is_column(item: &SelectItem) -> bool {
    matches!(item, SelectItem::UnnamedExpr(Expr::Identifier(_) | Expr::CompoundIdentifier(_)))
}

/// True if the planner would name an item of a select list after the text of its expression. Two
/// items may have the same text for the planner: `NULL, NULL::int`.
fn is_computed(item: &SelectItem) -> bool {
    match item {
        // A later rewrite turns these calls into casts, which the planner names after the inner
        // expression.
        SelectItem::UnnamedExpr(Expr::Function(function)) => match function.name.0.last() {
            Some(ObjectNamePart::Identifier(ident)) => {
                let name = fold(ident);
                type_of_function(&name).is_some() || CLOCK_FUNCTIONS.contains(&name.as_str())
            }
            _ => false,
        },
        SelectItem::UnnamedExpr(expr) => {
            !matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
        }
        _ => false,
    }
}

fn alias(item: &mut SelectItem, name: &str) {
    let expr = match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => expr.clone(),
        _ => return,
    };
    *item = SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', name) };
}

/// PostgreSQL's name for the column of a select-list item.
pub fn name_of_item(item: &SelectItem) -> String {
    match item {
        // The suffix after \u{1}, which makes duplicate names distinct, is not part of the name for
        // clients.
        SelectItem::ExprWithAlias { alias, .. } => {
            fold(alias).split('\u{1}').next().unwrap_or_default().to_string()
        }
        SelectItem::UnnamedExpr(expr) => name_of(expr).unwrap_or_else(|| "?column?".to_string()),
        _ => "?column?".to_string(),
    }
}

/// PostgreSQL's name for the column of an expression without an alias.
fn name_of(expr: &Expr) -> Option<String> {
    named(expr).map(|(name, _)| name)
}

/// The origin of a column name. A cast keeps the name of an operand, but not a name that comes from
/// a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NameSource {
    Operand,
    Type,
}

/// PostgreSQL's name for the column of an expression, and the origin of this name.
fn named(expr: &Expr) -> Option<(String, NameSource)> {
    let name = match expr {
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => return named(inner),
        Expr::Cast { expr, data_type, .. } => {
            let of_type = || (type_name(data_type), NameSource::Type);
            return Some(of_operand(expr).unwrap_or_else(of_type));
        }
        Expr::Case { else_result, .. } => {
            let otherwise = else_result.as_deref().and_then(of_operand);
            return Some(otherwise.unwrap_or_else(|| ("case".to_string(), NameSource::Type)));
        }
        Expr::TypedString(typed) => return Some((type_name(&typed.data_type), NameSource::Type)),
        Expr::Interval(_) => return Some(("interval".to_string(), NameSource::Type)),
        Expr::Identifier(ident) => fold(ident),
        Expr::CompoundIdentifier(idents) => fold(idents.last()?),
        Expr::Function(function) => match function.name.0.last()? {
            ObjectNamePart::Identifier(ident) => fold(ident),
            ObjectNamePart::Function(_) => return None,
        },
        Expr::Subquery(query) => subquery_name(&query.body),
        Expr::CompoundFieldAccess { root, access_chain } => {
            let field = access_chain.iter().rev().find_map(|access| match access {
                AccessExpr::Dot(Expr::Identifier(ident)) => Some(fold(ident)),
                _ => None,
            });
            match field {
                Some(field) => field,
                None => return named(root),
            }
        }
        Expr::Trim { trim_where, .. } => match trim_where {
            Some(TrimWhereField::Leading) => "ltrim".to_string(),
            Some(TrimWhereField::Trailing) => "rtrim".to_string(),
            Some(TrimWhereField::Both) | None => "btrim".to_string(),
        },
        other => form_name(other)?.to_string(),
    };
    Some((name, NameSource::Operand))
}

/// The name of an operand for its cast: the operand's name, unless it comes from a type.
fn of_operand(expr: &Expr) -> Option<(String, NameSource)> {
    named(expr).filter(|(_, source)| *source == NameSource::Operand)
}

/// The column name of an expression with special syntax, for example CASE; `None` for other
/// expressions.
fn form_name(expr: &Expr) -> Option<&'static str> {
    match expr {
        Expr::Extract { .. } => Some("extract"),
        Expr::Position { .. } => Some("position"),
        Expr::Substring { shorthand: true, .. } => Some("substr"),
        Expr::Substring { .. } => Some("substring"),
        Expr::Overlay { .. } => Some("overlay"),
        Expr::Ceil { .. } => Some("ceil"),
        Expr::Floor { .. } => Some("floor"),
        Expr::Exists { negated: false, .. } => Some("exists"),
        Expr::Array(_) => Some("array"),
        Expr::Tuple(_) => Some("row"),
        Expr::AtTimeZone { .. } => Some("timezone"),
        Expr::IsNormalized { negated: false, .. } => Some("is_normalized"),
        Expr::BinaryOp { op: BinaryOperator::Overlaps, .. } => Some("overlaps"),
        _ => None,
    }
}

/// The name of the first column of a query.
fn subquery_name(body: &SetExpr) -> String {
    match body {
        SetExpr::Select(select) => select.projection.first().map(name_of_item).unwrap_or_default(),
        SetExpr::SetOperation { left, .. } => subquery_name(left),
        SetExpr::Query(query) => subquery_name(&query.body),
        SetExpr::Values(_) => "column1".to_string(),
        _ => "?column?".to_string(),
    }
}

fn type_name(data_type: &DataType) -> String {
    let text = data_type.to_string().to_ascii_lowercase();
    let bare = text.split(['(', '[']).next().unwrap_or(&text).trim();
    let bare = bare.strip_prefix("pg_catalog.").unwrap_or(bare).trim_matches('"');
    let digits = || text.split(['(', ')']).nth(1)?.trim().parse::<u32>().ok();
    match bare {
        "int" | "integer" | "int4" => "int4",
        "bigint" | "int8" => "int8",
        "smallint" | "int2" => "int2",
        "float" if digits().is_some_and(|digits| digits < 25) => "float4",
        "double precision" | "double" | "float" | "float8" => "float8",
        "real" | "float4" => "float4",
        "boolean" | "bool" => "bool",
        "decimal" | "dec" => "numeric",
        "character varying" | "char varying" => "varchar",
        "character" | "char" => "bpchar",
        "timestamp" | "time" if text.contains(" with time zone") => {
            return format!("{bare}tz");
        }
        "timestamp with time zone" => "timestamptz",
        "timestamp without time zone" => "timestamp",
        "time with time zone" => "timetz",
        "time without time zone" => "time",
        interval if interval.starts_with("interval") => "interval",
        other => other,
    }
    .to_string()
}

#[cfg(test)]
mod tests;
