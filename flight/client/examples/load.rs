//! Measures the rows per second that a writer stores.
//!
//! `cargo run --release -p stratalog-client --example load [grpc://host:port [rows [rows of a batch [writers]]]]`

use std::{error::Error, sync::Arc, time::Instant};

use stratalog_client::{
    Client, Durability,
    arrow::array::{ArrayRef, Float64Array, RecordBatch, StringArray, TimestampNanosecondArray},
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut given = std::env::args().skip(1);
    let url = given.next().unwrap_or_else(|| "grpc://127.0.0.1:50051".to_string());
    let mut number =
        |default: usize| given.next().map_or(Ok(default), |text| text.parse::<usize>());
    let (rows, batch_rows, writers) =
        (number(2_000_000)?, number(10_000)?.max(1), number(1)?.max(1));
    let client = Client::builder().url(url).connections(writers.min(64)).connect().await?;
    for durability in [Durability::Disk, Durability::Relaxed] {
        client.execute("DROP TABLE IF EXISTS client_load").await?;
        let table = "CREATE TABLE client_load (time timestamptz NOT NULL, host text, usage double precision, load double precision)";
        client.execute(table).await?;
        let started = Instant::now();
        let share = rows / writers;
        let writing = (0..writers).map(|at| {
            let client = client.clone();
            tokio::spawn(async move {
                let writer = client.writer("client_load").durability(durability).open().await?;
                for start in (0..share).step_by(batch_rows) {
                    let first = at * share + start;
                    writer.write(batch(first, batch_rows.min(share - start))?).await?;
                }
                writer.close().await
            })
        });
        let mut stored = 0;
        for writing in writing.collect::<Vec<_>>() {
            stored += writing.await??.rows;
        }
        let seconds = started.elapsed().as_secs_f64();
        println!(
            "{durability}: {stored} rows in batches of {batch_rows} by {writers} writers: {:.0} rows/s",
            stored as f64 / seconds
        );
    }
    client.execute("DROP TABLE client_load").await?;
    client.close().await;
    Ok(())
}

fn batch(first: usize, rows: usize) -> stratalog_client::Result<RecordBatch> {
    let numbers = first as i64..(first + rows) as i64;
    let time = numbers.clone().map(|number| 1_704_067_200_000_000_000 + number * 1_000_000);
    let time: ArrayRef =
        Arc::new(TimestampNanosecondArray::from_iter_values(time).with_timezone("UTC"));
    let hosts = numbers.clone().map(|number| format!("host_{}", number % 100));
    let host: ArrayRef = Arc::new(StringArray::from_iter_values(hosts));
    let usage: ArrayRef =
        Arc::new(Float64Array::from_iter_values(numbers.clone().map(|n| (n % 1000) as f64 / 10.0)));
    let load: ArrayRef =
        Arc::new(Float64Array::from_iter_values(numbers.map(|n| n as f64 * 0.001)));
    Ok(RecordBatch::try_from_iter([
        ("time", time),
        ("host", host),
        ("usage", usage),
        ("load", load),
    ])?)
}
