//! DISTINCT ON, compared with numbered rows.

use stratalog_sim::Random;

use crate::{
    harness::Database,
    random_table::{RandomTable, pick},
};

const SERIES: &str = "(SELECT n, n * 7919 % 50 AS a, CASE WHEN n % 11 > 0 THEN 'k' || n % 13 END \
                      AS b, n * 31 % 97 AS v, repeat('x', n % 40) AS text FROM \
                      generate_series(1, 60000) n) s";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_rows_are_those_with_number_one() {
    let db = Database::new();
    let mut random = Random::new(1);
    for _ in 0..30 {
        let groups: &[&str] = match random.below(5) {
            0 => &["a"],
            1 => &["b"],
            2 => &["a", "b"],
            3 => &["b", "a"],
            _ => &["n / 2"],
        };
        let mut order = || {
            pick(
                &mut random,
                &["", " DESC", " NULLS FIRST", " DESC NULLS LAST", " DESC NULLS FIRST"],
            )
            .to_string()
        };
        let sorted: Vec<String> =
            groups.iter().map(|group| format!("{group}{}", order())).collect();
        let within = format!("v{}, n{}", order(), order());
        let (on, sorted) = (groups.join(", "), sorted.join(", "));
        let sql = format!(
            "SELECT DISTINCT ON ({on}) n, a, b, v, text FROM {SERIES} ORDER BY {sorted}, {within}"
        );
        let numbered = format!(
            "SELECT n, a, b, v, text FROM (SELECT *, row_number() OVER (PARTITION BY {on} ORDER BY \
                 {within}) AS number FROM {SERIES}) s WHERE number = 1 ORDER BY {sorted}"
        );
        let plan = db.plan(&sql).await;
        assert!(plan.contains("FirstRowsExec: mode=Final"), "{plan}");
        assert!(!plan.contains("AggregateExec"), "{plan}");
        assert_eq!(plan.matches("SortExec").count(), 1, "{plan}");
        let found = db.rows(&sql).await;
        assert!(!found.is_empty());
        assert_eq!(found, db.rows(&numbered).await, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_rows_of_tables_and_joins() {
    let mut used = 0;
    for seed in 0..10 {
        let mut random = Random::new(seed);
        let mut table = RandomTable::new(&mut random).await;
        for _ in 0..8 {
            table.change(&mut random).await;
            let db = &table.db;
            let from = pick(
                &mut random,
                &[
                    "(SELECT *, i % 7 AS g FROM t) t",
                    "(SELECT t.*, r.g FROM t JOIN (VALUES ('a', 1), ('b', 2), ('dd', 1)) r (host, g) \
                     ON t.host = r.host) t",
                ],
            );
            // Rows with the same place in this order are equal in all selected columns.
            let order = "d DESC, i, unit, time, b, host";
            let sql = format!(
                "SELECT DISTINCT ON (g) g, d, i, unit, time, b, host FROM {from} ORDER BY g, {order}"
            );
            let numbered = format!(
                "SELECT g, d, i, unit, time, b, host FROM (SELECT *, row_number() OVER (PARTITION BY g \
                 ORDER BY {order}) AS number FROM {from}) s WHERE number = 1 ORDER BY g"
            );
            used += usize::from(db.plan(&sql).await.contains("FirstRowsExec"));
            assert_eq!(db.rows(&sql).await, db.rows(&numbered).await, "seed {seed}: {sql}");
        }
    }
    assert!(used > 70, "{used}");
}

#[tokio::test]
async fn last_values_of_one_order_are_of_one_row() {
    let db = Database::new();
    let values = "(VALUES (1, 1, NULL), (1, 3, 'c'), (1, 2, 'b'), (2, 5, 'e')) s (k, v, w)";
    let sql = format!(
        "SELECT k, last_value(v ORDER BY v), last_value(w ORDER BY v), last_value(v + 1 ORDER BY v) \
         FROM {values} GROUP BY k ORDER BY k"
    );
    assert!(db.plan(&sql).await.contains("FirstRowsExec"));
    assert_eq!(db.rows(&sql).await, ["1|3|c|4", "2|5|e|6"]);
    let sql = sql.replace("last_value", "first_value");
    assert_eq!(db.rows(&sql).await, ["1|1|NULL|2", "2|5|e|6"]);
    // Aggregates with other orders, with filters or over whole tables do not take a single row of
    // each group.
    for other in [
        "SELECT k, first_value(v ORDER BY v), first_value(w ORDER BY w), first_value(v ORDER BY v) \
         FROM {} GROUP BY k",
        "SELECT k, first_value(v ORDER BY v), first_value(v ORDER BY v) FILTER (WHERE v > 1), \
         first_value(w ORDER BY v) FROM {} GROUP BY k",
        "SELECT first_value(v ORDER BY v), last_value(v ORDER BY v), first_value(w ORDER BY v) FROM {}",
    ] {
        let sql = other.replace("{}", values);
        assert!(!db.plan(&sql).await.contains("FirstRowsExec"), "{sql}");
    }
}
