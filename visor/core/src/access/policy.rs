//! Row policies.

use serde::{Deserialize, Serialize};
use stratalog_model::ChronicleId;

use super::RoleId;

/// The statements to which a policy applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicyCommand {
    /// FOR SELECT: reads and subscriptions.
    Select,
    /// FOR INSERT: all appends.
    Insert,
    /// FOR ALL: reads and appends.
    All,
}

/// A row policy of a chronicle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// The chronicle.
    pub chronicle: ChronicleId,
    /// Name, unique within the chronicle.
    pub name: String,
    /// The statements.
    pub command: PolicyCommand,
    /// True for a permissive policy: a row needs one of them. False for a restrictive policy: a
    /// row needs all of them.
    pub permissive: bool,
    /// The roles to which the policy applies; empty for PUBLIC.
    #[serde(default)]
    pub roles: Vec<RoleId>,
    /// The predicate of visible rows, as SQL text; `None` for no predicate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub using_sql: Option<String>,
    /// The predicate of appended rows, as SQL text; `None` for the predicate of visible rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check_sql: Option<String>,
}

/// Whether row policies apply to a chronicle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RowSecurity {
    /// ENABLE ROW LEVEL SECURITY: policies apply to all roles but the owner.
    pub enabled: bool,
    /// FORCE ROW LEVEL SECURITY: policies also apply to the owner.
    pub forced: bool,
}

/// The policies of one chronicle that apply to one identity.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowPolicies {
    /// SQL texts of permissive predicates: a row needs one of them. Empty: no row passes.
    pub any: Vec<String>,
    /// SQL texts of restrictive predicates: a row needs all of them.
    pub all: Vec<String>,
}
