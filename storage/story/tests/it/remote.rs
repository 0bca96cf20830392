//! Stories in an object store.

use std::{
    fmt,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, UploadPart,
    memory::InMemory, path::Path,
};
use stratalog_journal::LocalDisk;
use stratalog_model::ErrorKind;
use stratalog_story::{RemoteSettings, RemoteShelf, Stories, StoryId};

use crate::fixture::*;

/// A store with interruptions and failing uploads.
#[derive(Debug, Default)]
struct Unreliable {
    inner: InMemory,
    down: AtomicBool,
    /// Number of parts before a failure.
    parts_left: Arc<AtomicUsize>,
    aborted: Arc<AtomicUsize>,
    parts: Arc<AtomicUsize>,
    requests: AtomicUsize,
}

impl Unreliable {
    fn up(&self) -> object_store::Result<&InMemory> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        if self.down.load(Ordering::Relaxed) { Err(unreachable()) } else { Ok(&self.inner) }
    }
}

fn unreachable() -> object_store::Error {
    object_store::Error::Generic { store: "test", source: "connection refused".into() }
}

impl fmt::Display for Unreliable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unreliable")
    }
}

#[derive(Debug)]
struct Upload {
    inner: Box<dyn MultipartUpload>,
    parts_left: Arc<AtomicUsize>,
    aborted: Arc<AtomicUsize>,
    parts: Arc<AtomicUsize>,
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        self.parts.fetch_add(1, Ordering::Relaxed);
        let left = self.parts_left.load(Ordering::Relaxed);
        if left == 0 {
            return Box::pin(async { Err(unreachable()) });
        }
        self.parts_left.store(left - 1, Ordering::Relaxed);
        self.inner.put_part(data)
    }

    async fn complete(&mut self) -> object_store::Result<PutResult> {
        self.inner.complete().await
    }

    async fn abort(&mut self) -> object_store::Result<()> {
        self.aborted.fetch_add(1, Ordering::Relaxed);
        self.inner.abort().await
    }
}

#[async_trait]
impl ObjectStore for Unreliable {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> object_store::Result<PutResult> {
        self.up()?.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        Ok(Box::new(Upload {
            inner: self.up()?.put_multipart_opts(location, options).await?,
            parts_left: Arc::clone(&self.parts_left),
            aborted: Arc::clone(&self.aborted),
            parts: Arc::clone(&self.parts),
        }))
    }

    async fn get_opts(
        &self,
        location: &Path,
        options: GetOptions,
    ) -> object_store::Result<GetResult> {
        self.up()?.get_opts(location, options).await
    }

    async fn get_ranges(
        &self,
        location: &Path,
        ranges: &[Range<u64>],
    ) -> object_store::Result<Vec<Bytes>> {
        self.up()?.get_ranges(location, ranges).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, object_store::Result<Path>>,
    ) -> BoxStream<'static, object_store::Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        match self.up() {
            Ok(inner) => inner.list(prefix),
            Err(error) => Box::pin(futures::stream::iter([Err(error)])),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<ListResult> {
        self.up()?.list_with_delimiter(prefix).await
    }

    async fn copy_opts(
        &self,
        from: &Path,
        to: &Path,
        options: CopyOptions,
    ) -> object_store::Result<()> {
        self.up()?.copy_opts(from, to, options).await
    }
}

fn remote(store: &Arc<Unreliable>, folder: &tempfile::TempDir) -> Stories {
    store.parts_left.store(usize::MAX, Ordering::Relaxed);
    let store: Arc<dyn ObjectStore> = Arc::clone(store) as _;
    let shelf = RemoteShelf::new(store, "lake/stories", RemoteSettings::default());
    on_shelf(Arc::new(shelf), Arc::new(LocalDisk), folder.path()).unwrap()
}

#[test]
fn stories_live_below_their_prefix() {
    let (store, folder) = (Arc::new(Unreliable::default()), tempfile::tempdir().unwrap());
    let stories = remote(&store, &folder);
    let built: Vec<_> = (1..=3).map(|id| build(&stories, id, 2).unwrap()).collect();
    wait(async {
        let path = Path::from("lake/stories/7/00000000000000000002.parquet");
        assert_eq!(store.inner.head(&path).await.unwrap().size, built[1].bytes);
        for name in ["lake/stories/7/notes.txt", "lake/stories/x", "lake/stories2/7/x"] {
            store.inner.put(&Path::from(name), "mine".into()).await.unwrap();
        }
    });
    let stories = remote(&store, &folder);
    for built in &built {
        check(&stories, built).unwrap();
        wait(wait(stories.open_story(built)).unwrap().check()).unwrap();
    }
    assert_eq!(wait(stories.files()).unwrap().len(), 3);
    assert_eq!(keep_only(&stories, &[built[1].name()].into()), 2);
    assert_eq!(wait(stories.files()).unwrap().len(), 1);
    check(&stories, &built[1]).unwrap();
    let error = build(&stories, 2, 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal);
    wait(stories.remove(built[1].name())).unwrap();
    wait(stories.remove(built[1].name())).unwrap();
    let stories = remote(&store, &folder);
    let error = wait(stories.open_story(&built[1])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DataCorrupted);
    assert!(error.message().ends_with("is missing") && error.hint().is_some(), "{error}");
    assert_eq!(std::fs::read_dir(folder.path().join("spool")).unwrap().count(), 0);
}

#[test]
fn a_store_that_is_down_is_told_as_that() {
    let (store, folder) = (Arc::new(Unreliable::default()), tempfile::tempdir().unwrap());
    let stories = remote(&store, &folder);
    let built = build(&stories, 1, 2).unwrap();
    store.down.store(true, Ordering::Relaxed);
    let errors = [
        build(&stories, 2, 2).unwrap_err(),
        wait(stories.open_story(&built)).unwrap_err(),
        wait(stories.files()).unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::ConnectionFailure);
        assert!(error.kind().is_retryable() && error.hint().is_some(), "{error}");
    }
    store.down.store(false, Ordering::Relaxed);
    check(&stories, &built).unwrap();
    let second = build(&stories, 2, 2).unwrap();
    check(&stories, &second).unwrap();
}

#[test]
fn a_prefix_is_for_one_owner() {
    let (store, folder) = (Arc::new(Unreliable::default()), tempfile::tempdir().unwrap());
    store.parts_left.store(usize::MAX, Ordering::Relaxed);
    let owned = |owner: &str| {
        let store: Arc<dyn ObjectStore> = Arc::clone(&store) as _;
        let shelf = RemoteShelf::new(store, "lake", RemoteSettings::default()).owned_by(owner);
        on_shelf(Arc::new(shelf), Arc::new(LocalDisk), folder.path()).unwrap()
    };
    let stories = owned("first");
    let built = build(&stories, 1, 2).unwrap();
    let others = owned("second");
    let errors = [
        build(&others, 2, 2).unwrap_err(),
        wait(others.files()).unwrap_err(),
        wait(others.remove(built.name())).unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::ObjectInUse);
        let detail = error.detail().unwrap();
        assert!(detail.ends_with("names first, but this directory is second"), "{detail}");
    }
    // Readers without a claim may read, and the owner may return.
    check(&others, &built).unwrap();
    let again = owned("first");
    assert_eq!(wait(again.files()).unwrap(), [(built.name(), built.bytes)].into());
    // An unreachable store is not claimed, and the claim is retried later.
    let fresh = owned("first");
    store.down.store(true, Ordering::Relaxed);
    assert_eq!(wait(fresh.files()).unwrap_err().kind(), ErrorKind::ConnectionFailure);
    store.down.store(false, Ordering::Relaxed);
    build(&fresh, 3, 2).unwrap();
}

#[test]
fn large_stories_go_in_parts_and_broken_uploads_are_given_up() {
    let (store, folder) = (Arc::new(Unreliable::default()), tempfile::tempdir().unwrap());
    let stories = remote(&store, &folder);
    let large = |id: u64| {
        let mut builder = stories.build(StoryId(id), &noise_schema(), settings())?;
        for group in 0..5 {
            let (batch, summary) = noise(id * 100 + group);
            builder.push(&batch, summary)?;
        }
        wait(builder.finish())
    };
    store.parts_left.store(1, Ordering::Relaxed);
    assert_eq!(large(1).unwrap_err().kind(), ErrorKind::ConnectionFailure);
    assert_eq!(store.aborted.load(Ordering::Relaxed), 1);
    assert!(wait(stories.files()).unwrap().is_empty());
    store.parts_left.store(usize::MAX, Ordering::Relaxed);
    store.parts.store(0, Ordering::Relaxed);
    let built = large(1).unwrap();
    assert!(built.bytes > 16 << 20, "{built:?}");
    assert_eq!(store.parts.load(Ordering::Relaxed) as u64, built.bytes.div_ceil(8 << 20));
    let story = wait(stories.open_story(&built)).unwrap();
    let source = stratalog_story::Source::Column(stratalog_model::ColumnId(9));
    store.requests.store(0, Ordering::Relaxed);
    let read = wait(story.read(2, &[source], None)).unwrap();
    assert_eq!(read.column(0), noise(102).0.column(1));
    assert!(store.requests.load(Ordering::Relaxed) <= 3, "ranges of about 4 MB");
}

#[test]
fn damage_in_a_store_is_found() {
    let (store, folder) = (Arc::new(Unreliable::default()), tempfile::tempdir().unwrap());
    let built = build(&remote(&store, &folder), 1, 2).unwrap();
    let path = Path::from("lake/stories/7/00000000000000000001.parquet");
    let bytes = wait(async { store.inner.get(&path).await.unwrap().bytes().await.unwrap() });
    for at in (0..bytes.len()).step_by(13) {
        let mut changed = bytes.to_vec();
        changed[at] ^= 0x20;
        wait(store.inner.put(&path, changed.into())).unwrap();
        let stories = remote(&store, &folder);
        let outcome = wait(async { stories.open_story(&built).await?.check().await });
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::DataCorrupted, "at {at}");
    }
    for len in [0, 1, bytes.len() - 1] {
        wait(store.inner.put(&path, bytes.slice(..len).into())).unwrap();
        let error = wait(remote(&store, &folder).open_story(&built)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DataCorrupted, "{error}");
    }
}

#[test]
fn urls_name_stores() {
    let shelf = |url: &str, options: &[(&str, &str)]| {
        let options = options.iter().map(|(key, value)| (key.to_string(), value.to_string()));
        RemoteShelf::from_url(url, options, RemoteSettings::default())
    };
    let region = [("AWS_REGION", "eu-west-1"), ("AWS_SKIP_SIGNATURE", "true"), ("HOME", "/x")];
    shelf("s3://bucket/some/prefix", &region).unwrap();
    let account = [("AZURE_STORAGE_ACCOUNT_NAME", "a"), ("AZURE_USE_AZURE_CLI", "true")];
    shelf("az://container/prefix", &account).unwrap();
    for url in ["s3://bucket/prefix", "az://container/prefix"] {
        let options = [("AWS_REGION", "eu-west-1"), ("AZURE_STORAGE_ACCOUNT_NAME", "a")];
        let error = shelf(url, &options).unwrap_err();
        assert!(error.message().contains("object_store_metadata is off"), "{url}: {error}");
    }
    for url in ["", "nonsense", "file:///tmp", "ftp://x/y", "memory:///"] {
        let error = shelf(url, &[]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidParameterValue, "{url}");
    }
    let error = shelf("ftp://user:secret@x/y?signature=secret", &[]).unwrap_err();
    assert!(!error.to_string().contains("secret"), "{error}");
}
