use stratalog_model::ErrorKind;
use stratalog_text::TextStyle;

use crate::{dialect::normalize, parse};

fn normalized(sql: &str) -> Result<String, stratalog_model::Error> {
    let mut statement = parse::statements(sql, 10_000)?.remove(0).statement;
    normalize(&mut statement, &TextStyle::default())?;
    Ok(statement.to_string())
}

#[test]
fn a_series_moves_to_from() {
    for (sql, wanted) in [
        (
            "SELECT generate_series(1, 3)",
            "SELECT \"$series\".\"$series\" AS generate_series FROM generate_series(1, 3) AS \"$series\" (\"$series\")",
        ),
        (
            "SELECT a, -generate_series(1, 3) * 2 AS n FROM t LIMIT 2",
            "SELECT a, -\"$series\".\"$series\" * 2 AS n FROM t, generate_series(1, 3) AS \"$series\" (\"$series\") LIMIT 2",
        ),
        (
            "SELECT DISTINCT ON (a) a, generate_series(1, 3) AS g FROM t ORDER BY a, g",
            "SELECT DISTINCT ON (a) a, \"$series\".\"$series\" AS g FROM t, generate_series(1, 3) AS \"$series\" (\"$series\") ORDER BY a, g",
        ),
    ] {
        assert_eq!(normalized(sql).unwrap(), wanted);
    }
}

#[test]
fn a_series_that_postgresql_reads_otherwise_is_refused() {
    for sql in [
        "SELECT a, generate_series(1) FROM t GROUP BY a",
        "SELECT DISTINCT ON (a) a, generate_series(1, 3) AS g FROM t ORDER BY a, b",
        "SELECT DISTINCT ON (a) a, generate_series(1, b) AS g FROM t",
        "SELECT DISTINCT ON (a) a, unnest(b) AS g FROM t",
    ] {
        assert_eq!(normalized(sql).unwrap_err().kind(), ErrorKind::FeatureNotSupported, "{sql}");
    }
}

#[test]
fn a_series_of_each_row_is_a_list() {
    for (sql, wanted) in [
        (
            "SELECT generate_series(1, 2), generate_series(1, 3)",
            "SELECT unnest(series_list(1, 2)), unnest(series_list(1, 3))",
        ),
        ("SELECT generate_series(1, a) FROM t", "SELECT unnest(series_list(1, a)) FROM t"),
        ("SELECT *, generate_series(1, 3) FROM t", "SELECT *, unnest(series_list(1, 3)) FROM t"),
        (
            "SELECT s FROM generate_series(1, array_upper(x, 1)) AS s",
            "SELECT s FROM LATERAL (SELECT unnest(series_list(1, array_upper(x, 1))) AS \"s\") AS s",
        ),
        (
            "SELECT s FROM t, generate_series(1, t.n) AS s",
            "SELECT s FROM t, LATERAL (SELECT unnest(series_list(1, t.n)) AS \"s\") AS s",
        ),
        (
            "SELECT s FROM generate_series(now(), $1, '1 day') AS s",
            "SELECT s FROM LATERAL (SELECT unnest(series_list(now(), $1, '1 day')) AS \"s\") AS s",
        ),
        (
            "SELECT s FROM generate_series(1, 2, 0.5) AS s",
            "SELECT s FROM LATERAL (SELECT unnest(series_list(1, 2, 0.5)) AS \"s\") AS s",
        ),
        (
            "SELECT s FROM generate_series(1::int8, 2) AS s",
            "SELECT s FROM generate_series_of_bigints(1::INT8, 2) AS s (s)",
        ),
        (
            "SELECT s FROM generate_series(timestamp '1970-01-01', '1970-01-02', '1 mon 2 h') AS s",
            "SELECT s FROM generate_series_of_times('0', '86400000000000', '1', '0', '7200000000000', '1', '') AS s (s)",
        ),
        (
            "SELECT s FROM generate_series(date '1970-01-02', '1970-01-01', -interval '1 day') AS s",
            "SELECT s FROM generate_series_of_times('86400000000000', '0', '0', '-1', '0', '1', 'UTC') AS s (s)",
        ),
        (
            "SELECT s FROM generate_series(timestamptz '2300-01-01', '2300-01-01', '1 day') AS s",
            "SELECT s FROM generate_series_of_times('10413792000000000', '10413792000000000', '0', '1', '0', '1000', 'UTC') AS s (s)",
        ),
        (
            "SELECT u FROM upper('a') AS u",
            "SELECT u FROM LATERAL (SELECT upper('a') AS \"u\") AS u",
        ),
        ("SELECT generate_subscripts(x, 1) FROM t", "SELECT unnest(subscripts_list(x, 1)) FROM t"),
    ] {
        assert_eq!(normalized(sql).unwrap(), wanted, "{sql}");
    }
}

#[test]
fn elements_are_unnested() {
    for (sql, wanted) in [
        (
            "SELECT jsonb_array_elements_text(j) FROM t",
            "SELECT unnest(jsonb_elements_text_list(j)) FROM t",
        ),
        (
            "SELECT * FROM jsonb_array_elements('[1]')",
            "SELECT * FROM LATERAL (SELECT CAST(unnest(jsonb_elements_list('[1]')) AS JSONB) AS \"value\") AS jsonb_array_elements",
        ),
        (
            "SELECT e, e.value FROM t, jsonb_array_elements_text(t.j) AS e WHERE e <> 'x' ORDER BY e",
            "SELECT e.\"value\" AS e, e.value FROM t, LATERAL (SELECT unnest(jsonb_elements_text_list(t.j)) AS \"value\") AS e WHERE e.\"value\" <> 'x' ORDER BY e.\"value\"",
        ),
        (
            "SELECT x FROM t, LATERAL jsonb_array_elements_text(t.j) AS e(x)",
            "SELECT x FROM t, LATERAL (SELECT unnest(jsonb_elements_text_list(t.j)) AS \"value\") AS e (x)",
        ),
        ("SELECT x FROM t, LATERAL unnest(t.a) AS u(x)", "SELECT x FROM t, UNNEST(t.a) AS u (x)"),
    ] {
        assert_eq!(normalized(sql).unwrap(), wanted);
    }
}
