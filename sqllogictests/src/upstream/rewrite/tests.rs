use super::*;

#[test]
fn splits_create_table_as() {
    let created = create_table("CREATE TABLE t(a INT, b DECIMAL(5,2)) AS VALUES (1, 2), (3, 4);");
    assert_eq!(
        created,
        Some(CreateAs {
            name: "t",
            columns: Some("a INT, b DECIMAL(5,2)"),
            replace: false,
            query: "VALUES (1, 2), (3, 4)",
        })
    );
    let created = create_table("create or replace table x as select 1").unwrap();
    assert_eq!((created.name, created.replace, created.query), ("x", true, "select 1"));
    assert_eq!(create_table("create external table x stored as csv"), None);
    assert_eq!(create_table("create table if not exists y (a int)").unwrap().query, "");
}

#[test]
fn splits_definitions_and_maps_types() {
    assert_eq!(definitions("a INT, b DECIMAL(5,2), c text"), ["a INT", "b DECIMAL(5,2)", "c text"]);
    assert_eq!(definition("a INT UNSIGNED NOT NULL"), "a bigint NOT NULL");
    assert_eq!(definition("a DOUBLE PRECISION"), "a double precision ");
    assert_eq!(definition("a STRING"), "a text ");
    assert!(is_timestamp("ts TIMESTAMP"));
}
