//! DataFusion's DDL in ours: `CREATE TABLE … AS query` becomes a plain CREATE TABLE and an
//! INSERT, and types that only Arrow has become the SQL type that holds them.

/// A `CREATE TABLE name [(columns)] AS query`.
#[derive(Debug, PartialEq, Eq)]
pub struct CreateAs<'a> {
    /// Name, as written.
    pub name: &'a str,
    /// Column list without its parentheses.
    pub columns: Option<&'a str>,
    /// Whether `OR REPLACE` was said.
    pub replace: bool,
    /// The query.
    pub query: &'a str,
}

/// Splits a CREATE TABLE statement; `None` when it is another statement. Without `AS`, the
/// query is empty.
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

/// What follows the given words, in any case, at the start of `sql`.
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

/// Where the parenthesis that is open at the start of `text` closes.
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

/// The definitions of a column list.
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

/// A definition with SQL types of ours.
pub fn definition(text: &str) -> String {
    const TYPES: [(&str, &str); 12] = [
        ("tinyint unsigned", "smallint"),
        ("smallint unsigned", "integer"),
        ("int unsigned", "bigint"),
        ("integer unsigned", "bigint"),
        ("bigint unsigned", "numeric(20,0)"),
        ("tinyint", "smallint"),
        ("string", "text"),
        ("float", "real"),
        ("double", "double precision"),
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
            return format!("{name} {ours} {after}");
        }
    }
    format!("{name} {rest}")
}

/// The column that a definition names; `None` for table constraints.
pub fn column_name(definition: &str) -> Option<&str> {
    let name = definition.split_whitespace().next()?;
    let constraint = ["primary", "unique", "constraint", "foreign", "check"];
    (!constraint.iter().any(|word| name.eq_ignore_ascii_case(word))).then_some(name)
}

/// Whether a definition is a timestamp's, so that no `time` column is added.
pub fn is_timestamp(definition: &str) -> bool {
    let mut parts = definition.split_whitespace().skip(1);
    parts.next().is_some_and(|name| name.to_ascii_lowercase().starts_with("timestamp"))
}

#[cfg(test)]
mod tests;
