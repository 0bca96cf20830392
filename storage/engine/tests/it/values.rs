//! Reads skip parts without the wanted values, and never a part with a wanted value (F87).

use std::sync::atomic::Ordering;

use stratalog_model::{
    Collision, EventStore, ValueFilter,
    tier::{ScanOrder, ScanRequest},
    values::{OrderedValue, ValuePredicate},
};
use stratalog_sim::Random;

use crate::{fixture::*, memory_log::MemoryLog};

/// Position of the column `value` in a chronicle.
const VALUE: usize = 2;

fn is_wanted(filter: &ValuePredicate, value: f64) -> bool {
    let ValuePredicate::Between(low, high) = filter else { return false };
    let at = |bound: &Option<OrderedValue>| match bound {
        Some(OrderedValue::Float(bound)) => Some(*bound),
        _ => None,
    };
    at(low).is_none_or(|low| value >= low) && at(high).is_none_or(|high| value <= high)
}

/// A random condition: around an existing value, or around no value.
fn some_filter(random: &mut Random) -> ValuePredicate {
    let mut bound = || OrderedValue::float(random.below(4400) as f64 / 4.0 - 50.0);
    let (one, other) = (bound(), bound());
    let less = matches!((&one, &other), (Some(OrderedValue::Float(a)), Some(OrderedValue::Float(b))) if a < b);
    let (low, high) = if less { (one, other) } else { (other, one) };
    match random.below(4) {
        0 => ValuePredicate::Between(low, None),
        1 => ValuePredicate::Between(None, high),
        2 => ValuePredicate::Between(low.clone(), low),
        _ => ValuePredicate::Between(low, high),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wanted_value_is_never_passed_over() {
    let cpu = chronicle(1, Collision::All, true);
    let engine = Stored::new(5).open(&MemoryLog::default(), &cpu);
    let mut random = Random::new(23);
    for part in 0..30_i64 {
        let rows: Vec<Row> = (0..40)
            .map(|n| {
                let value = (part * 40 + n) as f64 / 4.0 * random.below(5) as f64;
                row(part * 40 + n, &format!("h{}", n % 3), value)
            })
            .collect();
        append(&engine, &cpu, &rows).await.unwrap();
        if part % 10 == 9 {
            engine.flush(cpu.id).await.unwrap();
        }
    }
    let all = rows(&engine, &cpu).await;
    let (mut pruned, mut read) = (0, 0);
    for round in 0..2 {
        for _ in 0..300 {
            let wanted = some_filter(&mut random);
            let order = match random.below(3) {
                0 => ScanOrder::Ascending,
                1 => ScanOrder::Descending,
                _ => ScanOrder::Any,
            };
            let values = vec![ValueFilter { column: VALUE, predicate: wanted.clone() }];
            let request = ScanRequest { values, ..request(&cpu, order) };
            let metrics = request.metrics.clone();
            let found = scan(engine.snapshot().as_ref(), request).await;
            let mut found: Vec<Row> = found.into_iter().map(|read| read.row).collect();
            found.retain(|row| is_wanted(&wanted, row.value));
            found.sort_by_key(|row| row.tick);
            let mut expected = all.clone();
            expected.retain(|row| is_wanted(&wanted, row.value));
            assert_eq!(found, expected, "{wanted:?}, {order:?}");
            for tier in [&metrics.tablet, &metrics.story] {
                pruned += tier.parts_pruned.load(Ordering::Relaxed);
                read += tier.parts_read.load(Ordering::Relaxed);
            }
        }
        if round == 0 {
            engine.compact(cpu.id).await.unwrap();
        }
    }
    assert!(pruned > 500 && read > 500, "{pruned} parts were passed over, {read} read");
}
