//! Custom settings of clients: names with a dot that have no meaning for the server.

use std::collections::BTreeSet;

use stratalog_model::{Error, ErrorKind, Result};

/// Maximum number of custom settings in a session.
const NAMES_MAX: usize = 1_000;

/// Maximum bytes of a name and its value together.
const BYTES_MAX: usize = 64 << 10;

/// Maximum bytes of all custom settings together.
const TOTAL_BYTES_MAX: usize = 1 << 20;

/// Number of copies of each value in memory: for the session, for the transaction, and for the
/// state before the transaction.
pub const COPIES: usize = 3;

/// Prefixes of the settings of the server and of DataFusion. Clients cannot create settings with
/// these prefixes.
const RESERVED: [&str; 2] = ["stratalog.", "datafusion."];

/// The names of a session's custom settings. A used name stays known even if its SET is undone, as
/// in PostgreSQL.
#[derive(Debug, Default)]
pub struct CustomNames {
    names: BTreeSet<String>,
}

impl CustomNames {
    /// The stored (lower-case) form of a known name; `None` for an unknown name.
    pub fn find(&self, name: &str) -> Option<&str> {
        self.names.get(name.to_ascii_lowercase().as_str()).map(String::as_str)
    }

    /// All names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Adds a name if it is valid, and returns the stored form.
    ///
    /// # Errors
    /// `UndefinedObject` for a name without a dot, or a name of the server; `InvalidName` for a
    /// name with a part that is not an identifier; `LimitExceeded`.
    pub fn admit(&mut self, name: &str) -> Result<String> {
        let folded = name.to_ascii_lowercase();
        if self.names.contains(&folded) {
            return Ok(folded);
        }
        check_name(name, &folded)?;
        if self.names.len() >= NAMES_MAX {
            return Err(Error::new(
                ErrorKind::LimitExceeded,
                format!("the session already has {NAMES_MAX} custom settings"),
            ));
        }
        self.names.insert(folded.clone());
        Ok(folded)
    }
}

/// Checks that a setting fits within the limits, in addition to other settings of `held` bytes.
///
/// # Errors
/// `LimitExceeded`.
pub fn check_room(name: &str, value: &str, held: usize) -> Result<()> {
    let bytes = name.len() + value.len();
    if bytes <= BYTES_MAX && held.saturating_add(bytes) <= TOTAL_BYTES_MAX {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::LimitExceeded,
        format!(
            "a custom setting of {bytes} bytes exceeds the limit: one setting may have {BYTES_MAX} bytes, all settings of a session {TOTAL_BYTES_MAX} bytes"
        ),
    ))
}

fn check_name(name: &str, folded: &str) -> Result<()> {
    if !name.contains('.') || RESERVED.iter().any(|prefix| folded.starts_with(prefix)) {
        return Err(super::unknown(name));
    }
    if folded.starts_with("plpgsql.") {
        return Err(invalid_name(name).with_detail("\"plpgsql\" is a reserved prefix."));
    }
    let is_identifier = |part: &str| {
        let mut characters = part.chars();
        characters
            .next()
            .is_some_and(|first| first.is_ascii_alphabetic() || first == '_' || !first.is_ascii())
            && characters.all(|next| {
                next.is_ascii_alphanumeric() || matches!(next, '_' | '$') || !next.is_ascii()
            })
    };
    if name.split('.').all(is_identifier) {
        return Ok(());
    }
    Err(invalid_name(name).with_detail(
        "Custom parameter names must be two or more simple identifiers separated by dots.",
    ))
}

fn invalid_name(name: &str) -> Error {
    let message = format!("invalid configuration parameter name \"{name}\"");
    Error::new(ErrorKind::InvalidName, message)
}
