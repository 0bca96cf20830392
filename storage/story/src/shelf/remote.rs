//! A shelf (storage of finished stories) in an object store.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use object_store::ObjectStore;
use stratalog_model::{Error, ErrorKind, Result};
use tokio::sync::OnceCell;

use super::{ReadShape, Shelf, Spool, StoryName};
use crate::objects::{Content, Objects, RemoteSettings};

/// The word that error messages use for a file.
const NOUN: &str = "story";

/// Name of the file with the name of the server that owns the prefix.
const OWNER: &str = "owner";

/// Maximum bytes read from the owner file.
const OWNER_BYTES_MAX: u64 = 256;

/// Stories in an object store, below a prefix.
#[derive(Debug)]
pub struct RemoteShelf {
    objects: Objects,
    /// The server that owns the prefix; `None` for readers.
    owner: Option<String>,
    claimed: OnceCell<()>,
}

impl RemoteShelf {
    /// The shelf below `prefix` of a store.
    pub fn new(store: Arc<dyn ObjectStore>, prefix: &str, settings: RemoteSettings) -> Self {
        Self::over(Objects::new(store, prefix, NOUN, settings))
    }

    /// The shelf of a URL: see [`Objects::from_url`].
    ///
    /// # Errors
    /// `InvalidParameterValue` if the URL and the options do not describe a valid store.
    pub fn from_url(
        url: &str,
        options: impl IntoIterator<Item = (String, String)>,
        settings: RemoteSettings,
    ) -> Result<Self> {
        Ok(Self::over(Objects::from_url(url, options, NOUN, settings)?))
    }

    fn over(objects: Objects) -> Self {
        Self { objects, owner: None, claimed: OnceCell::new() }
    }

    /// The same shelf, for the exclusive use of `owner`. If another owner has claimed the prefix,
    /// list, put and remove fail. This prevents two servers from removing each other's files.
    #[must_use]
    pub fn owned_by(self, owner: &str) -> Self {
        debug_assert!(!owner.is_empty(), "an owner without a name");
        debug_assert!(owner.len() as u64 <= OWNER_BYTES_MAX, "an owner whom no claim recognizes");
        Self { owner: Some(owner.to_string()), ..self }
    }

    /// Claims the prefix for the owner, once per shelf; fails if the prefix has another owner.
    async fn claim(&self) -> Result<()> {
        let Some(owner) = &self.owner else { return Ok(()) };
        let claimed = self.claimed.get_or_try_init(|| async {
            let put = self.objects.put(OWNER, &Text(owner.clone())).await;
            put.map_err(|error| match error.kind() {
                ErrorKind::DataCorrupted => no_bucket(self.objects.root()),
                _ => error,
            })?;
            let len = self.objects.len(OWNER).await?.min(OWNER_BYTES_MAX);
            let found = self.objects.read(OWNER, 0..len).await?;
            if found == owner.as_bytes() {
                return Ok(());
            }
            let place = self.objects.place(OWNER);
            let whose = String::from_utf8_lossy(&found);
            Err(Error::new(
                ErrorKind::ObjectInUse,
                format!(
                    "the stories of {} belong to another data directory",
                    self.objects.root()
                ),
            )
            .with_detail(format!("{place} names {whose}, but this directory is {owner}"))
            .with_hint(format!(
                "give this server another story_url; if the other directory no longer exists, remove {place}"
            )))
        });
        claimed.await?;
        Ok(())
    }
}

#[async_trait]
impl Shelf for RemoteShelf {
    async fn put(&self, name: StoryName, spool: &Spool) -> Result<()> {
        self.claim().await?;
        match self.objects.put(&name.to_string(), spool).await? {
            true => Ok(()),
            false => Err(Error::internal(format!("story {name} already exists"))),
        }
    }

    async fn read(&self, name: StoryName, range: Range<u64>) -> Result<Bytes> {
        self.objects.read(&name.to_string(), range).await
    }

    async fn len(&self, name: StoryName) -> Result<u64> {
        self.objects.len(&name.to_string()).await
    }

    async fn list(&self) -> Result<BTreeMap<StoryName, u64>> {
        self.claim().await?;
        let files = self.objects.list("").await?.into_iter();
        Ok(files.filter_map(|(name, file)| Some((name.parse().ok()?, file.bytes))).collect())
    }

    async fn remove(&self, name: StoryName) -> Result<()> {
        self.claim().await?;
        self.objects.remove(&name.to_string()).await
    }

    /// Does nothing: an object is either complete or absent. The parts of an upload that a crash
    /// has interrupted are invisible; a lifecycle rule of the bucket should abort such uploads
    /// after a day.
    async fn tidy(&self) -> Result<()> {
        Ok(())
    }

    fn place(&self, name: StoryName) -> String {
        self.objects.place(&name.to_string())
    }

    fn shape(&self) -> ReadShape {
        let at_once = self.objects.settings().reads_at_once.max(1);
        ReadShape { request_bytes: 4 << 20, gap_bytes_max: 1 << 20, at_once, near: false }
    }
}

/// The error for a missing bucket: the store cannot find a file that was uploaded just before.
fn no_bucket(place: &str) -> Error {
    let what = format!("the bucket or container of {place} does not exist");
    Error::new(ErrorKind::InvalidParameterValue, what)
        .with_hint("create the bucket or container, or correct story_url")
}

/// A text to upload as a file.
struct Text(String);

#[async_trait]
impl Content for Text {
    fn bytes(&self) -> u64 {
        self.0.len() as u64
    }

    async fn read(&self, range: Range<u64>) -> Result<Bytes> {
        debug_assert!(range.start <= range.end, "the range is reversed");
        debug_assert!(range.end <= self.bytes(), "the range ends behind the text");
        let text = Bytes::copy_from_slice(self.0.as_bytes());
        Ok(text.slice(range.start as usize..range.end as usize))
    }
}
