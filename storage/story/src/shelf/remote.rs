//! An object store.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use object_store::ObjectStore;
use stratalog_model::{Error, Result};

use super::{ReadShape, Shelf, Spool, StoryName};
use crate::objects::{Objects, RemoteSettings};

/// What one of the files is, for people.
const NOUN: &str = "story";

/// Stories in an object store, below a prefix.
#[derive(Debug)]
pub struct RemoteShelf {
    objects: Objects,
}

impl RemoteShelf {
    /// The shelf below `prefix` of a store.
    pub fn new(store: Arc<dyn ObjectStore>, prefix: &str, settings: RemoteSettings) -> Self {
        Self { objects: Objects::new(store, prefix, NOUN, settings) }
    }

    /// The shelf of a URL, as [`Objects::from_url`] reads it.
    ///
    /// # Errors
    /// `InvalidParameterValue` for a URL or options that name no store.
    pub fn from_url(
        url: &str,
        options: impl IntoIterator<Item = (String, String)>,
        settings: RemoteSettings,
    ) -> Result<Self> {
        Ok(Self { objects: Objects::from_url(url, options, NOUN, settings)? })
    }
}

#[async_trait]
impl Shelf for RemoteShelf {
    async fn put(&self, name: StoryName, spool: &Spool) -> Result<()> {
        match self.objects.put(&name.to_string(), spool).await? {
            true => Ok(()),
            false => Err(Error::internal(format!("there is a story {name} already"))),
        }
    }

    async fn read(&self, name: StoryName, range: Range<u64>) -> Result<Bytes> {
        self.objects.read(&name.to_string(), range).await
    }

    async fn len(&self, name: StoryName) -> Result<u64> {
        self.objects.len(&name.to_string()).await
    }

    async fn list(&self) -> Result<BTreeMap<StoryName, u64>> {
        let files = self.objects.list("").await?.into_iter();
        Ok(files.filter_map(|(name, file)| Some((name.parse().ok()?, file.bytes))).collect())
    }

    async fn remove(&self, name: StoryName) -> Result<()> {
        self.objects.remove(&name.to_string()).await
    }

    /// An object is there whole or not at all. Parts of an upload that a crash interrupted are
    /// invisible; a rule of the bucket that ends such uploads after a day removes them.
    async fn tidy(&self) -> Result<()> {
        Ok(())
    }

    fn place(&self, name: StoryName) -> String {
        self.objects.place(&name.to_string())
    }

    fn shape(&self) -> ReadShape {
        let at_once = self.objects.settings().reads_at_once.max(1);
        ReadShape { request_bytes: 4 << 20, gap_bytes_max: 1 << 20, at_once }
    }
}
