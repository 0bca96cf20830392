//! The rules for events with the same collision key (F25), and the properties of each rule.
//!
//! Other files ask a rule for its properties; only this file matches on the individual rules.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{Error, ErrorKind, Result};

/// The rule for a second event with the same collision key (F25: semantics A to D).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Collision {
    /// Semantics A: all events are stored, in arrival order.
    All,
    /// Semantics B: readers see only the last event to arrive.
    Last,
    /// Semantics C: the first event is stored, later events are rejected (SQLSTATE 23505).
    First,
    /// Semantics D: the first event keeps the tick; each later event gets the next free tick.
    Next,
    /// Semantics B for each column: readers see the last event to arrive, but where it has NULL,
    /// readers see the value of the earlier event.
    Merge,
}

/// The action for a new event if an earlier event has the same collision key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakenKeyAction {
    /// Both events are visible.
    Share,
    /// The later event hides the earlier event.
    Replace,
    /// The later event moves to the next free tick.
    Move,
    /// The later event is refused.
    Refuse,
}

impl Collision {
    /// Every rule, in the order of its name.
    pub const ALL: [Collision; 5] =
        [Collision::All, Collision::First, Collision::Last, Collision::Merge, Collision::Next];

    /// The rule of a table whose definition names no collision rule.
    pub fn default_of(has_primary_key: bool) -> Self {
        let rule = if has_primary_key { Collision::First } else { Collision::All };
        debug_assert!(has_primary_key || !rule.is_unique(), "a rule for keys without a key");
        rule
    }

    /// The name of the rule in WITH (collision = '…').
    pub fn name(self) -> &'static str {
        debug_assert!(Self::ALL.contains(&self), "the list of all rules lacks a rule");
        match self {
            Collision::All => "all",
            Collision::Last => "last",
            Collision::First => "first",
            Collision::Next => "next",
            Collision::Merge => "merge",
        }
    }

    /// The action for the later of two events with the same key and tick.
    pub fn on_taken_key(self) -> TakenKeyAction {
        match self {
            Collision::All => TakenKeyAction::Share,
            Collision::Last | Collision::Merge => TakenKeyAction::Replace,
            Collision::Next => TakenKeyAction::Move,
            Collision::First => TakenKeyAction::Refuse,
        }
    }

    /// What happens to the later event, as text for the hints of error messages.
    pub fn effect(self) -> &'static str {
        match self {
            Collision::All => "the table keeps every event",
            Collision::Last => "a new event replaces the event with the same key",
            Collision::First => "an event with a taken key is refused",
            Collision::Next => "an event with a taken key moves to the next free time",
            Collision::Merge => {
                "a new event replaces the event with the same key, and keeps the earlier values where the new event has NULL"
            }
        }
    }

    /// True if at most one visible event has a given collision key. Such a rule needs a PRIMARY
    /// KEY; the keeper looks up which event has a key, and an optimizer may treat the key as
    /// unique.
    pub fn is_unique(self) -> bool {
        self.on_taken_key() != TakenKeyAction::Share
    }

    /// True if the later of two events with the same key and tick replaces the earlier event.
    pub fn replaces(self) -> bool {
        self.on_taken_key() == TakenKeyAction::Replace
    }

    /// True if the later of two events with the same key and tick is refused.
    pub fn refuses(self) -> bool {
        self.on_taken_key() == TakenKeyAction::Refuse
    }

    /// True if the store may give an event another tick than its producer gave. For a key in use, a
    /// lookup then also finds the ticks in use after the key's tick.
    pub fn moves_ticks(self) -> bool {
        self.on_taken_key() == TakenKeyAction::Move
    }

    /// True if the earlier of two events with the same key keeps the key. If an uncommitted delete
    /// frees the key, then only the statement of the delete may use the key again.
    pub fn keeps_holder(self) -> bool {
        let keeps = self.moves_ticks() || self.refuses();
        debug_assert!(!keeps || self.is_unique(), "events that share a key have a holder");
        debug_assert!(!(keeps && self.replaces()), "both events keep the key");
        keeps
    }

    /// True if the later event needs the values of the earlier event. An append then waits for
    /// uncommitted events with the same key, and for uncommitted deletes of its tick.
    pub fn takes_earlier_values(self) -> bool {
        let takes = self == Collision::Merge;
        debug_assert!(!takes || self.replaces(), "a merged event leaves the earlier event visible");
        takes
    }
}

impl fmt::Display for Collision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Collision {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|rule| text.eq_ignore_ascii_case(rule.name()));
        found.ok_or_else(|| {
            let names: Vec<String> =
                Self::ALL.iter().map(|rule| format!("'{}'", rule.name())).collect();
            let (last, others) =
                names.split_last().map_or(("", &[][..]), |(last, others)| (last.as_str(), others));
            Error::new(ErrorKind::InvalidParameterValue, format!("collision = '{text}' is unknown"))
                .with_hint(format!("use {} or {last}", others.join(", ")))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_has_one_name_and_a_reason() {
        for rule in Collision::ALL {
            assert_eq!(rule.name().to_uppercase().parse::<Collision>().unwrap(), rule);
            assert!(!rule.takes_earlier_values() || rule.replaces());
            assert!(rule.is_unique() || !rule.keeps_holder());
            assert!(!rule.effect().is_empty());
        }
        let hint = "some".parse::<Collision>().unwrap_err();
        assert_eq!(hint.hint(), Some("use 'all', 'first', 'last', 'merge' or 'next'"));
    }
}
