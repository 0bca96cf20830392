//! The last and the first row of each series, compared with all rows, with events in every tier.

use std::collections::{BTreeSet, HashSet};

use stratalog_sim::Random;

use crate::random_table::{RandomTable, conditions, over_rows, pick};

/// A query for one row of each group.
struct Question {
    sql: String,
    /// A query over rows for the groups, with the time of the wanted row of each group.
    ends: String,
    /// The columns of `sql` that are also in `ends`: the groups and the time.
    places: Vec<usize>,
    /// A query for all rows of the table with the columns of `sql`.
    all: String,
}

fn question(random: &mut Random, columns: &[(&str, &str)]) -> Question {
    let names: Vec<&str> =
        ["host", "unit", "time"].into_iter().chain(columns.iter().map(|(name, _)| *name)).collect();
    let keys: Vec<usize> = match random.below(8) {
        0 => vec![0],
        1 => vec![1],
        2 => vec![1, 0],
        3 => vec![],
        _ => vec![0, 1],
    };
    let oldest = random.below(3) == 0;
    let (direction, against, extreme) =
        if oldest { ("", " DESC", "min") } else { (" DESC", "", "max") };
    let conditions = conditions(random);
    let filter = match conditions.is_empty() {
        true => String::new(),
        false => format!(" WHERE {}", conditions.join(" AND ")),
    };
    let groups = keys.iter().map(|at| names[*at]).collect::<Vec<_>>();
    let listed = groups.join(", ");
    let with_time =
        |before: &str| [groups.as_slice(), &[before]].concat().join(", ").replace(", ,", ",");
    let shown = names.join(", ");
    let by = if groups.is_empty() { String::new() } else { format!(" GROUP BY {listed}") };
    let values = |function: &str, direction: &str| {
        let each = names.iter().map(|name| format!("{function}({name} ORDER BY time{direction})"));
        each.collect::<Vec<_>>().join(", ")
    };
    let mut ends =
        over_rows(&format!("SELECT {} FROM t{filter}{by}", with_time(&format!("{extreme}(time)"))));
    let sql = match random.below(if groups.is_empty() { 2 } else { 5 }) {
        0 => format!("SELECT {} FROM t{filter}{by}", values("first_value", direction)),
        1 => format!("SELECT {} FROM t{filter}{by}", values("last_value", against)),
        2 => format!(
            "SELECT DISTINCT ON ({listed}) {shown} FROM t{filter} ORDER BY {}",
            with_time(&format!("time{direction}"))
        ),
        3 => format!(
            "SELECT {shown} FROM (SELECT *, row_number() OVER (PARTITION BY {listed} ORDER BY \
             time{direction}) AS n FROM t{filter}) numbered WHERE {}",
            pick(random, &["n = 1", "n < 2", "n <= 1", "1 = n", "2 > n AND n > 0"])
        ),
        _ => {
            let of = "(VALUES ('a'), ('dd'), ('e'))";
            ends = over_rows(&format!(
                "SELECT host, {extreme}(time) FROM t WHERE host IN (SELECT column1 FROM {of} k)\
                 {} GROUP BY host",
                filter.replace(" WHERE", " AND")
            ));
            let columns = names.iter().map(|name| format!("l.{name}")).collect::<Vec<_>>();
            return Question {
                sql: format!(
                    "SELECT {} FROM {of} k (h), LATERAL (SELECT * FROM t WHERE t.host = k.h{} \
                     ORDER BY time{direction} LIMIT 1) l",
                    columns.join(", "),
                    filter.replace(" WHERE", " AND")
                ),
                ends,
                places: vec![0, 2],
                all: format!("SELECT {shown} FROM t"),
            };
        }
    };
    let places = keys.iter().copied().chain([2]).collect();
    Question { sql, ends, places, all: format!("SELECT {shown} FROM t") }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_row_of_each_group_is_the_newest() {
    let (mut found, mut read) = (0, 0);
    for seed in 0..25 {
        let mut random = Random::new(seed);
        let mut table = RandomTable::new(&mut random).await;
        for step in 0..12 {
            table.change(&mut random).await;
            let db = &table.db;
            for _ in 0..6 {
                let Question { sql, ends, places, all } = question(&mut random, &table.columns);
                let context = format!("seed {seed}, step {step}: {sql}");
                let plan = db.plan(&ends).await;
                assert!(!plan.contains(" of each="), "{plan}");
                // Any of several rows of the same time is correct.
                let all: HashSet<String> = db.rows(&over_rows(&all)).await.into_iter().collect();
                // The third run uses a cached plan.
                for _ in 0..random.below(3) {
                    db.rows(&sql).await;
                }
                let rows = db.rows(&sql).await;
                let empty = |row: &String| row.split('|').all(|value| value == "NULL");
                for row in rows.iter().filter(|row| !empty(row)) {
                    assert!(all.contains(row), "{row} is no row: {context}");
                }
                let shown: Vec<String> = rows
                    .iter()
                    .map(|row| {
                        let values: Vec<&str> = row.split('|').collect();
                        places.iter().map(|at| values[*at]).collect::<Vec<_>>().join("|")
                    })
                    .collect();
                let wanted: BTreeSet<String> = db.rows(&ends).await.into_iter().collect();
                assert_eq!(shown.len(), wanted.len(), "{context}");
                assert_eq!(shown.into_iter().collect::<BTreeSet<_>>(), wanted, "{context}");
                found += usize::from(db.plan(&sql).await.contains(" of each=["));
                read += rows.len();
            }
        }
    }
    // The random queries reach the tested code.
    assert!(found > 600 && read > 3000, "{found} {read}");
}
