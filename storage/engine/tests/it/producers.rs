//! Idempotent producers (F68).

use std::{sync::Arc, time::Duration};

use stratalog_engine::Engine;
use stratalog_model::{
    ChronicleDefinition, Collision, ErrorKind, EventStore, ProducerId, Result,
    store::{AppendOptions, CommittedAppend},
};

use crate::{fixture::*, memory_log::MemoryLog};

async fn send(
    engine: &Engine,
    cpu: &Arc<ChronicleDefinition>,
    producer: u128,
    number: u64,
    parts: &[&[Row]],
) -> Result<CommittedAppend> {
    let options =
        AppendOptions { producer: Some((ProducerId(producer), number)), ..Default::default() };
    let mut append = engine.begin(options)?;
    for part in parts {
        push(&mut append, cpu, part).await?;
    }
    append.commit().await
}

#[tokio::test]
async fn a_retry_is_acknowledged_and_not_stored_again() {
    let log = MemoryLog::default();
    for collision in [Collision::All, Collision::First, Collision::Next, Collision::Last] {
        let (log, cpu, engine) = opened(collision, true);
        let events = [row(1, "a", 1.0), row(2, "a", 2.0)];
        let first = send(&engine, &cpu, 7, 1, &[&events]).await.unwrap();
        assert!(!first.duplicate);
        let retried = send(&engine, &cpu, 7, 1, &[&events]).await.unwrap();
        assert!(retried.duplicate);
        assert_eq!((retried.rows, retried.first_gsn), (0, None));
        // A large statement with its number in the commit frame, and a statement without events.
        send(&engine, &cpu, 7, 2, &[&[row(3, "a", 3.0)], &[row(4, "a", 4.0)]]).await.unwrap();
        send(&engine, &cpu, 8, 1, &[]).await.unwrap();
        let frames = log.frames().len();
        assert_eq!(frames, 1 + 3 + 1);
        let reopened = open(&MemoryLog::with_frames(log.frames()), std::slice::from_ref(&cpu));
        for engine in [&engine, &reopened] {
            for (producer, number) in [(7, 1), (7, 2), (8, 1)] {
                let retried =
                    send(engine, &cpu, producer, number, &[&[row(3, "a", 3.0)]]).await.unwrap();
                assert!(retried.duplicate, "{collision} {producer} {number}");
            }
            assert_eq!(rows(engine, &cpu).await.len(), 4);
        }
        assert!(!send(&reopened, &cpu, 7, 3, &[&[row(5, "a", 5.0)]]).await.unwrap().duplicate);
    }
    drop(log);
}

#[tokio::test]
async fn a_retry_while_the_first_try_is_under_way() {
    for collision in [Collision::All, Collision::First] {
        for fails in [false, true] {
            let (log, cpu, engine) = opened(collision, true);
            log.hold();
            let tries: Vec<_> = (0..3)
                .map(|_| {
                    let (engine, cpu) = (Arc::clone(&engine), cpu.clone());
                    tokio::spawn(
                        async move { send(&engine, &cpu, 7, 1, &[&[row(1, "a", 1.0)]]).await },
                    )
                })
                .collect();
            tokio::time::sleep(Duration::from_millis(20)).await;
            assert_eq!(log.waiting(), 1, "one at a time");
            if fails {
                log.fail(Some(stratalog_model::ErrorKind::DiskFull));
                log.release_some(1);
                log.fail(None);
            }
            log.release();
            let mut stored = 0;
            let mut failed = 0;
            for task in tries {
                match task.await.unwrap() {
                    Ok(appended) => stored += u32::from(!appended.duplicate),
                    Err(_) => failed += 1,
                }
            }
            assert_eq!((stored, failed), (1, u32::from(fails)), "{collision}");
            assert_eq!(rows(&engine, &cpu).await.len(), 1);
        }
    }
}

/// The first attempt has failed because the log failed: only the next start knows its outcome.
#[tokio::test]
async fn a_retry_is_not_refused_when_nobody_knows_what_became_of_the_first_try() {
    let (log, cpu, engine) = opened(Collision::First, true);
    append(&engine, &cpu, &[row(9, "a", 1.0)]).await.unwrap();
    let begin = |tick: i64| {
        let (engine, cpu) = (Arc::clone(&engine), Arc::clone(&cpu));
        tokio::spawn(async move { send(&engine, &cpu, 7, 1, &[&[row(tick, "a", 1.0)]]).await })
    };
    log.hold();
    let first = begin(1);
    while log.waiting() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // A taken key.
    let again = begin(9);
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(!again.is_finished(), "it waits for the first one");
    log.poison();
    log.release();
    assert_eq!(error(first.await.unwrap()).kind(), ErrorKind::Io);
    assert_eq!(error(again.await.unwrap()).kind(), ErrorKind::Io);
}

/// An append may be several statements of its producer. The append is a duplicate if all statements
/// were committed. The append is refused if only some were committed: the producer must send each
/// statement alone.
#[tokio::test]
async fn several_statements_at_once_are_all_new_or_all_duplicates() {
    let (_, cpu, engine) = opened(Collision::All, true);
    let send = async |from: u64, to: u64| {
        let options = AppendOptions {
            producer: Some((ProducerId(7), to)),
            producer_from: Some(from),
            ..AppendOptions::default()
        };
        let mut append = engine.begin(options)?;
        for number in from..=to {
            push(&mut append, &cpu, &[row(number as i64, "a", 1.0)]).await?;
        }
        append.commit().await
    };
    assert_eq!(send(1, 4).await.unwrap().rows, 4);
    assert!(send(1, 4).await.unwrap().duplicate);
    assert!(send(2, 3).await.unwrap().duplicate);
    let refused = send(3, 6).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ObjectNotInPrerequisiteState, "{refused}");
    assert_eq!(rows(&engine, &cpu).await.len(), 4, "nothing of it is stored");
    assert_eq!(send(5, 6).await.unwrap().rows, 2);
    assert_eq!(rows(&engine, &cpu).await.len(), 6);
}
