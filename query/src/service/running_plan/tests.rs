use std::sync::Mutex;

use arrow::{
    array::{ArrayRef, Int64Array},
    datatypes::{Schema, SchemaRef},
};
use datafusion::{error::DataFusionError, physical_plan::stream::RecordBatchStreamAdapter};
use futures::stream;
use tokio::runtime::Runtime;

use super::*;

fn schema() -> SchemaRef {
    Arc::new(Schema::empty())
}

fn batch() -> RecordBatch {
    RecordBatch::new_empty(schema())
}

/// Rows that are ready after `pending` turns; `asked` collects the names of the polling threads.
fn rows(pending: u32, asked: &Arc<Mutex<Vec<String>>>) -> SendableRecordBatchStream {
    let (mut left, asked) = (Some(pending), Arc::clone(asked));
    let rows = stream::poll_fn(move |context| {
        let name = std::thread::current().name().unwrap_or_default().to_string();
        asked.lock().unwrap().push(name);
        match left {
            Some(0) => {
                left = None;
                Poll::Ready(Some(Ok(batch())))
            }
            Some(more) => {
                left = Some(more - 1);
                context.waker().wake_by_ref();
                Poll::Pending
            }
            None => Poll::Ready(None),
        }
    });
    Box::pin(RecordBatchStreamAdapter::new(schema(), rows))
}

fn threads() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("plans")
        .build()
        .unwrap()
}

#[test]
fn a_plan_that_is_not_so_short_is_handed_over() {
    let threads = threads();
    let here = tokio::runtime::Builder::new_current_thread().build().unwrap();
    // One turn for the row, one for the end.
    for (pending, moved) in [(0, false), (TURNS - 2, false), (TURNS, true), (3 * TURNS, true)] {
        let asked = Arc::default();
        let start = || Ok(rows(pending, &asked));
        let running = RunningPlan::on_reader(start, threads.handle().clone(), Work::start(0));
        let batches: Vec<_> = here.block_on(running.collect());
        assert_eq!(batches.len(), 1);
        assert!(batches[0].is_ok());
        let asked = asked.lock().unwrap();
        let elsewhere = asked.iter().filter(|name| *name == "plans").count();
        assert_eq!(elsewhere > 0, moved, "{pending}");
        let before = asked.iter().take_while(|name| *name != "plans").count() as u32;
        assert_eq!(before, TURNS.min(pending + 2));
    }
}

#[test]
fn a_panic_fails_the_statement_alone() {
    let threads = threads();
    let own = || Work::start(0);
    let panics = || -> SendableRecordBatchStream {
        let rows = stream::poll_fn(|_| -> Poll<Option<_>> { panic!("on purpose") });
        Box::pin(RecordBatchStreamAdapter::new(schema(), rows))
    };
    let polled = RunningPlan::on_reader(move || Ok(panics()), threads.handle().clone(), own());
    let started = RunningPlan::on_reader(|| panic!("on purpose"), threads.handle().clone(), own());
    let away = RunningPlan::on_threads(move || Ok(panics()), threads.handle(), own());
    for running in [polled, started, away] {
        let batches: Vec<_> = threads.block_on(running.collect());
        let [Err(error)] = batches.as_slice() else { panic!("{batches:?}") };
        assert_eq!(error.message(), "the statement failed unexpectedly");
    }
}

#[test]
fn what_is_dropped_stops() {
    let threads = threads();
    for here in [true, false] {
        let own = Work::start(0);
        let (given, asked) = (Arc::clone(&own), Arc::default());
        let start = move || Ok(rows(u32::MAX, &asked));
        let mut running = match here {
            true => RunningPlan::on_reader(start, threads.handle().clone(), given),
            false => RunningPlan::on_threads(start, threads.handle(), given),
        };
        threads.block_on(async { assert!(futures::poll!(running.next()).is_pending()) });
        drop(running);
        assert!(own.check().is_err());
    }
}

#[test]
fn errors_end_the_stream() {
    let threads = threads();
    let failing = || -> Result<SendableRecordBatchStream> {
        let rows =
            stream::iter([Ok(batch()), Err(DataFusionError::Plan("no".into())), Ok(batch())]);
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema(), rows)))
    };
    for here in [true, false] {
        let running = match here {
            true => RunningPlan::on_reader(failing, threads.handle().clone(), Work::start(0)),
            false => RunningPlan::on_threads(failing, threads.handle(), Work::start(0)),
        };
        let batches: Vec<_> = threads.block_on(running.collect());
        assert!(matches!(batches.as_slice(), [Ok(_), Err(_)]), "{batches:?}");
    }
}

#[test]
fn a_stopped_statement_frees_what_nobody_reads() {
    let threads = threads();
    let own = Work::start(0);
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100_000));
    let held = Arc::downgrade(&column);
    let rows = RecordBatch::try_from_iter([("v", column)]).unwrap();
    let schema = rows.schema();
    let start = move || -> Result<SendableRecordBatchStream> {
        let rows = stream::repeat(rows).map(Ok);
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    };
    let mut running = RunningPlan::on_threads(start, threads.handle(), Arc::clone(&own));
    let until = |done: &dyn Fn() -> bool| {
        let begun = std::time::Instant::now();
        while !done() && begun.elapsed().as_secs() < 10 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(done());
    };
    // The plan and the waiting batches hold `held`.
    until(&|| held.strong_count() > 3);
    own.stop(Stop::Memory);
    until(&|| held.strong_count() == 0);
    let error = threads.block_on(running.next()).unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
}

#[test]
fn a_stopped_statement_has_no_end_of_rows() {
    let threads = threads();
    for _ in 0..50 {
        let own = Work::start(0);
        let start = || -> Result<SendableRecordBatchStream> {
            let rows = stream::iter([Ok(batch())]).chain(stream::pending());
            Ok(Box::pin(RecordBatchStreamAdapter::new(schema(), rows)))
        };
        let mut running = RunningPlan::on_threads(start, threads.handle(), Arc::clone(&own));
        assert!(threads.block_on(running.next()).unwrap().is_ok());
        own.stop(Stop::User);
        let error = threads.block_on(running.next()).unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::QueryCanceled);
        assert!(threads.block_on(running.next()).is_none());
    }
}

#[test]
fn a_part_of_a_committing_statement_goes_on() {
    let whole = Work::start(1);
    let part = whole.part();
    whole.commit().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(5));
    whole.stop(Stop::User);
    assert!(part.check().is_ok());
    assert!(futures::FutureExt::now_or_never(part.stopped()).is_none());
    part.stop(Stop::Closed);
    assert!(part.check().is_err());
    assert!(futures::FutureExt::now_or_never(part.stopped()).is_some());
}
