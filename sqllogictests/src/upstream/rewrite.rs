//! Rewrites DataFusion's DDL for Stratalog. `CREATE TABLE … AS query` becomes a plain CREATE TABLE
//! and an INSERT. Arrow types become SQL types that can hold the same values. Each table gets an
//! additional first column, the tick column, which is removed from results.

/// Name of the added tick column.
pub const TICK: &str = "tick_of_event";

/// A `CREATE TABLE name [(columns)] AS query`.
#[derive(Debug, PartialEq, Eq)]
pub struct CreateAs<'a> {
    /// The name of the table, as written in the statement.
    pub name: &'a str,
    /// The column list without its parentheses; `None` without a list.
    pub columns: Option<&'a str>,
    /// True with `OR REPLACE`.
    pub replace: bool,
    /// The query.
    pub query: &'a str,
}

/// Splits a CREATE TABLE statement; `None` for any other statement. Without `AS`, the query is
/// empty.
pub fn create_table(sql: &str) -> Option<CreateAs<'_>> {
    let rest = words(sql, &["create"])?;
    let (rest, replace) = match words(rest, &["or", "replace"]) {
        Some(rest) => (rest, true),
        None => (rest, false),
    };
    let rest = words(rest, &["table"])?;
    let rest = words(rest, &["if", "not", "exists"]).unwrap_or(rest);
    let end = rest.find(|c: char| c.is_whitespace() || c == '(')?;
    let (name, rest) = rest.split_at(end);
    let rest = rest.trim_start();
    let (columns, rest) = match rest.strip_prefix('(') {
        Some(inner) => {
            let close = closing(inner)?;
            let (columns, after) = inner.split_at(close);
            (Some(columns), after.strip_prefix(')')?.trim_start())
        }
        None => (None, rest),
    };
    let query = words(rest, &["as"]).unwrap_or("").trim().trim_end_matches(';');
    Some(CreateAs { name, columns, replace, query })
}

/// The rest of `sql` after the words `expected`; `None` if `sql` does not start with these words,
/// in any case.
fn words<'a>(sql: &'a str, expected: &[&str]) -> Option<&'a str> {
    let mut rest = sql.trim_start();
    for word in expected {
        let head = rest.get(..word.len())?;
        let tail = rest.get(word.len()..)?;
        let ended = tail.chars().next().is_none_or(|c| !(c.is_alphanumeric() || c == '_'));
        if !head.eq_ignore_ascii_case(word) || !ended {
            return None;
        }
        rest = tail.trim_start();
    }
    Some(rest)
}

/// The position in `text` of the parenthesis that closes a parenthesis opened before `text`.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 1;
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), _) if open == c => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, '(') => depth += 1,
            (None, ')') => {
                depth -= 1;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

/// Splits a column list into the definitions of columns and constraints.
pub fn definitions(columns: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let mut depth = 0;
    let mut start = 0;
    for (at, c) in columns.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                out.extend(columns.get(start..at));
                start = at + 1;
            }
            _ => {}
        }
    }
    out.extend(columns.get(start..));
    out.into_iter().map(str::trim).filter(|definition| !definition.is_empty()).collect()
}

/// Rewrites a column definition with Stratalog's SQL types.
pub fn definition(text: &str) -> String {
    const TYPES: [(&str, &str); 14] = [
        ("tinyint unsigned", "smallint"),
        ("smallint unsigned", "integer"),
        ("int unsigned", "bigint"),
        ("integer unsigned", "bigint"),
        ("bigint unsigned", "numeric(20,0)"),
        ("tinyint", "smallint"),
        ("string", "text"),
        ("float", "real"),
        ("double", "double precision"),
        ("varchar", "text"),
        ("char", "text"),
        ("bytea", "bytea"),
        ("int64", "bigint"),
        ("utf8", "text"),
    ];
    let Some((name, rest)) = text.split_once(char::is_whitespace) else {
        return text.to_string();
    };
    let rest = rest.trim_start();
    for (theirs, ours) in TYPES {
        if let Some(after) = words(rest, &theirs.split(' ').collect::<Vec<_>>()) {
            let after = words(after, &["precision"]).unwrap_or(after);
            // Remove lengths of strings: DataFusion does not enforce them.
            let after = match after.strip_prefix('(') {
                Some(inner) if ours == "text" => inner.split_once(')').map_or("", |(_, rest)| rest),
                _ => after,
            };
            return format!("{name} {ours} {}", without_key(after));
        }
    }
    format!("{name} {}", without_key(rest))
}

/// Removes PRIMARY KEY from a definition: Stratalog's primary keys must end in a tick column.
fn without_key(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    match lower.find("primary key") {
        Some(at) => text.get(..at).unwrap_or(text).to_string(),
        None => text.to_string(),
    }
}

/// The name of the column that a definition defines; `None` for a table constraint.
pub fn column_name(definition: &str) -> Option<&str> {
    let name = definition.split_whitespace().next()?;
    let constraint = ["primary", "unique", "constraint", "foreign", "check"];
    (!constraint.iter().any(|word| name.eq_ignore_ascii_case(word))).then_some(name)
}

/// Splits `INSERT INTO name source` without a column list into the table and the source.
pub fn insert_all(sql: &str) -> Option<(&str, &str)> {
    let rest = words(sql, &["insert", "into"])?;
    let end = rest.find(|c: char| c.is_whitespace() || c == '(')?;
    let (name, rest) = rest.split_at(end);
    let rest = rest.trim_start();
    let source = ["values", "select", "with", "table"];
    let plain = source.iter().any(|word| words(rest, &[word]).is_some());
    let parenthesized = rest
        .strip_prefix('(')
        .is_some_and(|inner| source.iter().any(|word| words(inner, &[word]).is_some()));
    (plain || parenthesized).then_some((name, rest))
}

/// The name of the external table, view or function that a skipped CREATE statement would create.
pub fn left_out_name(sql: &str) -> Option<&str> {
    let mut rest = words(sql, &["create"])?;
    let kinds =
        ["or", "replace", "temporary", "temp", "unbounded", "external", "if", "not", "exists"];
    loop {
        let next = kinds.iter().find_map(|word| words(rest, &[word]));
        match next {
            Some(after) => rest = after,
            None => break,
        }
    }
    let rest = words(rest, &["table"]).or_else(|| words(rest, &["view"]))?;
    let rest = words(rest, &["if", "not", "exists"]).unwrap_or(rest);
    rest.split(|c: char| c.is_whitespace() || c == '(').next().filter(|name| !name.is_empty())
}

/// True if `sql` contains `name` as a whole word, in any case.
pub fn mentions(sql: &str, name: &str) -> bool {
    let sql = sql.to_ascii_lowercase();
    let name = name.to_ascii_lowercase();
    let part = |c: char| c.is_alphanumeric() || c == '_';
    sql.match_indices(&name).any(|(at, found)| {
        let before = sql.get(..at).and_then(|text| text.chars().next_back());
        let after = sql.get(at + found.len()..).and_then(|text| text.chars().next());
        !before.is_some_and(part) && !after.is_some_and(part)
    })
}

#[cfg(test)]
mod tests;
