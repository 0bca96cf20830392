//! Keys of the cache of decoded columns: a key names the story, and the subject of the value.

use std::any::Any;

use stratalog_model::ColumnId;

use crate::{schema::Source, story::Story};

/// Key of a value of the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct CacheKey {
    story: u64,
    subject: Subject,
}

/// The subject of a value within a story.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Subject {
    /// A chunk of a column of a group. `column` is a position in the file.
    Chunk { group: u32, column: u32, chunk: u32 },
    /// A column of the cells of a group. `column` is a position in the annex.
    CellColumn { group: u32, column: u32 },
    /// A finding.
    Finding(FindingKey),
}

// The budget of the cache counts the bytes of each key.
const _: () = assert!(size_of::<CacheKey>() == 24, "a key of the cache grew");

impl CacheKey {
    pub(crate) fn of(story: &Story, subject: Subject) -> Self {
        Self { story: story.built().id.0, subject }
    }
}

/// A value derived from a story, and cached with the decoded columns. The type of the value
/// determines the type of the key.
pub trait Finding: Any + Send + Sync {
    /// Distinguishes the findings of this type within a story.
    type Key;

    /// The key in the cache. No other type has equal keys.
    fn cache_key(key: Self::Key) -> FindingKey;
}

/// Key of a finding about a story.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FindingKey {
    /// The runs of series in the rows of a group.
    Runs {
        /// Number of the group.
        group: u32,
    },
    /// The edge events of the story.
    Edge(StoryEdge),
    /// The values of a column for all events of an edge.
    EdgeColumn(StoryEdge, Source),
    /// The answer to a request for aggregates.
    Aggregates {
        /// Hash of the request. The value contains the request.
        request: u32,
    },
    /// The words of a column of a group.
    Words {
        /// Number of the group.
        group: u32,
        /// The column.
        column: ColumnId,
    },
    /// The open annex of the cells.
    CellsAnnex,
    /// The open annex of the words.
    WordsAnnex,
}

/// Newest or oldest events of a story.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StoryEdge {
    /// An event for each series.
    Series {
        /// True for the oldest events.
        oldest: bool,
    },
    /// An event for each group of series.
    Groups {
        /// True for the oldest events.
        oldest: bool,
    },
}
