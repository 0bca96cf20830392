//! Rewrites catalog functions in a FROM clause: to a system table with the same rows, or to a query
//! without rows.

use datafusion::sql::sqlparser::{
    ast::{Ident, ObjectName, ObjectNamePart, TableFactor},
    dialect::PostgreSqlDialect,
    parser::Parser,
};

/// Functions, each with the schema and name of the table that has the same rows.
const TABLES: [(&str, &str, &str); 8] = [
    ("pg_available_extensions", "pg_catalog", "pg_available_extensions"),
    ("pg_cursor", "pg_catalog", "pg_cursors"),
    ("pg_get_keywords", "stratalog", "keywords"),
    ("pg_lock_status", "pg_catalog", "pg_locks"),
    ("pg_prepared_statement", "pg_catalog", "pg_prepared_statements"),
    ("pg_prepared_xact", "pg_catalog", "pg_prepared_xacts"),
    ("pg_show_all_settings", "pg_catalog", "pg_settings"),
    ("pg_timezone_names", "pg_catalog", "pg_timezone_names"),
];

/// The function that returns the privileges of an access list as rows.
const ACL_EXPLODE: &str = "aclexplode";

/// Functions that return no rows, because the database has no partitions or options. Each has the
/// names of its result columns.
const EMPTY: [(&str, &str); 3] = [
    ("pg_options_to_table", "NULL::text AS option_name, NULL::text AS option_value"),
    ("pg_partition_ancestors", "NULL::oid AS relid"),
    (
        "pg_partition_tree",
        "NULL::oid AS relid, NULL::oid AS parentrelid, NULL::boolean AS isleaf, NULL::integer AS level",
    ),
];

/// True if [`super::rewrite`] replaces the function with this lower-case name in FROM.
pub fn is_table_function(name: &str) -> bool {
    name == ACL_EXPLODE
        || TABLES.iter().any(|(known, ..)| *known == name)
        || EMPTY.iter().any(|(known, _)| *known == name)
}

/// Replaces a function in FROM by the table with the same rows, or by a query without rows.
pub(super) fn of_function(factor: &mut TableFactor) {
    let (name, alias, arguments) = match factor {
        TableFactor::Table { name, args: Some(args), alias, .. } => (name, alias, &args.args),
        TableFactor::Function { name, alias, args, .. } => (name, alias, &*args),
        _ => return,
    };
    let Some(function) = name.0.last().and_then(ObjectNamePart::as_ident) else { return };
    let function = function.value.to_ascii_lowercase();
    if function == ACL_EXPLODE {
        if let [argument] = arguments.as_slice()
            && let Some(mut derived) = factor_of(&exploded(&argument.to_string()))
        {
            let named = alias.take();
            if let (TableFactor::Derived { alias, .. }, Some(named)) = (&mut derived, named) {
                *alias = Some(named);
            }
            *factor = derived;
        }
        return;
    }
    if let Some((_, schema, table)) = TABLES.iter().find(|(known, ..)| *known == function) {
        let Some(table) = table_of(schema, table) else { return };
        let alias = alias.take();
        *factor = table;
        if let TableFactor::Table { alias: of_table, .. } = factor {
            *of_table = alias;
        }
    } else if let Some((_, columns)) = EMPTY.iter().find(|(known, _)| *known == function) {
        let called = alias.as_ref().map_or(function.clone(), |alias| alias.name.value.clone());
        let called = Ident::with_quote('"', called);
        let sql = format!("SELECT 1 FROM (SELECT {columns} WHERE false) AS {called}");
        let alias = alias.take();
        if let Some(derived) = factor_of(&sql) {
            *factor = derived;
            if let TableFactor::Derived { alias: of_derived, .. } = factor
                && alias.as_ref().is_some_and(|alias| !alias.columns.is_empty())
            {
                *of_derived = alias;
            }
        }
    }
}

/// A query that returns the privileges of an access list, for `aclexplode`.
fn exploded(list: &str) -> String {
    format!(
        "SELECT 1 FROM LATERAL (SELECT CAST(split_part(item, ',', 1) AS BIGINT) AS grantor, \
         CAST(split_part(item, ',', 2) AS BIGINT) AS grantee, \
         split_part(item, ',', 3) AS privilege_type, split_part(item, ',', 4) = 't' AS is_grantable \
         FROM unnest(acl_elements({list})) AS items(item)) AS aclexplode"
    )
}

fn table_of(schema: &str, table: &str) -> Option<TableFactor> {
    let name = ObjectName::from(vec![Ident::new(schema), Ident::new(table)]);
    factor_of(&format!("SELECT 1 FROM {name}"))
}

fn factor_of(sql: &str) -> Option<TableFactor> {
    use datafusion::sql::sqlparser::ast::SetExpr;
    let mut parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(sql).ok()?;
    match *parser.parse_query().ok()?.body {
        SetExpr::Select(select) => select.from.into_iter().next().map(|from| from.relation),
        _ => None,
    }
}
