use futures::{StreamExt, stream};

use super::*;

fn endless() -> BoxStream<'static, Result<RecordBatch>> {
    stream::pending().boxed()
}

#[tokio::test]
async fn a_stopped_statement_ends_once_with_its_reason() {
    let work = Work::start(0);
    let mut guarded = work.guard_stream(endless());
    assert!(futures::poll!(guarded.next()).is_pending());
    work.stop(Stop::User);
    work.stop(Stop::Shutdown);
    let error = guarded.next().await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::QueryCanceled);
    assert!(guarded.next().await.is_none());
    assert!(work.guard(async { Ok(()) }).await.is_err());
}

#[tokio::test]
async fn a_timeout_covers_the_stream() {
    let work = Work::start(20);
    let mut guarded = work.guard_stream(endless());
    let error = guarded.next().await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::QueryCanceled);
    assert!(error.message().contains("statement timeout"));
}
