//! Computes the rows of the system tables about roles, memberships, default privileges and row
//! policies.

use std::collections::BTreeSet;

use stratalog_model::{Error, ErrorKind, Result};
use stratalog_visor_core::access::{
    AccessState, DefaultGrant, Object, Policy, PolicyCommand, Privilege, Role, RoleId,
};

use crate::{
    CatalogContext,
    acl::{self, AclItem},
    oid,
    rows::{Rows, Value},
};

/// The text in place of a password.
const HIDDEN: &str = "********";

fn role_oid(role: RoleId) -> Value {
    role.0.into()
}

fn valid_until(role: &Role) -> Value {
    role.attributes.valid_until_ns.map(|ns| ns.div_euclid(1_000)).into()
}

fn settings(role: &Role) -> Value {
    let all: Vec<String> =
        role.settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
    if all.is_empty() { Value::Null } else { Value::Texts(all) }
}

/// Checks that the session's role is a superuser, for tables with verifiers of passwords.
fn check_superuser(context: &CatalogContext, relation: &str) -> Result<()> {
    let state = context.state();
    let access = state.access();
    match access.is_superuser(context.identity().current()) {
        true => Ok(()),
        false => Err(Error::new(
            ErrorKind::InsufficientPrivilege,
            format!("permission denied for {relation}"),
        )),
    }
}

fn attributes(role: &Role) -> Vec<(&'static str, Value)> {
    let has = &role.attributes;
    vec![
        ("oid", role_oid(role.id)),
        ("rolname", (&role.name).into()),
        ("rolsuper", has.superuser.into()),
        ("rolinherit", has.inherit.into()),
        ("rolcreaterole", has.create_role.into()),
        ("rolcreatedb", has.create_database.into()),
        ("rolcanlogin", has.login.into()),
        ("rolreplication", false.into()),
        ("rolbypassrls", has.bypass_row_security.into()),
        ("rolconnlimit", has.connections_max.map_or(-1, i64::from).into()),
        ("rolvaliduntil", valid_until(role)),
    ]
}

pub(super) fn roles(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    for role in context.state().access().roles() {
        let mut values = attributes(role);
        values.push(("rolpassword", HIDDEN.into()));
        values.push(("rolconfig", settings(role)));
        rows.push(&values)?;
    }
    Ok(())
}

pub(super) fn authids(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    check_superuser(context, "table pg_authid")?;
    for role in context.state().access().roles() {
        let mut values = attributes(role);
        let verifier = role.password.clone().map(String::from);
        values.push(("rolpassword", verifier.into()));
        rows.push(&values)?;
    }
    Ok(())
}

pub(super) fn members(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    for one in context.state().access().memberships() {
        rows.push(&[
            ("roleid", role_oid(one.role)),
            ("member", role_oid(one.member)),
            ("grantor", role_oid(one.grantor)),
            ("admin_option", one.admin.into()),
        ])?;
    }
    Ok(())
}

fn user(role: &Role, password: Value) -> [(&'static str, Value); 9] {
    let has = &role.attributes;
    [
        ("usename", (&role.name).into()),
        ("usesysid", role_oid(role.id)),
        ("usecreatedb", has.create_database.into()),
        ("usesuper", has.superuser.into()),
        ("userepl", false.into()),
        ("usebypassrls", has.bypass_row_security.into()),
        ("passwd", password),
        ("valuntil", valid_until(role)),
        ("useconfig", settings(role)),
    ]
}

pub(super) fn users(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    let state = context.state();
    for role in state.access().roles().filter(|role| role.attributes.login) {
        rows.push(&user(role, HIDDEN.into()))?;
    }
    Ok(())
}

pub(super) fn shadows(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    check_superuser(context, "view pg_shadow")?;
    let state = context.state();
    for role in state.access().roles().filter(|role| role.attributes.login) {
        rows.push(&user(role, role.password.clone().map(String::from).into()))?;
    }
    Ok(())
}

pub(super) fn groups(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    let state = context.state();
    let access = state.access();
    for role in access.roles().filter(|role| !role.attributes.login) {
        let members = access.memberships().iter().filter(|one| one.role == role.id);
        let members = members.map(|one| i64::from(one.member.0)).collect();
        rows.push(&[
            ("groname", (&role.name).into()),
            ("grosysid", role_oid(role.id)),
            ("grolist", Value::Ints(members)),
        ])?;
    }
    Ok(())
}

pub(super) fn role_settings(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    let state = context.state();
    for role in state.access().roles().filter(|role| !role.settings.is_empty()) {
        rows.push(&[
            ("setdatabase", 0_i64.into()),
            ("setrole", role_oid(role.id)),
            ("setconfig", settings(role)),
        ])?;
    }
    Ok(())
}

pub(super) fn role_comments(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    for role in context.state().access().roles() {
        if let Some(comment) = &role.comment {
            rows.push(&[
                ("objoid", role_oid(role.id)),
                ("classoid", oid::AUTHID.into()),
                ("description", comment.into()),
            ])?;
        }
    }
    Ok(())
}

pub(super) fn default_lists(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    let state = context.state();
    let access = state.access();
    let database = state.database(&context.database).map(|found| found.oid);
    let key = |one: &DefaultGrant| (one.creator, one.schema, one.of_schemas);
    let keys: BTreeSet<_> = access.defaults().iter().map(key).collect();
    let here =
        keys.into_iter().filter(|(_, schema, _)| schema.is_none_or(|(of, _)| Some(of) == database));
    for (at, (creator, schema, of_schemas)) in here.enumerate() {
        let given: Vec<&DefaultGrant> = access
            .defaults()
            .iter()
            .filter(|one| key(one) == (creator, schema, of_schemas))
            .collect();
        rows.push(&[
            ("oid", (oid::DEFAULT_LIST_FIRST + i64::try_from(at).unwrap_or_default()).into()),
            ("defaclrole", role_oid(creator)),
            ("defaclnamespace", schema.map_or(0, |(_, schema)| schema).into()),
            ("defaclobjtype", (if of_schemas { "n" } else { "r" }).into()),
            ("defaclacl", Value::Texts(default_texts(access, creator, schema.is_none(), &given))),
        ])?;
    }
    Ok(())
}

/// The list of default privileges: for all schemas, as in PostgreSQL, with the owner.
fn default_texts(
    access: &AccessState,
    creator: RoleId,
    everywhere: bool,
    given: &[&DefaultGrant],
) -> Vec<String> {
    let of_schemas = given.iter().any(|one| one.of_schemas);
    let mut items: Vec<AclItem> = Vec::new();
    for one in given {
        match items.iter_mut().find(|item| item.grantee == one.grantee) {
            Some(item) => item.privileges.push((one.privilege, one.grantable)),
            None => items.push(AclItem {
                grantee: one.grantee,
                grantor: creator,
                privileges: vec![(one.privilege, one.grantable)],
            }),
        }
    }
    for item in &mut items {
        item.privileges.sort_by_key(|(privilege, _)| acl::place(*privilege));
    }
    if everywhere {
        let owner = acl::default_list(if of_schemas { "n" } else { "r" }, creator);
        items.extend(owner.into_iter().flatten());
    }
    items.sort_by_key(|item| item.grantee);
    acl::texts(access, &items)
}

/// The letter and the word of the statements to which a policy applies.
fn command(policy: &Policy) -> (&'static str, &'static str) {
    match policy.command {
        PolicyCommand::Select => ("r", "SELECT"),
        PolicyCommand::Insert => ("a", "INSERT"),
        PolicyCommand::All => ("*", "ALL"),
    }
}

pub(super) fn policies(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    let state = context.state();
    for chronicle in state.chronicles(&context.database) {
        for (at, policy) in state.access().policies(chronicle.id).iter().enumerate() {
            let roles = match policy.roles.is_empty() {
                true => vec![0],
                false => policy.roles.iter().map(|role| i64::from(role.0)).collect(),
            };
            rows.push(&[
                ("oid", oid::policy(chronicle.id, at).into()),
                ("polname", (&policy.name).into()),
                ("polrelid", oid::table(chronicle.id).into()),
                ("polcmd", command(policy).0.into()),
                ("polpermissive", policy.permissive.into()),
                ("polroles", Value::Ints(roles)),
                ("polqual", policy.using_sql.clone().into()),
                ("polwithcheck", policy.check_sql.clone().into()),
            ])?;
        }
    }
    Ok(())
}

pub(super) fn policy_view(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    let state = context.state();
    let access = state.access();
    for chronicle in state.chronicles(&context.database) {
        for policy in access.policies(chronicle.id) {
            let mut roles: Vec<String> =
                policy.roles.iter().map(|role| access.role_name(*role)).collect();
            if roles.is_empty() {
                roles.push("public".to_string());
            }
            let permissive = if policy.permissive { "PERMISSIVE" } else { "RESTRICTIVE" };
            rows.push(&[
                ("schemaname", (&chronicle.schema).into()),
                ("tablename", (&chronicle.name).into()),
                ("policyname", (&policy.name).into()),
                ("permissive", permissive.into()),
                ("roles", Value::Texts(roles)),
                ("cmd", command(policy).1.into()),
                ("qual", policy.using_sql.clone().into()),
                ("with_check", policy.check_sql.clone().into()),
            ])?;
        }
    }
    Ok(())
}

/// The roles whose rights the session has.
fn enabled(context: &CatalogContext) -> BTreeSet<RoleId> {
    let state = context.state();
    let access = state.access();
    let current = context.identity().current();
    match access.is_superuser(current) {
        true => access.roles().map(|role| role.id).collect(),
        false => access.roles_of(current, true),
    }
}

pub(super) fn enabled_roles(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    let state = context.state();
    for role in enabled(context) {
        rows.push(&[("role_name", state.access().role_name(role).into())])?;
    }
    Ok(())
}

pub(super) fn applicable_roles(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    push_roles(context, rows, false)
}

pub(super) fn administrable_roles(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    push_roles(context, rows, true)
}

/// Memberships of the session's roles; with the admin option only, if `admin` is true.
fn push_roles(context: &CatalogContext, rows: &mut Rows<'_>, admin: bool) -> Result<()> {
    let state = context.state();
    let access = state.access();
    let enabled = enabled(context);
    for one in access.memberships().iter().filter(|one| one.admin || !admin) {
        if enabled.contains(&one.member) {
            rows.push(&[
                ("grantee", access.role_name(one.member).into()),
                ("role_name", access.role_name(one.role).into()),
                ("is_grantable", (if one.admin { "YES" } else { "NO" }).into()),
            ])?;
        }
    }
    Ok(())
}

/// A row of `table_privileges` or `column_privileges`.
struct Shown<'a> {
    grantor: RoleId,
    grantee: Option<RoleId>,
    privilege: Privilege,
    /// The grant option; an owner always has it.
    grantable: bool,
    column: Option<&'a str>,
}

pub(super) fn table_privileges(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    push_privileges(context, rows, (true, false))
}

pub(super) fn role_table_grants(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    push_privileges(context, rows, (false, false))
}

pub(super) fn column_privileges(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    push_privileges(context, rows, (true, true))
}

pub(super) fn role_column_grants(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    push_privileges(context, rows, (false, true))
}

/// Fills a view of privileges. With `public`, the view contains grants to PUBLIC; with `by_column`,
/// each privilege that columns can have is shown for each column.
fn push_privileges(
    context: &CatalogContext,
    rows: &mut Rows<'_>,
    (public, by_column): (bool, bool),
) -> Result<()> {
    let state = context.state();
    let access = state.access();
    let enabled = enabled(context);
    for chronicle in state.chronicles(&context.database) {
        let object = Object::Chronicle(chronicle.id);
        let owner = access.owner(object);
        let mut shown: Vec<Shown<'_>> = Vec::new();
        let mut add = |items: Vec<AclItem>, column| {
            for item in items {
                for (privilege, grantable) in item.privileges {
                    let (grantor, grantee) = (item.grantor, item.grantee);
                    let grantable = grantable || grantee == Some(owner);
                    shown.push(Shown { grantor, grantee, privilege, grantable, column });
                }
            }
        };
        match by_column {
            false => add(acl::items(access, object, None), None),
            true => {
                for column in &chronicle.columns {
                    let name = Some(column.name.as_str());
                    let mut of_table = acl::items(access, object, None);
                    for item in &mut of_table {
                        item.privileges.retain(|(privilege, _)| {
                            matches!(privilege, Privilege::Select | Privilege::Insert)
                        });
                    }
                    add(of_table, name);
                    add(acl::items(access, object, Some(column.id)), name);
                }
            }
        }
        for one in shown {
            let mine = enabled.contains(&one.grantor)
                || one.grantee.is_some_and(|role| enabled.contains(&role));
            if !(mine || public && one.grantee.is_none()) {
                continue;
            }
            let grantee =
                one.grantee.map_or_else(|| "PUBLIC".to_string(), |role| access.role_name(role));
            let yes = |value: bool| Value::from(if value { "YES" } else { "NO" });
            let mut values = vec![
                ("grantor", access.role_name(one.grantor).into()),
                ("grantee", grantee.into()),
                ("table_catalog", (&context.connected_to).into()),
                ("table_schema", (&chronicle.schema).into()),
                ("table_name", (&chronicle.name).into()),
                ("privilege_type", acl::shown_name(one.privilege).into()),
                ("is_grantable", yes(one.grantable)),
            ];
            match one.column {
                Some(column) => values.push(("column_name", column.into())),
                None => {
                    values.push(("with_hierarchy", yes(one.privilege == Privilege::Select)));
                }
            }
            rows.push(&values)?;
        }
    }
    Ok(())
}
