//! Commands that change roles, rights, policies and tokens.

use stratalog_model::ChronicleId;

use super::{Object, Policy, Privilege, TokenScope, Verifier};

/// Changes of a role's attributes; `None` keeps the attribute, or takes the default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RoleOptions {
    /// SUPERUSER, NOSUPERUSER.
    pub superuser: Option<bool>,
    /// INHERIT, NOINHERIT.
    pub inherit: Option<bool>,
    /// CREATEROLE, NOCREATEROLE.
    pub create_role: Option<bool>,
    /// CREATEDB, NOCREATEDB.
    pub create_database: Option<bool>,
    /// LOGIN, NOLOGIN.
    pub login: Option<bool>,
    /// BYPASSRLS, NOBYPASSRLS.
    pub bypass_row_security: Option<bool>,
    /// CONNECTION LIMIT; `Some(None)` for no limit.
    pub connections_max: Option<Option<u32>>,
    /// VALID UNTIL, in nanoseconds since 1970; `Some(None)` for 'infinity'.
    pub valid_until_ns: Option<Option<i64>>,
    /// PASSWORD; `Some(None)` for PASSWORD NULL.
    pub password: Option<Option<Verifier>>,
}

/// A role that receives or loses a privilege, by name; `None` for PUBLIC.
pub type Grantee = Option<String>;

/// Privileges in GRANT and REVOKE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GrantedPrivileges {
    /// ALL PRIVILEGES of the object.
    All,
    /// Privileges, each on the whole object, or on columns by name.
    Some(Vec<(Privilege, Option<Vec<String>>)>),
}

/// Objects in GRANT and REVOKE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GrantObjects {
    /// Named objects.
    Objects(Vec<Object>),
    /// ALL TABLES IN SCHEMA: the schemas.
    TablesIn(Vec<Object>),
}

/// A change of roles, rights, policies or tokens. Names are as stored in the catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessCommand {
    /// CREATE ROLE, CREATE USER.
    CreateRole {
        /// The role's name.
        name: String,
        /// The attributes.
        options: RoleOptions,
        /// IN ROLE: groups of the new role.
        member_of: Vec<String>,
        /// ROLE: members of the new role.
        members: Vec<String>,
        /// ADMIN: members of the new role that may grant the membership.
        admins: Vec<String>,
        /// True if an existing role causes a notice instead of an error.
        if_not_exists: bool,
    },
    /// ALTER ROLE.
    AlterRole {
        /// The role's name.
        name: String,
        /// The changed attributes.
        options: RoleOptions,
    },
    /// ALTER ROLE … RENAME TO.
    RenameRole {
        /// The current name.
        from: String,
        /// The new name.
        to: String,
    },
    /// ALTER ROLE … SET and RESET.
    SetRoleSetting {
        /// The role's name.
        name: String,
        /// The setting; `None` for RESET ALL.
        setting: Option<String>,
        /// The value; `None` for RESET.
        value: Option<String>,
    },
    /// COMMENT ON ROLE.
    CommentOnRole {
        /// The role's name.
        name: String,
        /// The text; `None` or an empty text removes the comment.
        comment: Option<String>,
    },
    /// DROP ROLE. Fails if the role owns objects or has privileges.
    DropRole {
        /// The role's name.
        name: String,
        /// True if a missing role causes a notice instead of an error.
        if_exists: bool,
    },
    /// GRANT role TO role.
    GrantRole {
        /// The group.
        role: String,
        /// The new member.
        member: String,
        /// WITH ADMIN OPTION.
        admin: bool,
    },
    /// REVOKE role FROM role.
    RevokeRole {
        /// The group.
        role: String,
        /// The member.
        member: String,
        /// True for ADMIN OPTION FOR: the membership remains.
        admin_only: bool,
    },
    /// GRANT privileges ON objects.
    Grant {
        /// The privileges.
        privileges: GrantedPrivileges,
        /// The objects.
        objects: GrantObjects,
        /// The roles.
        grantees: Vec<Grantee>,
        /// WITH GRANT OPTION.
        grantable: bool,
    },
    /// REVOKE privileges ON objects.
    Revoke {
        /// The privileges.
        privileges: GrantedPrivileges,
        /// The objects.
        objects: GrantObjects,
        /// The roles.
        grantees: Vec<Grantee>,
        /// True for GRANT OPTION FOR: the privilege remains.
        grant_option_only: bool,
        /// CASCADE: also revokes what the grantees have granted. Otherwise such grants are an
        /// error.
        cascade: bool,
    },
    /// ALTER … OWNER TO.
    SetOwner {
        /// The object.
        object: Object,
        /// The new owner's name.
        owner: String,
    },
    /// REASSIGN OWNED.
    ReassignOwned {
        /// The current owner.
        from: String,
        /// The new owner.
        to: String,
    },
    /// DROP OWNED: revokes all privileges of the role; fails if the role owns objects.
    DropOwned {
        /// The role's name.
        name: String,
    },
    /// ALTER DEFAULT PRIVILEGES.
    SetDefaults {
        /// FOR ROLE; `None` for the current role.
        creator: Option<String>,
        /// IN SCHEMA; `None` for all schemas.
        schema: Option<Object>,
        /// ON SCHEMAS instead of ON TABLES.
        of_schemas: bool,
        /// The privileges; `None` for ALL.
        privileges: Option<Vec<Privilege>>,
        /// The roles.
        grantees: Vec<Grantee>,
        /// True for GRANT, false for REVOKE.
        granted: bool,
        /// WITH GRANT OPTION.
        grantable: bool,
    },
    /// CREATE POLICY; the caller has checked the predicates.
    CreatePolicy {
        /// The policy; its field `roles` is filled from `roles`.
        policy: Box<Policy>,
        /// The roles by name; empty for PUBLIC.
        roles: Vec<String>,
    },
    /// ALTER POLICY; `None` keeps a part.
    AlterPolicy {
        /// The chronicle.
        chronicle: ChronicleId,
        /// The policy's name.
        name: String,
        /// RENAME TO.
        rename: Option<String>,
        /// TO: the roles; empty for PUBLIC.
        roles: Option<Vec<String>>,
        /// USING.
        using_sql: Option<String>,
        /// WITH CHECK.
        check_sql: Option<String>,
    },
    /// DROP POLICY.
    DropPolicy {
        /// The chronicle.
        chronicle: ChronicleId,
        /// The policy's name.
        name: String,
        /// True if a missing policy causes a notice instead of an error.
        if_exists: bool,
    },
    /// ALTER TABLE … ENABLE, DISABLE, FORCE, NO FORCE ROW LEVEL SECURITY; `None` keeps a part.
    SetRowSecurity {
        /// The chronicle.
        chronicle: ChronicleId,
        /// ENABLE or DISABLE.
        enabled: Option<bool>,
        /// FORCE or NO FORCE.
        forced: Option<bool>,
    },
    /// Creates a token.
    CreateToken {
        /// The token's name, unique among the tokens of the role.
        name: String,
        /// The role's name.
        role: String,
        /// The SHA-256 hash of the token's text, in hexadecimal digits.
        hash: String,
        /// The scope.
        scope: TokenScope,
        /// The end of the validity, in nanoseconds since 1970; `None` for no end.
        expires_ns: Option<i64>,
    },
    /// Revokes a token.
    DropToken {
        /// The token's name.
        name: String,
        /// The role's name.
        role: String,
    },
    /// Records the last use of a token.
    UseToken {
        /// The SHA-256 hash of the token's text, in hexadecimal digits.
        hash: String,
        /// The time, in nanoseconds since 1970.
        used_ns: i64,
    },
}

impl AccessCommand {
    /// The name of the statement, for command tags and the audit log.
    pub fn tag(&self) -> &'static str {
        match self {
            Self::CreateRole { .. } => "CREATE ROLE",
            Self::AlterRole { .. } | Self::RenameRole { .. } | Self::SetRoleSetting { .. } => {
                "ALTER ROLE"
            }
            Self::CommentOnRole { .. } => "COMMENT",
            Self::DropRole { .. } => "DROP ROLE",
            Self::GrantRole { .. } => "GRANT ROLE",
            Self::RevokeRole { .. } => "REVOKE ROLE",
            Self::Grant { .. } => "GRANT",
            Self::Revoke { .. } => "REVOKE",
            Self::SetOwner { .. } => "ALTER TABLE",
            Self::ReassignOwned { .. } => "REASSIGN OWNED",
            Self::DropOwned { .. } => "DROP OWNED",
            Self::SetDefaults { .. } => "ALTER DEFAULT PRIVILEGES",
            Self::CreatePolicy { .. } => "CREATE POLICY",
            Self::AlterPolicy { .. } => "ALTER POLICY",
            Self::DropPolicy { .. } => "DROP POLICY",
            Self::SetRowSecurity { .. } => "ALTER TABLE",
            Self::CreateToken { .. } => "CREATE TOKEN",
            Self::DropToken { .. } => "DROP TOKEN",
            Self::UseToken { .. } => "USE TOKEN",
        }
    }
}
