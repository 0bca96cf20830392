//! Computes the rows about dependencies between objects, and about extensions.

use stratalog_model::Result;

use crate::{CatalogContext, index::indexes, oid, rows::Rows, spec::SYSTEM_TABLES};

/// Fills `pg_depend`. A default depends on its column, a constraint on its columns, the index of a
/// primary key on its constraint, and a secondary index on its columns. The schema `stratalog`
/// depends on an extension, so pg_dump does not dump the schema.
pub(super) fn of_tables(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    let state = context.state();
    let mut push = |class: i64, object: i64, of: (i64, i64, i64), kind: &str| {
        let (of_class, of_object, of_column) = of;
        rows.push(&[
            ("classid", class.into()),
            ("objid", object.into()),
            ("refclassid", of_class.into()),
            ("refobjid", of_object.into()),
            ("refobjsubid", of_column.into()),
            ("deptype", kind.into()),
        ])
    };
    for (name, number) in oid::SYSTEM_SCHEMAS {
        if *name == "stratalog" {
            push(oid::NAMESPACE, *number, (oid::EXTENSION, oid::OWN_EXTENSION, 0), "e")?;
        }
    }
    // Even if pg_dump does not dump a schema, it reads the views of the schema, unless they belong
    // to the same extension.
    for table in SYSTEM_TABLES.iter().filter(|table| table.schema == "stratalog") {
        push(oid::CLASS, table.oid, (oid::EXTENSION, oid::OWN_EXTENSION, 0), "e")?;
    }
    for chronicle in state.chronicles(&context.database) {
        let table = oid::table(chronicle.id);
        for (number, column) in (1..).zip(&chronicle.columns) {
            if column.default_sql.is_some() {
                let default = oid::default(chronicle.id, column.id);
                push(oid::DEFAULT, default, (oid::CLASS, table, number), "a")?;
            }
        }
        if chronicle.primary_key {
            let constraint = oid::constraint(chronicle.id);
            for number in crate::relation::key_numbers(chronicle) {
                push(oid::CONSTRAINT, constraint, (oid::CLASS, table, number), "a")?;
            }
            let index = oid::index(chronicle.id);
            push(oid::CLASS, index, (oid::CONSTRAINT, constraint, 0), "i")?;
        }
        for index in indexes(chronicle).filter(|index| !index.primary) {
            for number in index.numbers() {
                push(oid::CLASS, index.oid, (oid::CLASS, table, number), "a")?;
            }
        }
    }
    Ok(())
}

/// Fills `pg_extension` with one row: the extension `stratalog`, to which the schema `stratalog`
/// belongs.
pub(super) fn extensions(_: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    let namespace = oid::SYSTEM_SCHEMAS.iter().find(|(name, _)| *name == "stratalog");
    rows.push(&[
        ("oid", oid::OWN_EXTENSION.into()),
        ("extname", "stratalog".into()),
        ("extowner", oid::ROLE.into()),
        ("extnamespace", namespace.map_or(0, |(_, number)| *number).into()),
        ("extversion", env!("CARGO_PKG_VERSION").into()),
    ])
}
