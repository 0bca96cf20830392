//! A cache of open stories within a memory budget.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use crate::{description::BuiltStory, shelf::StoryName, story::Story};

/// The open stories that were used most recently.
#[derive(Debug)]
pub(crate) struct Cache {
    bytes_max: usize,
    bytes: usize,
    clock: u64,
    stories: HashMap<StoryName, (u64, Arc<Story>)>,
    /// The names of the cached stories, ordered by their last use.
    by_use: BTreeMap<u64, StoryName>,
}

impl Cache {
    /// An empty cache that keeps at most `bytes_max` bytes.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, bytes: 0, clock: 0, stories: HashMap::new(), by_use: BTreeMap::new() }
    }

    /// Size of the cached stories, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The cached story that has the description `built`, if any.
    pub(crate) fn get(&mut self, built: &BuiltStory) -> Option<Arc<Story>> {
        let (used, story) = self.stories.get_mut(&built.name())?;
        if story.built() != built {
            return None;
        }
        let name = self.by_use.remove(used);
        debug_assert_eq!(name, Some(built.name()), "a cached story was never used");
        self.clock += 1;
        *used = self.clock;
        self.by_use.insert(self.clock, built.name());
        let story = Arc::clone(story);
        self.assert_consistent();
        Some(story)
    }

    /// Adds a story; evicts the least recently used stories if the budget is exceeded.
    pub(crate) fn put(&mut self, story: &Arc<Story>) {
        let name = story.built().name();
        self.remove(name);
        self.clock += 1;
        self.bytes += story.memory_bytes();
        self.stories.insert(name, (self.clock, Arc::clone(story)));
        self.by_use.insert(self.clock, name);
        while self.bytes > self.bytes_max
            && let Some((_, name)) = self.by_use.first_key_value()
        {
            self.remove(*name);
        }
        debug_assert!(self.bytes <= self.bytes_max, "the cache exceeds its budget");
        self.assert_consistent();
    }

    /// Evicts a story.
    pub(crate) fn remove(&mut self, name: StoryName) {
        if let Some((used, story)) = self.stories.remove(&name) {
            let removed = self.by_use.remove(&used);
            debug_assert_eq!(removed, Some(name), "another story is evicted");
            debug_assert!(story.memory_bytes() <= self.bytes, "more is released than held");
            self.bytes = self.bytes.saturating_sub(story.memory_bytes());
        }
        self.assert_consistent();
    }

    fn assert_consistent(&self) {
        debug_assert_eq!(self.stories.len(), self.by_use.len(), "a story without its last use");
        debug_assert!(!self.stories.is_empty() || self.bytes == 0, "bytes of no story");
        debug_assert!(
            self.by_use.last_key_value().is_none_or(|(used, _)| *used <= self.clock),
            "a story was used in the future"
        );
    }
}
