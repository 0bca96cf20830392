//! Computes the rows of the tables and views of `information_schema`.

use stratalog_model::{ColumnType, Result};
use stratalog_visor_core::access::RoleId;

use crate::{
    CatalogContext,
    column_type::{base_type, type_name, type_oid},
    oid::SYSTEM_SCHEMAS,
    relation::{self, shown_default},
    rows::{Rows, Value},
    spec::{SQL_FEATURES, SYSTEM_TABLES},
};

pub(super) fn catalog_name(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    rows.push(&[("catalog_name", (&context.connected_to).into())])
}

pub(super) fn sql_features(rows: &mut Rows<'_>) -> Result<()> {
    for line in SQL_FEATURES.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [feature, number, feature_name, name] = fields.as_slice() else { continue };
        rows.push(&[
            ("feature_id", (*feature).into()),
            ("feature_name", (*feature_name).into()),
            ("sub_feature_id", (*number).into()),
            ("sub_feature_name", (*name).into()),
            ("is_supported", "YES".into()),
            ("comments", "".into()),
        ])?;
    }
    Ok(())
}

pub(super) fn character_sets(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    rows.push(&[
        ("character_set_name", "UTF8".into()),
        ("character_repertoire", "UCS".into()),
        ("form_of_use", "UTF8".into()),
        ("default_collate_catalog", (&context.connected_to).into()),
        ("default_collate_schema", "pg_catalog".into()),
        ("default_collate_name", "C".into()),
    ])
}

pub(super) fn schemata(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    let state = context.state();
    let own = state.schemas(&context.database).map(|schema| schema.name.as_str());
    for name in SYSTEM_SCHEMAS.iter().map(|(name, _)| *name).chain(own) {
        let owner = state
            .schema_object(&context.database, name)
            .map_or(RoleId::FOUNDER, |schema| state.access().owner(schema));
        rows.push(&[
            ("catalog_name", (&context.connected_to).into()),
            ("schema_name", name.into()),
            ("schema_owner", state.access().role_name(owner).into()),
        ])?;
    }
    Ok(())
}

pub(super) fn tables(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    let mut push = |schema: &str, name: &str, kind: &str, insertable: &str| {
        rows.push(&[
            ("table_catalog", (&context.connected_to).into()),
            ("table_schema", schema.into()),
            ("table_name", name.into()),
            ("table_type", kind.into()),
            ("is_insertable_into", insertable.into()),
            ("is_typed", "NO".into()),
        ])
    };
    for chronicle in context.state().chronicles(&context.database) {
        push(&chronicle.schema, &chronicle.name, "BASE TABLE", "YES")?;
    }
    for table in SYSTEM_TABLES.iter() {
        let kind = if table.kind == "r" { "BASE TABLE" } else { "VIEW" };
        push(table.schema, table.name, kind, "NO")?;
    }
    Ok(())
}

struct TableColumn<'a> {
    schema: &'a str,
    table: &'a str,
    name: &'a str,
    number: usize,
    column_type: &'a ColumnType,
    nullable: bool,
    default: Option<String>,
    updatable: bool,
}

fn yes_or_no(value: bool) -> Value {
    (if value { "YES" } else { "NO" }).into()
}

fn push_column(
    context: &CatalogContext,
    rows: &mut Rows<'_>,
    shown: &TableColumn<'_>,
) -> Result<()> {
    let number = i64::from(type_oid(shown.column_type));
    let (precision, radix, scale) = match shown.column_type {
        ColumnType::SmallInt => (Some(16_i64), Some(2_i64), Some(0_i64)),
        ColumnType::Integer => (Some(32), Some(2), Some(0)),
        ColumnType::BigInt => (Some(64), Some(2), Some(0)),
        ColumnType::Real => (Some(24), Some(2), None),
        ColumnType::Double => (Some(53), Some(2), None),
        ColumnType::Numeric { precision, scale } => {
            (Some(i64::from(*precision)), Some(10), Some(i64::from(*scale)))
        }
        _ => (None, None, None),
    };
    let time_digits = match shown.column_type {
        ColumnType::Timestamp { precision } | ColumnType::TimestampTz { precision } => {
            Some(i64::from(*precision))
        }
        ColumnType::Time | ColumnType::Interval => Some(6),
        ColumnType::Date => Some(0),
        _ => None,
    };
    let (data_type, short) = match shown.column_type {
        ColumnType::Array(element) => (
            "ARRAY".to_string(),
            base_type(i64::from(type_oid(element))).map(|base| format!("_{}", base.name)),
        ),
        _ => (type_name(number, None), base_type(number).map(|base| base.name.to_string())),
    };
    rows.push(&[
        ("table_catalog", (&context.connected_to).into()),
        ("table_schema", shown.schema.into()),
        ("table_name", shown.table.into()),
        ("column_name", shown.name.into()),
        ("ordinal_position", shown.number.into()),
        ("column_default", shown.default.clone().into()),
        ("is_nullable", yes_or_no(shown.nullable)),
        ("data_type", data_type.into()),
        ("numeric_precision", precision.into()),
        ("numeric_precision_radix", radix.into()),
        ("numeric_scale", scale.into()),
        ("datetime_precision", time_digits.into()),
        ("udt_catalog", (&context.connected_to).into()),
        ("udt_schema", "pg_catalog".into()),
        ("udt_name", short.into()),
        ("dtd_identifier", shown.number.to_string().into()),
        ("is_self_referencing", "NO".into()),
        ("is_identity", "NO".into()),
        ("identity_cycle", "NO".into()),
        ("is_generated", "NEVER".into()),
        ("is_updatable", yes_or_no(shown.updatable)),
    ])
}

pub(super) fn columns(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    let state = context.state();
    for chronicle in state.chronicles(&context.database) {
        for (at, column) in chronicle.columns.iter().enumerate() {
            let shown = TableColumn {
                schema: &chronicle.schema,
                table: &chronicle.name,
                name: &column.name,
                number: at + 1,
                column_type: &column.column_type,
                nullable: column.nullable,
                default: shown_default(column),
                updatable: true,
            };
            push_column(context, rows, &shown)?;
        }
    }
    for table in SYSTEM_TABLES.iter() {
        for (at, column) in table.columns.iter().enumerate() {
            let shown = TableColumn {
                schema: table.schema,
                table: table.name,
                name: column.name,
                number: at + 1,
                column_type: &column.column_type,
                nullable: column.nullable,
                default: None,
                updatable: false,
            };
            push_column(context, rows, &shown)?;
        }
    }
    Ok(())
}

pub(super) fn table_constraints(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    let state = context.state();
    for chronicle in state.chronicles(&context.database).filter(|chronicle| chronicle.primary_key) {
        rows.push(&[
            ("constraint_catalog", (&context.connected_to).into()),
            ("constraint_schema", (&chronicle.schema).into()),
            ("constraint_name", chronicle.key_name().into()),
            ("table_catalog", (&context.connected_to).into()),
            ("table_schema", (&chronicle.schema).into()),
            ("table_name", (&chronicle.name).into()),
            ("constraint_type", "PRIMARY KEY".into()),
            ("is_deferrable", "NO".into()),
            ("initially_deferred", "NO".into()),
            ("enforced", "YES".into()),
        ])?;
    }
    Ok(())
}

fn key_columns_of(context: &CatalogContext, rows: &mut Rows<'_>, numbered: bool) -> Result<()> {
    let state = context.state();
    for chronicle in state.chronicles(&context.database).filter(|chronicle| chronicle.primary_key) {
        for (at, column) in relation::key_columns(chronicle).into_iter().enumerate() {
            let mut values = vec![
                ("constraint_catalog", Value::from(&context.connected_to)),
                ("constraint_schema", (&chronicle.schema).into()),
                ("constraint_name", chronicle.key_name().into()),
                ("table_catalog", (&context.connected_to).into()),
                ("table_schema", (&chronicle.schema).into()),
                ("table_name", (&chronicle.name).into()),
                ("column_name", (&column.name).into()),
            ];
            if numbered {
                values.push(("ordinal_position", (at + 1).into()));
            }
            rows.push(&values)?;
        }
    }
    Ok(())
}

pub(super) fn key_columns(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    key_columns_of(context, rows, true)
}

pub(super) fn constraint_columns(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    key_columns_of(context, rows, false)
}

pub(super) fn constraint_tables(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    let state = context.state();
    for chronicle in state.chronicles(&context.database).filter(|chronicle| chronicle.primary_key) {
        rows.push(&[
            ("table_catalog", (&context.connected_to).into()),
            ("table_schema", (&chronicle.schema).into()),
            ("table_name", (&chronicle.name).into()),
            ("constraint_catalog", (&context.connected_to).into()),
            ("constraint_schema", (&chronicle.schema).into()),
            ("constraint_name", chronicle.key_name().into()),
        ])?;
    }
    Ok(())
}
