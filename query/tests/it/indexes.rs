//! Secondary indexes: queries with indexes return the same rows as without, and read fewer rows.

use std::fmt::Write as _;

use stratalog_sim::Random;

use crate::{
    harness::{Database, figure},
    random_table::pick,
};

const WORDS: [&str; 12] = [
    "error", "Errors", "timeout", "disk", "Ströme", "ſharp", "a-b", "x_1", "100%", "", "İ",
    "GET /api",
];

async fn insert(db: &Database, random: &mut Random, begin: u64, rows: u64) {
    let mut sql = "INSERT INTO logs (time, host, message, code) VALUES ".to_string();
    for row in 0..rows {
        let comma = if row == 0 { "" } else { ", " };
        let words: Vec<&str> = (0..random.below(4)).map(|_| pick(random, &WORDS)).collect();
        let message = match random.below(10) {
            0 => "NULL".to_string(),
            // A rare word.
            1 => format!("'request {} failed'", begin + row),
            _ => format!("'{}'", words.join(pick(random, &[" ", ", ", "", "=", "_"]))),
        };
        let code = random.below(400);
        let host = pick(random, &["a", "b", "c"]);
        let _ = write!(sql, "{comma}(to_timestamp({}), '{host}', {message}, {code})", begin + row);
    }
    db.tag(&sql).await;
}

fn condition(random: &mut Random) -> String {
    let word = match random.below(3) {
        0 => format!("request {} failed", random.below(3_000)),
        1 => pick(random, &WORDS).to_string(),
        _ => format!("{} {}", pick(random, &WORDS), pick(random, &WORDS)),
    };
    let letters: Vec<char> = word.chars().collect();
    let start = random.below(letters.len() as u64 + 1) as usize;
    let end = start + random.below((letters.len() - start) as u64 + 1) as usize;
    let part: String = letters[start..end].iter().collect();
    let like = pick(random, &["LIKE", "ILIKE", "NOT LIKE"]);
    match random.below(9) {
        0 => format!("message = '{word}'"),
        1 => format!("message IN ('{word}', 'error', 'disk, timeout')"),
        2 => format!("message = '{word}' OR message = 'request 7 failed'"),
        3 => format!("message {like} '%{part}%'"),
        4 => format!("message {like} '{part}%'"),
        5 => format!("message {like} '%{part}_%' AND code < 300"),
        6 => format!("code = {}", random.below(500)),
        7 => format!("code IN ({}, {}, NULL)", random.below(500), random.below(500)),
        _ => format!("message {like} '{}'", part.replace(' ', "%")),
    }
}

/// The same condition without the use of an index: on expressions with the same values.
fn unindexed(condition: &str) -> String {
    condition.replace("message", "(message || '')").replace("code", "(code + 0)")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_rows_are_found() {
    let (mut asked, mut pruned) = (0, 0.0);
    for seed in 0..12 {
        let mut random = Random::new(seed);
        let db = Database::of_small_parts();
        db.tag(
            "CREATE TABLE logs (time timestamptz NOT NULL, host text NOT NULL, message text, code int, \
             PRIMARY KEY (host, time))",
        )
        .await;
        let indexes = [
            "CREATE INDEX words ON logs USING inverted (message)",
            "CREATE INDEX ON logs USING bloom (message, code)",
        ];
        let mut next = 0;
        for step in 0..8 {
            let rows = random.below(300) + 1;
            insert(&db, &mut random, next, rows).await;
            next += rows;
            if let Some(index) = indexes.get(step / 2).filter(|_| step % 2 == 0) {
                db.tag(index).await;
            }
            match random.below(4) {
                0 => {}
                1 => drop(db.rows("CALL stratalog.flush('logs')").await),
                _ => drop(db.rows("CALL stratalog.compact('logs')").await),
            }
            for _ in 0..12 {
                let condition = condition(&mut random);
                let of = |condition: &str| {
                    format!(
                        "SELECT time, host, message, code FROM logs WHERE {condition} ORDER BY time"
                    )
                };
                let found = db.rows(&of(&condition)).await;
                assert_eq!(
                    found,
                    db.rows(&of(&unindexed(&condition))).await,
                    "seed {seed}, step {step}: {condition}"
                );
                let plan = db.rows(&format!("EXPLAIN ANALYZE {}", of(&condition))).await.join("\n");
                asked += usize::from(plan.contains("by index"));
                if plan.contains("by index") {
                    pruned += figure(&plan, "story_parts_pruned").unwrap_or_default();
                }
            }
        }
    }
    assert!(asked > 200 && pruned > 500.0, "{asked} {pruned}");
}

#[tokio::test]
async fn blocks_without_a_word_are_not_looked_at_also_of_old_stories() {
    let db = Database::new();
    db.tag("CREATE TABLE logs (time timestamptz PRIMARY KEY, message text NOT NULL, n bigint)")
        .await;
    db.tag(
        "INSERT INTO logs SELECT to_timestamp(n), 'user ' || n % 50 || ' logged in' || CASE WHEN n = 9000 \
         THEN ' Suspiciously' ELSE '' END, n FROM generate_series(1, 30000) AS g(n)",
    )
    .await;
    db.rows("CALL stratalog.compact('logs')").await;
    let sql = "SELECT n FROM logs WHERE message LIKE '%usp%'";
    let read = async |sql: &str| {
        let plan = db.rows(&format!("EXPLAIN ANALYZE {sql}")).await.join("\n");
        let (_, rest) = plan.split_once("story_rows_read=").unwrap();
        rest.split([',', ']']).next().unwrap().to_string()
    };
    assert_eq!(
        (db.rows(sql).await, read(sql).await),
        (vec!["9000".to_string()], "30.00 K".to_string())
    );
    db.tag("CREATE INDEX found ON logs USING inverted (message)").await;
    assert_eq!(db.rows(sql).await, ["9000"]);
    let moved = db.rows("CALL stratalog.compact('logs')").await;
    assert_ne!(moved, db.rows("CALL stratalog.compact('logs')").await, "once only");
    assert_eq!(
        (db.rows(sql).await, read(sql).await),
        (vec!["9000".to_string()], "2.05 K".to_string())
    );
    assert_eq!(read("SELECT n FROM logs WHERE message ILIKE '%suspiciously'").await, "2.05 K");
    assert_eq!(read("SELECT n FROM logs WHERE message = 'user 77 logged in'").await, "0");
    // A Bloom filter can exclude only a whole slice.
    assert_eq!(read("SELECT message FROM logs WHERE n = 77").await, "8.19 K");
    db.tag("CREATE INDEX ON logs USING bloom (n)").await;
    db.rows("CALL stratalog.compact('logs')").await;
    assert_eq!(read("SELECT message FROM logs WHERE n = 31000 OR n = -5").await, "0");
    db.tag("DROP INDEX found").await;
    assert_eq!(db.rows(sql).await, ["9000"]);
    assert_eq!(read(sql).await, "30.00 K");
}
