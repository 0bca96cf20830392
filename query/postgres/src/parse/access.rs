//! Parses statements about roles, rights and row policies. The parser knows few of their forms.
//!
//! ```text
//!   tokens ─► is_access ─► roles │ grants │ owners │ policies ─► AccessSyntax
//!                                                    └─ predicates: the columns of a query
//! ```

mod cursor;
mod grants;
mod owners;
mod policies;
mod redaction;
mod roles;
mod session;
mod syntax;

use datafusion::sql::sqlparser::{
    ast::Expr,
    parser::{Parser, ParserError},
    tokenizer::TokenWithSpan,
};
use stratalog_model::Error;

use self::cursor::Cursor;
use super::{parser_errors::parser_error, words::Words};

pub use redaction::REDACTED;
pub(super) use redaction::redacted;
pub(super) use session::rewrite as rewrite_session;
pub use syntax::{
    AccessSyntax, GrantSyntax, ObjectSyntax, OwnedObject, Password, PolicySyntax, PrivilegeSyntax,
    RoleKind, RoleOption, RoleSpec, SettingValue,
};

/// The reason why a statement cannot be parsed.
pub(super) enum Refusal {
    /// An error of the parser.
    Parser(ParserError),
    /// A complete error.
    Complete(Box<Error>),
}

impl Refusal {
    /// The error for the client; `sql` is the SQL string.
    pub(super) fn into_error(self, sql: &str) -> Error {
        match self {
            Self::Parser(error) => parser_error(sql, error),
            Self::Complete(error) => *error,
        }
    }
}

impl From<ParserError> for Refusal {
    fn from(error: ParserError) -> Self {
        Self::Parser(error)
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Complete(Box::new(error))
    }
}

type Parsed<T> = Result<T, Refusal>;

/// True if this module parses the statement.
pub(super) fn is_access(tokens: &[TokenWithSpan]) -> bool {
    let words = Words::new(tokens);
    let is = |at, wanted: &[&str]| wanted.iter().any(|word| words.is(at, word));
    if is(0, &["grant", "revoke", "reassign"]) {
        return true;
    }
    if is(0, &["comment"]) {
        return is(1, &["on"]) && is(2, &["role"]);
    }
    if !is(0, &["create", "alter", "drop"]) {
        return false;
    }
    let of_user_mapping = is(1, &["user"]) && is(2, &["mapping"]);
    is(1, &["role", "user", "group", "policy"]) && !of_user_mapping
        || is(0, &["drop"]) && is(1, &["owned"])
        || is(0, &["alter"])
            && (is(1, &["default"]) && is(2, &["privileges"]) || is(1, &["database"]))
}

/// Parses a statement for which [`is_access`] is true. Returns the predicates of a policy, and the
/// statement.
///
/// # Errors
/// An error of the parser, or a refused form.
pub(super) fn parse(parser: &mut Parser<'_>) -> Parsed<(Vec<Expr>, AccessSyntax)> {
    let mut cursor = Cursor::new(parser);
    let mut predicates = Vec::new();
    let syntax = match () {
        () if cursor.take("grant") => grants::grant(&mut cursor)?,
        () if cursor.take("revoke") => grants::revoke(&mut cursor)?,
        () if cursor.take("reassign") => owners::reassign(&mut cursor)?,
        () if cursor.take("comment") => roles::comment(&mut cursor)?,
        () if cursor.take("create") => match cursor.take("policy") {
            true => policies::create(&mut cursor, &mut predicates)?,
            false => roles::create(&mut cursor)?,
        },
        () if cursor.take("drop") => match () {
            () if cursor.take("policy") => policies::drop(&mut cursor)?,
            () if cursor.take("owned") => owners::drop_owned(&mut cursor)?,
            () => roles::drop(&mut cursor)?,
        },
        () => {
            cursor.expect("alter")?;
            match () {
                () if cursor.take("policy") => policies::alter(&mut cursor, &mut predicates)?,
                () if cursor.take("default") => grants::defaults(&mut cursor)?,
                () if cursor.take("database") => owners::database(&mut cursor)?,
                () => roles::alter(&mut cursor)?,
            }
        }
    };
    Ok((predicates, syntax))
}

#[cfg(test)]
mod tests;
