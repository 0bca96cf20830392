//! Parses CREATE, ALTER, DROP and COMMENT ON of roles.

use datafusion::sql::sqlparser::tokenizer::Token;
use stratalog_model::{Error, ErrorKind};

use super::{
    Parsed, Refusal,
    cursor::Cursor,
    syntax::{AccessSyntax, Password, RoleKind, RoleOption, RoleSpec, SettingValue},
};
use crate::names;

/// Consumes ROLE, USER or GROUP.
fn kind(cursor: &mut Cursor<'_, '_>) -> Parsed<RoleKind> {
    match () {
        () if cursor.take("user") => Ok(RoleKind::User),
        () if cursor.take("role") || cursor.take("group") => Ok(RoleKind::Role),
        () => cursor.unexpected("ROLE, USER or GROUP"),
    }
}

pub(super) fn create(cursor: &mut Cursor<'_, '_>) -> Parsed<AccessSyntax> {
    let kind = kind(cursor)?;
    let name = cursor.role()?;
    cursor.take("with");
    Ok(AccessSyntax::CreateRole { name, kind, options: options(cursor, true)? })
}

pub(super) fn alter(cursor: &mut Cursor<'_, '_>) -> Parsed<AccessSyntax> {
    let is_group = cursor.is("group");
    kind(cursor)?;
    if cursor.is("all") {
        return cursor.unsupported(
            "ALTER ROLE ALL is not supported",
            "set the setting for each role, or in the server's configuration",
        );
    }
    let name = cursor.role()?;
    if cursor.take("rename") {
        cursor.expect("to")?;
        return Ok(AccessSyntax::RenameRole { from: name, to: cursor.role()? });
    }
    if is_group && (cursor.is("add") || cursor.is("drop")) {
        let adds = cursor.take("add");
        if !adds {
            cursor.skip();
        }
        cursor.expect("user")?;
        return Ok(AccessSyntax::AlterGroup { group: name, members: cursor.roles()?, adds });
    }
    if cursor.take_all(&["in", "database"]) {
        return cursor.unsupported(
            "ALTER ROLE … IN DATABASE is not supported",
            "without IN DATABASE, the setting holds in all databases",
        );
    }
    if cursor.take("set") {
        return setting(cursor, name);
    }
    if cursor.take("reset") {
        let setting = match cursor.take("all") {
            true => None,
            false => Some(setting_name(cursor)?),
        };
        return Ok(AccessSyntax::SetRoleSetting { name, setting, value: SettingValue::Default });
    }
    cursor.take("with");
    Ok(AccessSyntax::AlterRole { name, options: options(cursor, false)? })
}

fn setting_name(cursor: &mut Cursor<'_, '_>) -> Parsed<String> {
    if cursor.take_all(&["time", "zone"]) {
        return Ok("TimeZone".to_string());
    }
    Ok(names::parts(&cursor.object_name()?)?.join("."))
}

fn setting(cursor: &mut Cursor<'_, '_>, name: RoleSpec) -> Parsed<AccessSyntax> {
    let is_zone = cursor.is_at(0, "time") && cursor.is_at(1, "zone");
    let setting = Some(setting_name(cursor)?);
    if cursor.take_all(&["from", "current"]) {
        return Ok(AccessSyntax::SetRoleSetting { name, setting, value: SettingValue::Current });
    }
    if !is_zone && !cursor.take_token(&Token::Eq) {
        cursor.expect("to")?;
    }
    let value = match cursor.take("default") {
        true => SettingValue::Default,
        false => SettingValue::Values(cursor.list(Cursor::value)?),
    };
    Ok(AccessSyntax::SetRoleSetting { name, setting, value })
}

/// The options of CREATE ROLE, or of ALTER ROLE, which has no lists of roles.
fn options(cursor: &mut Cursor<'_, '_>, creates: bool) -> Parsed<Vec<RoleOption>> {
    let mut options: Vec<RoleOption> = Vec::new();
    while !cursor.is_end() {
        let option = option(cursor, creates)?;
        let same = |one: &RoleOption| std::mem::discriminant(one) == std::mem::discriminant(&option);
        if options.iter().any(same) {
            return Err(Refusal::from(Error::new(
                ErrorKind::SyntaxError,
                "conflicting or redundant options",
            )));
        }
        options.push(option);
    }
    Ok(options)
}

fn option(cursor: &mut Cursor<'_, '_>, creates: bool) -> Parsed<RoleOption> {
    if creates {
        if cursor.take("sysid") {
            cursor.integer()?;
            return Ok(RoleOption::SystemId);
        }
        if cursor.take_all(&["in", "role"]) || cursor.take_all(&["in", "group"]) {
            return Ok(RoleOption::MemberOf(cursor.roles()?));
        }
        if cursor.take("role") || cursor.take("user") {
            return Ok(RoleOption::Members(cursor.roles()?));
        }
        if cursor.take("admin") {
            return Ok(RoleOption::Admins(cursor.roles()?));
        }
    }
    if cursor.take_all(&["connection", "limit"]) {
        return Ok(RoleOption::ConnectionLimit(cursor.integer()?));
    }
    if cursor.take_all(&["valid", "until"]) {
        return Ok(RoleOption::ValidUntil(cursor.expect_text()?));
    }
    if cursor.take_all(&["unencrypted", "password"]) {
        return cursor.unsupported(
            "UNENCRYPTED PASSWORD is no longer supported",
            "Remove UNENCRYPTED to store the password in encrypted form instead.",
        );
    }
    if cursor.take_all(&["encrypted", "password"]) {
        return Ok(RoleOption::Password(Some(Password(cursor.expect_text()?))));
    }
    if cursor.take("password") {
        let password = match cursor.take("null") {
            true => None,
            false => Some(Password(cursor.expect_text()?)),
        };
        return Ok(RoleOption::Password(password));
    }
    let Some(word) = cursor.word() else { return cursor.unexpected("an option") };
    Ok(match word.as_str() {
        "SUPERUSER" => RoleOption::Superuser(true),
        "NOSUPERUSER" => RoleOption::Superuser(false),
        "INHERIT" => RoleOption::Inherit(true),
        "NOINHERIT" => RoleOption::Inherit(false),
        "CREATEROLE" => RoleOption::CreateRole(true),
        "NOCREATEROLE" => RoleOption::CreateRole(false),
        "CREATEDB" => RoleOption::CreateDatabase(true),
        "NOCREATEDB" => RoleOption::CreateDatabase(false),
        "LOGIN" => RoleOption::Login(true),
        "NOLOGIN" => RoleOption::Login(false),
        "BYPASSRLS" => RoleOption::BypassRowSecurity(true),
        "NOBYPASSRLS" => RoleOption::BypassRowSecurity(false),
        "REPLICATION" => RoleOption::Replication(true),
        "NOREPLICATION" => RoleOption::Replication(false),
        _ => {
            return Err(Refusal::from(Error::new(
                ErrorKind::SyntaxError,
                format!("unrecognized role option \"{}\"", word.to_ascii_lowercase()),
            )));
        }
    })
}

pub(super) fn drop(cursor: &mut Cursor<'_, '_>) -> Parsed<AccessSyntax> {
    kind(cursor)?;
    let if_exists = cursor.take_all(&["if", "exists"]);
    Ok(AccessSyntax::DropRoles { names: cursor.roles()?, if_exists })
}

pub(super) fn comment(cursor: &mut Cursor<'_, '_>) -> Parsed<AccessSyntax> {
    cursor.expect("on")?;
    cursor.expect("role")?;
    let name = cursor.role()?;
    cursor.expect("is")?;
    let comment = match cursor.take("null") {
        true => None,
        false => Some(cursor.expect_text()?),
    };
    Ok(AccessSyntax::CommentOnRole { name, comment })
}
