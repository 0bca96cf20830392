//! Checks of names and texts for columns and tables.

use stratalog_model::{Error, ErrorKind, Result, chronicle::SYSTEM_COLUMNS};

use crate::{fault::excerpt, limits::NAME_BYTES_MAX};

/// Checks that a measurement, tag or field may have the name `name`. `what` names its kind in
/// errors.
pub(crate) fn check_name(what: &str, name: &str) -> Result<()> {
    if name.is_empty() {
        return Err(Error::new(ErrorKind::InvalidName, format!("a {what} has an empty name"))
            .with_hint("write its name"));
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(Error::new(
            ErrorKind::NameTooLong,
            format!(
                "the name of {what} \"{}\" has {} bytes; the maximum is {NAME_BYTES_MAX}",
                excerpt(name),
                name.len()
            ),
        )
        .with_hint("use a shorter name"));
    }
    check_line(what, name)
}

/// Checks that a new column may have the name `name`.
pub(crate) fn check_column_name(what: &str, name: &str) -> Result<()> {
    check_name(what, name)?;
    if SYSTEM_COLUMNS.contains(&name) {
        return Err(Error::new(
            ErrorKind::ReservedName,
            format!("{what} \"{name}\" conflicts with a system column name"),
        )
        .with_hint("use another name"));
    }
    Ok(())
}

/// Checks that a table can store the text: it has no U+0000.
pub(crate) fn check_text(what: &str, text: &str) -> Result<()> {
    if memchr::memchr(0, text.as_bytes()).is_none() {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::UntranslatableCharacter,
        format!(
            "{what} \"{}\" has a character of code 0, which text cannot contain",
            excerpt(text)
        ),
    )
    .with_hint("remove the character"))
}

/// Checks that a name, or the value of a tag, contains no newline. Even an escaped newline is an
/// error: it probably comes from a truncated line, and InfluxDB does not document escaped newlines.
pub(crate) fn check_line(what: &str, text: &str) -> Result<()> {
    check_text(what, text)?;
    if memchr::memchr(b'\n', text.as_bytes()).is_none() {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::InvalidName,
        format!("{what} \"{}\" contains a newline", excerpt(text)),
    )
    .with_hint("only strings can have newlines"))
}
