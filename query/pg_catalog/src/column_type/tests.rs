use super::*;

#[test]
fn names_as_format_type_writes_them() {
    let name = |column_type: &ColumnType| {
        type_name(i64::from(type_oid(column_type)), Some(type_modifier(column_type)))
    };
    assert_eq!(name(&ColumnType::Numeric { precision: 10, scale: 2 }), "numeric(10,2)");
    assert_eq!(name(&ColumnType::TimestampTz { precision: 9 }), "timestamp with time zone");
    assert_eq!(name(&ColumnType::Timestamp { precision: 3 }), "timestamp(3) without time zone");
    assert_eq!(name(&ColumnType::Array(Box::new(ColumnType::Double))), "double precision[]");
    assert_eq!(type_name(18, None), "\"char\"");
    assert_eq!(type_name(0, None), "-");
}

#[test]
fn names_are_read_back() {
    assert_eq!(oid_of_name("timestamp with time zone"), Some(1184));
    assert_eq!(oid_of_name("pg_catalog.int4"), Some(23));
    assert_eq!(oid_of_name("INT"), Some(23));
    assert_eq!(oid_of_name("text[]"), Some(1009));
    assert_eq!(oid_of_name("_text"), Some(1009));
    assert_eq!(oid_of_name("nothing"), None);
    assert_eq!(BASE_TYPES.len(), TYPES.lines().count());
}
