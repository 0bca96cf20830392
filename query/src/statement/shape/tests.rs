use super::*;

fn shape(sql: &str) -> Option<(String, Vec<String>)> {
    of(sql).map(|shape| (shape.text, shape.constants))
}

#[test]
fn constants_of_comparisons_and_lists_are_taken_out() {
    let sql = "SELECT time_bucket('60 seconds', time) AS m, max(u) FROM cpu \
               WHERE host IN ('a', 'it''s') AND time >= '2016-01-01 00:00' AND time<'x' \
               GROUP BY m ORDER BY m";
    let (text, constants) = shape(sql).unwrap();
    assert_eq!(
        text,
        "SELECT time_bucket('60 seconds', time) AS m, max(u) FROM cpu \
         WHERE host IN ($1, $2) AND time >= $3 AND time<$4 GROUP BY m ORDER BY m"
    );
    assert_eq!(constants, ["a", "it's", "2016-01-01 00:00", "x"]);
    assert_eq!(shape("SELECT 1 FROM t WHERE a = 'é'; ").unwrap().1, ["é"]);
    let between = shape("SELECT 1 FROM t WHERE \"a\" BETWEEN 'b' AND 'c' AND d = 'e'").unwrap();
    assert_eq!(between.0, "SELECT 1 FROM t WHERE \"a\" BETWEEN $1 AND $2 AND d = $3");
    assert_eq!(
        shape("select 1 from t where (a <> 'b')").unwrap().0,
        "select 1 from t where (a <> $1)"
    );
}

#[test]
fn constants_of_subqueries_are_taken_out() {
    let sql = "SELECT max(u) FROM cpu WHERE tags_id IN (SELECT id FROM tags WHERE host IN ('a')) AND \
               time >= '2016-01-01' AND x = (SELECT 'b' FROM t WHERE c < 'd' ORDER BY e = 'f')";
    let (text, constants) = shape(sql).unwrap();
    assert_eq!(
        text,
        "SELECT max(u) FROM cpu WHERE tags_id IN (SELECT id FROM tags WHERE host IN ($1)) AND \
         time >= $2 AND x = (SELECT 'b' FROM t WHERE c < $3 ORDER BY e = 'f')"
    );
    assert_eq!(constants, ["a", "2016-01-01", "d"]);
    let sql = "SELECT 'a' FROM (SELECT 'b' FROM t WHERE c = 'd') s JOIN u ON e = 'f' WHERE g = 'h'";
    assert_eq!(shape(sql).unwrap().1, ["d", "h"]);
    assert_eq!(shape("SELECT 1 FROM t WHERE a = 'b')"), None);
}

#[test]
fn what_has_another_meaning_stays() {
    for sql in [
        "SELECT 'a' = 'b'",
        "SELECT 1 FROM t WHERE f('a')",
        "SELECT 1 FROM t WHERE a = date '2016-01-01'",
        "SELECT 1 FROM t WHERE a = E'b'",
        "SELECT 1 FROM t WHERE a = 'b'::text",
        "SELECT 1 FROM t WHERE a = 'b' || 'c'",
        "SELECT 1 FROM t WHERE a = 'b' COLLATE \"C\"",
        "SELECT 1 FROM t WHERE a = 'b' AT TIME ZONE 'UTC'",
        "SELECT 1 FROM t WHERE a = 'b'\n'c'",
        "SELECT 1 FROM t WHERE a ->> 'b' IS NULL",
        "SELECT 1 FROM t WHERE a @> '{}'",
        "SELECT 1 FROM t WHERE a LIKE 'b'",
        "SELECT 1 FROM t WHERE a = $1 AND b = 'c'",
        "SELECT 1 FROM t WHERE a = 'b' -- c",
        "SELECT 1 FROM t WHERE a = 'b' /* c */",
        "SELECT 1 FROM t WHERE a = (SELECT 'b')",
        "SELECT 1 FROM t WHERE a = 'b'; SELECT 2",
        "SELECT 1 FROM t WHERE a = 'b",
        "SELECT a FROM t GROUP BY a HAVING a > 'b'",
        "SELECT 1 FROM t JOIN u ON t.a = 'b'",
    ] {
        assert_eq!(shape(sql), None, "{sql}");
    }
    let kept = shape("SELECT 1 FROM t WHERE a = 'b' AND f(c, 'd') AND e IN (f('g'), 'h')");
    let (text, constants) = kept.unwrap();
    assert_eq!(text, "SELECT 1 FROM t WHERE a = $1 AND f(c, 'd') AND e IN (f('g'), 'h')");
    assert_eq!(constants, ["b"]);
}
