//! Append, commit, snapshot, reopen.

use stratalog_model::{
    Collision, ErrorKind, EventStore, FrameKind, Gsn, StatementId, store::AppendOptions,
};

use crate::{fixture::*, memory_log::MemoryLog};

#[tokio::test]
async fn what_is_committed_is_read_and_survives() {
    let (log, cpu, engine) = opened(Collision::First, true);
    let events = [row(5, "a", 1.0), row(5, "b", 2.0), row(-3, "a", 3.0), row(9, "a", 4.0)];
    let appended = append(&engine, &cpu, &events).await.unwrap();
    assert_eq!(
        (appended.first_gsn, appended.last_gsn, appended.rows),
        (Some(Gsn(1)), Some(Gsn(4)), 4)
    );
    assert_eq!(log.frames().len(), 1);
    assert!(log.frames()[0].commits());

    let before = read(engine.snapshot().as_ref(), &cpu).await;
    let ticks: Vec<i64> = before.iter().map(|read| read.row.tick).collect();
    assert_eq!(ticks, [-3, 5, 5, 9]);
    assert_eq!(before[0].gsn, 3);

    let again = open(&MemoryLog::with_frames(log.frames()), std::slice::from_ref(&cpu));
    assert_eq!(read(again.snapshot().as_ref(), &cpu).await, before);
    assert_eq!(again.snapshot().gsn(), Gsn(4));
    // gsn's and arrival numbers continue after a reopening.
    let next = append(&again, &cpu, &[row(10, "a", 5.0)]).await.unwrap();
    assert_eq!(next.first_gsn, Some(Gsn(5)));
    assert_eq!(read(again.snapshot().as_ref(), &cpu).await.last().unwrap().seq, 5);
}

#[tokio::test]
async fn a_large_statement_streams_and_becomes_visible_at_once() {
    let (log, cpu, _) = opened(Collision::All, false);
    let engine = open_with(&log, std::slice::from_ref(&cpu), small()).unwrap();
    let mut large = engine.begin(AppendOptions::default()).unwrap();
    let mut frames = 0;
    for part in 0..3 {
        let rows: Vec<Row> = (0..1000).map(|at| row(part * 1000 + at, "h", at as f64)).collect();
        push(&mut large, &cpu, &rows).await.unwrap();
        assert!(log.frames().len() > frames, "what is large streams");
        frames = log.frames().len();
        assert!(rows_of(&engine, &cpu).await.is_empty());
    }
    let small = append(&engine, &cpu, &[row(7, "x", 0.0)]).await.unwrap();
    assert_eq!(small.first_gsn, Some(Gsn(1)));
    let appended = large.commit().await.unwrap();
    assert_eq!((appended.first_gsn, appended.last_gsn), (Some(Gsn(2)), Some(Gsn(3001))));
    let frames = log.frames();
    assert_eq!(frames.last().unwrap().kind, FrameKind::Commit);
    assert!(frames.last().unwrap().statement != StatementId(0));
    let all = read(engine.snapshot().as_ref(), &cpu).await;
    assert_eq!(all.len(), 3001);

    // Without the commit frame, the statement is invisible, and its id is not used again.
    let cut = MemoryLog::with_frames(frames[..frames.len() - 1].to_vec());
    let engine = open(&cut, std::slice::from_ref(&cpu));
    assert_eq!(rows_of(&engine, &cpu).await, [row(7, "x", 0.0)]);
    let mut next = engine.begin(AppendOptions::default()).unwrap();
    push(&mut next, &cpu, &[row(1, "y", 0.0)]).await.unwrap();
    push(&mut next, &cpu, &[row(2, "y", 0.0)]).await.unwrap();
    next.commit().await.unwrap();
    let reopened = open(&MemoryLog::with_frames(cut.frames()), std::slice::from_ref(&cpu));
    assert_eq!(rows_of(&reopened, &cpu).await.len(), 3);
}

async fn rows_of(
    engine: &stratalog_engine::Engine,
    definition: &std::sync::Arc<stratalog_model::ChronicleDefinition>,
) -> Vec<Row> {
    rows(engine, definition).await
}

#[tokio::test]
async fn statements_span_chronicles() {
    let log = MemoryLog::default();
    let (a, b) = (chronicle(1, Collision::First, true), chronicle(2, Collision::All, false));
    let engine = open(&log, &[a.clone(), b.clone()]);
    let mut both = engine.begin(AppendOptions::default()).unwrap();
    push(&mut both, &a, &[row(1, "x", 1.0)]).await.unwrap();
    push(&mut both, &b, &[row(1, "x", 1.0), row(2, "x", 2.0)]).await.unwrap();
    push(&mut both, &a, &[row(2, "x", 3.0)]).await.unwrap();
    let snapshot = engine.snapshot();
    both.commit().await.unwrap();
    assert!(read(snapshot.as_ref(), &a).await.is_empty());
    let gsns = |reads: Vec<Read>| reads.iter().map(|read| read.gsn).collect::<Vec<_>>();
    let now = engine.snapshot();
    assert_eq!(gsns(read(now.as_ref(), &a).await), [1, 4]);
    assert_eq!(gsns(read(now.as_ref(), &b).await), [2, 3]);
    // After the drop of one chronicle, the other keeps its numbers.
    let reopened = open(&MemoryLog::with_frames(log.frames()), std::slice::from_ref(&b));
    assert_eq!(gsns(read(reopened.snapshot().as_ref(), &b).await), [2, 3]);
    assert_eq!(reopened.snapshot().gsn(), Gsn(4));
}

#[tokio::test]
async fn dropping_an_append_leaves_nothing() {
    let (_, cpu, engine) = opened(Collision::First, true);
    let used = engine.status().memory_bytes;
    let mut dropped = engine.begin(AppendOptions::default()).unwrap();
    push(&mut dropped, &cpu, &[row(1, "a", 1.0), row(2, "a", 1.0)]).await.unwrap();
    push(&mut dropped, &cpu, &[row(3, "a", 1.0)]).await.unwrap();
    assert!(engine.status().memory_bytes > used);
    drop(dropped);
    append(&engine, &cpu, &[row(1, "a", 2.0), row(3, "a", 2.0)]).await.unwrap();
    assert_eq!(rows(&engine, &cpu).await.len(), 2);
}

#[tokio::test]
async fn nothing_to_store_is_fine() {
    let (log, cpu, engine) = opened(Collision::First, true);
    let appended = append(&engine, &cpu, &[]).await.unwrap();
    assert_eq!((appended.first_gsn, appended.rows), (None, 0));
    assert!(log.frames().is_empty());
    let snapshot = engine.snapshot();
    assert_eq!(snapshot.extent(&cpu, &ranges(&[(0, 9)])).unwrap().rows, 0);
    assert!(read(snapshot.as_ref(), &cpu).await.is_empty());
}

#[tokio::test]
async fn bad_rows_are_refused_whole() {
    let (log, cpu, engine) = opened(Collision::First, true);
    let good = batch(&cpu, &[row(1, "a", 1.0)]);
    let refuse = async |rows: arrow::array::RecordBatch| {
        let mut append = engine.begin(AppendOptions::default()).unwrap();
        let refused = error(append.push(&cpu, rows, Default::default()).await);
        // The append accepts nothing more.
        let after = append.push(&cpu, good.clone(), Default::default()).await;
        assert_eq!(error(after).kind(), ErrorKind::Internal);
        assert!(append.commit().await.is_err());
        refused
    };
    let mut columns = good.columns().to_vec();
    columns[1] = arrow::array::new_null_array(columns[1].data_type(), 1);
    let schema = std::sync::Arc::new(arrow::datatypes::Schema::new(
        good.schema()
            .fields()
            .iter()
            .map(|f| f.as_ref().clone().with_nullable(true))
            .collect::<Vec<_>>(),
    ));
    let null = refuse(arrow::array::RecordBatch::try_new(schema, columns).unwrap()).await;
    assert_eq!(null.kind(), ErrorKind::NotNullViolation);
    assert_eq!(
        null.message(),
        "null value in column \"host\" of relation \"cpu1\" violates not-null constraint"
    );
    let narrow = refuse(good.project(&[0, 1, 2]).unwrap()).await;
    assert_eq!(narrow.kind(), ErrorKind::DatatypeMismatch);
    let swapped = refuse(good.project(&[1, 0, 2, 3]).unwrap()).await;
    assert_eq!(swapped.kind(), ErrorKind::DatatypeMismatch);
    let far = refuse(batch(&cpu, &[row(1, "a", 1.0), row(i64::MAX, "a", 1.0)])).await;
    assert_eq!(far.kind(), ErrorKind::DatetimeOverflow);
    assert!(rows(&engine, &cpu).await.is_empty());
    assert!(log.frames().is_empty());
    append(&engine, &cpu, &[row(1, "a", 1.0)]).await.unwrap();
}

#[tokio::test]
async fn forgotten_chronicles_free_their_memory() {
    let (_, cpu, engine) = opened(Collision::First, true);
    let many: Vec<Row> = (0..5000).map(|at| row(at, "a", 1.0)).collect();
    append(&engine, &cpu, &many).await.unwrap();
    let mut open_append = engine.begin(AppendOptions::default()).unwrap();
    push(&mut open_append, &cpu, &[row(9999, "a", 1.0)]).await.unwrap();
    let pinned = engine.snapshot();
    engine.forget(cpu.id);
    assert_eq!(read(pinned.as_ref(), &cpu).await.len(), 5000);
    drop(pinned);
    assert_eq!(error(open_append.commit().await).kind(), ErrorKind::UndefinedTable);
    assert!(rows(&engine, &cpu).await.is_empty());
    assert!(engine.status().memory_bytes < 1000, "{}", engine.status().memory_bytes);
    assert_eq!(
        error(append(&engine, &cpu, &[row(1, "a", 1.0)]).await).kind(),
        ErrorKind::UndefinedTable
    );
}

#[tokio::test]
async fn single_rows_do_not_stay_single_batches() {
    let (_, cpu, engine) = opened(Collision::First, true);
    let mut pinned = Vec::new();
    for at in 0..3000_i64 {
        append(&engine, &cpu, &[row(at ^ 1, ["a", "b"][at as usize % 2], at as f64)])
            .await
            .unwrap();
        if at % 500 == 77 {
            let snapshot = engine.snapshot();
            let seen = read(snapshot.as_ref(), &cpu).await;
            pinned.push((snapshot, seen));
        }
    }
    for (snapshot, seen) in &pinned {
        assert_eq!(&read(snapshot.as_ref(), &cpu).await, seen);
    }
    drop(pinned);
    // A one-row batch takes more than 1 KB.
    let bytes = engine.status().memory_bytes;
    assert!(bytes < 3000 * 250, "{bytes} bytes");
    let gsns: Vec<u64> = {
        let mut reads = read(engine.snapshot().as_ref(), &cpu).await;
        reads.sort_by_key(|read| read.gsn);
        reads.iter().map(|read| read.gsn).collect()
    };
    assert_eq!(gsns, (1..=3000).collect::<Vec<_>>());
}
