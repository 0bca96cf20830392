//! Parses CREATE, ALTER and DROP POLICY.

use datafusion::sql::sqlparser::{
    ast::{Expr, Ident},
    tokenizer::Token,
};
use stratalog_model::{Error, ErrorKind};

use super::{
    Parsed, Refusal,
    cursor::Cursor,
    syntax::{AccessSyntax, PolicySyntax},
};

fn named(cursor: &mut Cursor<'_, '_>) -> Parsed<PolicySyntax> {
    let name: Ident = cursor.ident()?;
    cursor.expect("on")?;
    Ok(PolicySyntax {
        name,
        table: cursor.object_name()?,
        permissive: true,
        command: "ALL".to_string(),
        roles: None,
        has_using: false,
        has_check: false,
    })
}

/// Reads TO, USING and WITH CHECK.
fn clauses(
    cursor: &mut Cursor<'_, '_>,
    policy: &mut PolicySyntax,
    predicates: &mut Vec<Expr>,
) -> Parsed<()> {
    if cursor.take("to") {
        policy.roles = Some(cursor.roles()?);
    }
    if cursor.take("using") {
        policy.has_using = true;
        predicates.push(predicate(cursor)?);
    }
    if cursor.take_all(&["with", "check"]) {
        policy.has_check = true;
        predicates.push(predicate(cursor)?);
    }
    Ok(())
}

fn predicate(cursor: &mut Cursor<'_, '_>) -> Parsed<Expr> {
    cursor.expect_token(&Token::LParen)?;
    let predicate = cursor.expression()?;
    cursor.expect_token(&Token::RParen)?;
    Ok(predicate)
}

pub(super) fn create(
    cursor: &mut Cursor<'_, '_>,
    predicates: &mut Vec<Expr>,
) -> Parsed<AccessSyntax> {
    let mut policy = named(cursor)?;
    if cursor.take("as") {
        policy.permissive = match cursor.word().as_deref() {
            Some("PERMISSIVE") => true,
            Some("RESTRICTIVE") => false,
            other => {
                let message = format!(
                    "unrecognized row security option \"{}\"",
                    other.unwrap_or_default().to_ascii_lowercase()
                );
                let error = Error::new(ErrorKind::SyntaxError, message);
                return Err(Refusal::from(error.with_hint(
                    "Only PERMISSIVE or RESTRICTIVE policies are supported currently.",
                )));
            }
        };
    }
    if cursor.take("for") {
        let words = ["all", "select", "insert", "update", "delete"];
        let Some(word) = words.into_iter().find(|word| cursor.take(word)) else {
            return cursor.unexpected("ALL, SELECT or INSERT");
        };
        if matches!(word, "update" | "delete") {
            return cursor.unsupported(
                format!("CREATE POLICY … FOR {} is not supported", word.to_uppercase()),
                "policies apply to SELECT, INSERT or ALL; a role with row policies cannot delete",
            );
        }
        policy.command = word.to_uppercase();
    }
    clauses(cursor, &mut policy, predicates)?;
    let message = match policy.command.as_str() {
        "SELECT" if policy.has_check => "WITH CHECK cannot be applied to SELECT or DELETE",
        "INSERT" if policy.has_using => "only WITH CHECK expression allowed for INSERT",
        _ => return Ok(AccessSyntax::CreatePolicy(policy)),
    };
    Err(Refusal::from(Error::new(ErrorKind::SyntaxError, message)))
}

pub(super) fn alter(
    cursor: &mut Cursor<'_, '_>,
    predicates: &mut Vec<Expr>,
) -> Parsed<AccessSyntax> {
    let mut policy = named(cursor)?;
    if cursor.take("rename") {
        cursor.expect("to")?;
        let to = cursor.ident()?;
        return Ok(AccessSyntax::RenamePolicy { name: policy.name, table: policy.table, to });
    }
    clauses(cursor, &mut policy, predicates)?;
    Ok(AccessSyntax::AlterPolicy(policy))
}

pub(super) fn drop(cursor: &mut Cursor<'_, '_>) -> Parsed<AccessSyntax> {
    let if_exists = cursor.take_all(&["if", "exists"]);
    let PolicySyntax { name, table, .. } = named(cursor)?;
    super::grants::behavior(cursor);
    Ok(AccessSyntax::DropPolicy { name, table, if_exists })
}
