use datafusion::sql::sqlparser::ast::Statement;

use super::*;

fn names(sql: &str, columns: usize) -> Vec<String> {
    let tree = crate::parse::statements(sql, 1 << 20).unwrap().remove(0);
    let Statement::Query(mut query) = tree.statement else { panic!("{sql}") };
    name_output(&mut query)
        .resolve(columns)
        .into_iter()
        .map(|name| name.unwrap_or_else(|| "-".to_string()))
        .collect()
}

#[test]
fn columns_are_named_as_postgresql_names_them() {
    assert_eq!(
        names(
            "select max(a), Max(b), 1, x.Y as \"Z\", a::int, 'x'::text, case when a then 1 end, (select q from t), true, a+1 from x",
            10
        ),
        ["max", "max", "?column?", "Z", "a", "text", "case", "q", "?column?", "?column?"]
    );
    assert_eq!(names("select a, *, max(b) from t", 5), ["a", "-", "-", "-", "max"]);
    assert_eq!(names("select a.*, b.* from a, b", 4), ["-"; 4]);
    assert_eq!(names("values (1, 2)", 2), ["-", "-"]);
    assert_eq!(names("select 1 union all select 2", 1), ["?column?"]);
    assert_eq!(
        names("select extract(year from d), now(), interval '1 day', current_date from t", 4)[..3],
        ["extract", "now", "interval"]
    );
    for (sql, wanted) in [
        ("select '5'::text::int8", "int8"),
        ("select (1::int2)::int8", "int8"),
        ("select a::text::int8 from t", "a"),
        ("select not exists (select 1)", "?column?"),
        ("select exists (select 1)::text", "exists"),
        ("select case when a then b else c::text end from t", "c"),
        ("select case when a then b else 1::int end from t", "case"),
        ("select case when a then b end::text from t", "text"),
        ("select (select 1)::text", "?column?"),
        ("select (select 1 as x union select 2)", "x"),
        ("select (values (1))", "column1"),
        ("select trim(leading 'a' from b) from t", "ltrim"),
        ("select '1'::float(10)", "float4"),
        ("select 'a'::char(3)", "bpchar"),
        ("select a::timestamp(3) with time zone from t", "a"),
        ("select '2024-01-01'::timestamp(3) with time zone", "timestamptz"),
    ] {
        assert_eq!(names(sql, 1), [wanted], "{sql}");
    }
}

/// The SQL text of the query after the rewrites for the planner.
fn planned(sql: &str) -> String {
    let tree = crate::parse::statements(sql, 1 << 20).unwrap().remove(0);
    let Statement::Query(mut query) = tree.statement else { panic!("{sql}") };
    name_output(&mut query);
    query.to_string().replace('\u{1}', "#")
}

#[test]
fn computed_columns_are_ordered_by_name() {
    for (sql, planned_as) in [
        (
            "SELECT a, max(b) FROM t ORDER BY max DESC, a",
            "SELECT a, max(b) AS \"max#1\" FROM t ORDER BY 2 DESC, a",
        ),
        ("SELECT max(b) FROM t ORDER BY MAX", "SELECT max(b) AS \"max#0\" FROM t ORDER BY 1"),
        ("SELECT max(b) FROM t ORDER BY \"MAX\"", "SELECT max(b) FROM t ORDER BY \"MAX\""),
        ("SELECT *, max(b) FROM t ORDER BY max", "SELECT *, max(b) FROM t ORDER BY max(b)"),
        (
            "SELECT DISTINCT ON (a) a, lower(b) FROM t ORDER BY a, lower",
            "SELECT DISTINCT ON (a) a, lower(b) FROM t ORDER BY a, lower(b)",
        ),
        (
            "SELECT max(b), max(b) FROM t ORDER BY max",
            "SELECT max(b) AS \"max#0\", max(b) AS \"max#1\" FROM t ORDER BY 1",
        ),
        (
            "SELECT max(a), max(b) FROM t ORDER BY max",
            "SELECT max(a), max(b) AS \"max#1\" FROM t ORDER BY max",
        ),
        (
            "SELECT a, max(b) AS a FROM t ORDER BY a",
            "SELECT a, max(b) AS \"a#1\" FROM t ORDER BY a",
        ),
        (
            "SELECT max(a) FROM t UNION SELECT b FROM t ORDER BY max",
            "SELECT max(a) AS \"max#0\" FROM t UNION SELECT b FROM t ORDER BY 1",
        ),
    ] {
        assert_eq!(planned(sql), planned_as, "{sql}");
    }
}

#[test]
fn computed_columns_of_subqueries_are_seen_by_name() {
    for (sql, planned_as) in [
        (
            "SELECT max FROM (SELECT max(b) FROM t) s",
            "SELECT max FROM (SELECT max(b) AS \"max\" FROM t) s",
        ),
        (
            "WITH w AS (SELECT count(*) FROM t) TABLE w",
            "WITH w AS (SELECT count(*) AS \"count\" FROM t) SELECT * FROM w",
        ),
        (
            "SELECT * FROM (SELECT max(a), max(b), 1 FROM t) s",
            "SELECT * FROM (SELECT max(a) AS \"max#0\", max(b) AS \"max#1\", 1 AS \"?column?\" FROM t) s",
        ),
        // Inside HAVING, the planner would read the name as the alias, and not as the column.
        (
            "SELECT * FROM (SELECT max(max) FROM t HAVING max(max) > 1) s",
            "SELECT * FROM (SELECT max(max) AS \"max#0\" FROM t HAVING max(max) > 1) s",
        ),
        (
            "SELECT a FROM t WHERE EXISTS (SELECT max(b) FROM t)",
            "SELECT a FROM t WHERE EXISTS (SELECT max(b) FROM t)",
        ),
    ] {
        assert_eq!(planned(sql), planned_as, "{sql}");
    }
}

#[test]
fn equal_names_are_told_apart_for_the_planner() {
    let tree = crate::parse::statements("select a, b as a from t", 1 << 20).unwrap().remove(0);
    let Statement::Query(mut query) = tree.statement else { panic!() };
    name_output(&mut query);
    assert_eq!(query.to_string(), "SELECT a, b AS \"a\u{1}1\" FROM t");
}
