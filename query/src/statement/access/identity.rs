//! SET ROLE, SET SESSION AUTHORIZATION and their RESETs.

use datafusion::sql::sqlparser::ast::Ident;
use stratalog_model::{Error, ErrorKind, Result};
use stratalog_postgres::names;
use stratalog_visor_core::access::{Identity, RoleId};

use crate::{Notice, Session, TransactionState, session::variables::RoleChoice};

/// Runs SET ROLE; `None` for NONE.
///
/// # Errors
/// `InvalidParameterValue` for an unknown role; `InsufficientPrivilege` if the session's role is no
/// member of the role.
pub(crate) fn set_role(session: &Session, name: Option<&str>, local: bool) -> Result<()> {
    let before = session.variables().role_choice();
    let chosen = match name {
        Some(name) => Some((name.to_string(), member_role(session, name)?)),
        None => None,
    };
    choose(session, RoleChoice { current: chosen, ..before }, local)
}

/// The role with a name, which the session's role may become.
fn member_role(session: &Session, name: &str) -> Result<RoleId> {
    let state = session.whole_catalog();
    let access = state.access();
    let role = access.role_named(name).ok_or_else(|| unknown(name))?.id;
    match access.may_become(session.identity().session(), role) {
        true => Ok(role),
        false => Err(Error::new(
            ErrorKind::InsufficientPrivilege,
            format!("permission denied to set role \"{name}\""),
        )),
    }
}

/// Runs SET SESSION AUTHORIZATION; `None` for DEFAULT.
///
/// # Errors
/// `InvalidParameterValue` for an unknown role; `InsufficientPrivilege` if the role of the login is
/// no superuser.
pub(crate) fn set_session(session: &Session, name: Option<&str>, local: bool) -> Result<()> {
    let Some(name) = name else {
        return choose(session, RoleChoice::default(), local);
    };
    let state = session.whole_catalog();
    let access = state.access();
    let role = access.role_named(name).ok_or_else(|| unknown(name))?.id;
    let login = session.login_identity();
    let own = login.session() == role;
    let limited = match login {
        Identity::System | Identity::Trusted => false,
        Identity::Role(roles) => roles.token.is_some() || !access.is_superuser(login.session()),
    };
    if limited && !own {
        return Err(Error::new(
            ErrorKind::InsufficientPrivilege,
            "permission denied to set session authorization",
        ));
    }
    let chosen = (!own).then(|| (name.to_string(), role));
    choose(session, RoleChoice { session: chosen, ..RoleChoice::default() }, local)
}

fn choose(session: &Session, choice: RoleChoice, local: bool) -> Result<()> {
    let session_role = choice.session.as_ref().map(|(_, id)| *id);
    let current = choice.current.as_ref().map(|(_, id)| *id);
    let effective = current.or(session_role).unwrap_or_else(|| session.login_identity().session());
    let superuser = session.whole_catalog().access().is_superuser(effective);
    if local && session.transaction() == TransactionState::Idle {
        session.say(Notice::warning("25P01", "SET LOCAL can only be used in transaction blocks"));
        return Ok(());
    }
    session.variables().choose_roles(&RoleChoice { superuser, ..choice }, local)
}

fn unknown(name: &str) -> Error {
    Error::new(ErrorKind::InvalidParameterValue, format!("role \"{name}\" does not exist"))
}

/// Runs an assignment to the setting `role` or `session_authorization`; `None` for the default.
/// Returns false for another setting.
///
/// # Errors
/// The errors of [`set_role`] and [`set_session`].
pub(crate) fn assign(
    session: &Session,
    setting: &str,
    value: Option<&str>,
    local: bool,
) -> Result<bool> {
    match setting.to_ascii_lowercase().as_str() {
        "role" => set_role(session, value.filter(|value| *value != "none"), local)?,
        "session_authorization" => {
            set_session(session, value.filter(|value| *value != "default"), local)?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// The name in SET ROLE; `None` for NONE.
pub(crate) fn name_of(role: &Ident) -> Option<String> {
    let name = names::fold(role);
    (role.quote_style.is_some() || name != "none").then_some(name)
}
