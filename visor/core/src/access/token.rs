//! Tokens: long-lived credentials for programs.

use serde::{Deserialize, Serialize};

use super::{Privilege, RoleId};

/// The number of a token; never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TokenId(pub u32);

/// The part of its role's rights that a token has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenScope {
    /// Reads only.
    Read,
    /// Appends only; line protocol may also create tables and columns.
    Write,
    /// All rights of the role.
    All,
}

impl TokenScope {
    /// The word in statements and system tables.
    pub fn keyword(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::All => "all",
        }
    }

    /// The scope of a word.
    pub fn of_keyword(word: &str) -> Option<Self> {
        [Self::Read, Self::Write, Self::All].into_iter().find(|scope| scope.keyword() == word)
    }

    /// True if a token with this scope may use the privilege.
    pub(crate) fn allows(self, privilege: Privilege) -> bool {
        match self {
            Self::Read => privilege.reads(),
            Self::Write => privilege.writes(),
            Self::All => true,
        }
    }
}

/// A token. The server stores only the SHA-256 hash: the secret has 256 random bits, so that a slow
/// hash would protect nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    /// Number.
    pub id: TokenId,
    /// Name, unique among the tokens of the role.
    pub name: String,
    /// The role whose rights the token has.
    pub role: RoleId,
    /// The SHA-256 hash of the token's text, in hexadecimal digits.
    pub hash: String,
    /// The scope.
    pub scope: TokenScope,
    /// The creation time, in nanoseconds since 1970.
    pub created_ns: i64,
    /// The end of the validity, in nanoseconds since 1970; `None` for no end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_ns: Option<i64>,
    /// The last recorded use, in nanoseconds since 1970; `None` before the first use. The server
    /// records at most one use per hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_ns: Option<i64>,
}
