//! The rules for names of databases, schemas, tables and columns.

use stratalog_model::{Error, ErrorKind, Result};

/// Maximum length of a name in bytes, as in PostgreSQL. A longer name is refused, never truncated.
pub const NAME_BYTES_MAX: usize = 63;

/// The schemas of system tables, which exist in every database.
pub const SYSTEM_SCHEMAS: [&str; 3] = ["pg_catalog", "information_schema", "stratalog"];

/// The schema of Stratalog's own system tables, and of the audit log.
pub const OWN_SCHEMA: &str = "stratalog";

/// The name of the audit log in [`OWN_SCHEMA`].
pub const AUDIT_TABLE: &str = "audit";

/// The name of the database that every data directory has.
pub const DEFAULT_DATABASE: &str = "stratalog";

/// Names and oids of databases that a new PostgreSQL server has: clients connect to them before
/// they know any other name. Each name is an alias of [`DEFAULT_DATABASE`], unless a database has
/// this name.
pub const DATABASE_ALIASES: [(&str, u32); 2] = [("postgres", 5), ("template1", 1)];

/// The schema that every database has.
pub const DEFAULT_SCHEMA: &str = "public";

/// Checks that a name of a database, schema, table or column is valid; `what` is the noun for
/// messages.
pub(crate) fn check(what: &str, name: &str) -> Result<()> {
    if name.is_empty() {
        return Err(Error::new(ErrorKind::SyntaxError, "zero-length delimited identifier"));
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(Error::new(
            ErrorKind::NameTooLong,
            format!(
                "{what} name \"{name}\" is {} bytes long, at most {NAME_BYTES_MAX} are allowed",
                name.len()
            ),
        ));
    }
    if name.contains('\0') {
        return Err(Error::new(
            ErrorKind::InvalidParameterValue,
            format!("{what} name contains a null character"),
        ));
    }
    Ok(())
}

/// Truncates a generated name, so that a number can be appended.
pub(crate) fn cut(name: &str) -> &str {
    let mut end = name.len().min(NAME_BYTES_MAX - 4);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    let cut = name.get(..end).unwrap_or(name);
    debug_assert!(cut.len() <= NAME_BYTES_MAX - 4, "no number fits after the name");
    cut
}

/// Checks that users may create or drop a schema with this name.
pub(crate) fn check_schema(name: &str) -> Result<()> {
    check("schema", name)?;
    if SYSTEM_SCHEMAS.contains(&name) || name.starts_with("pg_") {
        let detail = if name.starts_with("pg_") {
            "The prefix \"pg_\" is reserved for system schemas.".to_string()
        } else {
            format!("The name \"{name}\" is reserved for a system schema.")
        };
        return Err(Error::new(
            ErrorKind::ReservedName,
            format!("unacceptable schema name \"{name}\""),
        )
        .with_detail(detail));
    }
    Ok(())
}

/// Checks that users may create a table in the schema.
pub(crate) fn check_not_system(schema: &str, table: &str) -> Result<()> {
    if SYSTEM_SCHEMAS.contains(&schema) {
        return Err(Error::new(
            ErrorKind::InsufficientPrivilege,
            format!("permission denied to create \"{schema}.{table}\""),
        )
        .with_detail("System catalog modifications are currently disallowed."));
    }
    Ok(())
}

/// The name in `known` that is most similar to a misspelt name, if any is similar enough.
pub(crate) fn closest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.len().div_ceil(3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The edit distance between two texts: the minimum number of insertions, deletions and
/// replacements.
fn distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.chars().count()).collect();
    for (at, left) in from.chars().enumerate() {
        let mut diagonal = at;
        let mut before = at + 1;
        let mut next = Vec::with_capacity(row.len());
        next.push(before);
        for (right, above) in to.chars().zip(row.iter().copied().skip(1)) {
            let replace = diagonal + usize::from(left != right);
            diagonal = above;
            before = replace.min(above + 1).min(before + 1);
            next.push(before);
        }
        debug_assert_eq!(next.len(), row.len(), "a row of distances has another length");
        row = next;
    }
    let distance = row.last().copied().unwrap_or(0);
    debug_assert!(distance <= from.len().max(to.len()), "the distance is longer than both texts");
    distance
}
