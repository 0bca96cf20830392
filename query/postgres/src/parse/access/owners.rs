//! Parses ALTER DATABASE … OWNER TO, REASSIGN OWNED and DROP OWNED.

use super::{
    Parsed,
    cursor::Cursor,
    grants::behavior,
    syntax::{AccessSyntax, OwnedObject},
};

pub(super) fn database(cursor: &mut Cursor<'_, '_>) -> Parsed<AccessSyntax> {
    let database = cursor.ident()?;
    if !cursor.take_all(&["owner", "to"]) {
        return cursor.unsupported(
            "ALTER DATABASE supports only OWNER TO",
            "ALTER ROLE … SET changes the settings of a role's sessions",
        );
    }
    let object = OwnedObject::Database(database);
    Ok(AccessSyntax::SetOwner { object, owner: cursor.role()? })
}

pub(super) fn reassign(cursor: &mut Cursor<'_, '_>) -> Parsed<AccessSyntax> {
    cursor.expect("owned")?;
    cursor.expect("by")?;
    let from = cursor.roles()?;
    cursor.expect("to")?;
    Ok(AccessSyntax::Reassign { from, to: cursor.role()? })
}

pub(super) fn drop_owned(cursor: &mut Cursor<'_, '_>) -> Parsed<AccessSyntax> {
    cursor.expect("by")?;
    let roles = cursor.roles()?;
    behavior(cursor);
    Ok(AccessSyntax::DropOwned { roles })
}
