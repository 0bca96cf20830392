//! Series selected by another part of a query, compared with joins over all rows, in every tier.

use stratalog_sim::Random;

use crate::{
    harness::{Database, figure},
    random_table::{RandomTable, conditions, pick},
};

/// The plain table, and a form that forces a read of all rows.
const TABLES: [&str; 2] = ["t", "(SELECT * FROM t LIMIT 1000000000000) t"];

/// A query with `{t}` in the place of the table.
fn query(random: &mut Random) -> String {
    let conditions = conditions(random).into_iter().map(|condition| format!("t.{condition}"));
    let mut conditions: Vec<String> = conditions.collect();
    let and = |conditions: &[String]| match conditions.is_empty() {
        true => String::new(),
        false => format!(" AND {}", conditions.join(" AND ")),
    };
    let rack =
        pick(random, &["rack = 'x'", "rack = 'y'", "rack > 'a'", "rack IS NULL", "unit = 0"]);
    let (key, other) = (pick(random, &["host", "unit"]), and(&conditions));
    let named = format!("t.{key} IN (SELECT {key} FROM racks WHERE {rack}){other}");
    let told = pick(random, &["count(*), sum(i), min(b), max(d)", "count(x), max(s)", "count(*)"]);
    let join = pick(random, &["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]);
    match random.below(13) {
        0 => format!("SELECT t.{key}, {told} FROM {{t}} WHERE {named} GROUP BY t.{key}"),
        1 => format!(
            "SELECT time_bucket('10 minutes', time), {told} FROM {{t}} WHERE {named} GROUP BY 1"
        ),
        2 => format!("SELECT {told} FROM {{t}} WHERE {named}"),
        3 => format!("SELECT * FROM {{t}} WHERE {named}"),
        4 => format!("SELECT host, i, d FROM {{t}} WHERE {named} AND i > 100"),
        5 => format!("SELECT max(time) FROM {{t}} WHERE {named}"),
        6 => format!(
            "SELECT r.rack, t.time, t.host, t.unit, i FROM racks r {join} {{t}} ON r.{key} = t.{key} \
             WHERE r.{rack}{other}"
        ),
        7 => {
            conditions.push(format!("r.{rack}"));
            format!(
                "SELECT t.time, t.host, i, r.rack FROM {{t}} {join} racks r ON t.{key} = r.{key} AND \
                 t.unit = r.unit WHERE r.rack IS NOT NULL{}",
                and(&conditions)
            )
        }
        8 => format!(
            "SELECT r.rack, a.n, a.m FROM racks r {join} (SELECT {key}, count(*) AS n, max(i) AS m \
             FROM {{t}} GROUP BY {key}) a ON a.{key} = r.{key} WHERE r.{rack}"
        ),
        9 => format!(
            "SELECT r.rack, l.host, l.time FROM racks r JOIN (SELECT host, max(time) AS time FROM {{t}} \
             GROUP BY host) l ON l.host = r.host WHERE r.{rack}"
        ),
        10 => format!("SELECT count(*) FROM {{t}} WHERE NOT ({named})"),
        11 => format!(
            "SELECT time_bucket('10 minutes', time) AS w, {told} FROM {{t}} WHERE {named} GROUP BY w \
             ORDER BY w DESC LIMIT 3"
        ),
        _ => format!(
            "SELECT t.host, count(*) FROM {{t}} WHERE EXISTS (SELECT 1 FROM racks r WHERE r.{key} = \
             t.{key} AND r.{rack}) GROUP BY t.host"
        ),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_that_are_looked_up_name_all_rows() {
    let (mut looked_up, mut told, mut rows) = (0, 0, 0);
    for seed in 0..25 {
        let mut random = Random::new(seed);
        let mut table = RandomTable::new(&mut random).await;
        let db = &table.db;
        db.tag(
            "CREATE TABLE racks (added timestamptz, host text, unit int, rack text, \
             PRIMARY KEY (host, added))",
        )
        .await;
        db.tag(
            "INSERT INTO racks VALUES (now(), 'a', 0, 'x'), (now(), 'b', 1, 'x'), \
             (now(), 'dd', NULL, 'y'), (now(), 'none', -1, 'y'), (now(), 'c', 7, NULL)",
        )
        .await;
        // A repeated query uses a cached plan.
        let mut asked: Vec<String> = Vec::new();
        for step in 0..12 {
            table.change(&mut random).await;
            let db = &table.db;
            for round in 0..6 {
                let known = random.below(2 * asked.len() as u64 + 1) as usize;
                let sql = asked.get(known).cloned().unwrap_or_else(|| query(&mut random));
                let [narrow, all] = TABLES.map(|table| sql.replace("{t}", table));
                asked.push(sql);
                // A comment makes the text unique, without a cached plan.
                let all = format!("{all} -- {step} {round}");
                let sorted = |mut rows: Vec<String>| {
                    rows.sort();
                    rows
                };
                let wanted = sorted(db.rows(&all).await);
                let plan = db.plan(&all).await;
                assert!(!plan.contains("KeyLookup"), "{plan}");
                assert_eq!(
                    sorted(db.rows(&narrow).await),
                    wanted,
                    "seed {seed}, step {step}: {narrow}"
                );
                let plan = db.plan(&narrow).await;
                looked_up += usize::from(plan.contains("KeyLookup"));
                told +=
                    usize::from(plan.contains("KeyLookup") && plan.contains("ChronicleAggregate"));
                rows += wanted.len();
            }
        }
    }
    // The random queries reach the tested code.
    assert!(looked_up > 900 && told > 300 && rows > 10_000, "{looked_up} {told} {rows}");
}

#[tokio::test]
async fn only_the_named_series_are_read() {
    let db = Database::new();
    db.tag("CREATE TABLE tags (added timestamptz, id int, rack text, PRIMARY KEY (id, added))")
        .await;
    db.tag("CREATE TABLE cpu (time timestamptz, tags_id int, v double precision, PRIMARY KEY (tags_id, time))")
        .await;
    db.tag("INSERT INTO tags SELECT now(), n, 'rack' || n / 4 FROM generate_series(0, 39) n").await;
    db.tag(
        "INSERT INTO cpu SELECT timestamptz '2024-01-01' + s * interval '1 second', n, s \
         FROM generate_series(0, 39) n, generate_series(0, 999) s",
    )
    .await;
    db.rows("CALL stratalog.compact('cpu')").await;
    let analyzed = |sql: &str| {
        let (db, sql) = (&db, format!("EXPLAIN ANALYZE {sql}"));
        async move { db.rows(&sql).await.join("\n") }
    };
    let named = "tags_id IN (SELECT id FROM tags WHERE rack = 'rack3')";
    let plan = analyzed(&format!("SELECT count(*), avg(v) FROM cpu WHERE {named}")).await;
    assert!(plan.contains("KeyLookup: column=tags_id"), "{plan}");
    assert!(plan.contains("ChronicleAggregate") && !plan.contains("HashJoin"), "{plan}");
    assert_eq!(figure(&plan, "values"), Some(4.0), "{plan}");
    let read = |plan: &str| figure(plan, "story_rows_read").unwrap_or_default();
    assert!(read(&plan) <= 4_000.0, "{plan}");
    assert_eq!(
        db.rows(&format!("SELECT count(*), avg(v) FROM cpu WHERE {named}")).await,
        ["4000|499.5"]
    );
    let joined = "FROM cpu c JOIN tags t ON c.tags_id = t.id WHERE t.rack = 'rack3' AND c.v > 990";
    let plan = analyzed(&format!("SELECT t.rack, c.time, c.v {joined}")).await;
    assert!(plan.contains("KeyLookup") && plan.contains("HashJoin"), "{plan}");
    assert_eq!(db.rows(&format!("SELECT count(*) {joined}")).await, ["36"]);
    // No series is selected, but the group over all rows still exists.
    let nobody = "tags_id IN (SELECT id FROM tags WHERE rack = 'rack99')";
    assert_eq!(db.rows(&format!("SELECT count(*) FROM cpu WHERE {nobody}")).await, ["0"]);
    let by = format!("SELECT tags_id, count(*) FROM cpu WHERE {nobody} GROUP BY tags_id");
    assert!(db.rows(&by).await.is_empty());
    // All series are selected: the plan has no lookup.
    let plan = db.plan("SELECT * FROM cpu c JOIN tags t ON c.tags_id = t.id").await;
    assert!(!plan.contains("KeyLookup"), "{plan}");
    // A second read of these subqueries may return other rows.
    let moved = "WHERE rack = 'rack3' AND CASE WHEN random() < 0.5 THEN id ELSE 1 END > 0";
    for tags in ["WHERE rack = 'rack3' LIMIT 2", "WHERE rack = 'rack3' AND random() < 2", moved] {
        let tags = format!("(SELECT * FROM tags {tags}) t");
        let plan = db.plan(&format!("SELECT * FROM cpu c JOIN {tags} ON c.tags_id = t.id")).await;
        assert!(!plan.contains("KeyLookup"), "{plan}");
    }
}
