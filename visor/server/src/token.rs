//! The command `token`: creates, lists and revokes tokens, on a server or offline.

use std::process::ExitCode;

use clap::{Subcommand, ValueEnum};
use stratalog_visor_core::access::{AccessCommand, TokenScope, TokenSecret};

use crate::{
    access_target::{self, AccessTarget, literal, parse_end, print_columns, time_text},
    sql::{ConnectArguments, error::SqlError},
};

/// Creates, lists and revokes tokens: long-lived credentials for programs.
///
/// With --data-dir no server may have the directory open, and no login is needed.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct TokenArguments {
    #[command(subcommand)]
    action: TokenAction,
}

#[derive(Debug, Clone, Subcommand)]
enum TokenAction {
    /// Create a token, and print it alone on standard output
    Create(CreateTokenArguments),
    /// List tokens; their texts are stored nowhere
    List(ListTokensArguments),
    /// Revoke a token at once
    Revoke(RevokeArguments),
}

#[derive(Debug, Clone, clap::Args)]
struct CreateTokenArguments {
    /// Name of the token, unique among the tokens of the role.
    name: String,
    /// Role whose rights the token has.
    #[arg(long, value_name = "ROLE")]
    role: String,
    /// Part of the role's rights: read, write (append, and create tables), or all.
    #[arg(long, value_enum, default_value_t = Scope::All)]
    scope: Scope,
    /// End of the token: 90d, 2027-01-31 or infinity.
    #[arg(long, value_name = "TIME", default_value = "infinity")]
    expires: String,
    #[command(flatten)]
    connect: ConnectArguments,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Scope {
    Read,
    Write,
    All,
}

impl From<Scope> for TokenScope {
    fn from(scope: Scope) -> Self {
        match scope {
            Scope::Read => Self::Read,
            Scope::Write => Self::Write,
            Scope::All => Self::All,
        }
    }
}

#[derive(Debug, Clone, clap::Args)]
struct ListTokensArguments {
    #[command(flatten)]
    connect: ConnectArguments,
}

#[derive(Debug, Clone, clap::Args)]
struct RevokeArguments {
    /// Name of the token.
    name: String,
    /// Role of the token.
    #[arg(long, value_name = "ROLE")]
    role: String,
    #[command(flatten)]
    connect: ConnectArguments,
}

/// Runs `stratalog token`.
pub(crate) fn run(arguments: &TokenArguments) -> ExitCode {
    access_target::run(async {
        match &arguments.action {
            TokenAction::Create(create) => create_token(create).await,
            TokenAction::List(list) => list_tokens(list).await,
            TokenAction::Revoke(revoke) => revoke_token(revoke).await,
        }
    })
}

async fn create_token(arguments: &CreateTokenArguments) -> Result<(), SqlError> {
    let expires_ns = parse_end("expires", &arguments.expires)?;
    let mut target = AccessTarget::open(&arguments.connect, false).await?;
    let created = create_in(&mut target, arguments, expires_ns).await;
    let closed = target.close().await;
    let text = created?;
    closed?;
    eprintln!("token {} of role {} created", arguments.name, arguments.role);
    eprintln!("The token is shown only now:");
    println!("{text}");
    Ok(())
}

async fn create_in(
    target: &mut AccessTarget,
    arguments: &CreateTokenArguments,
    expires_ns: Option<i64>,
) -> Result<String, SqlError> {
    let (name, role, scope) = (&arguments.name, &arguments.role, TokenScope::from(arguments.scope));
    let expires = expires_ns.map_or("infinity".to_string(), time_text);
    let call = format!(
        "CALL stratalog.create_token({}, {}, {}, {})",
        literal(name),
        literal(role),
        literal(scope.keyword()),
        literal(&expires)
    );
    if let Some(rows) = target.query(&call).await? {
        let text = rows.into_iter().next().and_then(|row| row.into_iter().next().flatten());
        return text.ok_or_else(|| SqlError::local("the server returned no token"));
    }
    let secret = TokenSecret::generate()?;
    let (name, role, hash) = (name.clone(), role.clone(), secret.hash());
    target.apply(AccessCommand::CreateToken { name, role, hash, scope, expires_ns }).await?;
    Ok(secret.reveal().to_string())
}

async fn list_tokens(arguments: &ListTokensArguments) -> Result<(), SqlError> {
    let sql = "SELECT name, role, scope, created::text, expires::text, last_used::text \
               FROM stratalog.tokens ORDER BY role, name";
    let mut target = AccessTarget::open(&arguments.connect, false).await?;
    let rows = match target.state() {
        Some(state) => {
            let access = state.access();
            let row = |token: &stratalog_visor_core::access::Token| {
                vec![
                    token.name.clone(),
                    access.role_name(token.role),
                    token.scope.keyword().to_string(),
                    time_text(token.created_ns),
                    token.expires_ns.map(time_text).unwrap_or_default(),
                    token.used_ns.map(time_text).unwrap_or_default(),
                ]
            };
            Ok(access.tokens().map(row).collect())
        }
        None => target.query(sql).await.map(|rows| {
            let text = |row: Vec<Option<String>>| row.into_iter().map(Option::unwrap_or_default);
            rows.unwrap_or_default().into_iter().map(|row| text(row).collect()).collect()
        }),
    };
    let closed = target.close().await;
    let rows: Vec<Vec<String>> = rows?;
    print_columns(&["token", "role", "scope", "created", "expires", "last used"], &rows);
    closed
}

async fn revoke_token(arguments: &RevokeArguments) -> Result<(), SqlError> {
    let mut target = AccessTarget::open(&arguments.connect, false).await?;
    let (name, role) = (arguments.name.clone(), arguments.role.clone());
    let revoked = target.apply(AccessCommand::DropToken { name, role }).await;
    let closed = target.close().await;
    revoked?;
    closed?;
    eprintln!("token {} of role {} revoked", arguments.name, arguments.role);
    Ok(())
}
