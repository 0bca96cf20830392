//! Who may do what: roles, privileges, row policies and tokens (F5).
//!
//! *What it is*: a part of the catalog's state, changed by [`AccessCommand`]s in the catalog's log,
//! and one decision point, [`CatalogState::authorize`](crate::CatalogState::authorize), which all
//! protocols and statements ask.
//!
//! *What it deliberately is not*: it authenticates nobody, and reads no SQL.
//!
//! ```text
//!   login ─► Identity ─► rights (roles, inherited roles, scope of a token) ─┐
//!   statement ─► privilege, object, columns ────────────────────────────────┴─► allowed, or 42501
//! ```

mod change;
mod command;
mod decision;
mod identity;
mod plan;
mod policy;
mod privilege;
mod role;
mod state;
mod token;
mod token_secret;
mod verifier;

pub(crate) use change::AccessChange;
pub use command::{AccessCommand, GrantObjects, GrantedPrivileges, Grantee, RoleOptions};
pub use decision::{Columns, Rights, unknown_relation};
pub use identity::{Identity, RoleIdentity};
pub(crate) use plan::{Scene, adopt, inherit, plan};
pub use policy::{Policy, PolicyCommand, RowPolicies, RowSecurity};
pub use privilege::{DefaultGrant, Grant, Object, Privilege};
pub use role::{FOUNDER_NAME, Membership, PREDEFINED, Predefined, Role, RoleAttributes, RoleId};
pub use state::AccessState;
pub use token::{Token, TokenId, TokenScope};
pub use token_secret::{TOKEN_PREFIX, TokenSecret, hash_of_token};
pub use verifier::{ITERATIONS, ITERATIONS_DEFAULT, PASSWORD_BYTES_MAX, Verifier};
