//! Order, limits, ranges and keys of scans (CL-4).

use std::sync::Arc;

use futures::StreamExt;
use stratalog_engine::Engine;
use stratalog_model::{
    ChronicleDefinition, Collision, EventStore, Tick, TickRanges, tier::ScanOrder,
};

use crate::{fixture::*, memory_log::MemoryLog};

/// Events in several batches: ordered, overlapping, unordered, before the base.
async fn filled(collision: Collision) -> (Arc<Engine>, Arc<ChronicleDefinition>, Vec<Read>) {
    let cpu = chronicle(1, collision, true);
    let engine = open(&MemoryLog::default(), std::slice::from_ref(&cpu));
    let mut state = 11_u64;
    let mut random = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % below
    };
    for part in 0..20_i64 {
        let mut ticks: Vec<i64> = (0..150).map(|_| random(400) as i64 + part * 100 - 700).collect();
        if part % 3 != 0 {
            ticks.sort_unstable();
        }
        let rows: Vec<Row> =
            ticks.iter().map(|tick| row(*tick, &format!("h{}", random(7)), *tick as f64)).collect();
        append_on(&engine, &cpu, &rows, stratalog_model::store::OnConflict::Skip).await.unwrap();
    }
    let mut all = scan(engine.snapshot().as_ref(), request(&cpu, ScanOrder::Any)).await;
    all.sort_by_key(|read| (read.row.tick, read.seq));
    assert!(all.len() > 1000);
    (engine, cpu, all)
}

#[tokio::test]
async fn ordered_scans_are_ordered_both_ways() {
    for collision in [Collision::All, Collision::First, Collision::Last, Collision::Next] {
        let (engine, cpu, all) = filled(collision).await;
        let snapshot = engine.snapshot();
        for rows_max in [1, 7, 100, 10_000] {
            let mut up = request(&cpu, ScanOrder::Ascending);
            up.batch_rows_max = rows_max;
            assert_eq!(scan(snapshot.as_ref(), up.clone()).await, all);
            up.order = ScanOrder::Descending;
            let down = scan(snapshot.as_ref(), up).await;
            assert!(down.iter().eq(all.iter().rev()));
        }
    }
}

#[tokio::test]
async fn ranges_keys_and_limits_are_exact() {
    for collision in [Collision::All, Collision::First, Collision::Last] {
        let (engine, cpu, all) = filled(collision).await;
        let snapshot = engine.snapshot();
        let range_sets = [
            TickRanges::all(),
            TickRanges::none(),
            ranges(&[(-500, -100)]),
            ranges(&[(i64::MIN, -650), (0, 1), (300, 310), (900, i64::MAX)]),
            ranges(&[(5, 6)]),
        ];
        let key_sets: [&[&str]; 4] = [&[], &["h3"], &["h1", "h5", "nobody", "h1"], &["nobody"]];
        for ticks in &range_sets {
            let extent = snapshot.extent(&cpu, ticks).unwrap();
            let inside: Vec<&Read> =
                all.iter().filter(|r| ticks.contains(Tick(r.row.tick))).collect();
            assert_eq!(extent.rows, inside.len() as u64);
            if let (Some(first), Some(last)) = (inside.first(), inside.last()) {
                assert_eq!(
                    (extent.ticks.start.0, extent.ticks.end.0),
                    (first.row.tick, last.row.tick + 1)
                );
            }
            for keys in key_sets {
                let mut wanted = request(&cpu, ScanOrder::Any);
                wanted.ticks = ticks.clone();
                if !keys.is_empty() {
                    wanted.keys = vec![host_filter(keys)];
                }
                let expected: Vec<Read> = inside
                    .iter()
                    .filter(|r| keys.is_empty() || keys.contains(&r.row.host.as_str()))
                    .map(|r| (*r).clone())
                    .collect();
                let mut any = scan(snapshot.as_ref(), wanted.clone()).await;
                any.sort_by_key(|read| (read.row.tick, read.seq));
                assert_eq!(any, expected);
                for limit in [None, Some(0), Some(1), Some(5), Some(5000)] {
                    let wanted_rows = limit.unwrap_or(usize::MAX).min(expected.len());
                    wanted.limit = limit;
                    wanted.order = ScanOrder::Ascending;
                    let up = scan(snapshot.as_ref(), wanted.clone()).await;
                    assert_eq!(up, expected[..wanted_rows]);
                    wanted.order = ScanOrder::Descending;
                    let down = scan(snapshot.as_ref(), wanted.clone()).await;
                    assert!(down.iter().eq(expected.iter().rev().take(wanted_rows)));
                }
            }
        }
    }
}

#[tokio::test]
async fn streams_share_the_work() {
    let (engine, cpu, all) = filled(Collision::All).await;
    for streams in [1, 2, 5, 1000] {
        let mut wanted = request(&cpu, ScanOrder::Any);
        wanted.streams = streams;
        let found = engine.snapshot().scan(wanted).unwrap();
        assert!(found.len() <= streams && !found.is_empty());
        let mut rows = 0;
        for stream in found {
            let batches: Vec<_> = stream.collect().await;
            rows += batches.into_iter().map(|batch| batch.unwrap().num_rows()).sum::<usize>();
        }
        assert_eq!(rows, all.len());
    }
}

#[tokio::test]
async fn a_limit_reads_no_more_than_it_must() {
    let (engine, cpu, _) = filled(Collision::All).await;
    let mut wanted = request(&cpu, ScanOrder::Any);
    (wanted.streams, wanted.limit, wanted.batch_rows_max) = (1, Some(10), 8);
    let mut rows = 0;
    for stream in engine.snapshot().scan(wanted).unwrap() {
        let batches: Vec<_> = stream.collect().await;
        rows += batches.into_iter().map(|batch| batch.unwrap().num_rows()).sum::<usize>();
    }
    assert_eq!(rows, 16);
}

#[tokio::test]
async fn no_column_at_all_still_counts_rows() {
    let (engine, cpu, all) = filled(Collision::All).await;
    for order in [ScanOrder::Any, ScanOrder::Ascending] {
        let mut wanted = request(&cpu, order);
        wanted.projection = vec![];
        let mut rows = 0;
        for stream in engine.snapshot().scan(wanted).unwrap() {
            let batches: Vec<_> = stream.collect().await;
            rows += batches.into_iter().map(|batch| batch.unwrap().num_rows()).sum::<usize>();
        }
        assert_eq!(rows, all.len());
    }
}

#[tokio::test]
async fn system_columns_have_their_types() {
    use arrow::array::AsArray;
    let (engine, cpu, _) = filled(Collision::All).await;
    let mut wanted = request(&cpu, ScanOrder::Ascending);
    wanted.projection = (4..11).collect();
    let mut coarser = cpu.as_ref().clone();
    coarser.coarsened = Some("100us".parse().unwrap());
    wanted.chronicle = Arc::new(coarser);
    let schema = wanted.schema();
    let names: Vec<_> = schema.fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(names, ["_tick", "_seq", "_gsn", "_origin", "_toid", "_tier", "_group"]);
    let mut streams = engine.snapshot().scan(wanted).unwrap();
    let batch = streams[0].next().await.unwrap().unwrap();
    assert_eq!(batch.schema(), schema);
    assert_eq!(batch.column(2).as_ref(), batch.column(4).as_ref());
    assert_eq!(batch.column(3).as_primitive::<arrow::datatypes::Int16Type>().value(0), 0);
    assert_eq!(batch.column(5).as_string_view().value(0), "journal");
    let number =
        |at: usize| batch.column(at).as_primitive::<arrow::datatypes::Int64Type>().values().clone();
    let groups: Vec<i64> = number(0).iter().map(|tick| tick.div_euclid(100)).collect();
    assert_eq!(number(6), groups);
}

#[tokio::test]
async fn a_wrong_key_filter_is_refused() {
    let (engine, cpu, _) = filled(Collision::All).await;
    let mut wanted = request(&cpu, ScanOrder::Any);
    wanted.keys = vec![stratalog_model::tier::KeyFilter {
        column: 1,
        values: Arc::new(arrow::array::Int64Array::from(vec![1])),
    }];
    assert!(engine.snapshot().scan(wanted).is_err());
}
