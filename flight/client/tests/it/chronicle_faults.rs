//! Failures of connections and servers: each recorded event is stored once, and each followed event
//! arrives once.

use std::{collections::BTreeSet, time::Duration};

use stratalog_client::{
    Acquire, Chronolog, Client, Durability, Event, Granularity, Range, Start, Subscription, Tags,
    Update,
};

use crate::{
    chronicle::{acquired, connect, url},
    proxy::Proxy,
    support::{Chance, Server, patient, until},
};

async fn patiently(url: String) -> Chronolog {
    Chronolog::with(Client::builder().url(url).retry(patient())).await.unwrap()
}

fn text(event: &Event) -> String {
    String::from_utf8(event.payload.to_vec()).unwrap()
}

/// Reads until an event has this payload; checks that each event comes once, in the order of
/// positions.
async fn read_until(mut subscription: Subscription, last: &str) -> Vec<String> {
    let mut seen = Vec::new();
    let mut gsn = 0;
    loop {
        let Update::Event(event) = subscription.next().await.unwrap().unwrap() else { continue };
        assert!(event.gsn > gsn, "{} after {gsn}", event.gsn);
        gsn = event.gsn;
        seen.push(text(&event));
        if text(&event) == last {
            return seen;
        }
    }
}

fn assert_each_once(mut found: Vec<String>, expected: usize) {
    assert_eq!(found.len(), expected);
    found.sort_unstable();
    found.dedup();
    assert_eq!(found.len(), expected, "some are there twice");
}

/// Repeated kills during pipelined records and a subscription.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_9_amid_recording_and_following_loses_and_doubles_nothing() {
    let mut server = Server::start();
    let mut chance = Chance::new();
    let log = patiently(url(&server)).await;
    let events = acquired(&log, "events", &Tags::new()).await;
    let early =
        tokio::spawn(read_until(events.subscribe(Start::Beginning, None).await.unwrap(), "last"));
    let late = tokio::spawn(read_until(events.subscribe(Start::Live, None).await.unwrap(), "last"));
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let recording = tokio::spawn({
        let (events, stop) = (events.clone(), stop.clone());
        async move {
            let mut receipts = Vec::new();
            let mut number = 0;
            while !stop.load(std::sync::atomic::Ordering::SeqCst) {
                let mut pending = Vec::new();
                for _ in 0..50 {
                    pending.push(events.append(format!("event {number}")).await.unwrap());
                    number += 1;
                }
                for event in pending {
                    receipts.push(event.await.unwrap());
                }
            }
            receipts
        }
    });
    for _ in 0..6 {
        tokio::time::sleep(Duration::from_millis(50 + chance.below(400))).await;
        server.kill();
        tokio::time::sleep(Duration::from_millis(chance.below(300))).await;
        server.restart();
    }
    stop.store(true, std::sync::atomic::Ordering::SeqCst);
    let receipts = recording.await.unwrap();
    events.record("last").await.unwrap();
    let gsns: BTreeSet<u64> = receipts.iter().filter_map(|receipt| receipt.gsn).collect();
    let again = receipts.iter().filter(|receipt| receipt.gsn.is_none()).count();
    let new_ticks = receipts.iter().filter(|receipt| receipt.new_ticks > 0).count();
    println!("{} events, {again} acknowledged again, {new_ticks} with new ticks", receipts.len());
    assert_eq!(gsns.len() + again, receipts.len(), "each position is one event's");
    let replayed = events.replay(&[Range::all()], None).await.unwrap().collect().await.unwrap();
    assert!(replayed.windows(2).all(|pair| pair[0].tick <= pair[1].tick));
    let total = receipts.len() + 1;
    assert_each_once(replayed.iter().map(text).collect(), total);
    for followed in [early, late] {
        assert_each_once(followed.await.unwrap(), total);
    }
    server.restart();
    let replayed = events.replay(&[Range::all()], None).await.unwrap().collect().await.unwrap();
    assert_each_once(replayed.iter().map(text).collect(), total);
}

/// Connections that break at any byte.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cuts_amid_recording_following_and_replaying_lose_and_double_nothing() {
    let server = Server::start();
    let proxy = Proxy::new(server.address).await;
    let log = patiently(format!("chronolog://{}", proxy.address)).await;
    let relaxed = Tags::new().durability(Durability::Relaxed);
    let events = acquired(&log, "events", &relaxed).await;
    let followed =
        tokio::spawn(read_until(events.subscribe(Start::Beginning, None).await.unwrap(), "last"));
    proxy.cut_within(30_000);
    proxy.cut();
    let mut number = 0;
    while proxy.accepted() < 30 {
        let names: Vec<String> = (number..number + 20).map(|n| format!("event {n}")).collect();
        let receipts = events.record_batch(&names).await.unwrap();
        assert!(receipts.windows(2).all(|pair| pair[0].tick < pair[1].tick));
        number += 20;
        assert!(number < 100_000, "the proxy cuts too little");
    }
    // Room for a batch.
    proxy.cut_within(1_000_000);
    let mut replay = events.replay(&[Range::all()], None).await.unwrap();
    let mut replayed = Vec::new();
    while let Some(event) = replay.next().await {
        replayed.push(text(&event.unwrap()));
    }
    proxy.cut_within(0);
    assert_each_once(replayed, number);
    events.record("last").await.unwrap();
    assert_each_once(followed.await.unwrap(), number + 1);
}

/// A restarted server has lost all acquisitions; a handle acquires again.
#[tokio::test]
async fn f8_a_handle_acquires_again_after_a_restart() {
    let mut server = Server::start();
    let log = patiently(url(&server)).await;
    log.create("events", Granularity::NANOSECOND, &Tags::new()).await.unwrap();
    let alone = log.acquire("events", Acquire::exclusive()).await.unwrap();
    alone.record("before").await.unwrap();
    server.restart();
    alone.record("after").await.unwrap();
    assert_eq!(alone.lapses(), 1);
    let other = connect(&server).await;
    let refused = other.acquire("events", Acquire::shared().no_wait()).await.unwrap_err();
    assert_eq!(refused.sqlstate(), Some("55P03"));
    alone.release().await.unwrap();
    other.acquire("events", Acquire::shared().no_wait()).await.unwrap();
}

/// A renewal directly after a server restart: the session has ended, but the login is not refused.
#[tokio::test]
async fn f8_a_lease_is_due_when_a_server_has_begun_anew() {
    let mut server = Server::start();
    let log = patiently(url(&server)).await;
    log.create("events", Granularity::NANOSECOND, &Tags::new()).await.unwrap();
    let leased = Acquire::exclusive().lease(Duration::from_millis(400));
    let events = log.acquire("events", leased).await.unwrap();
    for round in 0..4 {
        events.record("before").await.unwrap();
        server.kill();
        // By then a further part of the lease has passed.
        tokio::time::sleep(Duration::from_millis(150)).await;
        server.restart();
        if round % 2 == 0 {
            events.record("after").await.unwrap();
        }
        let newest = events.playback(1).await.unwrap();
        assert_eq!(text(&newest[0]), if round % 2 == 0 { "after" } else { "before" });
    }
    let all = events.replay(&[Range::all()], None).await.unwrap().collect().await.unwrap();
    assert_eq!(all.len(), 6);
    // The lease is renewed automatically as before.
    tokio::time::sleep(Duration::from_millis(1200)).await;
    let refused = log.acquire("events", Acquire::shared().no_wait()).await.unwrap_err();
    assert_eq!(refused.sqlstate(), Some("55P03"));
}

/// A server that is paused for longer than a lease: the lost acquisition is renewed and counted as
/// a lapse.
#[tokio::test]
async fn f10_a_lease_that_ran_out_is_acquired_again() {
    let server = Server::start();
    let log = patiently(url(&server)).await;
    let leased = Acquire::exclusive().lease(Duration::from_millis(500));
    log.create("events", Granularity::NANOSECOND, &Tags::new()).await.unwrap();
    let events = log.acquire("events", leased).await.unwrap();
    events.record("before").await.unwrap();
    server.signal("STOP");
    let pending = events.append("meanwhile").await.unwrap();
    tokio::time::sleep(Duration::from_millis(1200)).await;
    server.signal("CONT");
    pending.await.unwrap();
    events.record("after").await.unwrap();
    until("the lapse is known", || async { events.lapses() >= 1 }).await;
    let all = events.replay(&[Range::all()], None).await.unwrap().collect().await.unwrap();
    assert_each_once(all.iter().map(text).collect(), 3);
}
