//! First rows under every memory bound, compared with a sort of all rows.

use std::{collections::BTreeMap, sync::Arc};

use arrow::{
    array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringViewArray},
    compute::SortOptions,
    datatypes::{DataType, Field, Int64Type, Schema, SchemaRef},
};
use datafusion::{
    execution::{
        SendableRecordBatchStream,
        memory_pool::{GreedyMemoryPool, MemoryConsumer, MemoryPool},
    },
    physical_expr::{PhysicalSortExpr, expressions::Column},
    physical_plan::{metrics::Time, stream::RecordBatchStreamAdapter},
};
use futures::{TryStreamExt, stream};
use stratalog_sim::Random;

use super::{First, candidates::Candidates, runs::Runs};

/// A group, an order and a row's own number.
type Row = (Option<String>, i64, i64);

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("host", DataType::Utf8View, true),
        Field::new("time", DataType::Int64, false),
        Field::new("number", DataType::Int64, false),
    ]))
}

fn batch(rows: &[Row]) -> RecordBatch {
    let hosts: StringViewArray = rows.iter().map(|(host, ..)| host.as_deref()).collect();
    let times: Int64Array = rows.iter().map(|(_, time, _)| Some(*time)).collect();
    let numbers: Int64Array = rows.iter().map(|(.., number)| Some(*number)).collect();
    let columns: Vec<ArrayRef> = vec![Arc::new(hosts), Arc::new(times), Arc::new(numbers)];
    RecordBatch::try_new(schema(), columns).unwrap()
}

fn rows(batches: &[RecordBatch]) -> Vec<Row> {
    let of = |batch: &RecordBatch| -> Vec<Row> {
        let host = batch.column(0).as_string_view();
        let ints = |at: usize| batch.column(at).as_primitive::<Int64Type>().values().to_vec();
        let (times, numbers) = (ints(1), ints(2));
        let hosts = host.iter().map(|host| host.map(str::to_string));
        hosts.zip(times).zip(numbers).map(|((host, time), number)| (host, time, number)).collect()
    };
    batches.iter().flat_map(of).collect()
}

/// The newest row of each host.
fn first() -> Arc<First> {
    let by = |name: &str, at: usize, descending: bool| {
        let options = SortOptions { descending, nulls_first: false };
        PhysicalSortExpr::new(Arc::new(Column::new(name, at)), options)
    };
    Arc::new(First { groups: vec![by("host", 0, false)], order: vec![by("time", 1, true)] })
}

async fn candidates(batches: Vec<RecordBatch>, memory_bytes: usize) -> Vec<RecordBatch> {
    let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(memory_bytes));
    let memory = MemoryConsumer::new("test").register(&pool);
    let input: SendableRecordBatchStream = Box::pin(RecordBatchStreamAdapter::new(
        schema(),
        stream::iter(batches.into_iter().map(Ok)),
    ));
    let candidates = Candidates::new(&first(), &schema(), memory, 100).unwrap();
    let found = candidates.of(input, Time::new()).try_collect().await.unwrap();
    assert_eq!(pool.reserved(), 0, "all memory is given back");
    found
}

fn best(rows: &[Row]) -> BTreeMap<Option<String>, i64> {
    let mut best = BTreeMap::new();
    for (host, time, _) in rows {
        let known = best.entry(host.clone()).or_insert(*time);
        *known = (*known).max(*time);
    }
    best
}

#[tokio::test]
async fn candidates_have_the_first_row_of_each_group() {
    for (memory_bytes, hosts) in
        [(64 << 20, 7), (64 << 20, 5_000), (40_000, 40), (40_000, 5_000), (0, 7)]
    {
        for seed in 0..20 {
            let mut random = Random::new(seed);
            let mut all: Vec<Row> = Vec::new();
            let mut batches = Vec::new();
            for _ in 0..60 {
                let mut some: Vec<Row> = Vec::new();
                for _ in 0..random.below(400) {
                    let host = random.below(hosts);
                    let host = (host > 0).then(|| format!("a host with a long name {host}"));
                    let number = (all.len() + some.len()) as i64;
                    some.push((host, random.below(1_000_000) as i64, number));
                }
                all.extend_from_slice(&some);
                batches.push(batch(&some));
            }
            let found = rows(&candidates(batches, memory_bytes).await);
            assert_eq!(best(&found), best(&all), "seed {seed}, {memory_bytes} bytes");
            // Every row is a whole row of the input, not a mix of several rows.
            assert!(found.iter().all(|row| all.contains(row)), "seed {seed}");
            if memory_bytes > 1 << 20 {
                assert_eq!(found.len(), best(&all).len(), "one of each, where there is room");
            }
            if memory_bytes == 40_000 && hosts == 40 {
                assert!(found.len() * 2 < all.len(), "few of them, where groups are few");
            }
        }
    }
}

#[test]
fn runs_go_on_from_batch_to_batch() {
    let row = |host: Option<&str>, number| (host.map(str::to_string), 0, number);
    let mut runs = Runs::new(&first(), &schema()).unwrap();
    let mut firsts = |some: &[Row]| rows(&[runs.firsts(&batch(some)).unwrap()]);
    assert_eq!(firsts(&[row(Some(""), 0), row(Some(""), 1), row(Some("a"), 2)]).len(), 2);
    assert_eq!(firsts(&[]), []);
    assert_eq!(firsts(&[row(Some("a"), 3), row(Some("a"), 4)]), []);
    assert_eq!(firsts(&[row(Some("a"), 5), row(None, 6)]), [row(None, 6)]);
    assert_eq!(firsts(&[row(None, 7)]), []);
}
