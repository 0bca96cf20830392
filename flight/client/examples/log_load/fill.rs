//! Fills a chronicle with events for reading.

use std::time::Instant;

use serde_json::{Value, json};
use stratalog_client::Chronicle;

use crate::{
    options::{Failure, Options},
    record::Noise,
};

/// Limits of a batch, which is stored atomically.
const BATCH_EVENTS_MAX: usize = 10_000;
const BATCH_BYTES_MAX: usize = 3 << 20;

pub(crate) async fn run(options: &Options) -> Result<Value, Failure> {
    let name = options.chronicle()?;
    let (events, size) = (options.get("events", 100_000)?, options.get("size", 4096_usize)?);
    let clients: u32 = options.get("clients", 2)?;
    let log = options.connect().await?;
    options.create(&log, &name).await?;
    let started = Instant::now();
    let mut filling = Vec::new();
    for number in 0..clients {
        let handle = log.acquire(&name, options.acquire()?).await?;
        let share = share(events, number, clients)?;
        filling.push(tokio::spawn(fill(handle, Noise::new(number), share, size)));
    }
    for one in filling {
        one.await??;
    }
    let seconds = started.elapsed().as_secs_f64();
    log.disconnect().await;
    Ok(json!({ "events": events, "events_per_second": events as f64 / seconds }))
}

/// The number of events that this client must write.
fn share(events: usize, number: u32, clients: u32) -> Result<usize, Failure> {
    let (number, clients) = (usize::try_from(number)?, usize::try_from(clients)?);
    Ok(events * (number + 1) / clients - events * number / clients)
}

async fn fill(
    chronicle: Chronicle,
    mut noise: Noise,
    events: usize,
    size: usize,
) -> Result<(), Failure> {
    let batch = (BATCH_BYTES_MAX / size.max(1)).clamp(1, BATCH_EVENTS_MAX);
    let mut left = events;
    while left > 0 {
        let rows = left.min(batch);
        let payloads: Vec<Vec<u8>> = (0..rows).map(|_| noise.bytes(size)).collect();
        chronicle.record_batch(&payloads).await?;
        left -= rows;
    }
    chronicle.release().await?;
    Ok(())
}
