//! CALL stratalog.create_token and CALL stratalog.revoke_token.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, StringViewArray, TimestampMicrosecondArray},
    datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit},
};
use stratalog_model::{Error, ErrorKind, Result, tiering::duration_ms};
use stratalog_text::parse::datetime::parse_timestamp;
use stratalog_visor_core::{
    access::{AccessCommand, RoleId, TokenScope, TokenSecret},
    catalog::Command,
};

use crate::{Session, statement::transaction};

/// Nanoseconds in a microsecond, the unit of times in results.
const MICROSECOND_NS: i64 = 1_000;

const MILLISECOND_NS: u64 = 1_000_000;

/// The arguments of `create_token`. NULL means: the current role, all rights, and no end.
#[derive(Debug)]
pub(super) struct TokenWish {
    pub(super) name: String,
    pub(super) role: Option<String>,
    pub(super) scope: Option<String>,
    pub(super) expires: Option<String>,
}

/// The schema of the single result row of `create_token`.
pub(super) fn created_schema() -> SchemaRef {
    let time = DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into()));
    Arc::new(Schema::new(vec![
        Field::new("token", DataType::Utf8View, true),
        Field::new("expires", time, true),
    ]))
}

/// The schema of the single result row of `revoke_token`.
pub(super) fn revoked_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("revoked", DataType::Utf8View, true)]))
}

/// Creates a token. The result is the only place where the text of the token ever appears.
///
/// # Errors
/// `InvalidParameterValue` for an unknown scope or an unreadable end; the errors of the catalog.
pub(super) async fn create(session: &Session, wish: TokenWish) -> Result<Vec<ArrayRef>> {
    let scope = match &wish.scope {
        None => TokenScope::All,
        Some(word) => TokenScope::of_keyword(&word.to_ascii_lowercase()).ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidParameterValue,
                format!("\"{word}\" is not the scope of a token"),
            )
            .with_hint("the scopes are read, write and all")
        })?,
    };
    let expires_ns = wish.expires.as_deref().map(|text| end_of(session, text)).transpose()?;
    let secret = TokenSecret::generate()?;
    let command = AccessCommand::CreateToken {
        name: wish.name,
        role: wish.role.unwrap_or_else(|| current_role(session)),
        hash: secret.hash(),
        scope,
        expires_ns: expires_ns.flatten(),
    };
    apply(session, command).await?;
    let expires_us = expires_ns.flatten().map(|ns| ns.div_euclid(MICROSECOND_NS));
    let expires = TimestampMicrosecondArray::from(vec![expires_us]).with_timezone("+00:00");
    Ok(vec![Arc::new(StringViewArray::from(vec![secret.reveal()])), Arc::new(expires)])
}

/// Revokes a token: its sessions end at their next statement.
///
/// # Errors
/// `UndefinedObject`; `InsufficientPrivilege`.
pub(super) async fn revoke(
    session: &Session,
    name: String,
    role: Option<String>,
) -> Result<Vec<ArrayRef>> {
    let role = role.unwrap_or_else(|| current_role(session));
    apply(session, AccessCommand::DropToken { name: name.clone(), role }).await?;
    Ok(vec![Arc::new(StringViewArray::from(vec![name]))])
}

async fn apply(session: &Session, command: AccessCommand) -> Result<()> {
    transaction::check_write(session)?;
    let catalog = &session.parts().catalog;
    catalog.apply(session.identity(), Command::Access(command)).await.map(drop)
}

fn current_role(session: &Session) -> String {
    let role: RoleId = session.identity().current();
    session.whole_catalog().access().role_name(role)
}

/// The end of a validity, in nanoseconds since 1970: a duration from now, such as `90d`, or a time.
/// `None` for `infinity`.
fn end_of(session: &Session, text: &str) -> Result<Option<i64>> {
    let text = text.trim();
    if text.eq_ignore_ascii_case("infinity") {
        return Ok(None);
    }
    if let Ok(ms) = duration_ms("expires", text) {
        let ns = i64::try_from(ms.saturating_mul(MILLISECOND_NS)).unwrap_or(i64::MAX);
        return Ok(Some(session.parts().catalog.now_ns().saturating_add(ns)));
    }
    let at = parse_timestamp(text, MICROSECOND_NS, true, &session.text_style()).map_err(|_| {
        Error::new(
            ErrorKind::InvalidParameterValue,
            format!("\"{text}\" is neither a duration nor a time"),
        )
        .with_hint("write expires => '90d', '12h', '2027-01-31', or 'infinity'")
    })?;
    match at {
        i64::MAX => Ok(None),
        at => Ok(Some(at.saturating_mul(MICROSECOND_NS))),
    }
}
