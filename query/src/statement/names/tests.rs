use datafusion::sql::sqlparser::ast::Statement;

use super::*;

fn names(sql: &str, columns: usize) -> Vec<String> {
    let tree = crate::statement::parse::statements(sql, 1 << 20).unwrap().remove(0);
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
        ["max", "max", "?column?", "Z", "a", "text", "case", "q", "bool", "?column?"]
    );
    assert_eq!(names("select a, *, max(b) from t", 5), ["a", "-", "-", "-", "max"]);
    assert_eq!(names("select a.*, b.* from a, b", 4), ["-"; 4]);
    assert_eq!(names("values (1, 2)", 2), ["-", "-"]);
    assert_eq!(names("select 1 union all select 2", 1), ["?column?"]);
    assert_eq!(
        names("select extract(year from d), now(), interval '1 day', current_date from t", 4)[..3],
        ["extract", "now", "interval"]
    );
}

#[test]
fn equal_names_are_told_apart_for_the_planner() {
    let tree =
        crate::statement::parse::statements("select a, b as a from t", 1 << 20).unwrap().remove(0);
    let Statement::Query(mut query) = tree.statement else { panic!() };
    name_output(&mut query);
    assert_eq!(query.to_string(), "SELECT a, b AS \"a\u{1}1\" FROM t");
}
