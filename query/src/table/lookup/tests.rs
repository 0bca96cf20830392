//! Partitions that wait for the same values.

use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::{
    array::{RecordBatch, StringViewArray},
    datatypes::{DataType, Field, Schema, SchemaRef},
};
use datafusion::{
    execution::runtime_env::RuntimeEnvBuilder,
    physical_plan::streaming::{PartitionStream, StreamingTableExec},
};
use stratalog_model::{
    ChronicleDefinition, Gsn, GsnRange, Result as ModelResult, Snapshot, TickRange,
    aggregate::AggregateRequest,
    tier::{BatchStream, Extent, ScanOrder},
};
use tokio::sync::Notify;

use super::*;
use crate::table::pushdown::tests::chronicle;

/// Returns one row in each stream for each value of the request.
#[derive(Debug)]
struct Named;

impl Snapshot for Named {
    fn gsn(&self) -> Gsn {
        Gsn(1)
    }
    fn extent(&self, _: &ChronicleDefinition, _: &TickRanges) -> Option<Extent> {
        Some(Extent { rows: 1 << 20, ticks: TickRange::ALL, bytes: 0 })
    }
    fn deleted(&self, _: &ChronicleDefinition, _: GsnRange) -> Option<GsnRange> {
        None
    }
    fn aggregate(&self, _: AggregateRequest) -> ModelResult<Option<Vec<BatchStream>>> {
        Ok(None)
    }
    fn scan(&self, request: ScanRequest) -> ModelResult<Vec<BatchStream>> {
        let values = Arc::clone(&request.keys[0].values);
        let (schema, streams) = (request.schema(), request.streams);
        let batch = move || RecordBatch::try_new(Arc::clone(&schema), vec![Arc::clone(&values)]);
        let one = |_| -> BatchStream { Box::pin(stream::iter([Ok(batch().unwrap())])) };
        Ok((0..streams).map(one).collect())
    }
}

/// Values that arrive after a notification.
#[derive(Debug)]
struct Held {
    schema: SchemaRef,
    values: Vec<String>,
    go: Arc<Notify>,
    asked: Arc<AtomicUsize>,
}

impl PartitionStream for Held {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }
    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let values: ArrayRef = Arc::new(StringViewArray::from_iter_values(&self.values));
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), vec![values]).unwrap();
        let go = Arc::clone(&self.go);
        let held = stream::once(async move {
            go.notified().await;
            Ok(batch)
        });
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), held))
    }
}

struct Lookup {
    plan: KeyLookup,
    go: Arc<Notify>,
    asked: Arc<AtomicUsize>,
}

/// A lookup of `values`, in two partitions.
fn lookup(values: Vec<String>) -> Lookup {
    let (go, asked) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let schema = Arc::new(Schema::new(vec![Field::new("key", DataType::Utf8View, true)]));
    let held = Held {
        schema: Arc::clone(&schema),
        values,
        go: Arc::clone(&go),
        asked: Arc::clone(&asked),
    };
    let values = StreamingTableExec::try_new(schema, vec![Arc::new(held)], None, [], false, None);
    let request = ScanRequest {
        chronicle: Arc::new(chronicle("1s", 9)),
        projection: vec![1],
        ticks: TickRanges::all(),
        gsns: GsnRange::ALL,
        keys: Vec::new(),
        values: Vec::new(),
        order: ScanOrder::Any,
        newest_of: None,
        limit: None,
        batch_rows_max: 8_192,
        streams: 2,
        metrics: Arc::default(),
        memory: None,
    };
    let leaf = Arc::new(ChronicleScan::new(Arc::new(Named), request));
    Lookup { plan: KeyLookup::new(Arc::new(values.unwrap()), leaf, 1), go, asked }
}

#[tokio::test]
async fn a_partition_that_is_given_up_does_not_stop_the_others() {
    let Lookup { plan, go, asked } = lookup(vec!["a".to_string(), "b".to_string()]);
    let context = Arc::new(TaskContext::default());
    let mut first = plan.execute(0, Arc::clone(&context)).unwrap();
    let mut second = plan.execute(1, Arc::clone(&context)).unwrap();
    assert!(futures::poll!(first.next()).is_pending());
    assert!(futures::poll!(second.next()).is_pending());
    drop(first);
    go.notify_one();
    let batch = second.next().await.unwrap().unwrap();
    assert_eq!(batch.num_rows(), 2);
    assert!(second.next().await.is_none());
    // The lookup found the values once, also for later partitions.
    let again = plan.execute(0, context).unwrap().next().await.unwrap().unwrap();
    assert_eq!((again.num_rows(), asked.load(Ordering::Relaxed)), (2, 1));
}

#[tokio::test]
async fn values_are_counted_as_the_memory_of_the_statement() {
    let values = |number: usize| (0..number).map(|n| format!("{n:0100}")).collect();
    let context = || {
        let runtime = RuntimeEnvBuilder::new().with_memory_limit(1 << 20, 1.0).build_arc();
        Arc::new(TaskContext::default().with_runtime(runtime.unwrap()))
    };
    for (number, fits) in [(1_000, true), (10_000, false)] {
        let Lookup { plan, go, .. } = lookup(values(number));
        go.notify_one();
        let context = context();
        let found = plan.execute(0, Arc::clone(&context)).unwrap().next().await.unwrap();
        assert_eq!(found.is_ok(), fits, "{number}");
        if let Err(error) = found {
            let text = error.to_string();
            assert!(text.contains("keys to look up"), "{text}");
        } else {
            assert!(context.memory_pool().reserved() > 200_000);
            drop(plan);
            assert_eq!(context.memory_pool().reserved(), 0, "given back");
        }
    }
}
