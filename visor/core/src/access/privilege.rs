//! Privileges, and the objects to which they apply.

use serde::{Deserialize, Serialize};
use stratalog_model::{ChronicleId, ColumnId};

use super::RoleId;

macro_rules! privileges {
    ($( $(#[$doc:meta])* $name:ident = $text:literal, $letter:literal; )*) => {
        /// What a role may do with an object. The privileges of the server come from attributes
        /// and predefined roles; all others from GRANT.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Privilege { $( $(#[$doc])* $name, )* }

        impl Privilege {
            /// Every privilege.
            pub const ALL: &'static [Privilege] = &[ $( Privilege::$name, )* ];

            /// The keyword in GRANT.
            pub const fn keyword(self) -> &'static str {
                match self { $( Privilege::$name => $text, )* }
            }

            /// The letter in an access list such as `reader=r/owner`; PostgreSQL's letter if
            /// PostgreSQL has the privilege. A space for privileges without GRANT.
            pub const fn letter(self) -> char {
                match self { $( Privilege::$name => $letter, )* }
            }
        }
    };
}

privileges! {
    /// Read events of a chronicle; also by column.
    Select = "SELECT", 'r';
    /// Append events to a chronicle.
    Insert = "INSERT", 'a';
    /// Delete events of a chronicle.
    Delete = "DELETE", 'd';
    /// Trim or truncate a chronicle.
    Trim = "TRIM", 'D';
    /// Subscribe to a chronicle.
    Subscribe = "SUBSCRIBE", 's';
    /// Acquire a chronicle.
    Acquire = "ACQUIRE", 'q';
    /// Change and drop a chronicle, and grant privileges on the chronicle, like its owner.
    Ownership = "OWNERSHIP", 'o';
    /// Look up objects of a schema.
    Usage = "USAGE", 'U';
    /// Create objects in a schema, or schemas in a database.
    Create = "CREATE", 'C';
    /// Connect to a database.
    Connect = "CONNECT", 'c';
    /// Read metrics, the activity of all sessions, and system tables of all objects.
    Monitor = "MONITOR", ' ';
    /// Cancel statements and end sessions of other roles.
    Signal = "SIGNAL", ' ';
    /// Make and list backups.
    BackUp = "BACKUP", ' ';
    /// Flush, compact and check, accept clock jumps, reload certificates.
    Administer = "ADMINISTER", ' ';
    /// Read the audit log.
    ReadAudit = "READ AUDIT", ' ';
    /// Create, change and drop roles.
    CreateRole = "CREATE ROLE", ' ';
    /// Create databases.
    CreateDatabase = "CREATE DATABASE", ' ';
    /// Write where no grant allows it: change attributes of superusers, write system tables.
    Superuse = "SUPERUSER", ' ';
}

impl Privilege {
    /// The privileges that can be granted on an object of this kind.
    pub fn grantable_on(object: Object) -> &'static [Privilege] {
        use Privilege::*;
        match object {
            Object::Chronicle(_) => &[Select, Insert, Delete, Trim, Subscribe, Acquire, Ownership],
            Object::Schema { .. } => &[Usage, Create],
            Object::Database(_) => &[Create, Connect],
            Object::Server => &[],
        }
    }

    /// True if a token with the scope `read` may use the privilege.
    pub(crate) fn reads(self) -> bool {
        use Privilege::*;
        matches!(self, Select | Subscribe | Usage | Connect | Monitor | ReadAudit)
    }

    /// True if a token with the scope `write` may use the privilege. A writer of line protocol also
    /// creates tables; for columns see `Rights::may_add_columns`.
    pub(crate) fn writes(self) -> bool {
        use Privilege::*;
        matches!(self, Insert | Usage | Connect | Create)
    }
}

/// An object of the catalog, or the server itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Object {
    /// The server.
    Server,
    /// A database, by oid.
    Database(u32),
    /// A schema, by the oids of the database and of the schema.
    Schema {
        /// Oid of the database.
        database: u32,
        /// Oid of the schema, unique within the database.
        schema: u32,
    },
    /// A chronicle.
    Chronicle(ChronicleId),
}

/// An entry of an object's access list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The role with the privilege; `None` for PUBLIC, which means every role.
    pub grantee: Option<RoleId>,
    /// The privilege.
    pub privilege: Privilege,
    /// The column to which the privilege is limited; `None` for the whole object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<ColumnId>,
    /// True if the grantee may grant the privilege to others.
    #[serde(default)]
    pub grantable: bool,
    /// The role that granted the privilege.
    pub grantor: RoleId,
}

/// Privileges that new objects get, from ALTER DEFAULT PRIVILEGES.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DefaultGrant {
    /// The role whose new objects get the privilege.
    pub creator: RoleId,
    /// The schema of the new objects: oids of the database and of the schema. `None` for all
    /// schemas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<(u32, u32)>,
    /// True for new schemas, false for new chronicles.
    #[serde(default)]
    pub of_schemas: bool,
    /// The grantee; `None` for PUBLIC.
    pub grantee: Option<RoleId>,
    /// The privilege.
    pub privilege: Privilege,
    /// True if the grantee may grant the privilege to others.
    #[serde(default)]
    pub grantable: bool,
}
