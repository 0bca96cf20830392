//! An object store: S3, Google Cloud Storage, Azure, or whatever speaks like one of them.

use std::{collections::BTreeMap, ops::Range, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use object_store::{
    BackoffConfig, ClientOptions, GetOptions, GetRange, MultipartUpload, ObjectStore,
    ObjectStoreExt, ObjectStoreScheme, PutMode, PutOptions, PutPayload, RetryConfig,
    aws::AmazonS3Builder, azure::MicrosoftAzureBuilder, gcp::GoogleCloudStorageBuilder, path::Path,
};
use serde::{Deserialize, Serialize};
use stratalog_model::{Error, ErrorKind, Result};
use url::Url;

use super::{ReadShape, Shelf, Spool, StoryName, blocking, cut_off, missing};

/// Characters that are shown of what a store says of an error.
const ERROR_CHARS_MAX: usize = 300;

/// How an object store is spoken to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RemoteSettings {
    /// Milliseconds that a connection may take.
    pub connect_timeout_ms: u64,
    /// Milliseconds that one request may take.
    pub request_timeout_ms: u64,
    /// Times that a request is sent again.
    pub retries_max: usize,
    /// Milliseconds after which a request is not sent again.
    pub retry_timeout_ms: u64,
    /// Files up to this size are put in one request, larger ones in parts of this size: 5 MiB
    /// or more.
    pub part_bytes: usize,
    /// Parts that are sent at a time.
    pub parts_at_once: usize,
    /// Requests at a time of one read.
    pub reads_at_once: usize,
}

impl Default for RemoteSettings {
    fn default() -> Self {
        Self {
            connect_timeout_ms: 5_000,
            request_timeout_ms: 30_000,
            retries_max: 5,
            retry_timeout_ms: 60_000,
            part_bytes: 8 << 20,
            parts_at_once: 4,
            reads_at_once: 8,
        }
    }
}

/// Stories in an object store, below a prefix.
#[derive(Debug)]
pub struct RemoteShelf {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    /// What people call it: the URL without what is secret.
    place: String,
    settings: RemoteSettings,
}

impl RemoteShelf {
    /// The shelf below `prefix` of a store.
    pub fn new(store: Arc<dyn ObjectStore>, prefix: &str, settings: RemoteSettings) -> Self {
        let place = format!("{store}/{prefix}");
        Self { store, prefix: Path::from(prefix), place, settings }
    }

    /// The shelf of a URL: `s3://bucket/prefix`, `gs://bucket/prefix`,
    /// `az://container/prefix`. `options` are those of the environment (`AWS_REGION`,
    /// `AWS_ENDPOINT`, `GOOGLE_SERVICE_ACCOUNT`, `AZURE_STORAGE_ACCOUNT_NAME` …); ones that
    /// the store does not know are passed over.
    ///
    /// # Errors
    /// `InvalidParameterValue` for a URL or options that name no store.
    pub fn from_url(
        url: &str,
        options: impl IntoIterator<Item = (String, String)>,
        settings: RemoteSettings,
    ) -> Result<Self> {
        let invalid = |reason: String| {
            Error::new(
                ErrorKind::InvalidParameterValue,
                format!("\"{}\" is no place of stories: {reason}", without_secrets(url)),
            )
            .with_hint("write s3://bucket/prefix, gs://bucket/prefix or az://container/prefix")
        };
        let parsed = Url::parse(url).map_err(|error| invalid(error.to_string()))?;
        // What object_store says of such a URL shows all of it.
        let unknown = || invalid("it is of no kind of store that is known".to_string());
        let (scheme, prefix) = ObjectStoreScheme::parse(&parsed).map_err(|_| unknown())?;
        let built = build(&scheme, &parsed, options, &settings);
        let Some(store) = built.map_err(|error| invalid(error.to_string()))? else {
            return Err(unknown());
        };
        Ok(Self { store, prefix, place: without_secrets(url), settings })
    }

    fn path(&self, name: StoryName) -> Path {
        let name = name.to_string();
        name.split('/').fold(self.prefix.clone(), |path, part| path.join(part))
    }

    /// One request; a name that is in use is told apart.
    async fn put_whole(&self, path: &Path, spool: &Spool) -> object_store::Result<bool> {
        let bytes = part(spool, 0..spool.bytes).await?;
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        match self.store.put_opts(path, PutPayload::from_bytes(bytes.clone()), options).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::AlreadyExists { .. }) => Ok(false),
            // Stores that know no conditions: names are never used twice, so that one that was
            // looked up before is free.
            Err(
                object_store::Error::NotImplemented { .. }
                | object_store::Error::NotSupported { .. },
            ) => {
                self.store.put(path, PutPayload::from_bytes(bytes)).await?;
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }

    async fn put_in_parts(&self, path: &Path, spool: &Spool) -> object_store::Result<()> {
        let mut upload = self.store.put_multipart(path).await?;
        let sent = self.send_parts(upload.as_mut(), spool).await;
        if sent.is_err()
            && let Err(error) = upload.abort().await
        {
            tracing::warn!(%error, %path, "parts of an upload that failed are left in the store");
        }
        sent
    }

    async fn send_parts(
        &self,
        upload: &mut dyn MultipartUpload,
        spool: &Spool,
    ) -> object_store::Result<()> {
        let part_bytes = self.settings.part_bytes.max(5 << 20) as u64;
        let mut sending = futures::stream::FuturesUnordered::new();
        let mut at = 0;
        while at < spool.bytes {
            let end = (at + part_bytes).min(spool.bytes);
            let bytes = part(spool, at..end).await?;
            sending.push(upload.put_part(PutPayload::from_bytes(bytes)));
            at = end;
            if sending.len() >= self.settings.parts_at_once.max(1) {
                sending.try_next().await?;
            }
        }
        while sending.try_next().await?.is_some() {}
        upload.complete().await?;
        Ok(())
    }

    fn failed(&self, what: &str, name: StoryName, error: object_store::Error) -> Error {
        use object_store::Error as E;
        let place = self.place(name);
        let (kind, hint) = match &error {
            E::NotFound { .. } => return missing(&place).with_source(error),
            E::PermissionDenied { .. } | E::Unauthenticated { .. } => (
                ErrorKind::ObjectNotInPrerequisiteState,
                "check the credentials of the object store and what they allow",
            ),
            E::NotSupported { .. } | E::NotImplemented { .. } => {
                (ErrorKind::FeatureNotSupported, "use another object store")
            }
            E::InvalidPath { .. } | E::UnknownConfigurationKey { .. } => {
                (ErrorKind::InvalidParameterValue, "check the URL of the object store")
            }
            E::Generic { source, .. } if source.downcast_ref::<Error>().is_some() => {
                // An error of the spool file.
                let kind = source.downcast_ref::<Error>().map_or(ErrorKind::Io, Error::kind);
                (kind, "check the disk of the spool folder")
            }
            _ => (
                ErrorKind::ConnectionFailure,
                "check that the object store can be reached, and its credentials; it is tried again later",
            ),
        };
        Error::new(kind, format!("cannot {what} {place}: {}", short(&error)))
            .with_hint(hint)
            .with_source(error)
    }
}

/// What a store says, without the pages that some of them say.
fn short(error: &object_store::Error) -> String {
    let mut text: String = error.to_string().chars().take(ERROR_CHARS_MAX).collect();
    if text.chars().count() == ERROR_CHARS_MAX {
        text.push('…');
    }
    text
}

#[async_trait]
impl Shelf for RemoteShelf {
    async fn put(&self, name: StoryName, spool: &Spool) -> Result<()> {
        let path = self.path(name);
        let failed = |error| self.failed("write", name, error);
        let in_use = || Error::internal(format!("there is a story {name} already"));
        match self.store.head(&path).await {
            Ok(_) => return Err(in_use()),
            Err(object_store::Error::NotFound { .. }) => {}
            Err(error) => return Err(failed(error)),
        }
        if spool.bytes > self.settings.part_bytes as u64 {
            return self.put_in_parts(&path, spool).await.map_err(failed);
        }
        if self.put_whole(&path, spool).await.map_err(failed)? {
            return Ok(());
        }
        // It was not there a moment ago: an answer got lost, and the request was sent again.
        // Whether it is ours is seen when it is read back.
        match self.len(name).await? == spool.bytes {
            true => Ok(()),
            false => Err(in_use()),
        }
    }

    async fn read(&self, name: StoryName, range: Range<u64>) -> Result<Bytes> {
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        let options =
            GetOptions { range: Some(GetRange::Bounded(range.clone())), ..GetOptions::default() };
        let result = self.store.get_opts(&self.path(name), options).await;
        let result = result.map_err(|error| self.failed("read", name, error))?;
        let (len, found) = (result.meta.size, result.range.clone());
        let bytes = result.bytes().await.map_err(|error| self.failed("read", name, error))?;
        if found != range || bytes.len() as u64 != range.end - range.start {
            return Err(cut_off(&self.place(name), &range, len));
        }
        Ok(bytes)
    }

    async fn len(&self, name: StoryName) -> Result<u64> {
        let head = self.store.head(&self.path(name)).await;
        Ok(head.map_err(|error| self.failed("read", name, error))?.size)
    }

    async fn list(&self) -> Result<BTreeMap<StoryName, u64>> {
        let mut files = BTreeMap::new();
        let mut found = self.store.list(Some(&self.prefix));
        while let Some(object) = found.next().await {
            let object = object.map_err(|error| {
                Error::new(
                    ErrorKind::ConnectionFailure,
                    format!("cannot list {}: {}", self.place, short(&error)),
                )
                .with_hint("check that the object store can be reached, and its credentials")
                .with_source(error)
            })?;
            let Some(rest) = object.location.prefix_match(&self.prefix) else { continue };
            let rest: Vec<_> = rest.map(|part| part.as_ref().to_string()).collect();
            if let Ok(name) = rest.join("/").parse() {
                files.insert(name, object.size);
            }
        }
        Ok(files)
    }

    async fn remove(&self, name: StoryName) -> Result<()> {
        match self.store.delete(&self.path(name)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.failed("remove", name, error)),
        }
    }

    /// An object is there whole or not at all. Parts of an upload that a crash interrupted are
    /// invisible; a rule of the bucket that ends such uploads after a day removes them.
    async fn tidy(&self) -> Result<()> {
        Ok(())
    }

    fn place(&self, name: StoryName) -> String {
        format!("{}/{name}", self.place.trim_end_matches('/'))
    }

    fn shape(&self) -> ReadShape {
        let at_once = self.settings.reads_at_once.max(1);
        ReadShape { request_bytes: 4 << 20, gap_bytes_max: 1 << 20, at_once }
    }
}

/// The store of a URL; `None` for kinds that are none.
fn build(
    scheme: &ObjectStoreScheme,
    url: &Url,
    options: impl IntoIterator<Item = (String, String)>,
    settings: &RemoteSettings,
) -> object_store::Result<Option<Arc<dyn ObjectStore>>> {
    let retry = RetryConfig {
        backoff: BackoffConfig::default(),
        max_retries: settings.retries_max,
        retry_timeout: Duration::from_millis(settings.retry_timeout_ms),
    };
    let client = ClientOptions::new()
        .with_connect_timeout(Duration::from_millis(settings.connect_timeout_ms))
        .with_timeout(Duration::from_millis(settings.request_timeout_ms));
    macro_rules! store {
        ($builder:ty) => {{
            let builder = <$builder>::new()
                .with_url(url.to_string())
                .with_retry(retry)
                .with_client_options(client);
            let builder = options.into_iter().fold(builder, |builder, (key, value)| {
                match key.to_ascii_lowercase().parse() {
                    Ok(key) => builder.with_config(key, value),
                    Err(_) => builder,
                }
            });
            Ok(Some(Arc::new(builder.build()?)))
        }};
    }
    match scheme {
        ObjectStoreScheme::AmazonS3 => store!(AmazonS3Builder),
        ObjectStoreScheme::GoogleCloudStorage => store!(GoogleCloudStorageBuilder),
        ObjectStoreScheme::MicrosoftAzure => store!(MicrosoftAzureBuilder),
        _ => Ok(None),
    }
}

/// A part of a spool file.
async fn part(spool: &Spool, range: Range<u64>) -> object_store::Result<Bytes> {
    let spool = spool.clone();
    let read = blocking(move || {
        let failed = |error| Error::io(format!("cannot read {}", spool.path.display()), error);
        let file = spool.disk.open(&spool.path).map_err(failed)?;
        let mut bytes = vec![0; (range.end - range.start) as usize];
        let mut done = 0;
        while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match file.read_at(rest, range.start + done as u64).map_err(failed)? {
                0 => return Err(failed(std::io::ErrorKind::UnexpectedEof.into())),
                read => done += read,
            }
        }
        Ok(Bytes::from(bytes))
    });
    read.await
        .map_err(|error| object_store::Error::Generic { store: "spool", source: Box::new(error) })
}

/// A URL without user, password and query.
fn without_secrets(url: &str) -> String {
    match Url::parse(url) {
        Ok(mut url) => {
            url.set_username("").ok();
            url.set_password(None).ok();
            url.set_query(None);
            url.to_string()
        }
        Err(_) => url.split(['?', '@']).next().unwrap_or_default().to_string(),
    }
}
