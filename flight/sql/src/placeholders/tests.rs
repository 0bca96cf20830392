use super::numbered;

#[test]
fn marks_become_numbers_where_no_operator_can_be() {
    for (written, read) in [
        ("SELECT ?", "SELECT $1"),
        (
            "SELECT * FROM t WHERE a = ? AND b IN (?, ?)",
            "SELECT * FROM t WHERE a = $1 AND b IN ($2, $3)",
        ),
        ("SELECT ? LIMIT ? OFFSET ?", "SELECT $1 LIMIT $2 OFFSET $3"),
        ("INSERT INTO t VALUES (?,?), (?, ?)", "INSERT INTO t VALUES ($1,$2), ($3, $4)"),
        (
            "SELECT a FROM t WHERE a BETWEEN ? AND ? ORDER BY 1",
            "SELECT a FROM t WHERE a BETWEEN $1 AND $2 ORDER BY 1",
        ),
        ("SELECT ?::int + ?", "SELECT $1::int + $2"),
        ("SELECT f(?) FROM t", "SELECT f($1) FROM t"),
        ("SELECT a LIKE ? ESCAPE ?", "SELECT a LIKE $1 ESCAPE $2"),
        ("SELECT CASE WHEN ? THEN ? END", "SELECT CASE WHEN $1 THEN $2 END"),
        ("SELECT \"time\" > ?", "SELECT \"time\" > $1"),
        ("SELECT x WHERE y > ? GROUP BY x", "SELECT x WHERE y > $1 GROUP BY x"),
    ] {
        assert_eq!(numbered(written.to_string()), read);
    }
}

#[test]
fn operators_texts_and_comments_stay() {
    for kept in [
        "SELECT j ? 'key' FROM t",
        "SELECT (j) ? 'key'",
        "SELECT '?', \"a?\", $$?$$, E'\\'?' -- ?\n /* ? */",
        "SELECT $1, j ? $2",
        "SELECT 1",
        "SELECT '?",
    ] {
        assert_eq!(numbered(kept.to_string()), kept);
    }
    // A statement with several lines, and with characters of one byte and of several bytes.
    let lines = "SELECT 'é', ?,\r\n  \"ß\" -- ?\n FROM t WHERE é = ?";
    let read = "SELECT 'é', $1,\r\n  \"ß\" -- ?\n FROM t WHERE é = $2";
    assert_eq!(numbered(lines.to_string()), read);
    let both = "SELECT j ? 'key' FROM t WHERE a = ?".to_string();
    assert_eq!(numbered(both), "SELECT j ? 'key' FROM t WHERE a = $1");
}
