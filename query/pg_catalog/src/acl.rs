//! Access lists in the form of PostgreSQL's type `aclitem`: `grantee=letters/grantor`.

use stratalog_model::ColumnId;
use stratalog_visor_core::{
    CatalogState,
    access::{AccessState, Grant, Object, Privilege, RoleId},
};

/// The oid of schema `public`, whose default access list differs from other schemas.
const PUBLIC_SCHEMA: u32 = 2_200;

/// The privileges of one grantee from one grantor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AclItem {
    /// `None` for PUBLIC.
    pub(crate) grantee: Option<RoleId>,
    pub(crate) grantor: RoleId,
    /// The privileges, each with true for the grant option, in the order of their letters.
    pub(crate) privileges: Vec<(Privilege, bool)>,
}

impl AclItem {
    /// The text of the item.
    pub(crate) fn text(&self, access: &AccessState) -> String {
        let letters: String = self
            .privileges
            .iter()
            .flat_map(|(privilege, grantable)| {
                [Some(privilege.letter()), grantable.then_some('*')].into_iter().flatten()
            })
            .collect();
        let grantee = self.grantee.map_or_else(String::new, |role| quoted(&access.role_name(role)));
        format!("{grantee}={letters}/{}", quoted(&access.role_name(self.grantor)))
    }
}

/// A role's name as in an access list: in quotes if the name has other characters than letters,
/// digits and `_`.
fn quoted(name: &str) -> String {
    match name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        true => name.to_string(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

/// The name of a privilege in `aclexplode` and in `information_schema`: PostgreSQL's name, if
/// PostgreSQL has the privilege.
pub(crate) fn shown_name(privilege: Privilege) -> &'static str {
    match privilege {
        Privilege::Trim => "TRUNCATE",
        other => other.keyword(),
    }
}

/// The privilege of a letter.
pub(crate) fn privilege_of_letter(letter: char) -> Option<Privilege> {
    Privilege::ALL.iter().copied().find(|one| letter != ' ' && one.letter() == letter)
}

/// The privileges of an owner: all that ALL PRIVILEGES means.
fn of_owner(object: Object) -> Vec<(Privilege, bool)> {
    let all = Privilege::grantable_on(object).iter().copied();
    let all = all.filter(|privilege| *privilege != Privilege::Ownership);
    all.map(|privilege| (privilege, false)).collect()
}

/// The access list of an object, with the owner; of a column without the owner.
pub(crate) fn items(
    access: &AccessState,
    object: Object,
    column: Option<ColumnId>,
) -> Vec<AclItem> {
    let owner = access.owner(object);
    let mut items: Vec<AclItem> = Vec::new();
    if column.is_none() {
        let privileges = of_owner(object);
        items.push(AclItem { grantee: Some(owner), grantor: owner, privileges });
    }
    collect(&mut items, access.grants(object).iter().filter(|grant| grant.column == column));
    // In PostgreSQL, the default list of a database begins with PUBLIC.
    if matches!(object, Object::Database(_))
        && items.get(1).is_some_and(|one| one.grantee.is_none())
    {
        items.swap(0, 1);
    }
    items
}

/// Adds grants to the items of their grantee and grantor.
fn collect<'g>(items: &mut Vec<AclItem>, grants: impl Iterator<Item = &'g Grant>) {
    let place = |privilege: Privilege| Privilege::ALL.iter().position(|one| *one == privilege);
    for grant in grants {
        let same =
            |one: &&mut AclItem| (one.grantee, one.grantor) == (grant.grantee, grant.grantor);
        let item = (grant.privilege, grant.grantable);
        match items.iter_mut().find(same) {
            Some(known) => {
                known.privileges.retain(|(privilege, _)| *privilege != grant.privilege);
                known.privileges.push(item);
                known.privileges.sort_by_key(|(privilege, _)| place(*privilege));
            }
            None => items.push(AclItem {
                grantee: grant.grantee,
                grantor: grant.grantor,
                privileges: vec![item],
            }),
        }
    }
}

/// The access list of an object as texts; `None` if nobody has changed the default list.
pub(crate) fn of_object(state: &CatalogState, object: Object) -> Option<Vec<String>> {
    let access = state.access();
    let is_public = matches!(object, Object::Schema { schema: PUBLIC_SCHEMA, .. });
    if !access.has_own_grants(object) && !is_public {
        return None;
    }
    Some(texts(access, &items(access, object, None)))
}

/// The access list of a column as texts; `None` without grants.
pub(crate) fn of_column(
    state: &CatalogState,
    object: Object,
    column: ColumnId,
) -> Option<Vec<String>> {
    let access = state.access();
    let items = items(access, object, Some(column));
    (!items.is_empty()).then(|| texts(access, &items))
}

pub(crate) fn texts(access: &AccessState, items: &[AclItem]) -> Vec<String> {
    items.iter().map(|item| item.text(access)).collect()
}

/// The default access list of a kind of object in `acldefault`; `None` for kinds without
/// privileges.
pub(crate) fn default_list(access: &AccessState, kind: &str, owner: RoleId) -> Option<Vec<String>> {
    let public =
        |privilege| AclItem { grantee: None, grantor: owner, privileges: vec![(privilege, false)] };
    let owned =
        |object| AclItem { grantee: Some(owner), grantor: owner, privileges: of_owner(object) };
    let items = match kind {
        "r" => vec![owned(Object::Chronicle(stratalog_model::ChronicleId(0)))],
        "n" => vec![owned(Object::Schema { database: 0, schema: 0 })],
        "d" => vec![public(Privilege::Connect), owned(Object::Database(0))],
        "c" => Vec::new(),
        _ => return None,
    };
    Some(texts(access, &items))
}
