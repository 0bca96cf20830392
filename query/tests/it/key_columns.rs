//! Columns that join the key of a table with events in every tier, compared with a map.

use std::{collections::BTreeMap, fmt::Write as _};

use stratalog_sim::Random;

use crate::harness::Database;

const HOSTS: [&str; 3] = ["a", "b", "ab"];
const TAGS: [&str; 4] = ["", "r", "rr", "z"];
/// Columns that join the key, in this order.
const JOINING: [&str; 3] = ["rack", "unit", "zone"];

/// From the values of the key columns and the second to the last `v` inserted for them.
type Model = BTreeMap<(Vec<String>, u64), u64>;

fn pick<'a>(random: &mut Random, values: &[&'a str]) -> &'a str {
    values[random.below(values.len() as u64) as usize]
}

async fn check(db: &Database, model: &Model, joined: usize, random: &mut Random, seed: u64) {
    let columns = format!(
        "host{}",
        JOINING[..joined].iter().fold(String::new(), |mut all, c| {
            let _ = write!(all, ", {c}");
            all
        })
    );
    let line = |((keys, second), v): (&(Vec<String>, u64), &u64)| {
        format!("{}|{second}|{v}", keys[..=joined].join("|"))
    };
    let query = |condition: &str| {
        format!(
            "SELECT {columns}, extract(epoch FROM time)::bigint, v FROM t {condition} \
             ORDER BY {columns}, time"
        )
    };
    let rows = db.rows(&query("")).await;
    assert_eq!(rows, model.iter().map(line).collect::<Vec<_>>(), "seed {seed}");
    // By the whole key, which selects a series, and by a part of the key.
    for whole in [true, false] {
        let mut condition = format!("WHERE host = '{}'", pick(random, &HOSTS));
        let mut wanted =
            vec![condition["WHERE host = '".len()..].trim_end_matches('\'').to_string()];
        for column in JOINING.iter().take(joined) {
            if whole || random.below(2) == 0 {
                let value = pick(random, &TAGS);
                let _ = write!(condition, " AND {column} = '{value}'");
                wanted.push(value.to_string());
            } else {
                wanted.push("*".to_string());
            }
        }
        let from = random.below(20);
        let _ = write!(condition, " AND time >= to_timestamp({from})");
        let rows = db.rows(&query(&condition)).await;
        let fits = |((keys, second), _): &(&(Vec<String>, u64), &u64)| {
            *second >= from && wanted.iter().zip(keys).all(|(want, key)| want == "*" || want == key)
        };
        let expected: Vec<String> = model.iter().filter(fits).map(line).collect();
        assert_eq!(rows, expected, "seed {seed}: {condition}");
    }
    let count = db.rows("SELECT count(*) FROM t").await;
    assert_eq!(count, [model.len().to_string()], "seed {seed}");
}

#[tokio::test]
async fn series_stay_what_they_were_when_columns_join() {
    for seed in 0..12 {
        let mut random = Random::new(seed);
        let db = Database::new();
        db.tag(
            "CREATE TABLE t (time timestamptz, host text, v bigint, PRIMARY KEY (host, time)) \
             WITH (collision = 'last')",
        )
        .await;
        let mut model = Model::new();
        let mut joined = 0;
        for v in 0..60 {
            match random.below(12) {
                0 if joined < JOINING.len() => {
                    db.tag(&format!(
                        "ALTER TABLE t ADD COLUMN {} text PRIMARY KEY",
                        JOINING[joined]
                    ))
                    .await;
                    joined += 1;
                }
                1 => drop(db.rows("CALL stratalog.flush('t')").await),
                2 => drop(db.rows("CALL stratalog.compact('t')").await),
                3 => {
                    let before = random.below(6);
                    db.tag(&format!("DELETE FROM t WHERE time < to_timestamp({before})")).await;
                    model.retain(|(_, second), _| *second >= before);
                }
                4 => check(&db, &model, joined, &mut random, seed).await,
                _ => {
                    // The INSERT names some of the columns; the other columns are ''.
                    let named = random.below(joined as u64 + 1) as usize;
                    let columns: String =
                        JOINING[..named].iter().map(|column| format!(", {column}")).collect();
                    let mut values = Vec::new();
                    for row in 0..=random.below(5) {
                        let host = pick(&mut random, &HOSTS);
                        let tags: Vec<&str> =
                            (0..named).map(|_| pick(&mut random, &TAGS)).collect();
                        let second = random.below(20);
                        let v = v * 10 + row;
                        let quoted: String = tags.iter().map(|tag| format!(", '{tag}'")).collect();
                        values.push(format!("(to_timestamp({second}), '{host}', {v}{quoted})"));
                        let mut keys = vec![host.to_string()];
                        keys.extend(tags.iter().map(ToString::to_string));
                        keys.resize(JOINING.len() + 1, String::new());
                        model.insert((keys, second), v);
                    }
                    let values = values.join(", ");
                    db.tag(&format!("INSERT INTO t (time, host, v{columns}) VALUES {values}"))
                        .await;
                }
            }
        }
        check(&db, &model, joined, &mut random, seed).await;
        db.rows("CALL stratalog.compact('t')").await;
        check(&db, &model, joined, &mut random, seed).await;
    }
}
