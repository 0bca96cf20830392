//! The roles that SET ROLE and SET SESSION AUTHORIZATION choose. The roles are settings, so that
//! SET LOCAL, ROLLBACK and savepoints apply to them.

use std::{borrow::Cow, sync::Arc};

use stratalog_model::Result;
use stratalog_visor_core::access::RoleId;

use super::{SettingValues, Variables, VariablesState};

/// Settings that describe the roles: names for clients, and numbers under names that SET and SHOW
/// do not know.
const KEYS: [&str; 5] = ["role", "session_authorization", "is_superuser", ROLE, SESSION_ROLE];
const ROLE: &str = "number of role";
const SESSION_ROLE: &str = "number of session_authorization";

/// The roles that a session has chosen; `None` for the role of the login.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChosenRoles {
    /// The role of SET SESSION AUTHORIZATION.
    pub session: Option<RoleId>,
    /// The role of SET ROLE.
    pub current: Option<RoleId>,
}

/// The roles that a SET chooses, and the resulting value of `is_superuser`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RoleChoice {
    /// The role of SET SESSION AUTHORIZATION: name and number.
    pub session: Option<(String, RoleId)>,
    /// The role of SET ROLE: name and number.
    pub current: Option<(String, RoleId)>,
    /// Whether the current role is a superuser.
    pub superuser: bool,
}

impl Variables {
    /// The chosen roles.
    pub fn chosen_roles(&self) -> ChosenRoles {
        self.inner.lock().parsed.roles
    }

    /// The chosen roles with their names.
    pub fn role_choice(&self) -> RoleChoice {
        let inner = self.inner.lock();
        let named = |id: Option<RoleId>, name: &str| Some((inner.value(name).to_string(), id?));
        let ChosenRoles { session, current } = inner.parsed.roles;
        RoleChoice {
            session: named(session, "session_authorization"),
            current: named(current, "role"),
            superuser: inner.value("is_superuser") == "on",
        }
    }

    /// Chooses roles, until the end of the block if `local` is true.
    ///
    /// # Errors
    /// None in practice: the other settings stay valid.
    pub fn choose_roles(&self, choice: &RoleChoice, local: bool) -> Result<()> {
        let mut inner = self.inner.lock();
        let initial_user = inner.initial_value("session_authorization").to_string();
        let number = |of: &Option<(String, RoleId)>| {
            of.as_ref().map_or_else(String::new, |(_, id)| id.0.to_string())
        };
        let name = |of: &Option<(String, RoleId)>, other: &str| {
            of.as_ref().map_or_else(|| other.to_string(), |(name, _)| name.clone())
        };
        let superuser = if choice.superuser { "on" } else { "off" };
        let values = [
            ("role", name(&choice.current, "none")),
            ("session_authorization", name(&choice.session, &initial_user)),
            ("is_superuser", superuser.to_string()),
            (ROLE, number(&choice.current)),
            (SESSION_ROLE, number(&choice.session)),
        ];
        let map = if local { &mut inner.local } else { &mut inner.session };
        let map = Arc::make_mut(map);
        for (key, value) in values {
            map.insert(Cow::Borrowed(key), value);
        }
        if !local {
            let local = Arc::make_mut(&mut inner.local);
            KEYS.iter().for_each(|key| drop(local.remove(*key)));
        }
        inner.parse()
    }
}

impl VariablesState {
    pub(super) fn roles(&self) -> ChosenRoles {
        let number = |key: &str| {
            let set = self.local.get(key).or_else(|| self.session.get(key));
            set.and_then(|text| text.parse().ok()).map(RoleId)
        };
        ChosenRoles { session: number(SESSION_ROLE), current: number(ROLE) }
    }
}

/// The values that RESET ALL keeps: as in PostgreSQL, the roles.
pub(super) fn kept_by_reset_all(values: &SettingValues) -> SettingValues {
    let is_kept = |key: &str| KEYS.contains(&key);
    let kept = values.iter().filter(|(key, _)| is_kept(key));
    kept.map(|(key, value)| (key.clone(), value.clone())).collect()
}
