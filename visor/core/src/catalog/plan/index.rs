//! CREATE INDEX and DROP INDEX for stored indexes.

use stratalog_model::{
    ChronicleDefinition, ColumnDefinition, Error, ErrorKind, IndexDefinition, IndexKind, Result,
    index::INDEXES_MAX,
};

use super::{super::name, Plan, undefined_schema};
use crate::catalog::{record::Change, state::CatalogState};

pub(super) fn create(
    state: &CatalogState,
    definition: &ChronicleDefinition,
    name: Option<&str>,
    kind: IndexKind,
    columns: &[String],
    if_not_exists: bool,
) -> Result<Plan> {
    let found = columns.iter().map(|column| column_of(definition, kind, column));
    let found = found.collect::<Result<Vec<&ColumnDefinition>>>()?;
    let taken = |name: &str| {
        let (database, schema) = (&definition.database, &definition.schema);
        state.chronicle(database, schema, name).is_some()
            || state.index(database, schema, name).is_some()
            || state.keyed_by(database, schema, name).is_some()
    };
    let name = match name {
        Some(name) => {
            name::check("index", name)?;
            if taken(name) {
                let exists = format!("relation \"{name}\" already exists");
                return match if_not_exists {
                    true => Ok(Plan::nothing(format!("{exists}, skipping")).showing(definition.id)),
                    false => Err(Error::new(ErrorKind::DuplicateTable, exists)),
                };
            }
            name.to_string()
        }
        None => free_name(definition, columns, taken),
    };
    if definition.indexes.len() >= INDEXES_MAX {
        return Err(Error::new(
            ErrorKind::LimitExceeded,
            format!("table \"{}\" has {INDEXES_MAX} indexes, the maximum", definition.name),
        )
        .with_hint("drop unneeded indexes with DROP INDEX"));
    }
    let number = definition.indexes_made.saturating_add(1);
    debug_assert!(
        definition.indexes.iter().all(|index| index.number < number),
        "the number of an index is given twice"
    );
    debug_assert!(!taken(name.as_str()), "another relation has the name of the index");
    let index = IndexDefinition {
        name,
        number,
        kind,
        columns: found.into_iter().map(|column| column.id).collect(),
    };
    Ok(Plan::of(Change::CreateIndex { id: definition.id, index }).showing(definition.id))
}

fn column_of<'a>(
    definition: &'a ChronicleDefinition,
    kind: IndexKind,
    name: &str,
) -> Result<&'a ColumnDefinition> {
    let column = definition.column_named(name).ok_or_else(|| {
        Error::new(ErrorKind::UndefinedColumn, format!("column \"{name}\" does not exist"))
    })?;
    if column.id == definition.tick_column || definition.key_columns.contains(&column.id) {
        return Err(Error::new(
            ErrorKind::FeatureNotSupported,
            format!("column \"{name}\" needs no index: events are sorted by the column"),
        )
        .with_hint("the PRIMARY KEY finds time and key columns"));
    }
    if !kind.takes(&column.column_type) {
        let of = &column.column_type;
        let takes = match kind {
            IndexKind::Bloom => "text, smallint, integer, bigint, date and uuid",
            IndexKind::Inverted => "text",
        };
        return Err(Error::new(
            ErrorKind::DatatypeMismatch,
            format!("column \"{name}\" of type {of} cannot have an index of method \"{kind}\""),
        )
        .with_hint(format!(
            "{kind} supports {takes}; queries find ranges of numbers without an index"
        )));
    }
    Ok(column)
}

/// A name for an index that is not in use, made by PostgreSQL's naming rule.
fn free_name(
    definition: &ChronicleDefinition,
    columns: &[String],
    taken: impl Fn(&str) -> bool,
) -> String {
    let stem = format!("{}_{}_idx", definition.name, columns.join("_"));
    let stem = name::cut(&stem);
    let numbered = (1_u32..).map(|number| format!("{stem}{number}"));
    let mut names = std::iter::once(stem.to_string()).chain(numbered);
    let name = names.find(|name| !taken(name)).unwrap_or_default();
    debug_assert!(!name.is_empty(), "the index has no name");
    name
}

pub(super) fn drop(
    state: &CatalogState,
    database: &str,
    schema: &str,
    name: &str,
    if_exists: bool,
) -> Result<Plan> {
    if let Some((chronicle, index)) = state.index(database, schema, name) {
        let change = Change::DropIndex { id: chronicle.id, number: index.number };
        return Ok(Plan::of(change).showing(chronicle.id));
    }
    if state.schema(database, schema).is_none() && !if_exists {
        return Err(undefined_schema(schema));
    }
    if let Some(chronicle) = state.keyed_by(database, schema, name) {
        return Err(Error::new(
            ErrorKind::DependentObjects,
            format!(
                "cannot drop index {name} because constraint {name} on table {} requires it",
                chronicle.name
            ),
        )
        .with_hint("the key of a table is fixed at the creation of the table"));
    }
    let missing = format!("index \"{name}\" does not exist");
    match if_exists {
        true => Ok(Plan::nothing(format!("{missing}, skipping"))),
        false => Err(Error::new(ErrorKind::UndefinedObject, missing)),
    }
}
