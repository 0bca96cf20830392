//! A place in an object store; each request fails once.

use std::{
    fmt,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use futures::stream::BoxStream;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, memory::InMemory, path::Path,
};
use stratalog_backup::{Place, backups, keep};
use stratalog_model::ErrorKind;
use stratalog_story::{Objects, RemoteSettings};

use crate::database::*;

/// A store with one failing request.
#[derive(Debug, Default)]
struct Unreliable {
    inner: InMemory,
    /// Counts down to the failing request; 0 after the failure.
    left: AtomicU64,
}

impl Unreliable {
    fn up(&self) -> object_store::Result<&InMemory> {
        let count = |left: u64| left.checked_sub(1);
        match self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, count) {
            Ok(1) => Err(object_store::Error::Generic {
                store: "test",
                source: "connection refused".into(),
            }),
            _ => Ok(&self.inner),
        }
    }
}

impl fmt::Display for Unreliable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unreliable")
    }
}

#[async_trait::async_trait]
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
        self.up()?.put_multipart_opts(location, options).await
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
        match self.up() {
            Ok(inner) => inner.delete_stream(locations),
            Err(error) => Box::pin(futures::stream::iter([Err(error)])),
        }
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

fn far(store: &Arc<Unreliable>) -> Place {
    let store = Arc::clone(store) as Arc<dyn ObjectStore>;
    let settings = RemoteSettings::default();
    Place::objects(Objects::new(store, "some/where", "file of a backup", settings))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_whose_every_request_fails_once_has_whole_backups() {
    let (_disk, database) = Database::new(1);
    database.fill().await;
    let first = database.rows(0).await;
    let mut failed = 0;
    for nth in 1.. {
        let store = Arc::new(Unreliable::default());
        let place = far(&store);
        let made = database.backup(&place, 1_000_000_000).await.unwrap();
        store.left.store(nth, Ordering::SeqCst);
        let second = database.backup(&place, 2_000_000_000).await;
        let unmet = store.left.swap(0, Ordering::SeqCst) > 0;
        if let Err(error) = &second {
            assert_eq!(error.kind(), ErrorKind::ConnectionFailure, "{nth}: {error}");
            failed += 1;
        }
        for backup in backups(&place).await.unwrap() {
            let found = restored(&place, Some(&backup.name), &database.definitions).await.unwrap();
            assert_eq!(found[0], first);
        }
        // A backup that failed in the middle may leave its lock for 15 minutes.
        match database.backup(&place, 3_000_000_000).await {
            Ok(saved) => assert!(saved.name > made.name),
            Err(error) => assert_eq!(error.kind(), ErrorKind::ObjectInUse, "{nth}: {error}"),
        }
        store.left.store(nth, Ordering::SeqCst);
        let into = restored_unless_it_fails(&place, &database).await;
        store.left.store(0, Ordering::SeqCst);
        match into {
            Ok(rows) => assert_eq!(rows, first),
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionFailure, "{error}"),
        }
        if unmet {
            break;
        }
    }
    assert!(failed > 8, "{failed}");
}

async fn restored_unless_it_fails(
    place: &Place,
    database: &Database,
) -> stratalog_model::Result<Rows> {
    Ok(restored(place, None, &database.definitions).await?.remove(0))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_at_a_time_changes_a_store() {
    let (_disk, database) = Database::new(1);
    database.fill().await;
    let store = Arc::new(Unreliable::default());
    let place = far(&store);
    let guard = place.guard().await.unwrap();
    let refused = database.backup(&place, 1).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ObjectInUse, "{refused}");
    assert_eq!(keep(&place, 1).await.unwrap_err().kind(), ErrorKind::ObjectInUse);
    guard.end().await;
    database.backup(&place, 1_000_000_000).await.unwrap();
    database.append(0, 500..510, 5).await.unwrap();
    database.backup(&place, 2_000_000_000).await.unwrap();
    let kept = keep(&place, 1).await.unwrap();
    assert_eq!(kept.backups, 1);
    assert!(kept.files >= 1);
    let found = restored(&place, None, &database.definitions).await.unwrap();
    assert_eq!(found[0], database.rows(0).await);
    // A process without the lock does not publish its backup.
    let guard = place.guard().await.unwrap();
    let inner = &store.inner;
    object_store::ObjectStoreExt::delete(inner, &Path::from("some/where/locks/lock"))
        .await
        .unwrap();
    let other = place.guard().await.unwrap();
    guard.end().await;
    assert_eq!(keep(&place, 1).await.unwrap_err().kind(), ErrorKind::ObjectInUse);
    other.end().await;
    keep(&place, 1).await.unwrap();
}
