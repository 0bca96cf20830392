//! Secondary indexes of columns outside of the key (F88).

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{ColumnId, ColumnType};

/// Maximum number of indexes of one chronicle.
pub const INDEXES_MAX: usize = 64;

/// The method by which an index excludes events from reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IndexKind {
    /// A Bloom filter of the values in each row group of a story; for `column = value` and
    /// `column IN (…)`.
    Bloom,
    /// The words of each text, with the places of the texts; also for `column LIKE '%word%'`.
    Inverted,
}

impl IndexKind {
    /// Whether a column of type `column_type` may have an index of this kind.
    pub fn takes(self, column_type: &ColumnType) -> bool {
        match self {
            Self::Bloom => matches!(
                column_type,
                ColumnType::SmallInt
                    | ColumnType::Integer
                    | ColumnType::BigInt
                    | ColumnType::Text
                    | ColumnType::Date
                    | ColumnType::Uuid
            ),
            Self::Inverted => *column_type == ColumnType::Text,
        }
    }
}

impl fmt::Display for IndexKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bloom => "bloom",
            Self::Inverted => "inverted",
        })
    }
}

impl FromStr for IndexKind {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        match name {
            "bloom" => Ok(Self::Bloom),
            "inverted" => Ok(Self::Inverted),
            _ => Err(()),
        }
    }
}

/// A secondary index of a chronicle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexDefinition {
    /// Name, unique among the tables and indexes of the schema.
    pub name: String,
    /// Number within the chronicle, from 1; never reused.
    pub number: u32,
    /// Kind of the index.
    pub kind: IndexKind,
    /// The columns; each column is indexed separately.
    pub columns: Vec<ColumnId>,
}

/// The maximum length of a stored word, in bytes. Longer words are cut: words with the same first
/// 64 bytes count as equal.
const WORD_BYTES_MAX: usize = 64;

/// The words of a text, as an inverted index stores them: maximal runs of letters and digits,
/// folded to lower case and cut after 64 bytes.
pub fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty()).map(folded)
}

/// A word, folded to lower case and cut to the maximum length.
fn folded(word: &str) -> String {
    debug_assert!(!word.is_empty(), "a word has no letters");
    debug_assert!(word.chars().all(char::is_alphanumeric), "a word has a separator inside");
    let mut folded = String::with_capacity(word.len().min(WORD_BYTES_MAX));
    for letter in word.chars() {
        // Without regard to case, `ſ` equals the ASCII letter `s`, but `ſ` is its own lower case.
        // No other letter outside of ASCII has this property.
        let letter = if letter == 'ſ' { 's' } else { letter };
        for lower in letter.to_lowercase() {
            if folded.len() + lower.len_utf8() > WORD_BYTES_MAX {
                debug_assert!(is_cut(&folded), "a cut word looks complete");
                return folded;
            }
            folded.push(lower);
        }
    }
    debug_assert!(!folded.is_empty(), "a word has lost its letters");
    debug_assert!(folded.len() <= WORD_BYTES_MAX, "a word is too long for the index");
    folded
}

/// A complete word, or a part of a word, that a text must contain to match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WordPart {
    /// The letters, folded by the same rule as [`words`].
    text: String,
    /// Whether the word in the text may have more letters before this part, and after this part.
    open: (bool, bool),
}

impl WordPart {
    /// The words, or parts of words, that every text containing `part` must have. `begins` states
    /// that the text starts with `part`; `ends` states that the text ends with `part`.
    pub fn all_of(part: &str, begins: bool, ends: bool) -> Vec<Self> {
        let letter = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
        let first = !begins && letter(part.chars().next());
        let last = !ends && letter(part.chars().next_back());
        let words: Vec<String> = words(part).collect();
        let count = words.len();
        let parts = words
            .into_iter()
            .enumerate()
            .map(|(at, text)| WordPart { text, open: (first && at == 0, last && at + 1 == count) });
        parts.collect()
    }

    /// Whether the word `word` of an index may match this part.
    pub fn may_be_in(&self, word: &str) -> bool {
        debug_assert!(!self.text.is_empty(), "a part of a word has no letters");
        // The letters after the cut of a word are unknown.
        match self.open {
            _ if is_cut(word) || is_cut(&self.text) => true,
            (false, false) => word == self.text,
            (false, true) => word.starts_with(&self.text),
            (true, false) => word.ends_with(&self.text),
            (true, true) => word.contains(&self.text),
        }
    }

    /// Whether all letters are ASCII. All case-insensitive comparisons fold ASCII letters in the
    /// same way.
    pub fn is_ascii(&self) -> bool {
        self.text.is_ascii()
    }

    /// The word, if this is a complete word that was not cut; otherwise `None`.
    pub fn whole(&self) -> Option<&str> {
        debug_assert!(!self.text.is_empty(), "a part of a word has no letters");
        let whole = self.open == (false, false) && !is_cut(&self.text);
        whole.then_some(self.text.as_str())
    }
}

/// Whether a word has the maximum length, so that it may have been cut.
fn is_cut(word: &str) -> bool {
    word.len() + char::MAX_LEN_UTF8 > WORD_BYTES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_folded_and_cut() {
        let found: Vec<String> = words("GET /api/Users?id=42 — Ströme-ſ").collect();
        assert_eq!(found, ["get", "api", "users", "id", "42", "ströme", "s"]);
        assert_eq!(words(" -- ").count(), 0);
        assert_eq!(words(&"é".repeat(100)).next().map(|word| word.len()), Some(64));
    }

    #[test]
    fn parts_of_patterns_are_in_words_that_have_them() {
        let of = |part: &str| WordPart::all_of(part, false, false);
        let parts = of("rror: time");
        assert_eq!(parts.len(), 2);
        assert!(parts[0].may_be_in("error") && !parts[0].may_be_in("errors"));
        assert!(parts[1].may_be_in("timeout") && !parts[1].may_be_in("runtime"));
        let inner = of("x");
        assert!(inner[0].may_be_in("axb") && inner[0].whole().is_none());
        let whole = WordPart::all_of("error", true, true);
        assert_eq!(whole[0].whole(), Some("error"));
        assert!(!whole[0].may_be_in("errors"));
        assert!(of("...").is_empty());
        // The index stores only the beginning of a long word: a match with any ending is possible.
        let long = "a".repeat(80);
        assert!(of(&long)[0].may_be_in(&long[..64]) && whole[0].may_be_in(&long[..64]));
    }
}
