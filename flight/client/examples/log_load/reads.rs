//! Reads: the newest events again and again, or all events in either order.

use std::{sync::Arc, time::Instant};

use serde_json::{Map, Value, json};
use stratalog_client::{Acquire, Chronicle, Range, Start};

use crate::{
    options::{Failure, Options},
    record::event_of,
    samples::{Clock, Samples, nanoseconds},
};

/// Several clients read the newest events at the same time.
pub(crate) async fn playback(options: &Options) -> Result<Value, Failure> {
    let name = options.chronicle()?;
    let count: usize = options.get("count", 1000)?;
    let clients: usize = options.get("clients", 8)?;
    let log = options.connect().await?;
    let mut handles = Vec::new();
    for _ in 0..clients {
        handles.push(log.acquire(&name, Acquire::shared()).await?);
    }
    let clock = Clock::start();
    let from = nanoseconds(options.seconds("warm-up", 1)?);
    let measured = options.seconds("seconds", 5)?;
    let counted = Arc::new((from, from + nanoseconds(measured), count));
    let asking: Vec<_> = handles
        .into_iter()
        .map(|handle| tokio::spawn(ask(handle, clock, Arc::clone(&counted))))
        .collect();
    let mut all = Samples::default();
    for one in asking {
        all.append(one.await??);
    }
    log.disconnect().await;
    let mut found = Map::new();
    all.rate("call", measured.as_secs_f64(), &mut found);
    let calls = found.get("call_per_second").and_then(Value::as_f64).unwrap_or(0.0);
    found.insert("events_per_second".to_string(), json!(calls * count as f64));
    Ok(found.into())
}

async fn ask(
    chronicle: Chronicle,
    clock: Clock,
    counted: Arc<(u64, u64, usize)>,
) -> Result<Samples, Failure> {
    let (from, until, count) = *counted;
    let mut times = Samples::default();
    loop {
        let began = clock.now();
        if began >= until {
            break;
        }
        let found = chronicle.playback(count).await?.len();
        if found != count {
            return Err(format!("{found} events of {count}").into());
        }
        let now = clock.now();
        if (from..until).contains(&now) {
            times.add(now - began);
        }
    }
    chronicle.release().await?;
    Ok(times)
}

/// Reads all events in the order of ticks.
pub(crate) async fn replay(options: &Options) -> Result<Value, Failure> {
    let log = options.connect().await?;
    let chronicle = log.acquire(&options.chronicle()?, Acquire::shared()).await?;
    let mut pass = Pass::begin();
    let mut replay = chronicle.replay(&[Range::all()], None).await?;
    while let Some(events) = replay.next_batch().await {
        for event in events? {
            pass.add(event.tick, event.payload.len())?;
        }
    }
    let found = pass.end(options.get("events", 0)?);
    log.disconnect().await;
    found
}

/// Reads all existing events in the order of commits.
pub(crate) async fn catch_up(options: &Options) -> Result<Value, Failure> {
    let wanted: u64 = options.get("events", 0)?;
    let log = options.connect().await?;
    let chronicle = log.acquire(&options.chronicle()?, Acquire::shared()).await?;
    let mut pass = Pass::begin();
    let mut subscription = chronicle.subscribe(Start::Beginning, None).await?;
    while pass.events < wanted {
        let updates = subscription.next_batch().await.ok_or("the subscription has ended")??;
        for update in updates {
            let event = event_of(update)?;
            pass.add(i64::try_from(event.gsn)?, event.payload.len())?;
        }
    }
    let found = pass.end(wanted);
    drop(subscription);
    log.disconnect().await;
    found
}

/// Checks that events arrive in order, and each once.
struct Pass {
    started: Instant,
    last: i64,
    events: u64,
    bytes: usize,
}

impl Pass {
    fn begin() -> Self {
        Self { started: Instant::now(), last: i64::MIN, events: 0, bytes: 0 }
    }

    fn add(&mut self, position: i64, bytes: usize) -> Result<(), Failure> {
        if position < self.last {
            return Err(format!("{position} came behind {}", self.last).into());
        }
        self.last = position;
        self.events += 1;
        self.bytes += bytes;
        Ok(())
    }

    fn end(self, wanted: u64) -> Result<Value, Failure> {
        let seconds = self.started.elapsed().as_secs_f64();
        if self.events != wanted {
            return Err(format!("{} events of {wanted}", self.events).into());
        }
        Ok(json!({
            "events": self.events,
            "bytes": self.bytes,
            "seconds": seconds,
            "events_per_second": self.events as f64 / seconds,
            "bytes_per_second": self.bytes as f64 / seconds,
        }))
    }
}
