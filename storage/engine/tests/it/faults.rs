//! Effects of a failing log (CL-1, CL-7, CL-10).

use stratalog_model::{Collision, ErrorKind, EventStore, store::AppendOptions};

use crate::{fixture::*, memory_log::MemoryLog};

#[tokio::test]
async fn a_failed_frame_leaves_no_event_and_frees_its_keys() {
    let (log, cpu, engine) = opened(Collision::First, true);
    log.fail(Some(ErrorKind::DiskFull));
    let failed = error(append(&engine, &cpu, &[row(1, "a", 1.0)]).await);
    assert_eq!(failed.kind(), ErrorKind::DiskFull);
    log.fail(None);
    append(&engine, &cpu, &[row(1, "a", 2.0)]).await.unwrap();
    let read = read(engine.snapshot().as_ref(), &cpu).await;
    assert_eq!((read.len(), read[0].gsn), (1, 1));
}

#[tokio::test]
async fn a_failed_frame_of_a_large_statement_fails_the_whole() {
    let (log, cpu, _) = opened(Collision::First, true);
    let engine = open_with(&log, std::slice::from_ref(&cpu), small()).unwrap();
    let mut large = engine.begin(AppendOptions::default()).unwrap();
    // About two thirds of the bytes that an append buffers before it streams frames.
    let rows = |from: i64| (from..from + 50).map(|at| row(at, "a", 1.0)).collect::<Vec<_>>();
    push(&mut large, &cpu, &rows(0)).await.unwrap();
    assert!(log.frames().is_empty());
    log.fail(Some(ErrorKind::DiskFull));
    // Streams the first part.
    push(&mut large, &cpu, &rows(50)).await.unwrap();
    log.fail(None);
    assert_eq!(error(large.commit().await).kind(), ErrorKind::DiskFull);
    assert!(log.frames().iter().all(|frame| !frame.commits()));
    append(&engine, &cpu, &[row(1, "a", 2.0), row(2, "a", 2.0)]).await.unwrap();
}

#[tokio::test]
async fn a_poisoned_log_stops_appends_not_reads() {
    let (log, cpu, engine) = opened(Collision::First, true);
    append(&engine, &cpu, &[row(1, "a", 1.0)]).await.unwrap();
    log.poison();
    for _ in 0..3 {
        assert_eq!(error(append(&engine, &cpu, &[row(2, "a", 1.0)]).await).kind(), ErrorKind::Io);
    }
    assert_eq!(
        error(engine.delete(&cpu, stratalog_model::TickRange::ALL).await).kind(),
        ErrorKind::Io
    );
    assert_eq!(rows(&engine, &cpu).await, [row(1, "a", 1.0)]);
}

#[tokio::test]
async fn nothing_is_visible_before_it_is_durable() {
    let (log, cpu, engine) = opened(Collision::First, true);
    log.hold();
    let append = tokio::spawn({
        let (engine, cpu) = (engine.clone(), cpu.clone());
        async move { append(&engine, &cpu, &[row(1, "a", 1.0)]).await }
    });
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    assert!(!append.is_finished());
    assert!(rows(&engine, &cpu).await.is_empty());
    log.release();
    append.await.unwrap().unwrap();
    assert_eq!(rows(&engine, &cpu).await.len(), 1);
}

#[tokio::test]
async fn a_commit_that_nobody_waits_for_is_whole() {
    let (log, cpu, engine) = opened(Collision::First, true);
    log.hold();
    let mut append_one = engine.begin(AppendOptions::default()).unwrap();
    push(&mut append_one, &cpu, &[row(1, "a", 1.0), row(2, "a", 1.0)]).await.unwrap();
    let gone =
        tokio::time::timeout(std::time::Duration::from_millis(20), append_one.commit()).await;
    assert!(gone.is_err());
    // The keys stay reserved until the log completes the frame.
    let waiter = tokio::spawn({
        let (engine, cpu) = (engine.clone(), cpu.clone());
        async move { append(&engine, &cpu, &[row(2, "a", 2.0)]).await }
    });
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    assert!(!waiter.is_finished());
    log.release();
    assert_eq!(error(waiter.await.unwrap()).kind(), ErrorKind::UniqueViolation);
    assert_eq!(rows(&engine, &cpu).await.len(), 2);
}

#[tokio::test]
async fn a_payload_that_is_none_is_told_with_its_place() {
    let (log, cpu, engine) = opened(Collision::First, true);
    append(&engine, &cpu, &[row(1, "a", 1.0)]).await.unwrap();
    append(&engine, &cpu, &[row(2, "a", 1.0)]).await.unwrap();
    let mut frames = log.frames();
    frames[1].payload = frames[1].payload.slice(..40);
    let refused = error(open_with(
        &MemoryLog::with_frames(frames),
        std::slice::from_ref(&cpu),
        Default::default(),
    ));
    assert_eq!(refused.kind(), ErrorKind::DataCorrupted);
    assert_eq!(refused.context(), Some("frame 2 of the journal"));
}
