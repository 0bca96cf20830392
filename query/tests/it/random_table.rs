//! A table of random events: late events, NULL, NaN and infinities, deletes, replacements and added
//! columns, in every tier.

use std::fmt::Write as _;

use stratalog_sim::Random;

use crate::harness::Database;

/// Table `t`.
pub struct RandomTable {
    pub db: Database,
    /// Columns outside of the key, with their types.
    pub columns: Vec<(&'static str, &'static str)>,
    pub collision: &'static str,
}

impl RandomTable {
    /// An empty table.
    pub async fn new(random: &mut Random) -> Self {
        let db = match random.below(4) {
            0 => Database::new(),
            _ => Database::of_small_parts(),
        };
        let collision = pick(random, &["first", "last", "all"]);
        let granularity = pick(random, &["1ns", "1ms"]);
        let key = pick(
            random,
            &[
                "PRIMARY KEY (host, unit, time)",
                "PRIMARY KEY (unit, host, time)",
                "PRIMARY KEY (time)",
            ],
        );
        db.tag(&format!(
            "CREATE TABLE t (time timestamptz NOT NULL, host text NOT NULL, unit int NOT NULL, \
             d double precision, i int, b bigint, s smallint, r real, x text, {key}) \
             WITH (collision = '{collision}', granularity = '{granularity}')"
        ))
        .await;
        let columns = vec![
            ("d", "double"),
            ("i", "int"),
            ("b", "bigint"),
            ("s", "smallint"),
            ("r", "real"),
            ("x", "text"),
        ];
        let zone = pick(random, &["UTC", "Europe/Berlin"]);
        db.tag(&format!("SET TimeZone = '{zone}'")).await;
        Self { db, columns, collision }
    }

    /// Applies a random change to the table.
    pub async fn change(&mut self, random: &mut Random) {
        let Self { db, columns, collision, .. } = self;
        match random.below(8) {
            0 => drop(db.rows("CALL stratalog.flush('t')").await),
            1 | 2 => drop(db.rows("CALL stratalog.compact('t')").await),
            3 => {
                let end = random.below(400);
                db.tag(&format!("DELETE FROM t WHERE time < to_timestamp({end})")).await;
            }
            4 if columns.len() == 6 => {
                db.tag("ALTER TABLE t ADD COLUMN e double precision DEFAULT 2.5").await;
                columns.push(("e", "double"));
            }
            _ => insert(db, random, columns, *collision == "first").await,
        }
    }
}

/// A random text of `values`.
pub fn pick<'a>(random: &mut Random, values: &[&'a str]) -> &'a str {
    values[random.below(values.len() as u64) as usize]
}

/// A value of a column in SQL syntax.
fn value(random: &mut Random, kind: &str) -> String {
    let whole = random.below(2001) as i64 - 1000;
    match (kind, random.below(12)) {
        (_, 0) => "NULL".to_string(),
        ("double", 1) => pick(random, &["'NaN'", "'inf'", "'-inf'"]).to_string(),
        // Sums of eighths are exact in any order of the additions.
        ("double", _) => format!("{}", whole as f64 / 8.0),
        ("text", _) => format!("'{}'", pick(random, &["x", "yy", ""])),
        _ => whole.to_string(),
    }
}

/// Inserts some rows, a few of them late.
async fn insert(db: &Database, random: &mut Random, columns: &[(&str, &str)], first: bool) {
    let mut sql = "INSERT INTO t (time, host, unit".to_string();
    for (name, _) in columns {
        let _ = write!(sql, ", {name}");
    }
    sql.push_str(") VALUES ");
    let (begin, rows) = (random.below(5000), random.below(300) + 1);
    for row in 0..rows {
        let late = random.below(20) == 0;
        let second = if late { random.below(6000) } else { begin + row * 7 };
        let comma = if row == 0 { "" } else { ", " };
        let (host, unit) = (pick(random, &["a", "b", "c", "dd"]), random.below(3) as i64 - 1);
        let _ = write!(sql, "{comma}(to_timestamp({second}.{}), '{host}', {unit}", row % 3);
        for (_, kind) in columns {
            let _ = write!(sql, ", {}", value(random, kind));
        }
        sql.push(')');
    }
    if first {
        sql.push_str(" ON CONFLICT DO NOTHING");
    }
    db.tag(&sql).await;
}

/// Random conditions that the scan can evaluate.
pub fn conditions(random: &mut Random) -> Vec<String> {
    let mut conditions: Vec<String> = Vec::new();
    if random.below(2) == 0 {
        conditions.push(format!("time >= to_timestamp({})", random.below(6000)));
    }
    if random.below(2) == 0 {
        conditions.push(format!("time < to_timestamp({}.5)", random.below(9000)));
    }
    match random.below(4) {
        0 => conditions.push(format!("host = '{}'", pick(random, &["a", "dd", "e"]))),
        1 => conditions.push("host IN ('b', 'c', 'e')".to_string()),
        _ => {}
    }
    if random.below(4) == 0 {
        conditions.push(format!("unit = {}", random.below(4) as i64 - 1));
    }
    conditions
}

/// The same query over rows: the LIMIT prevents pushdown.
pub fn over_rows(sql: &str) -> String {
    sql.replace(" FROM t", " FROM (SELECT * FROM t LIMIT 1000000000000) t")
}
