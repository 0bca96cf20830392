//! Acknowledged rows survive any end of the server (CL-1).

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crate::support::{Bench, connect, good, signal, start};

const WRITERS: u64 = 4;

/// Writers insert numbered rows until the connection ends; returns the acknowledged rows.
async fn write(port: u16, writer: u64, stop: Arc<AtomicBool>) -> Vec<u64> {
    let client = connect(port).await.unwrap();
    let mut acknowledged = Vec::new();
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let sql = format!(
            "INSERT INTO log VALUES ('2026-01-01T00:00:00Z'::timestamptz, {writer}, {number})"
        );
        match client.simple_query(&sql).await {
            Ok(_) => acknowledged.push(number),
            Err(_) => break,
        }
    }
    acknowledged
}

async fn load_and_end(bench: &mut Bench, end: impl FnOnce(&mut Bench)) -> Vec<Vec<u64>> {
    good(&bench.sql(&[
        "-c",
        "CREATE TABLE log (time TIMESTAMPTZ NOT NULL, writer BIGINT, number BIGINT)",
    ]));
    let port = bench.server.address().port();
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> =
        (0..WRITERS).map(|writer| tokio::spawn(write(port, writer, Arc::clone(&stop)))).collect();
    tokio::time::sleep(Duration::from_millis(700)).await;
    end(bench);
    tokio::time::sleep(Duration::from_millis(100)).await;
    stop.store(true, Ordering::Relaxed);
    let mut acknowledged = Vec::new();
    for writer in writers {
        acknowledged.push(writer.await.unwrap());
    }
    acknowledged
}

fn check(bench: &Bench, acknowledged: &[Vec<u64>]) {
    assert!(acknowledged.iter().map(Vec::len).sum::<usize>() > 20, "too little to judge by");
    let text = good(&bench.sql(&["--format", "csv", "-c", "SELECT writer, number FROM log"]));
    let rows: Vec<(u64, u64)> = text
        .lines()
        .skip(1)
        .map(|line| {
            let (writer, number) = line.split_once(',').unwrap();
            (writer.parse().unwrap(), number.parse().unwrap())
        })
        .collect();
    let distinct: BTreeSet<(u64, u64)> = rows.iter().copied().collect();
    assert_eq!(distinct.len(), rows.len(), "a row twice");
    for (writer, numbers) in (0..).zip(acknowledged) {
        for number in numbers {
            assert!(distinct.contains(&(writer, *number)), "lost: {writer} {number}");
        }
        let stored = distinct.range((writer, 0)..(writer + 1, 0)).count();
        assert!(stored <= numbers.len() + 1, "writer {writer}: more than was sent");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_graceful_shutdown_under_load_loses_nothing() {
    let mut bench = Bench::new();
    let acknowledged = load_and_end(&mut bench, |bench| {
        signal(bench.server.id(), "TERM");
        assert!(bench.server.wait().unwrap(), "the server did not end well");
    })
    .await;
    bench.server = start(bench.directory.path());
    check(&bench, &acknowledged);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_9_under_load_loses_nothing_that_was_acknowledged() {
    let mut bench = Bench::new();
    let acknowledged = load_and_end(&mut bench, |bench| bench.server.kill().unwrap()).await;
    bench.kill_and_restart();
    check(&bench, &acknowledged);
}
