use arrow::datatypes::{DataType, Field, Schema};
use futures::StreamExt;
use stratalog_model::{Tick, TickRange, aggregate::AggregateRequest, newest::Best};

use super::*;
use crate::read::{aggregate, stream};

/// A split with fixed (tick, seq) rows, in batches of `rows_max`.
struct Fixed {
    rows: Vec<(i64, i64)>,
    rows_max: usize,
}

impl Split for Fixed {
    fn ticks(&self) -> TickRange {
        let ticks = self.rows.iter().map(|row| row.0);
        let (min, max) = (ticks.clone().min().unwrap(), ticks.max().unwrap());
        TickRange::new(Tick(min), Tick(max + 1))
    }

    fn rows_max(&self) -> usize {
        self.rows.len()
    }

    fn read(self: Box<Self>) -> BatchStream {
        let fields = ["_seq", "_tick", "_seq"].map(|name| Field::new(name, DataType::Int64, false));
        let schema = Arc::new(Schema::new(fields.to_vec()));
        let batches: Vec<_> = self
            .rows
            .chunks(self.rows_max)
            .map(|rows| {
                let ticks = Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.0)));
                let seqs = Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.1)));
                Ok(RecordBatch::try_new(Arc::clone(&schema), vec![seqs.clone(), ticks, seqs])
                    .unwrap())
            })
            .collect();
        stream::of_iterator(batches.into_iter())
    }

    fn newest(self: Box<Self>, _: &Arc<Best>) -> BatchStream {
        self.read()
    }

    fn aggregate(self: Box<Self>, request: &Arc<AggregateRequest>) -> BatchStream {
        aggregate::of_rows(self.read(), request)
    }
}

async fn merged(
    splits: Vec<Vec<(i64, i64)>>,
    descending: bool,
    limit: Option<usize>,
    rows_max: usize,
) -> Vec<i64> {
    let splits = splits
        .into_iter()
        .filter(|rows| !rows.is_empty())
        .map(|mut rows| -> Box<dyn Split> {
            rows.sort_unstable();
            if descending {
                rows.reverse();
            }
            Box::new(Fixed { rows, rows_max: 3 })
        })
        .collect();
    let merge = Merge {
        schema: Arc::new(Schema::new(vec![Field::new("_seq", DataType::Int64, false)])),
        descending,
        rows_max,
        left: limit.unwrap_or(usize::MAX),
        unopened: Merge::by_hull(splits, descending),
        cursors: Vec::new(),
        hungry: Vec::new(),
        heap: BinaryHeap::new(),
        out: Output::default(),
        last: None,
    };
    let batches: Vec<_> = merge.collect().await;
    let mut found = Vec::new();
    for batch in batches {
        let batch = batch.unwrap();
        assert!(batch.num_rows() <= rows_max);
        assert_eq!(batch.num_columns(), 1);
        found.extend(batch.column(0).as_primitive::<Int64Type>().values());
    }
    found
}

#[tokio::test]
async fn random_pieces_come_out_sorted() {
    let mut state = 7_u64;
    let mut random = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % below
    };
    for round in 0..300 {
        let mut splits: Vec<Vec<(i64, i64)>> = vec![Vec::new(); 1 + random(6) as usize];
        let spread = [3, 50, 2000][round % 3];
        for seq in 0..random(120) as i64 {
            let at = random(splits.len() as u64) as usize;
            // Some splits overlap, some do not.
            let tick = random(spread) as i64 + (at as i64 * 40) - 60;
            splits[at].push((tick, seq));
        }
        let mut all: Vec<(i64, i64)> = splits.iter().flatten().copied().collect();
        all.sort_unstable();
        let expected: Vec<i64> = all.iter().map(|row| row.1).collect();
        let rows_max = 1 + random(20) as usize;
        assert_eq!(merged(splits.clone(), false, None, rows_max).await, expected);
        let backwards: Vec<i64> = expected.iter().rev().copied().collect();
        assert_eq!(merged(splits.clone(), true, None, rows_max).await, backwards);
        let limit = random(30) as usize;
        let some = merged(splits, true, Some(limit), rows_max).await;
        assert_eq!(some, backwards[..limit.min(backwards.len())]);
    }
}
