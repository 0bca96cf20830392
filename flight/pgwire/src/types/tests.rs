use std::collections::HashMap;

use arrow::datatypes::{DataType, Field};
use stratalog_model::ColumnType;

use stratalog_model::types::PG_TYPE_METADATA;

use super::{array_of, column_type, element_of, field_type, wire_type};

#[test]
fn ids_sizes_and_modifiers_are_those_of_postgresql() {
    // Expected values: oid, typlen and atttypmod in PostgreSQL 15.
    for (ours, oid, size, modifier) in [
        (ColumnType::Boolean, 16, 1, -1),
        (ColumnType::SmallInt, 21, 2, -1),
        (ColumnType::Integer, 23, 4, -1),
        (ColumnType::BigInt, 20, 8, -1),
        (ColumnType::Real, 700, 4, -1),
        (ColumnType::Double, 701, 8, -1),
        (ColumnType::Numeric { precision: 10, scale: 2 }, 1700, -1, 655_366),
        (ColumnType::Text, 25, -1, -1),
        (ColumnType::Bytea, 17, -1, -1),
        (ColumnType::Timestamp { precision: 3 }, 1114, 8, 3),
        (ColumnType::TimestampTz { precision: 9 }, 1184, 8, -1),
        (ColumnType::Date, 1082, 4, -1),
        (ColumnType::Time, 1083, 8, -1),
        (ColumnType::Interval, 1186, 16, -1),
        (ColumnType::Uuid, 2950, 16, -1),
        (ColumnType::Jsonb, 3802, -1, -1),
        (ColumnType::Array(Box::new(ColumnType::Text)), 1009, -1, -1),
        (ColumnType::Array(Box::new(ColumnType::Jsonb)), 3807, -1, -1),
        (ColumnType::Timestamp { precision: 6 }, 1114, 8, 6),
        (ColumnType::Array(Box::new(ColumnType::TimestampTz { precision: 0 })), 1185, -1, 0),
        (
            ColumnType::Array(Box::new(ColumnType::Numeric { precision: 10, scale: 2 })),
            1231,
            -1,
            655_366,
        ),
    ] {
        let wire = wire_type(&ours);
        assert_eq!((wire.oid, wire.size, wire.modifier), (oid, size, modifier), "{ours}");
    }
}

#[test]
fn every_type_comes_back_from_its_id() {
    for ours in [
        ColumnType::Boolean,
        ColumnType::SmallInt,
        ColumnType::Integer,
        ColumnType::BigInt,
        ColumnType::Real,
        ColumnType::Double,
        ColumnType::Text,
        ColumnType::Bytea,
        ColumnType::Timestamp { precision: 6 },
        ColumnType::TimestampTz { precision: 6 },
        ColumnType::Date,
        ColumnType::Time,
        ColumnType::Interval,
        ColumnType::Uuid,
        ColumnType::Jsonb,
    ] {
        let id = wire_type(&ours).oid;
        assert_eq!(column_type(id), Some(ours.clone()));
        assert_eq!(element_of(array_of(id)), Some(id));
        assert_eq!(column_type(array_of(id)), Some(ColumnType::Array(Box::new(ours))));
    }
    assert_eq!(column_type(0), None);
    assert_eq!(column_type(1700), None);
    assert_eq!(column_type(600), None);
}

#[test]
fn the_catalogs_types_are_told_by_metadata() {
    let field = |name: &str| {
        Field::new("x", DataType::Int64, true)
            .with_metadata(HashMap::from([(PG_TYPE_METADATA.to_string(), name.to_string())]))
    };
    assert_eq!(field_type(&field("oid")).oid, 26);
    assert_eq!(field_type(&field("name")).size, 64);
    assert_eq!(field_type(&field("something else")).oid, 20);
}
