//! Roles, rights, policies and tokens in the catalog.

use futures::executor::block_on;
use stratalog_model::{ChronicleId, ErrorKind, Result};

use super::{MemoryLog, apply, cpu, create, empty, open};
use crate::{
    access::{
        AccessCommand, Columns, GrantObjects, GrantedPrivileges, Identity, Object, Policy,
        PolicyCommand, Privilege, RoleId, RoleOptions, RowPolicies, TokenScope, Verifier,
    },
    catalog::{Catalog, Command, Outcome},
};

fn run(catalog: &Catalog, actor: Identity, command: AccessCommand) -> Result<Outcome> {
    block_on(catalog.apply(actor, Command::Access(command)))
}

fn role(catalog: &Catalog, name: &str, options: RoleOptions) -> Identity {
    let command = AccessCommand::CreateRole {
        name: name.to_string(),
        options,
        member_of: Vec::new(),
        members: Vec::new(),
        admins: Vec::new(),
        if_not_exists: false,
    };
    run(catalog, Identity::System, command).unwrap();
    Identity::of_role(catalog.state().access().role_named(name).unwrap().id)
}

fn login() -> RoleOptions {
    RoleOptions { login: Some(true), ..RoleOptions::default() }
}

fn granted(privilege: Privilege, columns: Option<&[&str]>) -> GrantedPrivileges {
    let columns = columns.map(|names| names.iter().map(|name| (*name).to_string()).collect());
    GrantedPrivileges::Some(vec![(privilege, columns)])
}

fn grant(
    privileges: GrantedPrivileges,
    object: Object,
    to: &str,
    grantable: bool,
) -> AccessCommand {
    AccessCommand::Grant {
        privileges,
        objects: GrantObjects::Objects(vec![object]),
        grantees: vec![Some(to.to_string())],
        grantable,
    }
}

fn revoke(
    privileges: GrantedPrivileges,
    object: Object,
    from: &str,
    cascade: bool,
) -> AccessCommand {
    AccessCommand::Revoke {
        privileges,
        objects: GrantObjects::Objects(vec![object]),
        grantees: vec![Some(from.to_string())],
        grant_option_only: false,
        cascade,
    }
}

/// A catalog with a table of the founder.
fn with_table() -> (std::sync::Arc<Catalog>, ChronicleId) {
    let catalog = empty();
    let made = create(&catalog, cpu());
    (catalog, made.id)
}

fn decide(
    catalog: &Catalog,
    who: Identity,
    privilege: Privilege,
    object: Object,
    columns: Columns<'_>,
) -> Result<(), ErrorKind> {
    let decided = catalog.state().authorize(&who, privilege, object, columns, catalog.now_ns());
    decided.map_err(|error| error.kind())
}

#[test]
fn a_table_without_a_grant_does_not_exist_for_a_role() {
    let (catalog, id) = with_table();
    let (ann, table) = (role(&catalog, "ann", login()), Object::Chronicle(id));
    let ask = |privilege| decide(&catalog, ann, privilege, table, Columns::All);
    assert_eq!(ask(Privilege::Select), Err(ErrorKind::UndefinedTable));
    let seen = || catalog.visible(catalog.state(), &ann).unwrap().chronicle_count();
    assert_eq!(seen(), 0);
    let reads = || granted(Privilege::Select, None);
    run(&catalog, Identity::System, grant(reads(), table, "ann", false)).unwrap();
    assert_eq!((ask(Privilege::Select), seen()), (Ok(()), 1));
    assert_eq!(ask(Privilege::Insert), Err(ErrorKind::InsufficientPrivilege));
    assert_eq!(ask(Privilege::Ownership), Err(ErrorKind::InsufficientPrivilege));
    // A role without the grant option grants nothing, which is a warning as in PostgreSQL.
    let ben = role(&catalog, "ben", login());
    let granted_nothing = run(&catalog, ann, grant(reads(), table, "ben", false)).unwrap();
    assert_eq!(granted_nothing.notices, ["no privileges were granted for \"cpu\""]);
    let ask_ben = decide(&catalog, ben, Privilege::Select, table, Columns::All);
    assert_eq!(ask_ben, Err(ErrorKind::UndefinedTable));
    run(&catalog, Identity::System, revoke(reads(), table, "ann", false)).unwrap();
    assert_eq!((ask(Privilege::Select), seen()), (Err(ErrorKind::UndefinedTable), 0));
}

#[test]
fn a_grant_on_columns_allows_these_columns_only() {
    let (catalog, id) = with_table();
    let (ann, table) = (role(&catalog, "ann", login()), Object::Chronicle(id));
    let state = catalog.state();
    let columns = &state.chronicle_by_id(id).unwrap().columns;
    let (first, second) = (&columns[0], &columns[1]);
    let some = granted(Privilege::Select, Some(&[&first.name]));
    run(&catalog, Identity::System, grant(some, table, "ann", false)).unwrap();
    let (one, both) = ([first.id], [first.id, second.id]);
    let ask = |columns| decide(&catalog, ann, Privilege::Select, table, columns);
    assert_eq!(ask(Columns::Some(&one)), Ok(()));
    assert_eq!(ask(Columns::Some(&[])), Ok(()));
    let denied = Err(ErrorKind::InsufficientPrivilege);
    assert_eq!(ask(Columns::Some(&both)), denied);
    assert_eq!(ask(Columns::All), denied);
    // REVOKE on the table revokes the privilege on its columns, too.
    let all = granted(Privilege::Select, None);
    run(&catalog, Identity::System, revoke(all, table, "ann", false)).unwrap();
    assert_eq!(ask(Columns::Some(&one)), Err(ErrorKind::UndefinedTable));
}

#[test]
fn grants_of_a_grantee_end_with_the_grant_option() {
    let (catalog, id) = with_table();
    let (ann, bob) = (role(&catalog, "ann", login()), role(&catalog, "bob", login()));
    let table = Object::Chronicle(id);
    let reads = || granted(Privilege::Select, None);
    run(&catalog, Identity::System, grant(reads(), table, "ann", true)).unwrap();
    run(&catalog, ann, grant(reads(), table, "bob", false)).unwrap();
    let refused = run(&catalog, Identity::System, revoke(reads(), table, "ann", false));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::DependentObjects);
    run(&catalog, Identity::System, revoke(reads(), table, "ann", true)).unwrap();
    let ask = decide(&catalog, bob, Privilege::Select, table, Columns::All);
    assert_eq!(ask, Err(ErrorKind::UndefinedTable));
}

#[test]
fn members_inherit_unless_noinherit_and_circles_are_refused() {
    let (catalog, id) = with_table();
    let table = Object::Chronicle(id);
    role(&catalog, "readers", RoleOptions::default());
    let ann = role(&catalog, "ann", login());
    let bob = role(&catalog, "bob", RoleOptions { inherit: Some(false), ..login() });
    let all = granted(Privilege::Select, None);
    run(&catalog, Identity::System, grant(all, table, "readers", false)).unwrap();
    let member = |role: &str, member: &str| AccessCommand::GrantRole {
        role: role.to_string(),
        member: member.to_string(),
        admin: false,
    };
    for name in ["ann", "bob"] {
        run(&catalog, Identity::System, member("readers", name)).unwrap();
    }
    let ask = |who| decide(&catalog, who, Privilege::Select, table, Columns::All);
    assert_eq!((ask(ann), ask(bob)), (Ok(()), Err(ErrorKind::UndefinedTable)));
    let circle = run(&catalog, Identity::System, member("ann", "readers")).unwrap_err();
    assert_eq!(circle.kind(), ErrorKind::InvalidGrant);
    // A role that grants nothing of its own cannot make itself a superuser.
    let denied = run(&catalog, ann, member("stratalog", "ann")).unwrap_err();
    assert_eq!(denied.kind(), ErrorKind::InsufficientPrivilege);
}

#[test]
fn new_objects_belong_to_their_creator_and_get_default_privileges() {
    let catalog = empty();
    let (ann, bob) = (role(&catalog, "ann", login()), role(&catalog, "bob", login()));
    let public = catalog.state().schema_object("stratalog", "public").unwrap();
    let create = || Command::CreateChronicle(cpu());
    let denied = block_on(catalog.apply(ann, create())).unwrap_err();
    assert_eq!(denied.kind(), ErrorKind::InsufficientPrivilege);
    let may_create = granted(Privilege::Create, None);
    run(&catalog, Identity::System, grant(may_create, public, "ann", false)).unwrap();
    let defaults = AccessCommand::SetDefaults {
        creator: None,
        schema: None,
        of_schemas: false,
        privileges: Some(vec![Privilege::Select]),
        grantees: vec![Some("bob".to_string())],
        granted: true,
        grantable: false,
    };
    run(&catalog, ann, defaults).unwrap();
    let made = block_on(catalog.apply(ann, create())).unwrap().chronicle.unwrap();
    let table = Object::Chronicle(made.id);
    assert_eq!(catalog.state().access().owner(table), ann.current());
    let ask = |who, privilege| decide(&catalog, who, privilege, table, Columns::All);
    assert_eq!(ask(ann, Privilege::Trim), Ok(()));
    assert_eq!(ask(bob, Privilege::Select), Ok(()));
    assert_eq!(ask(bob, Privilege::Insert), Err(ErrorKind::InsufficientPrivilege));
    let drop = || Command::DropKnown { id: made.id };
    let denied = block_on(catalog.apply(bob, drop())).unwrap_err();
    assert_eq!(denied.message(), format!("must be owner of table {}", made.name));
    let dropped = AccessCommand::DropRole { name: "ann".to_string(), if_exists: false };
    let used = run(&catalog, Identity::System, dropped.clone()).unwrap_err();
    assert_eq!(used.kind(), ErrorKind::DependentObjects);
    block_on(catalog.apply(ann, drop())).unwrap();
    // Nothing about the table remains, so a later table with another id starts without grants.
    assert_eq!(catalog.state().access().owner(table), RoleId::FOUNDER);
}

#[test]
fn the_first_password_protects_the_server_and_survives_a_restart() {
    let log = std::sync::Arc::<MemoryLog>::default();
    let catalog = Catalog::open(std::sync::Arc::clone(&log) as _, super::clock()).unwrap();
    let valid = |catalog: &Catalog, who| {
        catalog.state().access().rights(&who, catalog.now_ns()).map(drop).map_err(|e| e.kind())
    };
    assert_eq!(valid(&catalog, Identity::Trusted), Ok(()));
    let verifier = Verifier::of_password("secret", 4096).unwrap();
    let options = RoleOptions { password: Some(Some(verifier.clone())), ..login() };
    let ann = role(&catalog, "ann", options);
    assert_eq!(valid(&catalog, Identity::Trusted), Err(ErrorKind::InvalidAuthorization));
    // A removed password does not open the server again.
    let none = RoleOptions { password: Some(None), ..RoleOptions::default() };
    let alter = AccessCommand::AlterRole { name: "ann".to_string(), options: none };
    run(&catalog, ann, alter).unwrap();
    let reopened = open(&log);
    assert!(reopened.state().access().is_protected());
    assert_eq!(*reopened.state(), *catalog.state());
    // Another role's attributes need more rights.
    role(&reopened, "bob", login());
    let superuser = RoleOptions { superuser: Some(true), ..RoleOptions::default() };
    for name in ["ann", "bob"] {
        let alter = AccessCommand::AlterRole { name: name.to_string(), options: superuser.clone() };
        let denied = run(&reopened, ann, alter).unwrap_err();
        assert_eq!(denied.kind(), ErrorKind::InsufficientPrivilege);
    }
}

#[test]
fn tokens_are_limited_by_scope_expiry_and_revocation() {
    let (catalog, id) = with_table();
    let (ann, table) = (role(&catalog, "ann", login()), Object::Chronicle(id));
    run(&catalog, Identity::System, grant(GrantedPrivileges::All, table, "ann", false)).unwrap();
    let expires_ns = catalog.now_ns() + 60_000_000_000;
    let create = |name: &str, digit: &str| AccessCommand::CreateToken {
        name: name.to_string(),
        role: "ann".to_string(),
        hash: digit.repeat(64),
        scope: TokenScope::Read,
        expires_ns: Some(expires_ns),
    };
    run(&catalog, ann, create("grafana", "a")).unwrap();
    let state = catalog.state();
    let token = state.access().token_by_hash(&"a".repeat(64)).unwrap();
    let by_token = Identity::of_token(ann.current(), token.id, token.scope);
    let ask = |privilege, now_ns| {
        let state = catalog.state();
        let asked = state.authorize(&by_token, privilege, table, Columns::All, now_ns);
        asked.map_err(|error| error.kind())
    };
    let now = catalog.now_ns();
    assert_eq!(ask(Privilege::Select, now), Ok(()));
    assert_eq!(ask(Privilege::Insert, now), Err(ErrorKind::InsufficientPrivilege));
    assert_eq!(ask(Privilege::Ownership, now), Err(ErrorKind::InsufficientPrivilege));
    assert_eq!(ask(Privilege::Select, expires_ns), Err(ErrorKind::InvalidAuthorization));
    // A token with a limited scope cannot make another token.
    let denied = run(&catalog, by_token, create("wider", "b")).unwrap_err();
    assert_eq!(denied.kind(), ErrorKind::InsufficientPrivilege);
    let name = "grafana".to_string();
    run(&catalog, ann, AccessCommand::DropToken { name, role: "ann".to_string() }).unwrap();
    assert_eq!(ask(Privilege::Select, now), Err(ErrorKind::InvalidAuthorization));
}

#[test]
fn policies_apply_to_all_but_the_owner_and_deny_by_default() {
    let (catalog, id) = with_table();
    let (ann, table) = (role(&catalog, "ann", login()), Object::Chronicle(id));
    run(&catalog, Identity::System, grant(GrantedPrivileges::All, table, "ann", false)).unwrap();
    let of = |who: Identity| {
        let state = catalog.state();
        let rights = state.access().rights(&who, 0).unwrap();
        rights.row_policies(id, PolicyCommand::Select)
    };
    assert_eq!(of(ann), None);
    let enable = AccessCommand::SetRowSecurity { chronicle: id, enabled: Some(true), forced: None };
    run(&catalog, Identity::System, enable).unwrap();
    assert_eq!(of(ann), Some(RowPolicies::default()));
    // A holder of OWNERSHIP sees every row, like the owner.
    let ownership = || granted(Privilege::Ownership, None);
    run(&catalog, Identity::System, grant(ownership(), table, "ann", false)).unwrap();
    assert_eq!(of(ann), None);
    run(&catalog, Identity::System, revoke(ownership(), table, "ann", false)).unwrap();
    let policy = Policy {
        chronicle: id,
        name: "own".to_string(),
        command: PolicyCommand::All,
        permissive: true,
        roles: Vec::new(),
        using_sql: Some("host = current_user".to_string()),
        check_sql: None,
    };
    let create =
        AccessCommand::CreatePolicy { policy: Box::new(policy), roles: vec!["ann".into()] };
    run(&catalog, Identity::System, create).unwrap();
    let any = vec!["host = current_user".to_string()];
    assert_eq!(of(ann), Some(RowPolicies { any, all: Vec::new() }));
    assert_eq!(of(Identity::System), None);
    let drop = AccessCommand::DropRole { name: "ann".to_string(), if_exists: false };
    let used = run(&catalog, Identity::System, drop).unwrap_err();
    assert!(used.detail().unwrap().contains("target of policy own"), "{used:?}");
    let owned = AccessCommand::DropOwned { name: "ann".to_string() };
    run(&catalog, Identity::System, owned).unwrap();
    assert!(catalog.state().access().policies(id).is_empty());
    let _ = apply(&catalog, Command::DropKnown { id }).unwrap();
    assert!(!catalog.state().access().row_security(id).enabled);
}
