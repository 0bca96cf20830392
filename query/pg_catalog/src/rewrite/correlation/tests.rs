use datafusion::sql::sqlparser::{dialect::PostgreSqlDialect, parser::Parser};

fn rewritten(sql: &str) -> String {
    let mut statement = Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap().remove(0);
    crate::rewrite(&mut statement);
    statement.to_string()
}

#[test]
fn outer_conditions_move_out_and_inequalities_in() {
    assert_eq!(
        rewritten(
            "SELECT (SELECT d.adbin FROM pg_attrdef d WHERE d.adrelid = a.attrelid AND a.atthasdef) FROM pg_attribute a"
        ),
        "SELECT CASE WHEN a.atthasdef THEN (SELECT first_value(d.adbin) FROM pg_attrdef d WHERE d.adrelid = a.attrelid) END FROM pg_attribute a"
    );
    assert_eq!(
        rewritten(
            "SELECT (SELECT c.collname FROM pg_collation c, pg_type t WHERE c.oid = a.x AND t.oid = a.y AND a.x <> t.z) FROM pg_attribute a"
        ),
        "SELECT (SELECT first_value(c.collname) FROM pg_collation c, pg_type t WHERE c.oid = a.x AND t.oid = a.y AND c.oid <> t.z) FROM pg_attribute a"
    );
}
