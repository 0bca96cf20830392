//! The relations in `pg_class`: users' tables, their indexes, and system tables.

use std::{iter::Peekable, str::Chars, sync::Arc};

use stratalog_functions::quote_ident;
use stratalog_model::{
    ChronicleDefinition, ChronicleId, ColumnDefinition, Error, ErrorKind, Result,
};
use stratalog_visor_core::CatalogState;

use crate::{
    column_type::{type_modifier, type_name, type_oid},
    index::{Index, indexes},
    oid,
    spec::{SYSTEM_TABLES, Table},
};

/// Looks up the user's table that a `regclass` text names. The text is an oid, or a name in SQL
/// syntax. An unqualified name is looked up among the system tables, and then along `search_path`.
///
/// # Errors
/// `UndefinedTable` for an unknown name; `WrongObjectType` if the relation is not a user's table;
/// `FeatureNotSupported` for a table of another database.
pub fn table_of_regclass(
    state: &CatalogState,
    database: &str,
    search_path: &[String],
    text: &str,
) -> Result<Arc<ChronicleDefinition>> {
    let named = name_parts(text);
    if let Some([other, _, _]) = named.as_deref()
        && other != database
    {
        return Err(Error::new(
            ErrorKind::FeatureNotSupported,
            format!("cross-database references are not supported: {text}"),
        ));
    }
    let found = match text.trim().parse::<u32>() {
        Ok(number) => Relation::of_oid(state, database, i64::from(number)),
        Err(_) if named.as_ref().is_some_and(|parts| parts.len() > 3) => None,
        Err(_) => Relation::of_name(state, database, search_path, text),
    };
    match found {
        Some(Relation::Table(chronicle)) => Ok(chronicle),
        Some(other) => {
            let kind =
                if matches!(other, Relation::Index(..)) { "an index" } else { "a system table" };
            Err(Error::new(
                ErrorKind::WrongObjectType,
                format!("\"{}\" is {kind}, not a table of events", other.name()),
            ))
        }
        None => {
            let shown = named.map_or_else(|| text.to_string(), |parts| parts.join("."));
            let message = format!("relation \"{shown}\" does not exist");
            Err(Error::new(ErrorKind::UndefinedTable, message))
        }
    }
}

/// A relation in `pg_class`.
#[derive(Debug, Clone)]
pub(crate) enum Relation {
    /// A user's table.
    Table(Arc<ChronicleDefinition>),
    /// An index of a user's table, with the oid of the index: the index of the primary key, or a
    /// secondary index.
    Index(Arc<ChronicleDefinition>, i64),
    /// A system table.
    System(&'static Arc<Table>),
}

impl Relation {
    /// The relation with this oid.
    pub(crate) fn of_oid(state: &CatalogState, database: &str, number: i64) -> Option<Self> {
        if let Some(table) = SYSTEM_TABLES.iter().find(|table| table.oid == number) {
            return Some(Self::System(table));
        }
        let chronicle = |first: i64| {
            let id = u32::try_from(number.checked_sub(first)?).ok()?;
            let found = state.chronicle_by_id(ChronicleId(id))?;
            (found.database == database).then(|| Arc::clone(found))
        };
        if let Some(table) = chronicle(oid::table(ChronicleId(0))) {
            return Some(Self::Table(table));
        }
        let indexed = chronicle(oid::index(ChronicleId(0))).or_else(|| {
            let found = state.chronicle_by_id(oid::of_secondary_index(number)?)?;
            (found.database == database).then(|| Arc::clone(found))
        })?;
        let found = indexes(&indexed).any(|index| index.oid == number);
        found.then_some(Self::Index(indexed, number))
    }

    /// The relation with this name, which is in SQL syntax. An unqualified name is looked up among
    /// the system tables, and then along the schemas in `path`.
    pub(crate) fn of_name(
        state: &CatalogState,
        database: &str,
        path: &[String],
        text: &str,
    ) -> Option<Self> {
        let parts = name_parts(text)?;
        let in_schema = |schema: &str, name: &str| -> Option<Self> {
            if let Some(table) = crate::spec::system_table(schema, name) {
                return Some(Self::System(table));
            }
            if let Some(chronicle) = state.chronicle(database, schema, name) {
                return Some(Self::Table(Arc::clone(chronicle)));
            }
            state.chronicles_in(database, schema).find_map(|chronicle| {
                let found = indexes(chronicle).find(|index| index.name == name)?;
                Some(Self::Index(Arc::clone(chronicle), found.oid))
            })
        };
        match parts.as_slice() {
            [name] => std::iter::once("pg_catalog")
                .chain(path.iter().map(String::as_str))
                .find_map(|schema| in_schema(schema, name)),
            [.., schema, name] => in_schema(schema, name),
            [] => None,
        }
    }

    /// The oid of the relation.
    pub(crate) fn oid(&self) -> i64 {
        match self {
            Self::Table(chronicle) => oid::table(chronicle.id),
            Self::Index(_, number) => *number,
            Self::System(table) => table.oid,
        }
    }

    /// The schema of the relation.
    pub(crate) fn schema(&self) -> &str {
        match self {
            Self::Table(chronicle) | Self::Index(chronicle, _) => &chronicle.schema,
            Self::System(table) => table.schema,
        }
    }

    /// The name of the relation.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Table(chronicle) => chronicle.name.clone(),
            Self::Index(..) => self.index().map(|index| index.name).unwrap_or_default(),
            Self::System(table) => table.name.to_string(),
        }
    }

    /// The index if the relation is an index; `None` for tables.
    pub(crate) fn index(&self) -> Option<Index<'_>> {
        match self {
            Self::Index(chronicle, number) => indexes(chronicle).find(|index| index.oid == *number),
            Self::Table(_) | Self::System(_) => None,
        }
    }

    /// True if a lookup of the unqualified name along `path` finds this relation.
    pub(crate) fn is_visible(&self, state: &CatalogState, database: &str, path: &[String]) -> bool {
        Self::of_name(state, database, path, &quote_ident(&self.name()))
            .is_some_and(|found| found.oid() == self.oid())
    }

    /// The name that `regclass` prints. It includes the schema if the relation is not visible; see
    /// [`Self::is_visible`].
    pub(crate) fn display(&self, state: &CatalogState, database: &str, path: &[String]) -> String {
        let name = quote_ident(&self.name());
        if self.is_visible(state, database, path) {
            name
        } else {
            format!("{}.{name}", quote_ident(self.schema()))
        }
    }
}

/// Splits a name in SQL syntax at its dots. Parts without quotes become lower case. `None` if the
/// text is not a name.
pub(crate) fn name_parts(text: &str) -> Option<Vec<String>> {
    let mut parts = Vec::new();
    let mut part = String::new();
    let mut chars = text.trim().chars().peekable();
    let mut quoted = false;
    let mut any = false;
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                part.push('"');
            }
            '"' => {
                quoted = !quoted;
                any = true;
            }
            '.' if !quoted => {
                if !any {
                    return None;
                }
                // Spaces around the dot are ignored.
                while chars.next_if(|c| c.is_whitespace()).is_some() {}
                parts.push(std::mem::take(&mut part));
                any = false;
            }
            _ if quoted => part.push(c),
            _ if c.is_whitespace() && only_blanks_before(&chars, '.') => {}
            _ => {
                part.extend(c.to_lowercase());
                any = true;
            }
        }
    }
    if quoted || !any {
        return None;
    }
    parts.push(part);
    Some(parts)
}

fn only_blanks_before(rest: &Peekable<Chars<'_>>, wanted: char) -> bool {
    rest.clone().find(|c| !c.is_whitespace()) == Some(wanted)
}

/// The default expression of a column as PostgreSQL shows it, for example `'a'::text`.
pub(crate) fn shown_default(column: &ColumnDefinition) -> Option<String> {
    let default = column.default_sql.as_deref()?;
    let inside = default.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
    let is_text = inside.is_some_and(|inside| !inside.replace("''", "").contains('\''));
    Some(match is_text {
        true => {
            let number = i64::from(type_oid(&column.column_type));
            let modifier = type_modifier(&column.column_type);
            format!("{default}::{}", type_name(number, Some(modifier)))
        }
        false => default.to_string(),
    })
}

/// The columns of the primary key: the key columns, and then the tick (time) column.
pub(crate) fn key_columns(chronicle: &ChronicleDefinition) -> Vec<&ColumnDefinition> {
    chronicle
        .key_columns
        .iter()
        .chain(std::iter::once(&chronicle.tick_column))
        .filter_map(|column| chronicle.column(*column))
        .collect()
}

/// The `attnum` of each column of the primary key. The first column of a table has the number 1.
pub(crate) fn key_numbers(chronicle: &ChronicleDefinition) -> Vec<i64> {
    key_columns(chronicle)
        .into_iter()
        .filter_map(|column| chronicle.position(column.id))
        .map(|at| i64::try_from(at).unwrap_or(i64::MAX).saturating_add(1))
        .collect()
}

/// The names of the primary key's columns as SQL text, separated by commas.
pub(crate) fn key_list(chronicle: &ChronicleDefinition) -> String {
    let names: Vec<String> =
        key_columns(chronicle).into_iter().map(|column| quote_ident(&column.name)).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests;
