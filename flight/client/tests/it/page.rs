//! docs/clients/rust.md and native.md: their examples compile and run as documented.

use std::error::Error;

use std::sync::Arc;
use stratalog_client::arrow::array::{
    ArrayRef, Float64Array, RecordBatch, StringArray, TimestampNanosecondArray,
};
use stratalog_client::{Acquire, Chronolog, Client, Granularity, Range, Start, Tags, Update};

use crate::support::{Server, number};

/// The text without white space, and without the commas and braces that rustfmt moves.
fn bare(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace() && !matches!(c, ',' | '{' | '}')).collect()
}

#[test]
fn each_example_of_the_pages_is_below() {
    let here = bare(include_str!("page.rs"));
    for (page, expected) in [
        (include_str!("../../../../docs/clients/rust.md"), 6),
        (include_str!("../../../../docs/clients/native.md"), 3),
    ] {
        let blocks =
            page.split("```rust\n").skip(1).map(|block| block.split("```").next().unwrap());
        let mut count = 0;
        for block in blocks {
            let mut parts: Vec<String> = Vec::new();
            for line in block.lines() {
                // The imports of a block stand at the top, and the test supplies the server's
                // address.
                match line.starts_with("use ") || line.starts_with("let url = ") {
                    true => parts.push(String::new()),
                    false => match parts.last_mut() {
                        Some(part) => part.push_str(line),
                        None => parts.push(line.to_string()),
                    },
                }
            }
            for part in parts {
                assert!(here.contains(&bare(&part)), "not below:\n{part}");
            }
            count += 1;
        }
        assert_eq!(count, expected);
    }
}

async fn page(url: &str) -> Result<(), Box<dyn Error>> {
    let client = Client::connect(url).await?;
    client
        .execute("CREATE TABLE rooms (time timestamptz, room text, degrees double precision)")
        .await?;
    client
        .execute_with("INSERT INTO rooms VALUES (now(), $1, $2)", ["hall".into(), 20.5.into()])
        .await?;

    let mut rows = client.query("SELECT room, degrees FROM rooms").await?;
    println!("{:?}", rows.schema());
    while let Some(batch) = futures::TryStreamExt::try_next(&mut rows).await? {
        println!("{} rows", batch.num_rows());
    }

    let transaction = client.begin().await?;
    transaction.execute("INSERT INTO rooms VALUES (now(), 'hall', 20.5)").await?;
    transaction.execute("INSERT INTO rooms VALUES (now(), 'attic', 12)").await?;
    transaction.commit().await?;

    let clock = client.sync_clock().await?;
    println!("drift {}, within {} ns", clock.drift, clock.estimate.error_ns);
    let now = client.time().expect("synchronized before");
    println!("{} ns since 1970", now.time_ns);

    let time: ArrayRef = Arc::new(
        TimestampNanosecondArray::from(vec![1_704_067_200_000_000_000]).with_timezone("UTC"),
    );
    let room: ArrayRef = Arc::new(StringArray::from(vec!["cellar"]));
    let degrees: ArrayRef = Arc::new(Float64Array::from(vec![11.5]));
    let batch = RecordBatch::try_from_iter([("time", time), ("room", room), ("degrees", degrees)])?;

    let writer = client.writer("rooms").open().await?;
    let delivery = writer.write(batch.clone()).await?;
    let stored = writer.flush().await?;
    println!("{} rows, gsn {:?} to {:?}", stored.rows, stored.first_gsn, stored.last_gsn);
    writer.close().await?;
    assert_eq!(delivery.await?, stored);

    let producer = stratalog_client::Uuid::new_v4();
    let writer = client.writer("rooms").producer(producer).open().await?;
    let next = writer.last_sequence().map_or(1, |last| last + 1);
    let delivery = writer.write_numbered(next, batch).await?;
    assert_eq!(delivery.await?.rows, 1);

    let client = Client::builder()
        .url(url)
        .database("stratalog")
        .user("ann")
        .password("secret")
        .application_name("thermometer")
        .connections(4)
        .connect_timeout(std::time::Duration::from_secs(5))
        .connect()
        .await?;
    client.close().await;
    Ok(())
}

async fn native(url: &str) -> Result<(), Box<dyn Error>> {
    let log = Chronolog::connect(url).await?;
    log.create("events", Granularity::NANOSECOND, &Tags::new().set("retention", "90d")).await?;
    let events = log.acquire("events", Acquire::shared()).await?;

    let receipt = events.record(b"something happened").await?;
    println!("tick {:?}, position {:?}", receipt.tick, receipt.gsn);
    let receipts = events.record_batch(&["one", "two", "three"]).await?;
    let pending = events.append("pipelined").await?;
    events.flush().await?;
    println!("position {:?}", pending.await?.gsn);
    assert_eq!(receipts.len(), 3);

    let newest = events.playback(2).await?;
    println!("{newest:?}");
    let ranges = [Range::ticks(0..), Range::gsns(..=100)];
    let mut replay = events.replay(&ranges, Some("length(payload) < 5")).await?;
    while let Some(event) = replay.next().await {
        println!("{:?}", event?.payload);
    }

    let mut subscription = events.subscribe(Start::Beginning, None).await?;
    if let Some(Update::Event(event)) = subscription.next().await.transpose()? {
        println!("the first: {:?}", event.payload);
    }

    events.release().await?;
    log.disconnect().await;
    Ok(())
}

#[tokio::test]
async fn the_examples_do_what_they_say() {
    let server = Server::start();
    page(&server.url()).await.unwrap();
    assert_eq!(number(&server.client().await, "SELECT count(*) FROM rooms").await, 5);
    native(&server.url()).await.unwrap();
    assert_eq!(number(&server.client().await, "SELECT count(*) FROM events").await, 5);
}
