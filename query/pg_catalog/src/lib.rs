//! The catalogs that clients read: `pg_catalog`, `information_schema`, `stratalog`.
//!
//! *What it is*: system tables with rows from the catalog and the store at the time of the scan
//! ([`schemas`]); the functions that need a session or the catalog ([`register_functions`]); and
//! the translation of SQL from PostgreSQL's clients into SQL for DataFusion ([`rewrite`]).
//!
//! *What it deliberately is not*: the crate stores no state, changes no catalog and runs no
//! statement.
//!
//! *Data path*: statement → [`rewrite`] → DataFusion plans it over the tables of
//! [`schemas`] → a scan asks [`CatalogState`](stratalog_visor_core::CatalogState),
//! [`EventStore::status`](stratalog_model::EventStore::status), [`SessionsView`] and
//! [`SettingsView`] → Arrow batches.

mod acl;
mod catalog_type;
mod column_type;
mod context;
mod fill;
mod functions;
mod index;
mod oid;
mod procedure;
mod relation;
pub mod rewrite;
mod rows;
mod schema;
mod spec;
mod table;

pub use catalog_type::{cast_field, catalog_type, stands_for};
pub use column_type::{type_name, type_oid};
pub use context::{
    CatalogContext, CatalogView, CopyRow, CursorRow, CursorsView, PreparedRow, PreparedView,
    SessionRow, SessionsView, SettingRow, SettingsView,
};
pub use functions::register_functions;
pub use relation::table_of_regclass;
pub use rewrite::{is_table_function, rewrite};
pub use schema::{Schemas, schemas};
pub use table::system_table_oid;
