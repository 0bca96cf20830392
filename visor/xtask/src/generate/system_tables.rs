//! Generates the page of Stratalog's system tables, from their list in the code.

use crate::tree::Tree;

const SOURCE: &str = "query/pg_catalog/src/spec/own.rs";

const HEAD: &str = "# System tables

<!-- Made from query/pg_catalog/src/spec/own.rs by `cargo run -p xtask -- docs`. Do not edit. -->

Schema `stratalog` of every database holds what an operator needs to see. The tables are computed
when they are read. `pg_catalog` and `information_schema` are there for clients, as in PostgreSQL.
";

/// Generates the page.
pub(super) fn page(tree: &Tree) -> Result<String, String> {
    let tables = tables(tree.text(SOURCE)?);
    if tables.is_empty() {
        return Err(format!("{SOURCE}: no tables found"));
    }
    let mut page = String::from(HEAD);
    for (name, columns) in tables {
        page.push_str(&format!("\n## stratalog.{name}\n\n| column | type |\n|---|---|\n"));
        for (column, column_type) in columns {
            page.push_str(&format!("| `{column}` | {column_type} |\n"));
        }
    }
    Ok(page)
}

/// Name and columns of every `Spec { name: "…", columns: "a int8, b text" }`.
fn tables(source: &str) -> Vec<(String, Vec<(String, String)>)> {
    let field = |text: &str, key: &str| {
        let (_, rest) = text.split_once(&format!("{key}: \""))?;
        Some(rest.split_once('"')?.0.to_string())
    };
    source
        .split("Spec {")
        .skip(1)
        .filter_map(|spec| Some((field(spec, "name")?, field(spec, "columns")?)))
        .map(|(name, columns)| {
            let columns = columns.replace('\\', " ");
            let words = columns.split(',').map(|column| column.split_whitespace().collect());
            let pairs = words.filter_map(|words: Vec<&str>| {
                let (column, column_type) = words.split_first()?;
                Some((column.to_string(), long_name(&column_type.join(" "))))
            });
            (name, pairs.collect())
        })
        .collect()
}

/// The SQL name of an abbreviated type.
fn long_name(short: &str) -> String {
    let (base, array) = match short.strip_suffix("[]") {
        Some(base) => (base, "[]"),
        None => (short, ""),
    };
    let long = match base {
        "int2" => "smallint",
        "int4" => "integer",
        "int8" => "bigint",
        "bool" => "boolean",
        "float8" => "double precision",
        other => other,
    };
    format!("{long}{array}")
}

#[cfg(test)]
mod tests {
    use super::tables;

    #[test]
    fn columns_may_go_over_lines() {
        let source = "&[\n Spec {\n name: \"store\",\n oid: 1,\n columns: \"gsn int8, key_columns \\\n   text[], up bool\",\n },\n];";
        let column = |name: &str, kind: &str| (name.to_string(), kind.to_string());
        let columns =
            vec![column("gsn", "bigint"), column("key_columns", "text[]"), column("up", "boolean")];
        assert_eq!(tables(source), [("store".to_string(), columns)]);
    }
}
