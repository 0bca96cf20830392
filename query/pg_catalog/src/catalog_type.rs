//! Types of PostgreSQL that casts name, and for which others stand here.

use std::sync::Arc;

use arrow::datatypes::{Field, FieldRef};
use datafusion::sql::sqlparser::ast::{ArrayElemTypeDef, DataType};
use stratalog_model::{ColumnType, types::PG_TYPE_METADATA};

use crate::spec::type_of;

/// A type, and that of arrays of it.
const TYPES: [(&str, &str); 21] = [
    ("aclitem", "aclitem[]"),
    ("bpchar", "bpchar[]"),
    ("char", "char[]"),
    ("cid", "cid[]"),
    ("cstring", "cstring[]"),
    ("int2vector", "int2vector[]"),
    ("json", "json[]"),
    ("name", "name[]"),
    ("oid", "oid[]"),
    ("oidvector", "oidvector[]"),
    ("pg_node_tree", "pg_node_tree[]"),
    ("regcollation", "regcollation[]"),
    ("regconfig", "regconfig[]"),
    ("regdictionary", "regdictionary[]"),
    ("regoper", "regoper[]"),
    ("regoperator", "regoperator[]"),
    ("regprocedure", "regprocedure[]"),
    ("tid", "tid[]"),
    ("varchar", "varchar[]"),
    ("xid", "xid[]"),
    ("xid8", "xid8[]"),
];

/// PostgreSQL's name of a type that is none of columns, and the type that stands for it; `None`
/// for every other.
pub fn catalog_type(sql_type: &DataType) -> Option<(ColumnType, &'static str)> {
    let of_array = |found: &(&str, &'static str)| (type_of(found.1), found.1);
    match sql_type {
        DataType::Array(ArrayElemTypeDef::SquareBracket(element, _)) => find(element).map(of_array),
        _ => find(sql_type).map(|(name, _)| (type_of(name), *name)),
    }
}

fn find(sql_type: &DataType) -> Option<&'static (&'static str, &'static str)> {
    let word = match sql_type {
        DataType::Varchar(None)
        | DataType::CharacterVarying(None)
        | DataType::CharVarying(None) => "varchar".to_string(),
        DataType::JSON => "json".to_string(),
        DataType::Custom(name, modifiers) if modifiers.is_empty() => {
            let ident = name.0.last()?.as_ident()?;
            // Without quotes, char is another type.
            if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("char") {
                return None;
            }
            ident.value.to_ascii_lowercase()
        }
        _ => return None,
    };
    TYPES.iter().find(|(name, _)| *name == word)
}

/// The field that a cast to a type makes; `known` is PostgreSQL's name where the type stands for
/// another.
pub fn cast_field(column_type: &ColumnType, known: Option<&str>) -> FieldRef {
    // A name says that the cast is written: what the value was called before is no more.
    let field: Field = column_type.arrow_field("cast", true);
    let Some(known) = known else { return Arc::new(field) };
    let mut metadata = field.metadata().clone();
    metadata.insert(PG_TYPE_METADATA.to_string(), known.to_string());
    Arc::new(field.with_metadata(metadata))
}

/// The type of ours that stands for one of PostgreSQL, by the name that a field's metadata has.
pub fn stands_for(name: &str) -> ColumnType {
    type_of(name)
}
