//! Keys of the cache of decoded columns: a key names the story, and what the value contains.

use std::any::Any;

use stratalog_model::ColumnId;

use crate::{schema::Source, story::Story};

/// Key of a value of the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct CacheKey {
    story: u64,
    subject: Subject,
}

/// What a cached value contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Subject {
    /// A chunk of a column of a row group. `column` is the position of the column in the file.
    Chunk { group: u32, column: u32, chunk: u32 },
    /// A column of the cells of a row group. `column` is the position of the column in the annex.
    CellColumn { group: u32, column: u32 },
    /// A finding: a value derived from the story.
    Finding(FindingKey),
}

// The memory budget of the cache includes its keys.
const _: () = assert!(size_of::<CacheKey>() == 24, "a key of the cache grew");

impl CacheKey {
    pub(crate) fn of(story: &Story, subject: Subject) -> Self {
        Self { story: story.built().id.0, subject }
    }
}

/// A value derived from a story, and cached together with the decoded columns. Each type of value
/// has its own type of key.
pub trait Finding: Any + Send + Sync {
    /// Distinguishes the findings of this type within one story.
    type Key;

    /// Converts the key to a cache key, which must differ from the cache keys of all other types.
    fn cache_key(key: Self::Key) -> FindingKey;
}

/// Key of a finding about a story.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FindingKey {
    /// Where each series begins and ends in the rows of a row group.
    Runs {
        /// Number of the group.
        group: u32,
    },
    /// The newest or oldest events of the story.
    Edge(StoryEdge),
    /// The values of a column for all events of an edge ([`StoryEdge`]).
    EdgeColumn(StoryEdge, Source),
    /// The answer to a request for aggregates.
    Aggregates {
        /// Hash of the request. The cached value contains the request for comparison.
        request: u32,
    },
    /// The inverted index of a column in a row group.
    Words {
        /// Number of the group.
        group: u32,
        /// The column.
        column: ColumnId,
    },
    /// The open annex with the cells.
    CellsAnnex,
    /// The open annex with the inverted indexes.
    WordsAnnex,
}

/// An edge: the newest or the oldest events of a story.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StoryEdge {
    /// One event for each series.
    Series {
        /// True for the oldest events.
        oldest: bool,
    },
    /// One event for each group of series.
    Groups {
        /// True for the oldest events.
        oldest: bool,
    },
}
