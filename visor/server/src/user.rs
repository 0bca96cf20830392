//! The command `user`: creates, changes, drops and lists roles, on a server, or offline to get back
//! in.

use std::{collections::BTreeMap, process::ExitCode};

use clap::Subcommand;
use stratalog_visor_core::{
    CatalogState,
    access::{AccessCommand, ITERATIONS_DEFAULT, Role, RoleOptions, Verifier},
};

use crate::{
    access_target::{self, AccessTarget, parse_end, print_columns, time_text},
    password::{NewPassword, PasswordArguments},
    sql::{ConnectArguments, error::SqlError},
};

/// Creates, changes, drops and lists users.
///
/// With --data-dir no server may have the directory open, and no login is needed.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct UserArguments {
    #[command(subcommand)]
    action: UserAction,
}

#[derive(Debug, Clone, Subcommand)]
enum UserAction {
    /// Create a user; with --data-dir also a new database, if there is none
    Create(CreateUserArguments),
    /// Change a user: password, rights, memberships, name
    Alter(AlterArguments),
    /// Drop a user that owns nothing
    Drop(DropArguments),
    /// List all users and groups
    List(ListUsersArguments),
}

#[derive(Debug, Clone, clap::Args)]
struct CreateUserArguments {
    /// Name of the user.
    name: String,
    /// All rights.
    #[arg(long)]
    superuser: bool,
    /// May create other users.
    #[arg(long)]
    create_role: bool,
    /// May create databases.
    #[arg(long)]
    create_database: bool,
    /// A group: nobody logs in as this role, so it has no password.
    #[arg(long)]
    no_login: bool,
    /// Make the user a member of this role; repeat for several roles.
    #[arg(long, value_name = "ROLE")]
    member_of: Vec<String>,
    #[command(flatten)]
    password: PasswordArguments,
    #[command(flatten)]
    limits: LimitArguments,
    #[command(flatten)]
    connect: ConnectArguments,
}

#[derive(Debug, Clone, clap::Args)]
struct LimitArguments {
    /// End of the password: 90d, 2027-01-31 or infinity.
    #[arg(long, value_name = "TIME")]
    valid_until: Option<String>,
    /// Maximum number of simultaneous sessions; -1 for no limit.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    connection_limit: Option<i32>,
}

#[derive(Debug, Clone, clap::Args)]
struct AlterArguments {
    /// Name of the user.
    name: String,
    /// Ask for a new password.
    #[arg(long, conflicts_with_all = ["generate_password", "password_file", "no_password"])]
    ask_password: bool,
    /// Remove the password.
    #[arg(long, conflicts_with_all = ["generate_password", "password_file"])]
    no_password: bool,
    /// All rights.
    #[arg(long, conflicts_with = "no_superuser")]
    superuser: bool,
    /// Only granted rights.
    #[arg(long)]
    no_superuser: bool,
    /// Allow logins.
    #[arg(long, conflicts_with = "no_login")]
    login: bool,
    /// Refuse logins.
    #[arg(long)]
    no_login: bool,
    /// Make the user a member of this role; repeat for several roles.
    #[arg(long, value_name = "ROLE")]
    member_of: Vec<String>,
    /// End the user's membership in this role; repeat for several roles.
    #[arg(long, value_name = "ROLE")]
    remove_from: Vec<String>,
    /// New name of the user.
    #[arg(long, value_name = "NAME")]
    rename: Option<String>,
    #[command(flatten)]
    password: PasswordArguments,
    #[command(flatten)]
    limits: LimitArguments,
    #[command(flatten)]
    connect: ConnectArguments,
}

#[derive(Debug, Clone, clap::Args)]
struct DropArguments {
    /// Name of the user.
    name: String,
    #[command(flatten)]
    connect: ConnectArguments,
}

#[derive(Debug, Clone, clap::Args)]
struct ListUsersArguments {
    #[command(flatten)]
    connect: ConnectArguments,
}

/// Runs `stratalog user`.
pub(crate) fn run(arguments: &UserArguments) -> ExitCode {
    access_target::run(async {
        match &arguments.action {
            UserAction::Create(create) => create_user(create).await,
            UserAction::Alter(alter) => alter_user(alter).await,
            UserAction::Drop(drop) => drop_user(drop).await,
            UserAction::List(list) => list_users(list).await,
        }
    })
}

async fn create_user(arguments: &CreateUserArguments) -> Result<(), SqlError> {
    if arguments.no_login && arguments.password.is_given() {
        return Err(SqlError::local("a role without logins needs no password"));
    }
    let password = match arguments.no_login {
        true => None,
        false => Some(arguments.password.password(&arguments.name)?),
    };
    let flag = |set: bool| set.then_some(true);
    let options = RoleOptions {
        superuser: flag(arguments.superuser),
        create_role: flag(arguments.create_role),
        create_database: flag(arguments.create_database),
        login: Some(!arguments.no_login),
        password: password.as_ref().map(verifier).transpose()?.map(Some),
        ..limits(&arguments.limits)?
    };
    let mut target = AccessTarget::open(&arguments.connect, true).await?;
    let created = target
        .apply(AccessCommand::CreateRole {
            name: arguments.name.clone(),
            options,
            member_of: arguments.member_of.clone(),
            members: Vec::new(),
            admins: Vec::new(),
            if_not_exists: false,
        })
        .await;
    finish(target, created).await?;
    report("created", &arguments.name, password.as_ref());
    Ok(())
}

async fn alter_user(arguments: &AlterArguments) -> Result<(), SqlError> {
    let asks = arguments.ask_password || arguments.password.is_given();
    let password = match asks {
        true => Some(arguments.password.password(&arguments.name)?),
        false => None,
    };
    let either = |on: bool, off: bool| (on || off).then_some(on);
    let new_password = match arguments.no_password {
        true => Some(None),
        false => password.as_ref().map(verifier).transpose()?.map(Some),
    };
    let options = RoleOptions {
        superuser: either(arguments.superuser, arguments.no_superuser),
        login: either(arguments.login, arguments.no_login),
        password: new_password,
        ..limits(&arguments.limits)?
    };
    let name = &arguments.name;
    let mut commands = Vec::new();
    if options != RoleOptions::default() {
        commands.push(AccessCommand::AlterRole { name: name.clone(), options });
    }
    commands.extend(arguments.member_of.iter().map(|role| AccessCommand::GrantRole {
        role: role.clone(),
        member: name.clone(),
        admin: false,
    }));
    commands.extend(arguments.remove_from.iter().map(|role| AccessCommand::RevokeRole {
        role: role.clone(),
        member: name.clone(),
        admin_only: false,
    }));
    let rename = arguments.rename.iter();
    commands
        .extend(rename.map(|to| AccessCommand::RenameRole { from: name.clone(), to: to.clone() }));
    if commands.is_empty() {
        return Err(SqlError::local("nothing to change")
            .with_hint("see `stratalog user alter --help`, for example --generate-password"));
    }
    let mut target = AccessTarget::open(&arguments.connect, false).await?;
    let mut altered = Ok(());
    for command in commands {
        altered = target.apply(command).await;
        if altered.is_err() {
            break;
        }
    }
    finish(target, altered).await?;
    report("changed", name, password.as_ref());
    Ok(())
}

async fn drop_user(arguments: &DropArguments) -> Result<(), SqlError> {
    let mut target = AccessTarget::open(&arguments.connect, false).await?;
    let command = AccessCommand::DropRole { name: arguments.name.clone(), if_exists: false };
    let dropped = target.apply(command).await;
    finish(target, dropped).await?;
    report("dropped", &arguments.name, None);
    Ok(())
}

/// Closes the target, and returns the error of the command or else of the close.
async fn finish(target: AccessTarget, done: Result<(), SqlError>) -> Result<(), SqlError> {
    let closed = target.close().await;
    done.and(closed)
}

/// Explains on standard error what was done. A generated password is alone on standard output.
fn report(done: &str, name: &str, password: Option<&NewPassword>) {
    eprintln!("user {name} {done}");
    if let Some(password) = password.filter(|password| password.is_generated) {
        eprintln!("The password is shown only now:");
        println!("{}", password.text);
    }
}

fn verifier(password: &NewPassword) -> Result<Verifier, SqlError> {
    Ok(Verifier::of_password(&password.text, ITERATIONS_DEFAULT)?)
}

fn limits(arguments: &LimitArguments) -> Result<RoleOptions, SqlError> {
    let end = arguments.valid_until.as_deref();
    Ok(RoleOptions {
        valid_until_ns: end.map(|text| parse_end("valid-until", text)).transpose()?,
        connections_max: arguments.connection_limit.map(|most| u32::try_from(most).ok()),
        ..RoleOptions::default()
    })
}

async fn list_users(arguments: &ListUsersArguments) -> Result<(), SqlError> {
    let mut target = AccessTarget::open(&arguments.connect, false).await?;
    let rows = match target.state() {
        Some(state) => Ok(stored_rows(&state)),
        None => server_rows(&mut target).await,
    };
    let closed = target.close().await;
    print_columns(&["user", "attributes", "member of"], &rows?);
    closed
}

fn stored_rows(state: &CatalogState) -> Vec<Vec<String>> {
    let access = state.access();
    let groups = |role: &Role| {
        let memberships = access.memberships().iter().filter(|one| one.member == role.id);
        memberships.map(|one| access.role_name(one.role)).collect::<Vec<_>>().join(", ")
    };
    let attributes = |role: &Role| {
        let has = &role.attributes;
        attributes_text(
            [has.superuser, has.create_role, has.create_database, has.login],
            has.valid_until_ns.map(time_text).as_deref(),
            has.connections_max.map(|most| most.to_string()).as_deref(),
        )
    };
    access.roles().map(|role| vec![role.name.clone(), attributes(role), groups(role)]).collect()
}

fn attributes_text(flags: [bool; 4], until: Option<&str>, sessions: Option<&str>) -> String {
    let words = ["superuser", "create role", "create database", "login"];
    let mut parts: Vec<String> = words
        .into_iter()
        .zip(flags)
        .filter(|(_, set)| *set)
        .map(|(word, _)| word.to_string())
        .collect();
    parts.extend(until.map(|until| format!("until {until}")));
    parts.extend(sessions.map(|most| format!("{most} sessions")));
    parts.join(", ")
}

async fn server_rows(target: &mut AccessTarget) -> Result<Vec<Vec<String>>, SqlError> {
    let roles = "SELECT rolname, rolsuper, rolcreaterole, rolcreatedb, rolcanlogin, \
                 rolvaliduntil::text, CASE WHEN rolconnlimit >= 0 THEN rolconnlimit::text END \
                 FROM pg_catalog.pg_roles ORDER BY rolname";
    let memberships = "SELECT m.rolname, g.rolname FROM pg_catalog.pg_auth_members AS a \
                       JOIN pg_catalog.pg_roles AS m ON m.oid = a.member \
                       JOIN pg_catalog.pg_roles AS g ON g.oid = a.roleid ORDER BY 1, 2";
    let roles = target.query(roles).await?.unwrap_or_default();
    let memberships = target.query(memberships).await?.unwrap_or_default();
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in memberships {
        if let [Some(member), Some(group)] = row.as_slice() {
            groups.entry(member.clone()).or_default().push(group.clone());
        }
    }
    let text = |row: &[Option<String>], at: usize| row.get(at).cloned().flatten();
    let rows = roles.iter().map(|row| {
        let name = text(row, 0).unwrap_or_default();
        let flags = [1, 2, 3, 4].map(|at| text(row, at).as_deref() == Some("t"));
        let (until, sessions) = (text(row, 5), text(row, 6));
        let attributes = attributes_text(flags, until.as_deref(), sessions.as_deref());
        let member_of = groups.get(&name).map(|groups| groups.join(", ")).unwrap_or_default();
        vec![name, attributes, member_of]
    });
    Ok(rows.collect())
}
