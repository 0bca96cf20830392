//! Parses names of tables and columns on the command line.

use crate::sql::error::SqlError;

/// A table name from the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableName {
    schema: Option<String>,
    name: String,
}

impl TableName {
    /// Parses `name` or `schema.name`. Double quotes have the same meaning as in SQL; names without
    /// quotes keep their case.
    ///
    /// # Errors
    /// An empty name.
    pub fn parse(text: &str) -> Result<Self, SqlError> {
        let bad = || SqlError::local(format!("\"{text}\" is not a table name"));
        let (first, rest) = part_of(text, '.').ok_or_else(bad)?;
        let (schema, name) = match rest {
            None => (None, first),
            Some(rest) => match part_of(rest, '.').ok_or_else(bad)? {
                (name, None) => (Some(first), name),
                // A quoted name may contain dots.
                (_, Some(_)) => (Some(first), rest.to_string()),
            },
        };
        if name.is_empty() || schema.as_deref() == Some("") {
            return Err(bad());
        }
        Ok(Self { schema, name })
    }

    /// The name in quotes, for SQL.
    pub fn quoted(&self) -> String {
        match &self.schema {
            Some(schema) => format!("{}.{}", quote(schema), quote(&self.name)),
            None => quote(&self.name),
        }
    }
}

/// The names of key columns in a flag, separated by commas. Double quotes have the same meaning as
/// in SQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyNames(Vec<String>);

impl KeyNames {
    /// Makes the value of the flag for these names.
    pub fn new(names: &[String]) -> Self {
        Self(names.to_vec())
    }

    /// Parses the value of the flag.
    ///
    /// # Errors
    /// A name without its closing quote, or text after a closing quote.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut names = Vec::new();
        let mut rest = Some(text);
        while let Some(text) = rest {
            let (name, after) = part_of(text, ',').ok_or_else(|| {
                format!("a name in double quotes ends with a double quote and a comma: {text}")
            })?;
            names.push(name);
            rest = after;
        }
        Ok(Self(names))
    }

    /// The names of the key columns.
    pub fn names(&self) -> &[String] {
        &self.0
    }
}

impl std::fmt::Display for KeyNames {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, name) in self.0.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            match is_plain(name) {
                true => write!(f, "{comma}{name}")?,
                false => write!(f, "{comma}{}", quote(name))?,
            }
        }
        Ok(())
    }
}

/// True for a name that needs no quotes on a command line.
pub(super) fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The first name in a text, and the text after the separator that follows the name; `None` if a
/// quote is not closed.
fn part_of(text: &str, separator: char) -> Option<(String, Option<&str>)> {
    let Some(quoted) = text.strip_prefix('"') else {
        return Some(match text.split_once(separator) {
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
            None => return Some((name, Some(after.strip_prefix(separator)?))),
        }
    }
}

/// The name in double quotes, for SQL.
pub fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
