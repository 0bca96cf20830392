//! Named files in an object store: S3, Google Cloud Storage, Azure, or a compatible store. Stories
//! and backups are stored through this module.

use std::{collections::BTreeMap, ops::Range, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use object_store::{
    BackoffConfig, ClientOptions, GetOptions, GetRange, MultipartUpload, ObjectStore,
    ObjectStoreExt, ObjectStoreScheme, PutMode, PutOptions, PutPayload, RetryConfig,
    aws::{AmazonS3Builder, AmazonS3ConfigKey},
    azure::{AzureConfigKey, MicrosoftAzureBuilder},
    gcp::{GoogleCloudStorageBuilder, GoogleConfigKey},
    path::Path,
};
use serde::{Deserialize, Serialize};
use stratalog_model::{Error, ErrorKind, Result};
use url::Url;

/// Maximum number of characters that an error message of the store contributes to our error.
const ERROR_CHARS_MAX: usize = 300;

/// Settings for the access to an object store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RemoteSettings {
    /// Timeout for opening a connection, in milliseconds.
    pub connect_timeout_ms: u64,
    /// Timeout of a request, in milliseconds.
    pub request_timeout_ms: u64,
    /// Maximum retries of a request.
    pub retries_max: usize,
    /// A failed request is not retried later than this number of milliseconds after its start.
    pub retry_timeout_ms: u64,
    /// Files up to this size are uploaded in one request, larger files in parts of this size. At
    /// least 5 MiB.
    pub part_bytes: usize,
    /// Maximum number of parts that are uploaded concurrently.
    pub parts_at_once: usize,
    /// Maximum number of concurrent requests for one read.
    pub reads_at_once: usize,
    /// Whether credentials may come from the metadata service of a cloud machine if the environment
    /// has no credentials.
    pub metadata_service: bool,
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
            metadata_service: false,
        }
    }
}

/// The content of a file to upload. The upload reads it sequentially, in parts.
#[async_trait]
pub trait Content: Send + Sync {
    /// Length in bytes.
    fn bytes(&self) -> u64;

    /// Reads all bytes of the range `range`.
    ///
    /// # Errors
    /// Errors of the storage that contains the content.
    async fn read(&self, range: Range<u64>) -> Result<Bytes>;
}

/// The length of a file, and the time of its upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectStatus {
    /// Length in bytes.
    pub bytes: u64,
    /// Time of the upload by the store's clock, in milliseconds since 1970.
    pub put_ms: i64,
}

/// The files of an object store whose names begin with a prefix.
#[derive(Debug)]
pub struct Objects {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    /// The URL without secrets, for messages.
    place: String,
    /// The word that messages use for a file, such as "story".
    noun: &'static str,
    settings: RemoteSettings,
}

impl Objects {
    /// The files below `prefix` in `store`. `noun` is the word that error messages use for a file.
    pub fn new(
        store: Arc<dyn ObjectStore>,
        prefix: &str,
        noun: &'static str,
        settings: RemoteSettings,
    ) -> Self {
        let place = format!("{store}/{prefix}");
        Self { store, prefix: Path::from(prefix), place, noun, settings }
    }

    /// The files below a URL: `s3://bucket/prefix`, `gs://bucket/prefix`, `az://container/prefix`.
    /// `options` are the options from the environment (`AWS_REGION`, `AWS_ENDPOINT`,
    /// `GOOGLE_SERVICE_ACCOUNT`, `AZURE_STORAGE_ACCOUNT_NAME` …); unknown options are ignored.
    ///
    /// # Errors
    /// `InvalidParameterValue` if the URL and the options do not describe a valid store.
    pub fn from_url(
        url: &str,
        options: impl IntoIterator<Item = (String, String)>,
        noun: &'static str,
        settings: RemoteSettings,
    ) -> Result<Self> {
        let invalid = |reason: String| {
            Error::new(
                ErrorKind::InvalidParameterValue,
                format!("\"{}\" is not a place for a {noun}: {reason}", without_secrets(url)),
            )
            .with_hint("write s3://bucket/prefix, gs://bucket/prefix or az://container/prefix")
        };
        let parsed = Url::parse(url).map_err(|error| invalid(error.to_string()))?;
        // The error of the library object_store would contain the complete URL, including secrets.
        let unknown = || invalid("the kind of the object store is unknown".to_string());
        let (scheme, prefix) = ObjectStoreScheme::parse(&parsed).map_err(|_| unknown())?;
        let built = build(&scheme, &parsed, options, &settings);
        let Some(store) = built.map_err(|error| invalid(error.to_string()))? else {
            return Err(unknown());
        };
        Ok(Self { store, prefix, place: without_secrets(url), noun, settings })
    }

    /// Whether a text has the form of an object store URL. Opens no connection.
    pub fn is_url(url: &str) -> bool {
        Url::parse(url).is_ok_and(|url| {
            let scheme = ObjectStoreScheme::parse(&url).map(|(scheme, _)| scheme);
            scheme.is_ok_and(|scheme| scheme != ObjectStoreScheme::Local)
        })
    }

    /// The settings for the access to the store.
    pub fn settings(&self) -> &RemoteSettings {
        &self.settings
    }

    /// The URL of the prefix without secrets, for messages.
    pub fn root(&self) -> &str {
        &self.place
    }

    /// The URL of a file without secrets, for messages.
    pub fn place(&self, name: &str) -> String {
        format!("{}/{name}", self.place.trim_end_matches('/'))
    }

    fn path(&self, name: &str) -> Path {
        name.split('/').fold(self.prefix.clone(), |path, part| path.join(part))
    }

    /// Uploads a complete file under a name that is not in use. Returns `false` and changes nothing
    /// if the name is in use. A small file uses a conditional put. A large file uses a multipart
    /// upload, which has no condition: the name is only checked before.
    ///
    /// # Errors
    /// `ConnectionFailure`; errors of `content`.
    pub async fn put(&self, name: &str, content: &dyn Content) -> Result<bool> {
        let failed = |error| self.failed("write", name, error);
        let path = self.path(name);
        match self.store.head(&path).await {
            Ok(_) => return Ok(false),
            Err(object_store::Error::NotFound { .. }) => {}
            Err(error) => return Err(failed(error)),
        }
        if content.bytes() > self.settings.part_bytes as u64 {
            self.put_in_parts(&path, content).await.map_err(failed)?;
            return Ok(true);
        }
        if self.put_whole(&path, content, PutMode::Create).await.map_err(failed)? {
            return Ok(true);
        }
        // The name was free a moment ago. The answer to our upload was lost, and the upload was
        // sent again. The caller verifies the file when it reads the file back.
        Ok(self.len(name).await? == content.bytes())
    }

    /// Uploads a small file if no file has the name at the moment of the request. Of several
    /// concurrent callers, exactly one gets `true`.
    ///
    /// # Errors
    /// The errors of [`Self::put`].
    pub async fn put_first(&self, name: &str, content: &dyn Content) -> Result<bool> {
        let put = self.put_whole(&self.path(name), content, PutMode::Create).await;
        put.map_err(|error| self.failed("write", name, error))
    }

    /// Uploads a small file; replaces an existing file with the same name.
    ///
    /// # Errors
    /// The errors of [`Self::put`].
    pub async fn replace(&self, name: &str, content: &dyn Content) -> Result<()> {
        let put = self.put_whole(&self.path(name), content, PutMode::Overwrite).await;
        put.map(drop).map_err(|error| self.failed("write", name, error))
    }

    /// Uploads content in one request; returns `false` if the name is in use.
    async fn put_whole(
        &self,
        path: &Path,
        content: &dyn Content,
        mode: PutMode,
    ) -> object_store::Result<bool> {
        let bytes = part(content, 0..content.bytes()).await?;
        let options = PutOptions { mode, ..PutOptions::default() };
        match self.store.put_opts(path, PutPayload::from_bytes(bytes.clone()), options).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::AlreadyExists { .. }) => Ok(false),
            // Stores without conditional puts: names are never reused, so a name that was free at
            // an earlier lookup is still free.
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

    async fn put_in_parts(&self, path: &Path, content: &dyn Content) -> object_store::Result<()> {
        let mut upload = self.store.put_multipart(path).await?;
        let sent = self.send_parts(upload.as_mut(), content).await;
        if sent.is_err()
            && let Err(error) = upload.abort().await
        {
            tracing::warn!(%error, %path, "parts of a failed upload remain in the store");
        }
        sent
    }

    async fn send_parts(
        &self,
        upload: &mut dyn MultipartUpload,
        content: &dyn Content,
    ) -> object_store::Result<()> {
        let part_bytes = self.settings.part_bytes.max(5 << 20) as u64;
        let mut sending = futures::stream::FuturesUnordered::new();
        let mut at = 0;
        while at < content.bytes() {
            let end = (at + part_bytes).min(content.bytes());
            let bytes = part(content, at..end).await?;
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

    /// Reads all bytes of a range of a file.
    ///
    /// # Errors
    /// `DataCorrupted` if the file is missing or too short; `ConnectionFailure`.
    pub async fn read(&self, name: &str, range: Range<u64>) -> Result<Bytes> {
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
            return Err(cut_off(self.noun, &self.place(name), &range, len));
        }
        Ok(bytes)
    }

    /// Length of a file in bytes.
    ///
    /// # Errors
    /// `DataCorrupted` if the file is missing; `ConnectionFailure`.
    pub async fn len(&self, name: &str) -> Result<u64> {
        let head = self.store.head(&self.path(name)).await;
        Ok(head.map_err(|error| self.failed("read", name, error))?.size)
    }

    /// The files below a folder, by name. An empty folder name means all files.
    ///
    /// # Errors
    /// `ConnectionFailure`.
    pub async fn list(&self, folder: &str) -> Result<BTreeMap<String, ObjectStatus>> {
        let below = if folder.is_empty() { self.prefix.clone() } else { self.path(folder) };
        let mut files = BTreeMap::new();
        let mut found = self.store.list(Some(&below));
        while let Some(object) = found.next().await {
            let object = object.map_err(|error| {
                Error::new(
                    ErrorKind::ConnectionFailure,
                    format!("cannot list {}: {}", self.place, short(&error)),
                )
                .with_hint("check that the object store is reachable, and check its credentials")
                .with_source(error)
            })?;
            let Some(rest) = object.location.prefix_match(&self.prefix) else { continue };
            let rest: Vec<_> = rest.map(|part| part.as_ref().to_string()).collect();
            let put_ms = object.last_modified.timestamp_millis();
            files.insert(rest.join("/"), ObjectStatus { bytes: object.size, put_ms });
        }
        Ok(files)
    }

    /// Removes a file. Does nothing if the file does not exist.
    ///
    /// # Errors
    /// `ConnectionFailure`.
    pub async fn remove(&self, name: &str) -> Result<()> {
        match self.store.delete(&self.path(name)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.failed("remove", name, error)),
        }
    }

    fn failed(&self, what: &str, name: &str, error: object_store::Error) -> Error {
        use object_store::Error as E;
        let place = self.place(name);
        let (kind, hint) = match &error {
            E::NotFound { .. } => return missing(self.noun, &place).with_source(error),
            E::PermissionDenied { .. } | E::Unauthenticated { .. } => (
                ErrorKind::ObjectNotInPrerequisiteState,
                "check the credentials of the object store, and their permissions",
            ),
            E::NotSupported { .. } | E::NotImplemented { .. } => {
                (ErrorKind::FeatureNotSupported, "use another object store")
            }
            E::InvalidPath { .. } | E::UnknownConfigurationKey { .. } => {
                (ErrorKind::InvalidParameterValue, "check the URL of the object store")
            }
            E::Generic { source, .. } => match source.downcast_ref::<Error>() {
                // The error came from reading the content, not from the store: return it as it is.
                Some(own) => {
                    let duplicate = own.duplicate();
                    return duplicate.with_source(error);
                }
                None => (ErrorKind::ConnectionFailure, UNREACHABLE),
            },
            _ => (ErrorKind::ConnectionFailure, UNREACHABLE),
        };
        Error::new(kind, format!("cannot {what} {place}: {}", short(&error)))
            .with_hint(hint)
            .with_source(error)
    }
}

const UNREACHABLE: &str = "check that the object store is reachable, and check its credentials; the server tries again later";

/// The environment variables that are options of object stores, for [`Objects::from_url`].
pub fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().filter_map(|(name, value)| {
        let name = name.to_str()?.to_ascii_lowercase();
        let theirs = ["aws_", "google_", "azure_"].iter().any(|of| name.starts_with(of));
        theirs.then_some((name, value.into_string().ok()?))
    })
}

/// The error for a missing file.
pub(crate) fn missing(noun: &str, place: &str) -> Error {
    Error::new(ErrorKind::DataCorrupted, format!("{noun} {place} is missing"))
        .with_hint("restore the file from a backup")
}

/// The error for a file that is too short.
pub(crate) fn cut_off(noun: &str, place: &str, range: &Range<u64>, len: u64) -> Error {
    Error::new(
        ErrorKind::DataCorrupted,
        format!("{noun} {place} is damaged at offset {len}: the file is cut off"),
    )
    .with_detail(format!("bytes {}..{} were requested", range.start, range.end))
    .with_hint("restore the file from a backup")
}

/// The message of a failed request without the body of the response, which may contain secrets of
/// another server.
fn short(error: &object_store::Error) -> String {
    let text = error.to_string();
    let mut text: String = without_body(&text).chars().take(ERROR_CHARS_MAX).collect();
    if text.chars().count() == ERROR_CHARS_MAX {
        text.push('…');
    }
    text
}

/// The text of an object_store error, cut before the quoted body of the response.
fn without_body(text: &str) -> &str {
    const STATUS: &str = "status code: ";
    const BODY: &str = "error response";
    if let Some(at) = text.find(STATUS).map(|at| at + STATUS.len()) {
        let status = text.get(at..).unwrap_or_default();
        let end = status.find(": ").unwrap_or(status.len());
        return text.get(..at + end).unwrap_or(text);
    }
    text.find(BODY).and_then(|at| text.get(..at + BODY.len())).unwrap_or(text)
}

/// The error if the environment has no credentials for the store. The library object_store would
/// ask the metadata service at 169.254.169.254 instead, which needs the setting's permission.
fn no_credentials(store: &'static str) -> object_store::Error {
    object_store::Error::Generic {
        store,
        source: "the environment has no credentials for the object store, and object_store_metadata is off"
            .into(),
    }
}

/// Opens the store of a URL; `None` for an unknown kind of store.
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
        ($builder:ty, $key:ty, $credentials:expr, $file:expr, $name:literal) => {{
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
            let set = |keys: &[$key]| {
                let mut values = keys.iter().filter_map(|key| builder.get_config_value(key));
                values.any(|value| !matches!(value.as_str(), "" | "false"))
            };
            let unsigned = builder.get_config_value(&<$key>::SkipSignature);
            let unsigned = unsigned.is_some_and(|value| value == "true");
            if !(settings.metadata_service || unsigned || set(&$credentials) || $file) {
                return Err(no_credentials($name));
            }
            Ok(Some(Arc::new(builder.build()?)))
        }};
    }
    match scheme {
        ObjectStoreScheme::AmazonS3 => {
            use AmazonS3ConfigKey as Key;
            let credentials = [
                Key::AccessKeyId,
                Key::WebIdentityTokenFile,
                Key::ContainerCredentialsRelativeUri,
                Key::ContainerCredentialsFullUri,
            ];
            store!(AmazonS3Builder, Key, credentials, false, "S3")
        }
        ObjectStoreScheme::GoogleCloudStorage => {
            use GoogleConfigKey as Key;
            let credentials =
                [Key::ServiceAccount, Key::ServiceAccountKey, Key::ApplicationCredentials];
            store!(GoogleCloudStorageBuilder, Key, credentials, has_google_file(), "GCS")
        }
        ObjectStoreScheme::MicrosoftAzure => {
            use AzureConfigKey as Key;
            let credentials = [
                Key::AccessKey,
                Key::ClientSecret,
                Key::FederatedTokenFile,
                Key::SasKey,
                Key::Token,
                Key::UseAzureCli,
            ];
            store!(MicrosoftAzureBuilder, Key, credentials, false, "Azure")
        }
        _ => Ok(None),
    }
}

/// Whether the file with the user's Google credentials exists.
fn has_google_file() -> bool {
    let home = std::env::var_os("HOME").map(std::path::PathBuf::from);
    home.is_some_and(|home| {
        home.join(".config/gcloud/application_default_credentials.json").is_file()
    })
}

/// Reads a part of the content. The error has a type that distinguishes it from errors of the
/// store.
async fn part(content: &dyn Content, range: Range<u64>) -> object_store::Result<Bytes> {
    let read = content.read(range).await;
    read.map_err(|error| object_store::Error::Generic {
        store: "what was to be sent",
        source: Box::new(error),
    })
}

/// The URL without user name, password and query.
pub fn without_secrets(url: &str) -> String {
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
