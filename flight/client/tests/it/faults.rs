//! Failures of connections and servers: each row is stored once.

use std::{sync::Arc, time::Duration};

use stratalog_client::{Client, ErrorKind};

use crate::{
    proxy::Proxy,
    support::{Chance, KEYED, Server, assert_once, number, patient, rows, tally, until},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_9_amid_writing_neither_loses_nor_doubles_a_row() {
    let mut server = Server::start();
    let mut chance = Chance::new();
    let client = Client::builder().url(server.url()).retry(patient()).connect().await.unwrap();
    client.execute(KEYED).await.unwrap();
    let writer = client.writer("log").retry(patient()).batch_rows_max(200);
    let writer =
        Arc::new(writer.acknowledge_timeout(Duration::from_secs(20)).open().await.unwrap());
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let writing = tokio::spawn({
        let (writer, stop) = (Arc::clone(&writer), Arc::clone(&stop));
        async move {
            let mut next = 0;
            let mut chance = Chance::new();
            while !stop.load(std::sync::atomic::Ordering::SeqCst) {
                let end = next + 1 + chance.below(300) as i64;
                writer.write(rows("w", next..end)).await.unwrap();
                next = end;
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            next
        }
    });
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_millis(50 + chance.below(400))).await;
        server.kill();
        tokio::time::sleep(Duration::from_millis(chance.below(200))).await;
        server.restart();
    }
    stop.store(true, std::sync::atomic::Ordering::SeqCst);
    let written = writing.await.unwrap();
    let stored = writer.flush().await.unwrap();
    assert_eq!(stored.rows, written as u64);
    println!("{written} rows, {} batches were sent twice", stored.duplicates);
    assert_once(tally(&client, "w").await, written);
    server.restart();
    assert_once(tally(&client, "w").await, written);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_amid_writing_neither_loses_nor_doubles_a_row() {
    let mut server = Server::start();
    let client = Client::builder().url(server.url()).retry(patient()).connect().await.unwrap();
    client.execute(KEYED).await.unwrap();
    let writer = client.writer("log").retry(patient()).batch_rows_max(100).open().await.unwrap();
    let writing = async {
        for start in (0..4000).step_by(10) {
            writer.write(rows("t", start..start + 10)).await.unwrap();
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let shutting_down = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let begun = std::time::Instant::now();
        server.shut_down().await;
        println!("shut down in {:?}", begun.elapsed());
        server.restart();
    };
    tokio::join!(writing, shutting_down);
    assert_eq!(writer.flush().await.unwrap().rows, 4000);
    assert_once(tally(&client, "t").await, 4000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cuts_at_any_byte_neither_lose_nor_double_a_row() {
    let server = Server::start();
    let proxy = Proxy::new(server.address).await;
    let direct = server.client().await;
    direct.execute(KEYED).await.unwrap();
    let through = Client::builder().url(proxy.url()).retry(patient()).connect().await.unwrap();
    let writer = through.writer("log").retry(patient()).batch_rows_max(50).open().await.unwrap();
    let mut chance = Chance::new();
    let mut next = 0;
    let mut rounds = 0;
    // Connection setup takes some hundred bytes, and an acknowledgement about the same.
    proxy.cut_within(8000);
    proxy.cut();
    while proxy.accepted() < 40 {
        for _ in 0..4 {
            let end = next + 1 + chance.below(120) as i64;
            writer.write(rows("p", next..end)).await.unwrap();
            next = end;
        }
        tokio::time::sleep(Duration::from_millis(chance.below(20))).await;
        rounds += 1;
        assert!(rounds < 2000, "the proxy cuts too little");
    }
    proxy.cut_within(0);
    let stored = writer.flush().await.unwrap();
    println!("{next} rows, {} connections, {stored:?}", proxy.accepted());
    assert_eq!(stored.rows, next as u64);
    assert_once(tally(&direct, "p").await, next);
    writer.close().await.unwrap();
}

/// The error of a failed statement is reliable: a statement reported as not carried out has no
/// effect, and no statement runs twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_that_are_cut_off_are_never_carried_out_twice() {
    let server = Server::start();
    let proxy = Proxy::new(server.address).await;
    let direct = server.client().await;
    direct.execute(KEYED).await.unwrap();
    let through = Client::builder().url(proxy.url()).connections(2).retry(patient());
    let through = through.connect().await.unwrap();
    // Logging in takes some hundred bytes.
    proxy.cut_within(6000);
    proxy.cut();
    let (mut good, mut unknown) = (0, 0);
    for number in 0..200 {
        let values = format!("INSERT INTO log VALUES (now(), 'c', {number})");
        let outcome = match number % 3 {
            0 => through.execute(&values).await.map(drop),
            1 => match through.query(&format!("{values} RETURNING number")).await {
                Ok(rows) => rows.collect().await.map(drop),
                Err(error) => Err(error),
            },
            _ => {
                let insert = "INSERT INTO log VALUES (now(), 'c', $1)";
                through.execute_with(insert, [number.into()]).await.map(drop)
            }
        };
        let sql = format!("SELECT count(*) FROM log WHERE number = {number}");
        let there = crate::support::number(&direct, &sql).await;
        match outcome {
            Ok(()) => assert_eq!(there, 1, "{number}"),
            Err(error) if error.is_not_carried_out() => assert_eq!(there, 0, "{number}: {error}"),
            Err(error) => assert!(there <= 1, "{number} is there {there} times: {error}"),
        }
        match there {
            1 => good += 1,
            _ => unknown += 1,
        }
    }
    println!("{good} are there, {unknown} are not, {} connections", proxy.accepted());
    assert!(good > 0 && proxy.accepted() > 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_acknowledgement_is_got_again_and_the_rows_are_there_once() {
    let server = Server::start();
    let proxy = Proxy::new(server.address).await;
    let direct = server.client().await;
    direct.execute(KEYED).await.unwrap();
    let through = Client::connect(proxy.url()).await.unwrap();
    let writer = through.writer("log").retry(patient()).batch_rows_max(10).open().await.unwrap();
    for round in 0..5 {
        // The call is open by then: only its acknowledgements are lost.
        let first = writer.write(rows("a", round * 31..round * 31 + 1)).await.unwrap();
        writer.flush().await.unwrap();
        assert_eq!(first.await.unwrap().duplicates, 0);
        proxy.swallow(true);
        let lost = writer.write(rows("a", round * 31 + 1..round * 31 + 31)).await.unwrap();
        let stored = "SELECT count(*) FROM log";
        until("the batches are stored", || async {
            number(&direct, stored).await == round * 31 + 31
        })
        .await;
        proxy.swallow(false);
        proxy.cut();
        let told = lost.await.unwrap();
        assert_eq!((told.rows, told.duplicates, told.first_gsn), (30, 3, None));
    }
    let last = writer.flush().await.unwrap();
    assert_eq!((last.rows, last.duplicates), (30, 3), "since the flush of the last round");
    assert_once(tally(&direct, "a").await, 155);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_server_holds_writers_up_within_bounds() {
    let server = Server::start();
    let client = server.client().await;
    client.execute(KEYED).await.unwrap();
    let writer = client
        .writer("log")
        .buffer_bytes_max(1 << 20)
        .write_timeout(Duration::from_millis(500))
        .acknowledge_timeout(Duration::from_secs(60))
        .retry(patient())
        .open()
        .await
        .unwrap();
    server.signal("STOP");
    let mut next = 0;
    let error = loop {
        match writer.write(rows("s", next..next + 1000)).await {
            Ok(delivery) => drop(delivery),
            Err(error) => break error,
        }
        next += 1000;
        // 1000 rows take more than 17 kB.
        assert!(next < 100_000, "the writer takes more than it may");
    };
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(error.to_string().contains("has had no room for"), "{error}");
    assert!(error.to_string().contains("larger buffer"), "{error}");
    server.signal("CONT");
    let stored = writer.flush().await.unwrap();
    assert_eq!(stored.rows, next as u64);
    writer.write(rows("s", next..next + 1)).await.unwrap();
    writer.close().await.unwrap();
    assert_once(tally(&client, "s").await, next + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_gives_up_in_the_end_and_gives_its_rows_back() {
    let mut server = Server::start();
    let client = server.client().await;
    client.execute(KEYED).await.unwrap();
    let policy = stratalog_client::RetryPolicy::within(Duration::from_millis(300));
    let producer = stratalog_client::Uuid::new_v4();
    let writer = client.writer("log").producer(producer).retry(policy).open().await.unwrap();
    writer.write(rows("g", 0..10)).await.unwrap();
    writer.flush().await.unwrap();
    server.kill();
    let lost = writer.write(rows("g", 10..30)).await.unwrap();
    let error = writer.flush().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Connection);
    assert!(error.message().contains("given up after"), "{error}");
    assert_eq!(lost.await.unwrap_err().kind(), ErrorKind::Connection);
    assert!(writer.write(rows("g", 30..31)).await.is_err(), "it has ended");
    let left = writer.into_unacknowledged().await;
    assert_eq!(left.iter().map(|left| left.rows.num_rows()).sum::<usize>(), 20);
    server.restart();
    let writer = client.writer("log").producer(producer).open().await.unwrap();
    for left in &left {
        writer.write_numbered(left.sequence, left.rows.clone()).await.unwrap();
    }
    writer.close().await.unwrap();
    // A repetition, as by a process that does not know the progress of its predecessor.
    let writer = client.writer("log").producer(producer).open().await.unwrap();
    for left in &left {
        let again = writer.write_numbered(left.sequence, left.rows.clone()).await.unwrap();
        assert_eq!(again.await.unwrap().duplicates, 1);
    }
    assert_once(tally(&client, "g").await, 30);
}
