//! Generates the page of the metrics of `GET /metrics`.

use std::collections::BTreeMap;

use crate::tree::Tree;

const SOURCE: &str = "visor/metrics/src/catalogue.rs";

/// A row of the page.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    name: String,
    kind: String,
    /// The name of the list of buckets; empty if the metric is not a histogram.
    buckets: String,
    labels: Vec<String>,
    unit: String,
    help: String,
}

/// Generates the page.
///
/// # Errors
/// The source has no metrics, or a histogram whose buckets are missing.
pub(super) fn page(tree: &Tree) -> Result<String, String> {
    let source = tree.text(SOURCE)?;
    let (rows, lists) = (rows(source), buckets(source));
    if rows.is_empty() {
        return Err(format!("{SOURCE}: no metrics found"));
    }
    let mut page = String::from(
        "# Metrics

<!-- Made from visor/metrics/src/catalogue.rs by `cargo run -p xtask -- docs`. Do not edit. -->

What `GET /metrics` shows on the HTTP port, in Prometheus' text format. Counters begin at 0 with the server, but
for the gsn, which begins with the database. No label names a table, a user or a client: the number of series is fixed.
[Watching it](operations.md#watching-it) has example queries.

| metric | type | labels | unit | meaning |
|---|---|---|---|---|
",
    );
    for Row { name, kind, labels, unit, help, .. } in &rows {
        let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
        let labels = labels.join(", ");
        page.push_str(&format!("| `{name}` | {kind} | {labels} | {unit} | {help} |\n"));
    }
    page.push_str(
        "
## Labels

| label | values |
|---|---|
| `door` | `postgres`, `flight`, `http`, `lines` (line protocol over TCP) |
| `request` | `postgres`: `simple` (a Query message), `extended` (an Execute message); `flight`: `info`, `get`, `put`, `action`; `http`: `query`, `write` (line protocol), `telemetry`, `status` (health, version, metrics); `lines`: `write` (the append of a batch of lines) |
| `class` | the first two characters of a SQLSTATE: [Errors](sql/errors.md) |
| `step` | `logical`: names, types and a logical plan; `physical`: operators, with the optimizer |
| `statement` | `read`, `write`, `definition` (also CALL), `transaction`, `session` (SET, PREPARE, FETCH …) |
| `log` | `events`, `catalog`, `manifest` |
| `kind` | `flush` (from the journal into tablets), `merge` (tablets into fewer tablets), `archive` (tablets into stories), `retention` (removal of expired pieces), `index` (stories with new indexes) |

## Buckets

Upper bounds, inclusive; each histogram also has the bucket `+Inf`. The label `le` shows durations in seconds, and sizes in
bytes.

| metric | buckets |
|---|---|
",
    );
    for Row { name, buckets, unit, .. } in rows.iter().filter(|row| row.kind == "histogram") {
        let bounds = lists.get(buckets).ok_or(format!("{SOURCE}: {name}: no {buckets} found"))?;
        let bounds: Vec<String> = bounds.iter().map(|bound| shown(*bound, unit)).collect();
        page.push_str(&format!("| `{name}` | {} |\n", bounds.join(", ")));
    }
    Ok(page)
}

/// The declared metrics of the source.
fn rows(source: &str) -> Vec<Row> {
    let block = source.split("\nmetrics! {").nth(1).unwrap_or_default();
    block.lines().take_while(|line| *line != "}").filter_map(row).collect()
}

/// Parses `NAME = "name" kind (BUCKETS) ["label"] "unit" "help";`.
fn row(line: &str) -> Option<Row> {
    let (_, rest) = line.split_once(" = \"")?;
    let (name, rest) = rest.split_once("\" ")?;
    let (kind, rest) = rest.split_once(" [")?;
    let (labels, rest) = rest.split_once("] \"")?;
    let (unit, rest) = rest.split_once("\" \"")?;
    let help = rest.strip_suffix("\";")?;
    let (kind, buckets) = kind.split_once(" (").unwrap_or((kind, ""));
    Some(Row {
        name: name.to_string(),
        kind: kind.to_string(),
        buckets: buckets.trim_end_matches(')').to_string(),
        labels: labels.split('"').skip(1).step_by(2).map(String::from).collect(),
        unit: unit.to_string(),
        help: help.to_string(),
    })
}

/// The lists of buckets in the source, by name.
fn buckets(source: &str) -> BTreeMap<String, Vec<u64>> {
    let block = source.split("\nbuckets! {").nth(1).unwrap_or_default();
    let lines = block.lines().take_while(|line| *line != "}");
    lines
        .filter_map(|line| {
            let (name, rest) = line.trim().split_once(" = [")?;
            let bounds = rest.strip_suffix("];")?.split(", ");
            let bounds = bounds.map(|bound| bound.replace('_', "").parse::<u64>().ok());
            Some((name.to_string(), bounds.collect::<Option<Vec<u64>>>()?))
        })
        .collect()
}

/// A bound of a bucket in a readable unit. In the source, bounds of durations are in nanoseconds.
fn shown(bound: u64, unit: &str) -> String {
    let units: &[(u64, &str)] = match unit {
        "seconds" => {
            &[(60_000_000_000, "min"), (1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs")]
        }
        "bytes" => &[(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B")],
        _ => &[],
    };
    match units.iter().find(|(size, _)| bound >= *size) {
        Some((size, name)) => format!("{} {name}", bound as f64 / *size as f64),
        None => bound.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Row, buckets, rows, shown};

    #[test]
    fn metrics_are_read_from_their_source() {
        let source = "x\nbuckets! {\n    NS = [1_000, 2_500];\n}\n\nmetrics! {\n    A = \"a_total\" counter [] \"rows\" \"Of a.\";\n    B = \"b_seconds\" histogram (NS) [\"door\", \"request\"] \"seconds\" \"Of b.\";\n}\n    C = \"c\" gauge [] \"rows\" \"C.\";";
        let row = |name: &str, kind: &str, of: &str, labels: &[&str], unit: &str, help: &str| Row {
            name: name.to_string(),
            kind: kind.to_string(),
            buckets: of.to_string(),
            labels: labels.iter().map(ToString::to_string).collect(),
            unit: unit.to_string(),
            help: help.to_string(),
        };
        let found = [
            row("a_total", "counter", "", &[], "rows", "Of a."),
            row("b_seconds", "histogram", "NS", &["door", "request"], "seconds", "Of b."),
        ];
        assert_eq!(rows(source), found);
        assert_eq!(
            buckets(source).into_iter().collect::<Vec<_>>(),
            [("NS".to_string(), vec![1000, 2500])]
        );
    }

    #[test]
    fn the_product_has_metrics_and_buckets() {
        let source = include_str!("../../../../visor/metrics/src/catalogue.rs");
        let (rows, lists) = (rows(source), buckets(source));
        let lines = source.split("\nmetrics! {").nth(1).unwrap();
        let lines = lines.lines().take_while(|line| *line != "}").filter(|line| line.contains('='));
        assert_eq!(rows.len(), lines.count(), "a row of the list cannot be read");
        for row in rows.iter().filter(|row| row.kind == "histogram") {
            assert!(lists.contains_key(&row.buckets), "{}", row.name);
        }
    }

    #[test]
    fn bounds_have_units() {
        assert_eq!(shown(250_000, "seconds"), "250 µs");
        assert_eq!(shown(2_500_000, "seconds"), "2.5 ms");
        assert_eq!(shown(120_000_000_000, "seconds"), "2 min");
        assert_eq!(shown(65_536, "bytes"), "64 KiB");
        assert_eq!(shown(256, "bytes"), "256 B");
        assert_eq!(shown(10_000, "events"), "10000");
    }
}
