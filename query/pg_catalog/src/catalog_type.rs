//! PostgreSQL types without columns, for example `oid` and `name`: no column can have one of these
//! types. A column type represents each of them; a cast to one of these types gives a value of the
//! column type.

use std::sync::Arc;

use arrow::datatypes::{Field, FieldRef};
use datafusion::sql::sqlparser::ast::{ArrayElemTypeDef, DataType};
use stratalog_model::{ColumnType, types::PG_TYPE_METADATA};

use crate::spec::type_of;

/// The names of the PostgreSQL types, each with the name of its array type.
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

/// For a PostgreSQL type without columns: the representing column type, and the name of the
/// PostgreSQL type. `None` for any other type.
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
            // Without quotes, `char` is the type `character(1)`.
            if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("char") {
                return None;
            }
            ident.value.to_ascii_lowercase()
        }
        _ => return None,
    };
    TYPES.iter().find(|(name, _)| *name == word)
}

/// The field of the result of a cast to `column_type`. `known` is the name of the PostgreSQL type
/// if `column_type` only represents it.
pub fn cast_field(column_type: &ColumnType, known: Option<&str>) -> FieldRef {
    // The metadata of the type before the cast must not remain, because the cast is explicit.
    let field: Field = column_type.arrow_field("cast", true);
    let Some(known) = known else { return Arc::new(field) };
    let mut metadata = field.metadata().clone();
    metadata.insert(PG_TYPE_METADATA.to_string(), known.to_string());
    Arc::new(field.with_metadata(metadata))
}

/// The column type that represents the PostgreSQL type with this name.
pub fn stands_for(name: &str) -> ColumnType {
    type_of(name)
}
