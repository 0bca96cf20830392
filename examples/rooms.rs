//! Writes temperatures and reads them back.
//!
//! `cargo run --release -p stratalog-client --example rooms [grpc://host:port]`

use std::{error::Error, sync::Arc};

use futures::TryStreamExt as _;
use stratalog_client::{
    Client,
    arrow::{
        array::{ArrayRef, Float64Array, RecordBatch, StringArray, TimestampNanosecondArray},
        util::pretty::pretty_format_batches,
    },
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "grpc://127.0.0.1:50051".to_string());
    run(&url).await
}

/// Runs the example against the server of `url`.
pub async fn run(url: &str) -> Result<(), Box<dyn Error>> {
    let client = Client::builder().url(url).application_name("rooms").connect().await?;
    let table = "CREATE TABLE IF NOT EXISTS rooms (time timestamptz NOT NULL, room text, degrees double precision)";
    client.execute(table).await?;

    let writer = client.writer("rooms").open().await?;
    for hour in 0..24 {
        writer.write(hour_of(hour)?).await?;
    }
    let stored = writer.close().await?;
    println!("{} rows, gsn {:?} to {:?}", stored.rows, stored.first_gsn, stored.last_gsn);

    let sql = "SELECT room, count(*), avg(degrees) FROM rooms WHERE degrees > $1 GROUP BY room ORDER BY room";
    let mut warm = client.query_with(sql, [15.0.into()]).await?;
    while let Some(batch) = warm.try_next().await? {
        println!("{}", pretty_format_batches(&[batch])?);
    }
    client.close().await;
    Ok(())
}

fn hour_of(hour: i64) -> stratalog_client::Result<RecordBatch> {
    let at = 1_704_067_200_000_000_000 + hour * 3_600_000_000_000;
    let time: ArrayRef =
        Arc::new(TimestampNanosecondArray::from(vec![at, at]).with_timezone("UTC"));
    let room: ArrayRef = Arc::new(StringArray::from(vec!["hall", "attic"]));
    let degrees: ArrayRef = Arc::new(Float64Array::from(vec![20.5, 8.0 + f64::from(hour as i32)]));
    Ok(RecordBatch::try_from_iter([("time", time), ("room", room), ("degrees", degrees)])?)
}
