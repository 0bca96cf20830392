//! Subscriptions: a chronicle in the order of commits, from any tier, and then live (F104).

use std::{sync::Arc, time::Duration};

use arrow::{array::AsArray, datatypes::Int64Type};
use futures::StreamExt;
use stratalog_engine::Engine;
use stratalog_model::{
    ChronicleDefinition, Collision, ErrorKind, EventStore, Gsn, GsnRange, Tick,
    subscribe::{GapCause, SubscribeFrom, SubscribeRequest, Subscription, Update},
};

use crate::{fixture::*, memory_log::MemoryLog};

/// An update received by a subscriber.
#[derive(Debug, Clone, PartialEq)]
enum Delivery {
    Event(u64, Row),
    Gap(GsnRange),
}

pub fn follow(
    engine: &Engine,
    cpu: &Arc<ChronicleDefinition>,
    from: SubscribeFrom,
) -> Subscription {
    let user = cpu.columns.len();
    let request = SubscribeRequest {
        chronicle: Arc::clone(cpu),
        from,
        projection: vec![user + 2, user, 1, 2],
        batch_rows_max: 100,
    };
    engine.subscribe(request).unwrap()
}

async fn next(subscription: &mut Subscription) -> Vec<Delivery> {
    let update = tokio::time::timeout(Duration::from_secs(20), subscription.next()).await;
    match update.expect("nothing came").unwrap().unwrap() {
        Update::Gap(gap) => {
            assert_eq!(gap.cause, GapCause::Deleted);
            vec![Delivery::Gap(gap.gsns)]
        }
        Update::Events(batch) => {
            assert!(batch.num_rows() > 0 && batch.num_rows() <= 100);
            let [gsns, ticks] =
                [0, 1].map(|at| batch.column(at).as_primitive::<Int64Type>().clone());
            let hosts = batch.column(2).as_string_view();
            let values = batch.column(3).as_primitive::<arrow::datatypes::Float64Type>();
            (0..batch.num_rows())
                .map(|at| {
                    let event = row(ticks.value(at), hosts.value(at), values.value(at));
                    Delivery::Event(gsns.value(at) as u64, event)
                })
                .collect()
        }
    }
}

/// Waits for at least `count` updates; each event and each gap is one entry.
async fn deliveries(subscription: &mut Subscription, count: usize) -> Vec<Delivery> {
    let mut all = Vec::new();
    while all.len() < count {
        all.extend(next(subscription).await);
    }
    let firsts: Vec<u64> = all
        .iter()
        .map(|deliveries| match deliveries {
            Delivery::Event(gsn, _) => *gsn,
            Delivery::Gap(gsns) => gsns.start.0,
        })
        .collect();
    assert!(firsts.is_sorted_by(|a, b| a < b), "not in the order of commits: {firsts:?}");
    all
}

async fn silent(subscription: &mut Subscription) {
    let update = tokio::time::timeout(Duration::from_millis(50), subscription.next()).await;
    assert!(update.is_err(), "{update:?}");
}

/// Events whose order of time differs from their order of commits.
pub fn shuffled(rows: i64) -> Vec<Row> {
    (0..rows).map(|at| row(at * 37 % rows, ["a", "b", "c"][at as usize % 3], at as f64)).collect()
}

fn numbered(events: &[Row], first: u64) -> Vec<Delivery> {
    (first..).zip(events).map(|(gsn, row)| Delivery::Event(gsn, row.clone())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn history_comes_out_of_every_tier_in_the_order_of_commits() {
    for collision in [Collision::All, Collision::First, Collision::Last] {
        for tier in 0..4 {
            let (log, mut stored) = (MemoryLog::default(), Stored::new(3));
            let cpu = chronicle(1, collision, true);
            let engine = stored.open(&log, &cpu);
            let events = shuffled(600);
            for (number, chunk) in events.chunks(50).enumerate() {
                append(&engine, &cpu, chunk).await.unwrap();
                match (tier, number) {
                    (1, _) | (3, 7) => drop(engine.flush(cpu.id).await.unwrap()),
                    (2, _) | (3, 4) => drop(engine.compact(cpu.id).await.unwrap()),
                    _ => {}
                }
            }
            let place = format!("{collision}, {tier}");
            let all = numbered(&events, 1);
            let mut whole = follow(&engine, &cpu, SubscribeFrom::Gsn(Gsn(1)));
            assert_eq!(deliveries(&mut whole, 600).await, all, "{place}");
            let mut rest = follow(&engine, &cpu, SubscribeFrom::Gsn(Gsn(345)));
            assert_eq!(deliveries(&mut rest, 256).await, all[344..], "{place}");
            // Live, for both followers.
            append(&engine, &cpu, &[row(9_000, "a", 1.0), row(9_001, "b", 2.0)]).await.unwrap();
            let live = numbered(&[row(9_000, "a", 1.0), row(9_001, "b", 2.0)], 601);
            assert_eq!(deliveries(&mut whole, 2).await, live, "{place}");
            assert_eq!(deliveries(&mut rest, 2).await, live, "{place}");
            silent(&mut whole).await;
            drop((whole, rest, engine));
            stored.reopen();
            let engine = stored.open(&MemoryLog::with_frames(log.frames()), &cpu);
            let mut again = follow(&engine, &cpu, SubscribeFrom::Gsn(Gsn(0)));
            let expected = [all, live].concat();
            assert_eq!(deliveries(&mut again, 602).await, expected, "{place}, restarted");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_begins_where_it_is_told_to() {
    let (_, cpu, engine) = opened(Collision::All, true);
    let mut live = follow(&engine, &cpu, SubscribeFrom::Live);
    silent(&mut live).await;
    append(&engine, &cpu, &[row(5, "a", 1.0), row(9, "a", 2.0), row(1, "a", 3.0)]).await.unwrap();
    assert_eq!(deliveries(&mut live, 3).await.len(), 3);
    // Starts at the first commit with this time or a later time, and receives all later commits.
    let mut timed = follow(&engine, &cpu, SubscribeFrom::Tick(Tick(6)));
    let behind = numbered(&[row(9, "a", 2.0), row(1, "a", 3.0)], 2);
    assert_eq!(deliveries(&mut timed, 2).await, behind);
    let mut future = follow(&engine, &cpu, SubscribeFrom::Tick(Tick(100)));
    let mut later = follow(&engine, &cpu, SubscribeFrom::Gsn(Gsn(5)));
    silent(&mut future).await;
    append(&engine, &cpu, &[row(2, "a", 4.0), row(3, "a", 5.0)]).await.unwrap();
    assert_eq!(deliveries(&mut future, 2).await.len(), 2);
    // A start position in the middle of a commit.
    assert_eq!(deliveries(&mut later, 1).await, numbered(&[row(3, "a", 5.0)], 5));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn time_begins_in_any_tier() {
    let (log, stored) = (MemoryLog::default(), Stored::new(3));
    let cpu = chronicle(1, Collision::All, true);
    let engine = stored.open(&log, &cpu);
    let events = shuffled(300);
    append(&engine, &cpu, &events[..100]).await.unwrap();
    engine.compact(cpu.id).await.unwrap();
    append(&engine, &cpu, &events[100..200]).await.unwrap();
    engine.flush(cpu.id).await.unwrap();
    append(&engine, &cpu, &events[200..]).await.unwrap();
    for tick in [0, 1, 150, 290, 298, 299] {
        let first = events.iter().position(|row| row.tick >= tick).unwrap();
        let mut timed = follow(&engine, &cpu, SubscribeFrom::Tick(Tick(tick)));
        let all = deliveries(&mut timed, 300 - first).await;
        assert_eq!(all, numbered(&events[first..], first as u64 + 1), "{tick}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_slow_reads_history_and_misses_nothing() {
    let (log, stored) = (MemoryLog::default(), Stored::new(3));
    let cpu = chronicle(1, Collision::All, true);
    let engine = stored.open(&log, &cpu);
    let mut slow = follow(&engine, &cpu, SubscribeFrom::Live);
    let mut quick = follow(&engine, &cpu, SubscribeFrom::Live);
    // More commits than the ring holds.
    let events: Vec<Row> = (0..5_000).map(|at| row(at, "a", at as f64)).collect();
    for (number, event) in events.iter().enumerate() {
        append(&engine, &cpu, std::slice::from_ref(event)).await.unwrap();
        if number == 2_000 {
            engine.flush(cpu.id).await.unwrap();
        }
    }
    assert_eq!(deliveries(&mut slow, 5_000).await, numbered(&events, 1));
    assert_eq!(deliveries(&mut quick, 5_000).await, numbered(&events, 1));
    append(&engine, &cpu, &[row(9_000, "a", 1.0)]).await.unwrap();
    assert_eq!(deliveries(&mut slow, 1).await, numbered(&[row(9_000, "a", 1.0)], 5_001));
}

/// Abandoned followers, for example cursors without further fetches, do not block the sweeps of
/// other followers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_does_not_come_back_takes_no_place() {
    let (log, stored) = (MemoryLog::default(), Stored::new(3));
    let cpu = chronicle(1, Collision::All, true);
    let engine = stored.open(&log, &cpu);
    let events = shuffled(600);
    for chunk in events.chunks(50) {
        append(&engine, &cpu, chunk).await.unwrap();
    }
    // Reads of stories wait for the file.
    engine.compact(cpu.id).await.unwrap();
    let mut left = Vec::new();
    for from in [SubscribeFrom::Gsn(Gsn(1)), SubscribeFrom::Tick(Tick(5))].repeat(10) {
        let mut follower = follow(&engine, &cpu, from);
        drop(futures::poll!(follower.next()));
        left.push(follower);
    }
    let mut whole = follow(&engine, &cpu, SubscribeFrom::Gsn(Gsn(1)));
    assert_eq!(deliveries(&mut whole, 600).await, numbered(&events, 1));
    // The abandoned followers can continue where they stopped.
    assert!(deliveries(left.last_mut().unwrap(), 100).await.len() >= 100);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gaps_are_told_once_and_before_what_follows() {
    let (log, stored) = (MemoryLog::default(), Stored::new(3));
    let cpu = chronicle(1, Collision::All, true);
    let engine = stored.open(&log, &cpu);
    let events: Vec<Row> = (0..300).map(|at| row(at, "a", at as f64)).collect();
    append(&engine, &cpu, &events).await.unwrap();
    let mut before = follow(&engine, &cpu, SubscribeFrom::Gsn(Gsn(1)));
    assert_eq!(next(&mut before).await.len(), 100);
    engine.trim(&cpu, Gsn(121)).await.unwrap();
    for compacted in [false, true] {
        if compacted {
            engine.compact(cpu.id).await.unwrap();
        }
        let mut whole = follow(&engine, &cpu, SubscribeFrom::Gsn(Gsn(1)));
        let mut expected = vec![Delivery::Gap(GsnRange::new(Gsn(1), Gsn(121)))];
        expected.extend(numbered(&events[120..], 121));
        assert_eq!(deliveries(&mut whole, 181).await, expected, "{compacted}");
        silent(&mut whole).await;
        let mut middle = follow(&engine, &cpu, SubscribeFrom::Gsn(Gsn(100)));
        assert_eq!(next(&mut middle).await, [Delivery::Gap(GsnRange::new(Gsn(100), Gsn(121)))]);
        let mut behind = follow(&engine, &cpu, SubscribeFrom::Gsn(Gsn(121)));
        assert!(matches!(next(&mut behind).await[0], Delivery::Event(121, _)));
    }
}

/// A follower after a TRIM does not receive the removed events from the shared ring.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_trimmed_is_told_to_nobody_who_comes_later() {
    let (_, cpu, engine) = opened(Collision::All, true);
    let mut first = follow(&engine, &cpu, SubscribeFrom::Live);
    append(&engine, &cpu, &[row(1, "a", 1.0), row(2, "a", 2.0)]).await.unwrap();
    assert_eq!(deliveries(&mut first, 2).await.len(), 2);
    engine.trim(&cpu, Gsn(2)).await.unwrap();
    let mut second = follow(&engine, &cpu, SubscribeFrom::Gsn(Gsn(1)));
    let expected =
        [Delivery::Gap(GsnRange::new(Gsn(1), Gsn(2))), Delivery::Event(2, row(2, "a", 2.0))];
    assert_eq!(deliveries(&mut second, 2).await, expected);
    append(&engine, &cpu, &[row(3, "a", 3.0)]).await.unwrap();
    assert_eq!(deliveries(&mut first, 1).await, deliveries(&mut second, 1).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_ends_with_its_chronicle() {
    let (_, cpu, engine) = opened(Collision::All, true);
    append(&engine, &cpu, &[row(1, "a", 1.0)]).await.unwrap();
    let mut open = follow(&engine, &cpu, SubscribeFrom::Live);
    engine.forget(cpu.id);
    let ended = tokio::time::timeout(Duration::from_secs(5), open.next()).await.unwrap();
    assert_eq!(ended.unwrap().unwrap_err().kind(), ErrorKind::UndefinedTable);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_position_is_reached_when_it_is_visible() {
    let (log, cpu, engine) = opened(Collision::All, true);
    engine.reached(Gsn(0)).await.unwrap();
    append(&engine, &cpu, &[row(1, "a", 1.0)]).await.unwrap();
    engine.reached(Gsn(1)).await.unwrap();
    log.hold();
    let appending = tokio::spawn({
        let (engine, cpu) = (engine.clone(), cpu.clone());
        async move { append(&engine, &cpu, &[row(2, "a", 2.0)]).await }
    });
    let reached = tokio::spawn(engine.reached(Gsn(2)));
    tokio::time::sleep(Duration::from_millis(30)).await;
    assert!(!reached.is_finished(), "before it is durable");
    log.release();
    reached.await.unwrap().unwrap();
    assert_eq!(engine.snapshot().gsn(), Gsn(2));
    appending.await.unwrap().unwrap();
}

/// Thousands of followers share the decoded batch of a commit, and each commit wakes all followers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_follow_at_once() {
    let (_, cpu, engine) = opened(Collision::All, true);
    let mut followers = Vec::new();
    for _ in 0..1_000 {
        let mut follower = follow(&engine, &cpu, SubscribeFrom::Live);
        followers.push(tokio::spawn(async move { deliveries(&mut follower, 50).await }));
    }
    let events: Vec<Row> = (0..50).map(|at| row(at, "a", at as f64)).collect();
    for event in &events {
        append(&engine, &cpu, std::slice::from_ref(event)).await.unwrap();
    }
    for follower in followers {
        assert_eq!(follower.await.unwrap(), numbered(&events, 1));
    }
}
