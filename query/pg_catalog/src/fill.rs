//! Selects the function that computes the rows of each system table.
//!
//! A table that is neither in [`FIXED`] nor in [`LIVE`] is always empty, because the database has
//! no such objects: no triggers, publications, enums or foreign servers.

use std::{collections::HashMap, sync::LazyLock};

use arrow::array::RecordBatch;
use stratalog_model::Result;

use crate::{
    CatalogContext,
    rows::Rows,
    spec::{SYSTEM_TABLES, Table},
};

mod acquisitions;
mod attribute;
mod class;
mod clock;
mod depend;
mod functions;
mod information;
mod own;
mod roles;
mod running;
mod server;
mod storage;
mod tiers;
mod tokens;
mod types;
mod zones;

pub(crate) use running::address_and_port;

type FixedFill = fn(&mut Rows<'_>) -> Result<()>;
type LiveFill = fn(&CatalogContext, &mut Rows<'_>) -> Result<()>;

/// The tables whose rows never change, each with the function that computes the rows. Ordered by
/// schema and table.
const FIXED: &[(&str, &str, FixedFill)] = &[
    ("information_schema", "sql_features", information::sql_features),
    ("pg_catalog", "pg_am", server::access_methods),
    ("pg_catalog", "pg_attribute", attribute::of_system_tables),
    ("pg_catalog", "pg_cast", functions::casts),
    ("pg_catalog", "pg_class", class::of_system_tables),
    ("pg_catalog", "pg_collation", types::collations),
    ("pg_catalog", "pg_language", server::languages),
    ("pg_catalog", "pg_opclass", functions::operator_classes),
    ("pg_catalog", "pg_operator", functions::operators),
    ("pg_catalog", "pg_opfamily", functions::operator_families),
    ("pg_catalog", "pg_proc", functions::procedures),
    ("pg_catalog", "pg_tablespace", server::tablespaces),
    ("pg_catalog", "pg_type", types::types),
    ("stratalog", "keywords", own::keywords),
];

/// The tables whose rows depend on the state of the database or session, each with the function
/// that computes the rows.
const LIVE: &[(&str, &str, LiveFill)] = &[
    ("information_schema", "administrable_role_authorizations", roles::administrable_roles),
    ("information_schema", "applicable_roles", roles::applicable_roles),
    ("information_schema", "character_sets", information::character_sets),
    ("information_schema", "column_privileges", roles::column_privileges),
    ("information_schema", "columns", information::columns),
    ("information_schema", "constraint_column_usage", information::constraint_columns),
    ("information_schema", "constraint_table_usage", information::constraint_tables),
    ("information_schema", "enabled_roles", roles::enabled_roles),
    ("information_schema", "information_schema_catalog_name", information::catalog_name),
    ("information_schema", "key_column_usage", information::key_columns),
    ("information_schema", "role_column_grants", roles::role_column_grants),
    ("information_schema", "role_table_grants", roles::role_table_grants),
    ("information_schema", "schemata", information::schemata),
    ("information_schema", "table_constraints", information::table_constraints),
    ("information_schema", "table_privileges", roles::table_privileges),
    ("information_schema", "tables", information::tables),
    ("pg_catalog", "pg_attrdef", attribute::defaults),
    ("pg_catalog", "pg_attribute", attribute::of_tables),
    ("pg_catalog", "pg_auth_members", roles::members),
    ("pg_catalog", "pg_authid", roles::authids),
    ("pg_catalog", "pg_class", class::of_tables),
    ("pg_catalog", "pg_constraint", class::constraints),
    ("pg_catalog", "pg_cursors", running::cursors),
    ("pg_catalog", "pg_database", server::databases),
    ("pg_catalog", "pg_db_role_setting", roles::role_settings),
    ("pg_catalog", "pg_default_acl", roles::default_lists),
    ("pg_catalog", "pg_depend", depend::of_tables),
    ("pg_catalog", "pg_description", class::comments),
    ("pg_catalog", "pg_extension", depend::extensions),
    ("pg_catalog", "pg_group", roles::groups),
    ("pg_catalog", "pg_index", class::indexes),
    ("pg_catalog", "pg_indexes", class::index_view),
    ("pg_catalog", "pg_namespace", class::namespaces),
    ("pg_catalog", "pg_policies", roles::policy_view),
    ("pg_catalog", "pg_policy", roles::policies),
    ("pg_catalog", "pg_prepared_statements", running::prepared_statements),
    ("pg_catalog", "pg_roles", roles::roles),
    ("pg_catalog", "pg_settings", server::settings),
    ("pg_catalog", "pg_shadow", roles::shadows),
    ("pg_catalog", "pg_shdescription", roles::role_comments),
    ("pg_catalog", "pg_stat_activity", running::activity),
    ("pg_catalog", "pg_stat_all_tables", class::table_numbers),
    ("pg_catalog", "pg_stat_database", server::database_numbers),
    ("pg_catalog", "pg_stat_gssapi", server::encryption),
    ("pg_catalog", "pg_stat_ssl", server::encryption),
    ("pg_catalog", "pg_stat_progress_copy", running::copies),
    ("pg_catalog", "pg_stat_user_tables", class::table_numbers),
    ("pg_catalog", "pg_statio_all_tables", class::table_reads),
    ("pg_catalog", "pg_statio_user_tables", class::table_reads),
    ("pg_catalog", "pg_stat_database_conflicts", server::conflicts),
    ("pg_catalog", "pg_tables", class::table_view),
    ("pg_catalog", "pg_timezone_abbrevs", zones::abbreviations),
    ("pg_catalog", "pg_timezone_names", zones::names),
    ("pg_catalog", "pg_type", types::of_tables),
    ("pg_catalog", "pg_user", roles::users),
    ("stratalog", "acquisitions", acquisitions::acquisitions),
    ("stratalog", "chronicles", own::chronicles),
    ("stratalog", "clock", clock::clock),
    ("stratalog", "journal", own::journal),
    ("stratalog", "moves", tiers::moves),
    ("stratalog", "pieces", tiers::pieces),
    ("stratalog", "producers", own::producers),
    ("stratalog", "promises", own::promises),
    ("stratalog", "sessions", own::sessions),
    ("stratalog", "settings", own::settings),
    ("stratalog", "storage", storage::storage),
    ("stratalog", "store", own::store),
    ("stratalog", "tails", tiers::tails),
    ("stratalog", "tokens", tokens::tokens),
    ("stratalog", "watermarks", tiers::watermarks),
];

static FIXED_BATCHES: LazyLock<HashMap<i64, RecordBatch>> = LazyLock::new(|| {
    FIXED
        .iter()
        .filter_map(|(schema, name, fill)| {
            let table = crate::spec::system_table(schema, name)?;
            let mut rows = Rows::new(table);
            fill(&mut rows).ok()?;
            Some((table.oid, rows.finish().ok()?))
        })
        .collect()
});

/// The rows of a table whose rows never change; `None` for any other table.
pub(crate) fn fixed(table: &Table) -> Option<&'static RecordBatch> {
    FIXED_BATCHES.get(&table.oid)
}

/// Adds the rows of a table whose rows depend on the state of the database or session. Any other
/// table gets no rows.
///
/// # Errors
/// `Internal` if the rows do not fit the columns of the table.
pub(crate) fn live(table: &Table, context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    match LIVE.iter().find(|(schema, name, _)| *schema == table.schema && *name == table.name) {
        Some((_, _, fill)) => fill(context, rows),
        None => Ok(()),
    }
}

/// True if the table is a system table that is always empty. Queries over this table need no plan.
pub(crate) fn is_always_empty(schema: &str, name: &str) -> bool {
    let known = SYSTEM_TABLES.iter().any(|table| table.schema == schema && table.name == name);
    known
        && !FIXED.iter().any(|(in_schema, table, _)| *in_schema == schema && *table == name)
        && !LIVE.iter().any(|(in_schema, table, _)| *in_schema == schema && *table == name)
}

#[cfg(test)]
mod tests;
