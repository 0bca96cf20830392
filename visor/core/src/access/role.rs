//! Roles and memberships.

use serde::{Deserialize, Serialize};

use super::Verifier;

/// The number of a role, which is also the role's oid. A number is never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RoleId(pub u32);

impl RoleId {
    /// The superuser that every data directory has. The role owns each object without another
    /// owner. The oid is the oid of PostgreSQL's bootstrap superuser.
    pub const FOUNDER: Self = Self(10);

    /// The first number of roles that users create.
    pub(crate) const FIRST: Self = Self(20_000);

    /// True for a role that every data directory has.
    pub fn is_predefined(self) -> bool {
        self < Self::FIRST
    }
}

/// The name of [`RoleId::FOUNDER`].
pub const FOUNDER_NAME: &str = "stratalog";

/// The predefined roles besides the founder: oid, name, and what a member may do. The oids of
/// PostgreSQL's roles are PostgreSQL's oids.
pub const PREDEFINED: [(RoleId, &str, &str); 7] = [
    (
        Predefined::MONITOR,
        "pg_monitor",
        "read metrics, all system tables and the activity of all sessions",
    ),
    (
        Predefined::SIGNAL,
        "pg_signal_backend",
        "cancel statements and end sessions of roles that are no superusers",
    ),
    (Predefined::READ_ALL, "pg_read_all_data", "read and subscribe to all tables"),
    (Predefined::WRITE_ALL, "pg_write_all_data", "insert into and delete from all tables"),
    (Predefined::BACKUP, "stratalog_backup", "make and list backups"),
    (
        Predefined::ADMINISTER,
        "stratalog_administer",
        "flush, compact and check tables, accept clock jumps, reload certificates",
    ),
    (Predefined::AUDIT, "stratalog_audit", "read the audit log"),
];

/// The numbers of the predefined roles.
#[derive(Debug)]
pub struct Predefined;

impl Predefined {
    /// `pg_monitor`.
    pub const MONITOR: RoleId = RoleId(3373);
    /// `pg_signal_backend`.
    pub const SIGNAL: RoleId = RoleId(4200);
    /// `pg_read_all_data`.
    pub const READ_ALL: RoleId = RoleId(6181);
    /// `pg_write_all_data`.
    pub const WRITE_ALL: RoleId = RoleId(6182);
    /// `stratalog_backup`.
    pub const BACKUP: RoleId = RoleId(8600);
    /// `stratalog_administer`.
    pub const ADMINISTER: RoleId = RoleId(8601);
    /// `stratalog_audit`.
    pub const AUDIT: RoleId = RoleId(8602);
}

/// A role: a user if `login` is true, otherwise a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Role {
    /// Number and oid.
    pub id: RoleId,
    /// Name, unique among roles.
    pub name: String,
    /// The attributes.
    #[serde(flatten)]
    pub attributes: RoleAttributes,
    /// The verifier of the password; `None` without a password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<Verifier>,
    /// Initial settings of the role's sessions, from ALTER ROLE … SET: names and values, in order
    /// of the names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<(String, String)>,
    /// The text of COMMENT ON ROLE.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// The attributes of a role, from CREATE ROLE and ALTER ROLE.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleAttributes {
    /// True if no right is checked for the role.
    pub superuser: bool,
    /// True if the role has the rights of the roles of which the role is a member. Otherwise the
    /// role needs SET ROLE for these rights.
    pub inherit: bool,
    /// True if the role may create, change and drop other roles.
    pub create_role: bool,
    /// True if the role may create databases.
    pub create_database: bool,
    /// True if clients may log in as the role.
    pub login: bool,
    /// True if row policies do not apply to the role.
    pub bypass_row_security: bool,
    /// Maximum number of simultaneous sessions; `None` for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections_max: Option<u32>,
    /// The end of the password's validity, in nanoseconds since 1970; `None` for no end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_until_ns: Option<i64>,
}

impl Default for RoleAttributes {
    fn default() -> Self {
        Self {
            superuser: false,
            inherit: true,
            create_role: false,
            create_database: false,
            login: false,
            bypass_row_security: false,
            connections_max: None,
            valid_until_ns: None,
        }
    }
}

/// `member` is a member of `role`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership {
    /// The group.
    pub role: RoleId,
    /// The member.
    pub member: RoleId,
    /// True if the member may grant the membership to others.
    pub admin: bool,
    /// The role that granted the membership.
    pub grantor: RoleId,
}
