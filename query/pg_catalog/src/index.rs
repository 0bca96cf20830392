//! The indexes of a table for `pg_index`: the index of the primary key, and secondary indexes.

use stratalog_functions::quote_ident;
use stratalog_model::{ChronicleDefinition, ColumnDefinition, IndexKind};

use crate::{oid, relation::key_columns};

/// One index of a table.
#[derive(Debug, Clone)]
pub(crate) struct Index<'a> {
    /// The oid of the index.
    pub(crate) oid: i64,
    /// The name of the index.
    pub(crate) name: String,
    /// The name and the oid of the access method.
    pub(crate) method: (&'static str, i64),
    /// The columns of the index, in the order of the index.
    pub(crate) columns: Vec<&'a ColumnDefinition>,
    /// True for the index of the primary key.
    pub(crate) primary: bool,
    chronicle: &'a ChronicleDefinition,
}

/// The indexes of a table. The index of the primary key comes first.
pub(crate) fn indexes(chronicle: &ChronicleDefinition) -> impl Iterator<Item = Index<'_>> {
    let primary = chronicle.primary_key.then(|| Index {
        oid: oid::index(chronicle.id),
        name: chronicle.key_name(),
        method: ("btree", oid::ACCESS_BTREE),
        columns: key_columns(chronicle),
        primary: true,
        chronicle,
    });
    let secondary = chronicle.indexes.iter().map(move |index| Index {
        oid: oid::secondary_index(chronicle.id, index.number),
        name: index.name.clone(),
        method: match index.kind {
            IndexKind::Bloom => ("bloom", oid::ACCESS_BLOOM),
            IndexKind::Inverted => ("inverted", oid::ACCESS_INVERTED),
        },
        columns: index.columns.iter().filter_map(|column| chronicle.column(*column)).collect(),
        primary: false,
        chronicle,
    });
    primary.into_iter().chain(secondary)
}

impl Index<'_> {
    /// True if two events (rows) never have equal values in the columns of the index.
    pub(crate) fn is_unique(&self) -> bool {
        self.primary && self.chronicle.key_is_unique()
    }

    /// The `attnum` of each column of the index. The first column of a table has the number 1.
    pub(crate) fn numbers(&self) -> Vec<i64> {
        let places = self.columns.iter().filter_map(|column| self.chronicle.position(column.id));
        places.map(|at| i64::try_from(at).unwrap_or(i64::MAX).saturating_add(1)).collect()
    }

    /// The CREATE statement of the index.
    pub(crate) fn definition(&self) -> String {
        let columns: Vec<String> =
            self.columns.iter().map(|column| quote_ident(&column.name)).collect();
        format!(
            "CREATE {}INDEX {} ON {}.{} USING {} ({})",
            if self.is_unique() { "UNIQUE " } else { "" },
            quote_ident(&self.name),
            quote_ident(&self.chronicle.schema),
            quote_ident(&self.chronicle.name),
            self.method.0,
            columns.join(", ")
        )
    }
}
