use super::*;

fn normalized(sql: &str) -> Result<String> {
    let mut tree = crate::parse::statements(sql, 1 << 20)?.remove(0).statement;
    normalize(&mut tree, &TextStyle::default())?;
    Ok(tree.to_string())
}

#[test]
fn postgresql_becomes_what_the_planner_reads() {
    for (sql, wanted) in [
        ("SELECT a FROM t FETCH FIRST 3 ROWS ONLY", "SELECT a FROM t LIMIT 3"),
        ("SELECT a FROM t OFFSET 2 FETCH NEXT ROW ONLY", "SELECT a FROM t LIMIT 1 OFFSET 2"),
        ("SELECT a = ANY (SELECT b FROM u) FROM t", "SELECT a IN (SELECT b FROM u) FROM t"),
        (
            "SELECT a FROM t WHERE a <> ALL (SELECT b FROM u)",
            "SELECT a FROM t WHERE a NOT IN (SELECT b FROM u)",
        ),
        (
            "SELECT a FROM t WHERE a > ANY (SELECT b FROM u) AND c",
            "SELECT a FROM t WHERE a > ANY(SELECT b FROM u) AND c",
        ),
        (
            "SELECT a FROM t WHERE (a, 1) IN (SELECT b, c FROM u)",
            "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM (SELECT b, c FROM u) AS \"$set\" (\"$compared0\", \"$compared1\") WHERE (a = \"$compared0\" AND (1 = \"$compared1\")))",
        ),
        (
            "SELECT (a, 1) NOT IN (SELECT b, c FROM u) FROM t",
            "SELECT true NOT IN (SELECT (a = \"$compared0\" AND (1 = \"$compared1\")) FROM (SELECT b, c FROM u) AS \"$set\" (\"$compared0\", \"$compared1\")) FROM t",
        ),
        ("SELECT a = ANY (ARRAY[1, 2]), a <> ALL (ARRAY[1])", "SELECT a IN (1, 2), a NOT IN (1)"),
        (
            "SELECT a = ANY ('{x,\"y,z\",NULL}'), a <> ALL ('{}')",
            "SELECT a IN ('x', 'y,z', NULL), (a IS NULL OR true)",
        ),
        ("SELECT a < ANY ('{1,NULL}')", "SELECT ((a < '1') OR (a < NULL))"),
        ("SELECT a > ALL ('{}'), a = ALL ('{1}')", "SELECT (a IS NULL OR true), (a = '1')"),
        (
            "SELECT g FROM generate_series(1, 2) AS g",
            "SELECT g FROM generate_series(1, 2) AS g (g)",
        ),
        (
            "SELECT * FROM generate_series(1, 2)",
            "SELECT * FROM generate_series(1, 2) AS generate_series (generate_series)",
        ),
        ("SELECT * FROM generate_series(1, 2) g(x)", "SELECT * FROM generate_series(1, 2) g (x)"),
    ] {
        assert_eq!(normalized(sql).unwrap(), wanted, "{sql}");
    }
}

#[test]
fn what_cannot_be_planned_is_refused() {
    for sql in
        ["SELECT a FROM t TABLESAMPLE BERNOULLI (1)", "SELECT a FROM t FETCH FIRST 1 ROW WITH TIES"]
    {
        assert_eq!(normalized(sql).unwrap_err().kind(), ErrorKind::FeatureNotSupported, "{sql}");
    }
}
