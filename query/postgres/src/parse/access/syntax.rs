//! Syntax trees of statements about roles, rights and row policies.

use std::fmt;

use datafusion::sql::sqlparser::ast::{Expr, Ident, ObjectName};

/// A role in a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RoleSpec {
    /// A name, as stored in the catalog.
    Named(String),
    /// CURRENT_USER or CURRENT_ROLE.
    CurrentUser,
    /// SESSION_USER.
    SessionUser,
    /// PUBLIC: every role.
    Public,
}

/// The keyword of CREATE ROLE, which decides the default of LOGIN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoleKind {
    /// ROLE or GROUP: NOLOGIN by default.
    Role,
    /// USER: LOGIN by default.
    User,
}

/// The text of a password. The text stays out of logs.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(pub String);

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(***)")
    }
}

/// An option of CREATE ROLE and ALTER ROLE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RoleOption {
    /// SUPERUSER, NOSUPERUSER.
    Superuser(bool),
    /// INHERIT, NOINHERIT.
    Inherit(bool),
    /// CREATEROLE, NOCREATEROLE.
    CreateRole(bool),
    /// CREATEDB, NOCREATEDB.
    CreateDatabase(bool),
    /// LOGIN, NOLOGIN.
    Login(bool),
    /// BYPASSRLS, NOBYPASSRLS.
    BypassRowSecurity(bool),
    /// REPLICATION, NOREPLICATION.
    Replication(bool),
    /// CONNECTION LIMIT.
    ConnectionLimit(i64),
    /// PASSWORD; `None` for PASSWORD NULL.
    Password(Option<Password>),
    /// VALID UNTIL: a time as text.
    ValidUntil(String),
    /// IN ROLE, IN GROUP.
    MemberOf(Vec<RoleSpec>),
    /// ROLE, USER.
    Members(Vec<RoleSpec>),
    /// ADMIN.
    Admins(Vec<RoleSpec>),
    /// SYSID, which has no effect.
    SystemId,
}

/// The value in ALTER ROLE … SET.
#[derive(Debug, Clone, PartialEq)]
pub enum SettingValue {
    /// A list of constants.
    Values(Vec<Expr>),
    /// TO DEFAULT, and RESET of one setting.
    Default,
    /// FROM CURRENT.
    Current,
}

/// A privilege in GRANT and REVOKE: the upper-case word, and the columns if the statement names
/// columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrivilegeSyntax {
    /// The word in upper case, for example `SELECT`.
    pub word: String,
    /// The columns.
    pub columns: Option<Vec<Ident>>,
}

/// The objects in GRANT and REVOKE.
#[derive(Debug, Clone, PartialEq)]
pub enum ObjectSyntax {
    /// Tables.
    Tables(Vec<ObjectName>),
    /// ALL TABLES IN SCHEMA.
    TablesIn(Vec<Ident>),
    /// Schemas.
    Schemas(Vec<Ident>),
    /// Databases.
    Databases(Vec<Ident>),
}

/// GRANT or REVOKE of privileges on objects.
#[derive(Debug, Clone, PartialEq)]
pub struct GrantSyntax {
    /// True for GRANT, false for REVOKE.
    pub grants: bool,
    /// The privileges; `None` for ALL.
    pub privileges: Option<Vec<PrivilegeSyntax>>,
    /// The objects.
    pub objects: ObjectSyntax,
    /// The roles.
    pub grantees: Vec<RoleSpec>,
    /// WITH GRANT OPTION, or GRANT OPTION FOR.
    pub grant_option: bool,
    /// GRANTED BY.
    pub granted_by: Option<RoleSpec>,
    /// CASCADE.
    pub cascade: bool,
}

/// The object in ALTER … OWNER TO.
#[derive(Debug, Clone, PartialEq)]
pub enum OwnedObject {
    /// A database.
    Database(Ident),
}

/// A policy in CREATE POLICY. The predicates are the columns of the parser's tree: first USING, if
/// given, then WITH CHECK, if given.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicySyntax {
    /// The name.
    pub name: Ident,
    /// The table.
    pub table: ObjectName,
    /// AS PERMISSIVE, or AS RESTRICTIVE.
    pub permissive: bool,
    /// FOR: the upper-case word.
    pub command: String,
    /// TO; `None` without a TO.
    pub roles: Option<Vec<RoleSpec>>,
    /// True with USING.
    pub has_using: bool,
    /// True with WITH CHECK.
    pub has_check: bool,
}

/// A statement about roles, rights or row policies.
#[derive(Debug, Clone, PartialEq)]
pub enum AccessSyntax {
    /// CREATE ROLE, CREATE USER, CREATE GROUP.
    CreateRole {
        /// The name.
        name: RoleSpec,
        /// The keyword.
        kind: RoleKind,
        /// The options in the order of the statement.
        options: Vec<RoleOption>,
    },
    /// ALTER ROLE, ALTER USER.
    AlterRole {
        /// The role.
        name: RoleSpec,
        /// The options in the order of the statement.
        options: Vec<RoleOption>,
    },
    /// ALTER GROUP … ADD USER, DROP USER.
    AlterGroup {
        /// The group.
        group: RoleSpec,
        /// The members.
        members: Vec<RoleSpec>,
        /// True for ADD.
        adds: bool,
    },
    /// ALTER ROLE … RENAME TO.
    RenameRole {
        /// The current name.
        from: RoleSpec,
        /// The new name.
        to: RoleSpec,
    },
    /// ALTER ROLE … SET, ALTER ROLE … RESET.
    SetRoleSetting {
        /// The role.
        name: RoleSpec,
        /// The setting; `None` for RESET ALL.
        setting: Option<String>,
        /// The value.
        value: SettingValue,
    },
    /// DROP ROLE, DROP USER, DROP GROUP.
    DropRoles {
        /// The roles.
        names: Vec<RoleSpec>,
        /// IF EXISTS.
        if_exists: bool,
    },
    /// COMMENT ON ROLE.
    CommentOnRole {
        /// The role.
        name: RoleSpec,
        /// The text; `None` for NULL.
        comment: Option<String>,
    },
    /// GRANT or REVOKE of memberships.
    Memberships {
        /// True for GRANT, false for REVOKE.
        grants: bool,
        /// The groups.
        roles: Vec<String>,
        /// The members.
        members: Vec<RoleSpec>,
        /// WITH ADMIN OPTION, or ADMIN OPTION FOR.
        admin: bool,
        /// GRANTED BY.
        granted_by: Option<RoleSpec>,
    },
    /// GRANT or REVOKE of privileges.
    Grant(GrantSyntax),
    /// ALTER DEFAULT PRIVILEGES.
    Defaults {
        /// FOR ROLE; empty for the current role.
        creators: Vec<RoleSpec>,
        /// IN SCHEMA; empty for all schemas.
        schemas: Vec<Ident>,
        /// ON SCHEMAS instead of ON TABLES.
        of_schemas: bool,
        /// True for GRANT, false for REVOKE.
        grants: bool,
        /// The privileges; `None` for ALL.
        privileges: Option<Vec<PrivilegeSyntax>>,
        /// The roles.
        grantees: Vec<RoleSpec>,
        /// WITH GRANT OPTION, or GRANT OPTION FOR.
        grant_option: bool,
    },
    /// ALTER DATABASE … OWNER TO.
    SetOwner {
        /// The object.
        object: OwnedObject,
        /// The new owner.
        owner: RoleSpec,
    },
    /// REASSIGN OWNED.
    Reassign {
        /// The current owners.
        from: Vec<RoleSpec>,
        /// The new owner.
        to: RoleSpec,
    },
    /// DROP OWNED.
    DropOwned {
        /// The roles.
        roles: Vec<RoleSpec>,
    },
    /// CREATE POLICY.
    CreatePolicy(PolicySyntax),
    /// ALTER POLICY … TO, USING, WITH CHECK. Other fields of the policy have no meaning.
    AlterPolicy(PolicySyntax),
    /// ALTER POLICY … RENAME TO.
    RenamePolicy {
        /// The current name.
        name: Ident,
        /// The table.
        table: ObjectName,
        /// The new name.
        to: Ident,
    },
    /// DROP POLICY.
    DropPolicy {
        /// The name.
        name: Ident,
        /// The table.
        table: ObjectName,
        /// IF EXISTS.
        if_exists: bool,
    },
}

impl AccessSyntax {
    /// The command tag, as in PostgreSQL.
    pub fn tag(&self) -> &'static str {
        match self {
            Self::CreateRole { .. } => "CREATE ROLE",
            Self::AlterRole { .. }
            | Self::AlterGroup { .. }
            | Self::RenameRole { .. }
            | Self::SetRoleSetting { .. } => "ALTER ROLE",
            Self::DropRoles { .. } => "DROP ROLE",
            Self::CommentOnRole { .. } => "COMMENT",
            Self::Memberships { grants: true, .. } => "GRANT ROLE",
            Self::Memberships { grants: false, .. } => "REVOKE ROLE",
            Self::Grant(GrantSyntax { grants: true, .. }) => "GRANT",
            Self::Grant(GrantSyntax { grants: false, .. }) => "REVOKE",
            Self::Defaults { .. } => "ALTER DEFAULT PRIVILEGES",
            Self::SetOwner { object: OwnedObject::Database(_), .. } => "ALTER DATABASE",
            Self::Reassign { .. } => "REASSIGN OWNED",
            Self::DropOwned { .. } => "DROP OWNED",
            Self::CreatePolicy(_) => "CREATE POLICY",
            Self::AlterPolicy(_) | Self::RenamePolicy { .. } => "ALTER POLICY",
            Self::DropPolicy { .. } => "DROP POLICY",
        }
    }
}
