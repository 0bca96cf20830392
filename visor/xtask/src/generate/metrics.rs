//! The page of the metrics in `/metrics`.

use crate::tree::Tree;

const SOURCE: &str = "flight/http/src/metrics.rs";

/// Makes the page.
///
/// # Errors
/// When the source has no metrics.
pub(super) fn page(tree: &Tree) -> Result<String, String> {
    let metrics = metrics(tree.text(SOURCE)?);
    if metrics.is_empty() {
        return Err(format!("{SOURCE}: no metrics found"));
    }
    let mut page = String::from(
        "# Metrics

<!-- Made from flight/http/src/metrics.rs by `cargo run -p xtask -- docs`. Do not edit. -->

What `GET /metrics` shows on the HTTP port, in Prometheus' text format. Counters begin at 0 with the server, but
for the gsn, which begins with the database.

| metric | kind | meaning |
|---|---|---|
",
    );
    for (name, kind, help) in metrics {
        page.push_str(&format!("| `{name}` | {kind} | {help} |\n"));
    }
    Ok(page)
}

/// (name, kind, meaning) of each metric in the source.
fn metrics(source: &str) -> Vec<(String, String, String)> {
    let block = source.split("\nmetrics! {").nth(1).unwrap_or_default();
    let lines = block.lines().take_while(|line| *line != "}");
    lines
        .filter_map(|line| {
            let (name, rest) = line.trim().strip_prefix('"')?.split_once("\" ")?;
            let (kind, rest) = rest.split_once(" \"")?;
            let (help, _) = rest.split_once("\" =>")?;
            Some((name.to_string(), kind.to_string(), help.to_string()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::metrics;

    #[test]
    fn metrics_are_read_from_their_source() {
        let source = "x\nmetrics! {\n    \"a_total\" counter \"Of a.\" => |s| s.a;\n}\n\"b\" gauge \"B.\" => 1;";
        let found = ("a_total".to_string(), "counter".to_string(), "Of a.".to_string());
        assert_eq!(metrics(source), [found]);
        assert!(metrics(include_str!("../../../../flight/http/src/metrics.rs")).len() > 20);
    }
}
