//! Parses GRANT, REVOKE and ALTER DEFAULT PRIVILEGES.

use datafusion::sql::sqlparser::tokenizer::Token;
use stratalog_model::{Error, ErrorKind};

use super::{
    Parsed, Refusal,
    cursor::Cursor,
    syntax::{AccessSyntax, GrantSyntax, ObjectSyntax, PrivilegeSyntax, RoleSpec},
};
use crate::names;

/// Kinds of objects in PostgreSQL's GRANT that do not exist here.
const OTHER_KINDS: [&str; 12] = [
    "sequence",
    "function",
    "procedure",
    "routine",
    "language",
    "domain",
    "type",
    "tablespace",
    "foreign",
    "large",
    "parameter",
    "sequences",
];

/// An item in front of ON, TO or FROM: a privilege, or a role.
enum Item {
    /// ALL, ALL PRIVILEGES, ALL (columns).
    All(Option<PrivilegeSyntax>),
    Named {
        name: String,
        privilege: PrivilegeSyntax,
    },
}

fn items(cursor: &mut Cursor<'_, '_>) -> Parsed<Vec<Item>> {
    cursor.list(|cursor| {
        if cursor.take("all") {
            cursor.take("privileges");
            let columns = columns(cursor)?;
            let word = "ALL".to_string();
            return Ok(Item::All(
                columns.map(|found| PrivilegeSyntax { word, columns: Some(found) }),
            ));
        }
        if cursor.take_all(&["alter", "system"]) {
            let privilege = PrivilegeSyntax { word: "ALTER SYSTEM".to_string(), columns: None };
            return Ok(Item::Named { name: String::new(), privilege });
        }
        let ident = cursor.ident()?;
        let name = names::fold(&ident);
        let word = name.to_ascii_uppercase();
        let privilege = PrivilegeSyntax { word, columns: columns(cursor)? };
        Ok(Item::Named { name, privilege })
    })
}

fn columns(
    cursor: &mut Cursor<'_, '_>,
) -> Parsed<Option<Vec<datafusion::sql::sqlparser::ast::Ident>>> {
    if !cursor.take_token(&Token::LParen) {
        return Ok(None);
    }
    let columns = cursor.list(Cursor::ident)?;
    cursor.expect_token(&Token::RParen)?;
    Ok(Some(columns))
}

/// The privileges of a statement; `None` for ALL.
fn privileges(items: Vec<Item>) -> Parsed<Option<Vec<PrivilegeSyntax>>> {
    let mut privileges = Vec::new();
    let count = items.len();
    for item in items {
        match item {
            Item::All(None) if count == 1 => return Ok(None),
            Item::All(None) => {
                let message = "syntax error: ALL must be the only privilege";
                return Err(Refusal::from(Error::new(ErrorKind::SyntaxError, message)));
            }
            Item::All(Some(privilege)) | Item::Named { privilege, .. } => {
                privileges.push(privilege);
            }
        }
    }
    Ok(Some(privileges))
}

/// The groups in GRANT role TO role.
fn groups(cursor: &Cursor<'_, '_>, items: Vec<Item>) -> Parsed<Vec<String>> {
    items
        .into_iter()
        .map(|item| match item {
            Item::Named { name, privilege } if privilege.columns.is_none() && !name.is_empty() => {
                Ok(name)
            }
            Item::Named { .. } => {
                let message = "column names cannot be included in GRANT/REVOKE ROLE";
                Err(Refusal::from(Error::new(ErrorKind::SyntaxError, message)))
            }
            Item::All(_) => cursor.unexpected("ON"),
        })
        .collect()
}

fn granted_by(cursor: &mut Cursor<'_, '_>) -> Parsed<Option<RoleSpec>> {
    match cursor.take_all(&["granted", "by"]) {
        true => cursor.role().map(Some),
        false => Ok(None),
    }
}

/// GRANT, after the word GRANT.
pub(super) fn grant(cursor: &mut Cursor<'_, '_>) -> Parsed<AccessSyntax> {
    let items = items(cursor)?;
    if !cursor.take("on") {
        cursor.expect("to")?;
        let roles = groups(cursor, items)?;
        let members = cursor.roles()?;
        let admin = cursor.take_all(&["with", "admin", "option"])
            || cursor.take_all(&["with", "admin", "true"]);
        if !admin && cursor.is("with") {
            return cursor.unsupported(
                "GRANT of a role accepts only WITH ADMIN OPTION",
                "ALTER ROLE … NOINHERIT decides whether a member inherits rights",
            );
        }
        let granted_by = granted_by(cursor)?;
        return Ok(AccessSyntax::Memberships { grants: true, roles, members, admin, granted_by });
    }
    let privileges = privileges(items)?;
    let objects = objects(cursor)?;
    cursor.expect("to")?;
    let grantees = grantees(cursor)?;
    let grant_option = cursor.take_all(&["with", "grant", "option"]);
    let granted_by = granted_by(cursor)?;
    Ok(AccessSyntax::Grant(GrantSyntax {
        grants: true,
        privileges,
        objects,
        grantees,
        grant_option,
        granted_by,
        cascade: false,
    }))
}

/// REVOKE, after the word REVOKE.
pub(super) fn revoke(cursor: &mut Cursor<'_, '_>) -> Parsed<AccessSyntax> {
    let grant_option = cursor.take_all(&["grant", "option", "for"]);
    let admin = !grant_option && cursor.take_all(&["admin", "option", "for"]);
    let items = items(cursor)?;
    if !grant_option && !cursor.is("on") {
        cursor.expect("from")?;
        let roles = groups(cursor, items)?;
        let members = cursor.roles()?;
        let granted_by = granted_by(cursor)?;
        behavior(cursor);
        return Ok(AccessSyntax::Memberships { grants: false, roles, members, admin, granted_by });
    }
    cursor.expect("on")?;
    let privileges = privileges(items)?;
    let objects = objects(cursor)?;
    cursor.expect("from")?;
    let grantees = grantees(cursor)?;
    let granted_by = granted_by(cursor)?;
    let cascade = behavior(cursor);
    Ok(AccessSyntax::Grant(GrantSyntax {
        grants: false,
        privileges,
        objects,
        grantees,
        grant_option,
        granted_by,
        cascade,
    }))
}

/// Consumes CASCADE or RESTRICT; true for CASCADE.
pub(super) fn behavior(cursor: &mut Cursor<'_, '_>) -> bool {
    let cascade = cursor.take("cascade");
    if !cascade {
        // RESTRICT is the default.
        cursor.take("restrict");
    }
    cascade
}

/// The roles after TO or FROM. PostgreSQL also accepts the word GROUP in front of each role.
fn grantees(cursor: &mut Cursor<'_, '_>) -> Parsed<Vec<RoleSpec>> {
    cursor.list(|cursor| {
        cursor.take("group");
        cursor.role()
    })
}

fn objects(cursor: &mut Cursor<'_, '_>) -> Parsed<ObjectSyntax> {
    if cursor.take("schema") {
        return Ok(ObjectSyntax::Schemas(cursor.list(Cursor::ident)?));
    }
    if cursor.take("database") {
        return Ok(ObjectSyntax::Databases(cursor.list(Cursor::ident)?));
    }
    if cursor.take("all") {
        if !cursor.take("tables") {
            return cursor.unsupported(
                "only ALL TABLES IN SCHEMA is supported",
                "sequences and functions have no privileges",
            );
        }
        cursor.expect("in")?;
        cursor.expect("schema")?;
        return Ok(ObjectSyntax::TablesIn(cursor.list(Cursor::ident)?));
    }
    let named = cursor.is_at(1, "to") || cursor.is_at(1, "from");
    if let Some(kind) = OTHER_KINDS.iter().find(|kind| !named && cursor.is(kind)) {
        return cursor.unsupported(
            format!("GRANT and REVOKE ON {} are not supported", kind.to_uppercase()),
            "privileges exist on tables, schemas and databases",
        );
    }
    if !named && !cursor.take("table") {
        cursor.take("chronicle");
    }
    Ok(ObjectSyntax::Tables(cursor.list(Cursor::object_name)?))
}

/// ALTER DEFAULT PRIVILEGES, after the word DEFAULT.
pub(super) fn defaults(cursor: &mut Cursor<'_, '_>) -> Parsed<AccessSyntax> {
    cursor.expect("privileges")?;
    let (mut creators, mut schemas) = (Vec::new(), Vec::new());
    loop {
        if cursor.take("for") {
            if !cursor.take("role") {
                cursor.expect("user")?;
            }
            creators = cursor.roles()?;
        } else if cursor.take("in") {
            cursor.expect("schema")?;
            schemas = cursor.list(Cursor::ident)?;
        } else {
            break;
        }
    }
    let grants = cursor.take("grant");
    if !grants {
        cursor.expect("revoke")?;
    }
    let mut grant_option = !grants && cursor.take_all(&["grant", "option", "for"]);
    let privileges = privileges(items(cursor)?)?;
    cursor.expect("on")?;
    let of_schemas = match () {
        () if cursor.take("tables") => false,
        () if cursor.take("schemas") => true,
        () if ["sequences", "functions", "routines", "types"]
            .iter()
            .any(|kind| cursor.is(kind)) =>
        {
            return cursor.unsupported(
                "default privileges exist only for TABLES and SCHEMAS",
                "sequences, functions and types have no privileges",
            );
        }
        () => return cursor.unexpected("TABLES or SCHEMAS"),
    };
    cursor.expect(if grants { "to" } else { "from" })?;
    let grantees = grantees(cursor)?;
    if grants {
        grant_option = cursor.take_all(&["with", "grant", "option"]);
    } else {
        behavior(cursor);
    }
    Ok(AccessSyntax::Defaults {
        creators,
        schemas,
        of_schemas,
        grants,
        privileges,
        grantees,
        grant_option,
    })
}
