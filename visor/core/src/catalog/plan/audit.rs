//! The audit log: the chronicle `stratalog.audit`.

use stratalog_model::{ChronicleDefinition, ColumnType, Result, Tiering};

use super::{Plan, combined};
use crate::{
    access::{AccessChange, Grant, Object, Predefined, Privilege, RoleId},
    catalog::{
        command::{NewChronicle, NewColumn, Outcome},
        create,
        name::{AUDIT_TABLE, DEFAULT_DATABASE, OWN_SCHEMA},
        record::Change,
        state::CatalogState,
    },
};

/// The oid of the schema `stratalog`, the same as in `pg_namespace`.
const OWN_SCHEMA_OID: u32 = 13_999;

/// The columns of the audit log behind `time`: name and type.
const COLUMNS: [(&str, ColumnType); 11] = [
    ("event", ColumnType::Text),
    ("role", ColumnType::Text),
    ("session_role", ColumnType::Text),
    ("database", ColumnType::Text),
    ("process_id", ColumnType::Integer),
    ("client_address", ColumnType::Text),
    ("application_name", ColumnType::Text),
    ("statement", ColumnType::Text),
    ("sqlstate", ColumnType::Text),
    ("detail", ColumnType::Text),
    ("token", ColumnType::Text),
];

/// Creates the audit log in the default database, or changes the retention time of the existing
/// log.
pub(super) fn prepare(
    state: &CatalogState,
    retention_ms: Option<u64>,
    now_ns: i64,
) -> Result<Plan> {
    let known = state.access().audit().and_then(|id| state.chronicle_by_id(id));
    if let Some(known) = known {
        return Ok(with_retention(known, retention_ms));
    }
    let column = |name: &str, column_type, nullable| NewColumn {
        name: name.to_string(),
        column_type,
        nullable,
        default_sql: None,
        missing_value: None,
    };
    let time = column("time", ColumnType::TimestampTz { precision: 9 }, false);
    let others = COLUMNS.map(|(name, column_type)| column(name, column_type, name != "event"));
    let new = NewChronicle {
        database: DEFAULT_DATABASE.to_string(),
        schema: OWN_SCHEMA.to_string(),
        name: AUDIT_TABLE.to_string(),
        columns: [time].into_iter().chain(others).collect(),
        primary_key: None,
        options: Vec::new(),
        if_not_exists: false,
    };
    let id = state.next_chronicle();
    let mut definition = create::define(&new, id, now_ns)?;
    definition.tiering.retention_ms = retention_ms;
    definition.validate()?;
    let database = state.database(DEFAULT_DATABASE).map_or(0, |database| database.oid);
    let grant = |privilege| Grant {
        grantee: Some(Predefined::AUDIT),
        privilege,
        column: None,
        grantable: false,
        grantor: RoleId::FOUNDER,
    };
    let schema = Object::Schema { database, schema: OWN_SCHEMA_OID };
    let changes = vec![
        Change::CreateSchema {
            oid: OWN_SCHEMA_OID,
            database: DEFAULT_DATABASE.to_string(),
            name: OWN_SCHEMA.to_string(),
        },
        Change::CreateChronicle(Box::new(definition)),
        Change::Access(AccessChange::SetAudit { chronicle: id }),
        Change::Access(AccessChange::SetGrants {
            object: schema,
            grants: vec![grant(Privilege::Usage)],
        }),
        Change::Access(AccessChange::SetGrants {
            object: Object::Chronicle(id),
            grants: vec![grant(Privilege::Select), grant(Privilege::Subscribe)],
        }),
    ];
    let outcome = Outcome { changed: true, ..Outcome::default() };
    Ok(Plan { change: combined(changes), outcome, shows: Some(id) })
}

fn with_retention(known: &ChronicleDefinition, retention_ms: Option<u64>) -> Plan {
    if known.tiering.retention_ms == retention_ms {
        return Plan { change: None, outcome: Outcome::default(), shows: Some(known.id) };
    }
    let change = Change::SetOptions {
        id: known.id,
        durability: None,
        late: None,
        tiering: Some(Tiering { retention_ms, ..known.tiering }),
        acceptance_window: None,
        granularity: None,
    };
    Plan::of(change).showing(known.id)
}
