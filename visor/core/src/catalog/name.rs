//! The rules for names.

use stratalog_model::{Error, ErrorKind, Result};

/// Maximum length of a name in bytes, like PostgreSQL. A longer name is refused, never truncated.
pub const NAME_BYTES_MAX: usize = 63;

/// System schemas of every database.
pub const SYSTEM_SCHEMAS: [&str; 3] = ["pg_catalog", "information_schema", "stratalog"];

/// The database in every data directory.
pub const DEFAULT_DATABASE: &str = "stratalog";

/// Databases of a new PostgreSQL server, with their oids: a client connects to them before it knows
/// any other name. Each is an alias of [`DEFAULT_DATABASE`], unless a database with the name
/// exists.
pub const DATABASE_ALIASES: [(&str, u32); 2] = [("postgres", 5), ("template1", 1)];

/// The schema in every database.
pub const DEFAULT_SCHEMA: &str = "public";

/// Checks a name of a database, schema, table or column.
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

/// Truncates a generated name: a number still fits after the name.
pub(crate) fn cut(name: &str) -> &str {
    let mut end = name.len().min(NAME_BYTES_MAX - 4);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    let cut = name.get(..end).unwrap_or(name);
    debug_assert!(cut.len() <= NAME_BYTES_MAX - 4, "no number fits after the name");
    cut
}

/// Checks that users may create or drop the schema.
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

/// The closest match among `known` for a misspelt name, if any name is close enough.
pub(crate) fn closest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.len().div_ceil(3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The edit distance: insertions, deletions and replacements from one text to the other.
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
