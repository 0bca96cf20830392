//! CREATE, ALTER and DROP of roles.

use stratalog_model::{Error, ErrorKind, Result};
use stratalog_postgres::parse::access::{Password, RoleKind, RoleOption, RoleSpec, SettingValue};
use stratalog_text::parse::datetime::parse_timestamp;
use stratalog_visor_core::access::{AccessCommand, RoleOptions, Verifier};

use super::role_name;
use crate::{Notice, Session, statement::setting};

/// The name of a new role.
///
/// # Errors
/// `ReservedName` for CURRENT_USER and similar words.
pub(super) fn new_name(name: &RoleSpec) -> Result<String> {
    let special = match name {
        RoleSpec::Named(name) => return Ok(name.clone()),
        RoleSpec::Public => {
            return Err(Error::new(ErrorKind::ReservedName, "role name \"public\" is reserved"));
        }
        RoleSpec::CurrentUser => "CURRENT_USER",
        RoleSpec::SessionUser => "SESSION_USER",
    };
    let message = format!("{special} cannot be used as a role name here");
    Err(Error::new(ErrorKind::ReservedName, message))
}

pub(super) async fn create(
    session: &Session,
    name: &RoleSpec,
    kind: RoleKind,
    given: &[RoleOption],
) -> Result<Vec<AccessCommand>> {
    let name = new_name(name)?;
    let mut options = options(session, given).await?;
    options.login = options.login.or((kind == RoleKind::User).then_some(true));
    let (mut member_of, mut members, mut admins) = (Vec::new(), Vec::new(), Vec::new());
    for option in given {
        let (list, roles) = match option {
            RoleOption::MemberOf(roles) => (&mut member_of, roles),
            RoleOption::Members(roles) => (&mut members, roles),
            RoleOption::Admins(roles) => (&mut admins, roles),
            RoleOption::SystemId => {
                session.say(Notice::new("SYSID can no longer be specified"));
                continue;
            }
            _ => continue,
        };
        for role in roles {
            list.push(role_name(session, role)?);
        }
    }
    let if_not_exists = false;
    Ok(vec![AccessCommand::CreateRole { name, options, member_of, members, admins, if_not_exists }])
}

pub(super) async fn alter(
    session: &Session,
    name: &RoleSpec,
    given: &[RoleOption],
) -> Result<Vec<AccessCommand>> {
    let options = options(session, given).await?;
    Ok(vec![AccessCommand::AlterRole { name: role_name(session, name)?, options }])
}

async fn options(session: &Session, given: &[RoleOption]) -> Result<RoleOptions> {
    let mut options = RoleOptions::default();
    for option in given {
        match option {
            RoleOption::Superuser(on) => options.superuser = Some(*on),
            RoleOption::Inherit(on) => options.inherit = Some(*on),
            RoleOption::CreateRole(on) => options.create_role = Some(*on),
            RoleOption::CreateDatabase(on) => options.create_database = Some(*on),
            RoleOption::Login(on) => options.login = Some(*on),
            RoleOption::BypassRowSecurity(on) => options.bypass_row_security = Some(*on),
            RoleOption::Replication(false) => {}
            RoleOption::Replication(true) => {
                return Err(Error::new(
                    ErrorKind::FeatureNotSupported,
                    "REPLICATION is not supported: the server has no replication protocol",
                )
                .with_hint("SUBSCRIBE reads events in the order of commits"));
            }
            RoleOption::ConnectionLimit(limit) => {
                options.connections_max = Some(connection_limit(*limit)?);
            }
            RoleOption::Password(None) => options.password = Some(None),
            RoleOption::Password(Some(password)) => {
                options.password = Some(verifier(session, password).await?);
            }
            RoleOption::ValidUntil(text) => {
                options.valid_until_ns = Some(valid_until(session, text)?);
            }
            RoleOption::MemberOf(_)
            | RoleOption::Members(_)
            | RoleOption::Admins(_)
            | RoleOption::SystemId => {}
        }
    }
    Ok(options)
}

/// The number of CONNECTION LIMIT; `None` for -1, which means no limit.
fn connection_limit(limit: i64) -> Result<Option<u32>> {
    match limit {
        -1 => Ok(None),
        _ => u32::try_from(limit)
            .ok()
            .filter(|limit| *limit <= i32::MAX.unsigned_abs())
            .map(Some)
            .ok_or_else(|| {
                let message = format!("invalid connection limit: {limit}");
                Error::new(ErrorKind::InvalidParameterValue, message)
            }),
    }
}

/// The time of VALID UNTIL, in nanoseconds since 1970; `None` for 'infinity'.
fn valid_until(session: &Session, text: &str) -> Result<Option<i64>> {
    if text.trim().eq_ignore_ascii_case("infinity") {
        return Ok(None);
    }
    parse_timestamp(text, 1, true, &session.text_style()).map(Some)
}

/// The verifier of a password; `None` for an empty password, which removes the password. The text
/// of a verifier is stored as it is, so that dumps of roles can be restored.
async fn verifier(session: &Session, password: &Password) -> Result<Option<Verifier>> {
    if password.0.is_empty() {
        session.say(Notice::new("empty string is not a valid password, clearing password"));
        return Ok(None);
    }
    if password.0.starts_with("SCRAM-SHA-256$")
        && let Ok(verifier) = password.0.parse::<Verifier>()
    {
        return Ok(Some(verifier));
    }
    let is_digest =
        |text: &str| text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if password.0.strip_prefix("md5").is_some_and(is_digest) {
        return Err(Error::new(
            ErrorKind::FeatureNotSupported,
            "a password in MD5 form is not supported",
        )
        .with_hint("give the password itself, or a SCRAM-SHA-256 verifier"));
    }
    let iterations = session.settings().scram_iterations;
    let text = password.0.clone();
    let computed =
        tokio::task::spawn_blocking(move || Verifier::of_password(&text, iterations)).await;
    computed
        .unwrap_or_else(|error| {
            Err(Error::internal("the computation of a password's verifier failed")
                .with_source(error))
        })
        .map(Some)
}

pub(super) fn set(
    session: &Session,
    name: &RoleSpec,
    setting: Option<&str>,
    value: &SettingValue,
) -> Result<Vec<AccessCommand>> {
    let name = role_name(session, name)?;
    let Some(written) = setting else {
        return Ok(vec![AccessCommand::SetRoleSetting { name, setting: None, value: None }]);
    };
    let variables = session.variables();
    let value = match value {
        SettingValue::Default => None,
        SettingValue::Current => variables.get(written),
        SettingValue::Values(values) => Some(setting::value_text(written, values)?),
    };
    variables.check(written, value.as_deref())?;
    let setting = setting::canonical_name(written);
    let changes_identity = matches!(setting.as_str(), "role" | "session_authorization");
    if changes_identity && value.is_some() {
        return Err(Error::new(
            ErrorKind::FeatureNotSupported,
            format!("ALTER ROLE … SET {setting} is not supported"),
        )
        .with_hint("run SET ROLE after the connection"));
    }
    Ok(vec![AccessCommand::SetRoleSetting { name, setting: Some(setting), value }])
}

pub(super) fn drop(roles: &[RoleSpec], if_exists: bool) -> Result<Vec<AccessCommand>> {
    roles
        .iter()
        .map(|role| match role {
            RoleSpec::Named(name) => Ok(AccessCommand::DropRole { name: name.clone(), if_exists }),
            _ => Err(Error::new(
                ErrorKind::InvalidParameterValue,
                "cannot use special role specifier in DROP ROLE",
            )),
        })
        .collect()
}
