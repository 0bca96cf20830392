use crate::parse;

fn parsed(sql: &str) -> String {
    parse::statements(sql, 1 << 20).unwrap().remove(0).statement.to_string()
}

#[test]
fn table_is_a_query() {
    for (sql, wanted) in [
        ("TABLE t", "SELECT * FROM t"),
        ("TABLE ONLY s.t LIMIT 1", "SELECT * FROM s.t LIMIT 1"),
        ("INSERT INTO s.t TABLE u", "INSERT INTO s.t SELECT * FROM u"),
        ("INSERT INTO t (a, b) TABLE u", "INSERT INTO t (a, b) SELECT * FROM u"),
        ("WITH w AS (TABLE t) TABLE w", "WITH w AS (SELECT * FROM t) SELECT * FROM w"),
        (
            "TABLE t UNION ALL TABLE u EXCEPT (TABLE v)",
            "SELECT * FROM t UNION ALL SELECT * FROM u EXCEPT (SELECT * FROM v)",
        ),
        ("PREPARE p AS TABLE t", "PREPARE p AS SELECT * FROM t"),
        ("SELECT 1 AS table, x AS select FROM t", "SELECT 1 AS table, x AS select FROM t"),
    ] {
        assert_eq!(parsed(sql), wanted);
    }
}

#[test]
fn a_select_list_may_be_empty() {
    let row = "SELECT FROM (SELECT 1) AS \"\u{1}row\"";
    for (sql, wanted) in [
        ("SELECT", row.to_string()),
        (
            "SELECT ALL WHERE true",
            format!("{} WHERE true", row.replacen("SELECT", "SELECT ALL", 1)),
        ),
        ("SELECT UNION SELECT LIMIT 1", format!("{row} UNION {row} LIMIT 1")),
        ("SELECT 1 WHERE EXISTS (SELECT)", format!("SELECT 1 WHERE EXISTS ({row})")),
        ("SELECT FROM t WHERE true", "SELECT FROM t WHERE true".to_string()),
    ] {
        assert_eq!(parsed(sql), wanted);
    }
}

#[test]
fn misplaced_clauses_are_refused_at_their_position() {
    for (sql, position) in [
        ("TABLE t WHERE v > 1", 9),
        ("TABLE t x", 9),
        ("TABLE t, u", 8),
        ("TABLE (t)", 7),
        ("SELECT EXISTS (TABLE t WHERE v > 1)", 24),
        ("SELECT DISTINCT FROM t", 17),
        ("SELECT DISTINCT ON (v) FROM t", 24),
        ("SELECT DISTINCT", 16),
        ("SELECT 1 FROM WHERE", 15),
    ] {
        let error = parse::statements(sql, 1 << 20).unwrap_err();
        assert_eq!(error.position(), Some(position), "{sql}: {error}");
    }
    for sql in [
        "TABLE t AS OF SEALED",
        "INSERT INTO t TABLE u AFTER GSN 5",
        "INSERT INTO t TABLE u ON CONFLICT DO NOTHING",
        "TABLE ONLY (s.t) ORDER BY v",
    ] {
        assert!(parse::statements(sql, 1 << 20).is_ok(), "{sql}");
    }
}
