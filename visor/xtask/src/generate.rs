//! Documentation pages generated from the code: the command `docs` writes the pages, `tidy` checks
//! that the pages are current.

mod functions;
mod metrics;
mod system_tables;

use std::fs;

use crate::{tidy::Finding, tree::Tree};

/// The path of a generated page, and the function for generating the page.
struct Page {
    path: &'static str,
    make: fn(&Tree) -> Result<String, String>,
}

/// All generated pages. Add a line for a new page.
const PAGES: [Page; 5] = [
    Page { path: "docs/sql/errors.md", make: errors_page },
    Page { path: "docs/sql/session-settings.md", make: session_settings_page },
    Page { path: "docs/sql/functions.md", make: functions::page },
    Page { path: "docs/sql/system-tables.md", make: system_tables::page },
    Page { path: "docs/metrics.md", make: metrics::page },
];

const ERRORS: &str = "storage/model/src/error.rs";
const SESSION_SETTINGS: &str = "query/src/session/variables/registry.rs";

/// Writes every page.
pub fn write_all(tree: &Tree) -> Result<String, String> {
    for page in PAGES {
        let text = (page.make)(tree)?;
        fs::write(tree.root.join(page.path), text)
            .map_err(|error| format!("{}: {error}", page.path))?;
    }
    Ok(format!("docs: {} pages written", PAGES.len()))
}

/// Reports pages with a text different from the newly generated text.
pub fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for page in PAGES {
        let message = match (page.make)(tree) {
            Err(error) => error,
            Ok(text) if tree.text(page.path) == Ok(text.as_str()) => continue,
            Ok(_) => "is not what the code says; run `cargo run -p xtask -- docs`".to_string(),
        };
        findings.push(Finding::new(page.path, 0, message));
    }
}

/// The number and the text of each promise in `registry`, the source text of the registry of
/// promises.
pub fn promises(registry: &str) -> Vec<(String, String)> {
    let block = registry
        .split("\npromises! {")
        .nth(1)
        .unwrap_or_else(|| registry.strip_prefix("promises! {").unwrap_or_default());
    block
        .lines()
        .take_while(|line| !line.starts_with('}'))
        .filter_map(|line| {
            let (_, rest) = line.split_once(" = ")?;
            let (number, text) = rest.split_once(": \"")?;
            Some((number.to_string(), text.strip_suffix("\";")?.to_string()))
        })
        .collect()
}

/// Generates the page of error kinds from their table in the code.
fn errors_page(tree: &Tree) -> Result<String, String> {
    let kinds = error_kinds(tree.text(ERRORS)?);
    if kinds.is_empty() {
        return Err(format!("{ERRORS}: no error kinds found"));
    }
    let mut page = String::from(
        "# Errors

<!-- Made from storage/model/src/error.rs by `cargo run -p xtask -- docs`. Do not edit. -->

Every error has a five-character SQLSTATE, the same over every protocol; *status* is the gRPC code
that goes with it over Flight SQL, and what HTTP answers follows from it. *Again* says whether the same
request, sent again unchanged, can succeed.

| SQLSTATE | kind | status | again | meaning |
|---|---|---|---|---|
",
    );
    for kind in kinds {
        let again = if kind.retryable { "yes" } else { "no" };
        page.push_str(&format!(
            "| `{}` | {} | {} | {again} | {} |\n",
            kind.sqlstate, kind.name, kind.status, kind.meaning
        ));
    }
    Ok(page)
}

/// A row of the table of error kinds.
#[derive(Debug, PartialEq, Eq)]
struct Kind {
    name: String,
    sqlstate: String,
    retryable: bool,
    status: String,
    meaning: String,
}

fn error_kinds(source: &str) -> Vec<Kind> {
    let block = source.split("\nkinds! {").nth(1).unwrap_or_default();
    let mut meaning = Vec::new();
    let mut kinds = Vec::new();
    for line in block.lines().map(str::trim).take_while(|line| *line != "}") {
        if let Some(text) = line.strip_prefix("///") {
            meaning.push(text.trim());
            continue;
        }
        let entry = line.strip_suffix(';').and_then(|line| line.split_once(" = \""));
        if let Some((name, rest)) = entry
            && let Some((sqlstate, rest)) = rest.split_once("\", ")
            && let Some((retryable, status)) = rest.split_once(", ")
        {
            kinds.push(Kind {
                name: name.to_string(),
                sqlstate: sqlstate.to_string(),
                retryable: retryable == "true",
                status: status.to_string(),
                meaning: meaning.join(" "),
            });
            meaning.clear();
        }
    }
    kinds
}

/// Generates the page of session settings (SET) from their registry in the code.
fn session_settings_page(tree: &Tree) -> Result<String, String> {
    let settings = session_settings(tree.text(SESSION_SETTINGS)?);
    if settings.is_empty() {
        return Err(format!("{SESSION_SETTINGS}: no settings found"));
    }
    let mut page = String::from(
        "# Session settings

<!-- Made from query/src/session/variables/registry.rs by `cargo run -p xtask -- docs`. Do not edit. -->

`SET name = value` changes a setting for the session, `SET LOCAL` for the transaction block,
`SHOW name` and `SHOW ALL` show them, `RESET` goes back to how the session started. A change
that would have no effect is refused, but for hints to PostgreSQL's planner: they are taken, and a notice
says that they have none. Settings of the server are on [another page](../settings.md).

A name with a dot is a setting of the client's own, `SET myapp.user_id = '42'`: up to 1,000 of them, of
64 KiB each and 1 MiB together (54000). `SHOW`, `current_setting`, `set_config`, `SET LOCAL` and
`pg_settings` know it from then on, and `RESET` makes it empty. Names that begin with `stratalog.` or
`datafusion.` are not free (42704).

| setting | default | can be set | what it does |
|---|---|---|---|
",
    );
    for Setting { name, default, rule, does } in settings {
        let default = if default.is_empty() { String::new() } else { format!("`{default}`") };
        let can = match rule.as_str() {
            "Fixed" => "no",
            "Encoding" => "to UTF8 only",
            rule if rule.starts_with("SwitchOnly") => "to its default only",
            "Hint" => "without effect",
            _ => "yes",
        };
        page.push_str(&format!("| `{name}` | {default} | {can} | {does} |\n"));
    }
    Ok(page)
}

/// A row of the table of session settings.
#[derive(Debug, PartialEq, Eq)]
struct Setting {
    name: String,
    default: String,
    rule: String,
    does: String,
}

/// Parses the lines `setting("name", "default", Rule::Kind, reported, "what it does"),`.
fn session_settings(source: &str) -> Vec<Setting> {
    source
        .lines()
        .filter_map(|line| line.trim().strip_prefix("setting(")?.strip_suffix("),"))
        .filter_map(|line| {
            let (name, rest) = literal(line)?;
            let (default, rest) = literal(rest).unwrap_or_else(|| {
                // The default is a constant, for example the version. The page must not change with
                // the value, and shows an empty default.
                (
                    String::new(),
                    rest.split_once("Rule::")
                        .map_or("", |(before, _)| rest.get(before.len()..).unwrap_or("")),
                )
            });
            let (_, rule) = rest.split_once("Rule::")?;
            let kind = rule.split([',', '(']).next()?;
            let text = rule.strip_suffix('"')?;
            let (_, does) = text.rsplit_once(", \"")?;
            Some(Setting { name, default, rule: kind.to_string(), does: does.to_string() })
        })
        .collect()
}

/// The string literal at the start of a text, after commas and spaces; and the text after the
/// literal.
fn literal(text: &str) -> Option<(String, &str)> {
    let inside = text.trim_start_matches([',', ' ']).strip_prefix('"')?;
    let mut value = String::new();
    let mut characters = inside.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, inside.get(at + 1..)?)),
            '\\' => value.push(characters.next()?.1),
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests;
