//! Names of tables.

use crate::sql::error::SqlError;

/// A table name from the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableName {
    schema: Option<String>,
    name: String,
}

impl TableName {
    /// Parses `name` or `schema.name` without a change of case; double quotes have SQL's meaning.
    ///
    /// # Errors
    /// An empty name.
    pub fn parse(text: &str) -> Result<Self, SqlError> {
        let bad = || SqlError::local(format!("\"{text}\" is not a table name"));
        let (first, rest) = part_of(text).ok_or_else(bad)?;
        let (schema, name) = match rest {
            None => (None, first),
            Some(rest) => match part_of(rest).ok_or_else(bad)? {
                (name, None) => (Some(first), name),
                // A name may contain points.
                (_, Some(_)) => (Some(first), rest.to_string()),
            },
        };
        if name.is_empty() || schema.as_deref() == Some("") {
            return Err(bad());
        }
        Ok(Self { schema, name })
    }

    /// The quoted name for SQL.
    pub fn quoted(&self) -> String {
        match &self.schema {
            Some(schema) => format!("{}.{}", quote(schema), quote(&self.name)),
            None => quote(&self.name),
        }
    }
}

/// The first name of a text, and the text after the next point.
fn part_of(text: &str) -> Option<(String, Option<&str>)> {
    let Some(quoted) = text.strip_prefix('"') else {
        return Some(match text.split_once('.') {
            Some((name, rest)) => (name.to_string(), Some(rest)),
            None => (text.to_string(), None),
        });
    };
    let mut name = String::new();
    let mut rest = quoted;
    loop {
        let (before, after) = rest.split_once('"')?;
        name.push_str(before);
        match after.strip_prefix('"') {
            Some(after) => {
                name.push('"');
                rest = after;
            }
            None if after.is_empty() => return Some((name, None)),
            None => return Some((name, Some(after.strip_prefix('.')?))),
        }
    }
}

/// A name for SQL, in quotes.
pub fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
