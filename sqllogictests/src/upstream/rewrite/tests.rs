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
    assert_eq!(definition("c VARCHAR(20) NOT NULL"), "c text  NOT NULL");
    assert_eq!(definition("a INT PRIMARY KEY"), "a INT ");
}

#[test]
fn finds_inserts_names_and_words() {
    assert_eq!(insert_all("INSERT INTO t VALUES (1)"), Some(("t", "VALUES (1)")));
    assert_eq!(insert_all("insert into t (select 1)"), Some(("t", "(select 1)")));
    assert_eq!(insert_all("INSERT INTO t(a, b) VALUES (1, 2)"), None);
    assert_eq!(left_out_name("CREATE EXTERNAL TABLE IF NOT EXISTS x (a INT)"), Some("x"));
    assert_eq!(left_out_name("create or replace view v as select 1"), Some("v"));
    assert_eq!(left_out_name("select 1"), None);
    assert!(mentions("SELECT * FROM Abc, d", "abc"));
    assert!(!mentions("SELECT * FROM abcd", "abc"));
}
