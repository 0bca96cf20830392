//! Many subscribers, and the delivery time of each event to each subscriber.
//!
//! ```text
//!   begun ─► durable ─► acknowledged
//!               └─► delivered to 1, 2, … n
//! ```

use std::time::Duration;

use serde_json::{Map, Value, json};
use stratalog_client::{Acquire, Chronicle, Chronolog, Durability, Start, Subscription};
use tokio::time::MissedTickBehavior;

use crate::{
    options::{Failure, Options},
    own::Own,
    record::{HEAD_BYTES, Head, Noise, event_of},
    samples::{Clock, Samples},
};

/// A run fails if an event is not delivered this long after the last acknowledgement.
const LEFT: Duration = Duration::from_secs(60);

pub(crate) async fn run(options: &Options) -> Result<Value, Failure> {
    let own = Own::create(options).await?;
    let found = measure(&own.log, &own.name, options).await;
    own.end(found).await
}

async fn measure(log: &Chronolog, name: &str, options: &Options) -> Result<Value, Failure> {
    let subscribers: usize = options.get("subscribers", 1000)?;
    // A connection can carry some hundreds of calls, so the subscribers need several handles.
    let handles: usize = options.get("handles", 20)?;
    let interval = Duration::from_millis(options.get("interval-ms", 100)?);
    let measured = options.seconds("seconds", 10)?;
    let events = usize::try_from(measured.as_millis() / interval.as_millis().max(1))?;
    let size = options.get("size", 100_usize)?.max(HEAD_BYTES);
    let clock = Clock::start();
    let mut following = Vec::with_capacity(subscribers);
    for handle in 0..handles {
        let chronicle = log.acquire(name, Acquire::shared()).await?;
        let share = subscribers * (handle + 1) / handles - subscribers * handle / handles;
        for _ in 0..share {
            let subscription = chronicle.subscribe(Start::Live, None).await?;
            following.push(tokio::spawn(follow(subscription, clock, events)));
        }
    }
    let recorder = log.acquire(name, options.acquire()?).await?;
    let sent = record(recorder, clock, interval, (events, size, options.durability()?)).await?;
    let deliveries = async {
        let mut all = Vec::with_capacity(subscribers);
        for one in following {
            all.push(one.await??);
        }
        Ok::<_, Failure>(all)
    };
    let deliveries = tokio::time::timeout(LEFT, deliveries).await;
    let deliveries = deliveries.map_err(|_| "some events were not delivered")??;
    let (mut durable, mut since_durable, mut since_begun) =
        (Samples::default(), Samples::default(), Samples::default());
    for (begun, acknowledged) in &sent {
        durable.add(acknowledged - begun);
    }
    for (arrived, (begun, acknowledged)) in deliveries.iter().flat_map(|all| all.iter().zip(&sent))
    {
        since_durable.add(arrived.saturating_sub(*acknowledged));
        since_begun.add(arrived.saturating_sub(*begun));
    }
    let mut found = Map::new();
    found.insert("subscribers".to_string(), json!(deliveries.len()));
    found.insert("events".to_string(), json!(sent.len()));
    durable.times("append", &mut found);
    since_durable.times("after_durable", &mut found);
    since_begun.times("after_begun", &mut found);
    Ok(found.into())
}

/// Records events; returns the start time and the acknowledgement time of each.
async fn record(
    chronicle: Chronicle,
    clock: Clock,
    interval: Duration,
    (events, size, durability): (usize, usize, Durability),
) -> Result<Vec<(u64, u64)>, Failure> {
    let mut payload = Noise::new(0).bytes(size);
    let mut every = tokio::time::interval(interval.max(Duration::from_millis(1)));
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut sent = Vec::with_capacity(events);
    for sequence in (0..).take(events) {
        every.tick().await;
        let began = clock.now();
        Head { client: 0, sequence, began }.write(&mut payload);
        let receipt = chronicle.record(&payload).await?;
        sent.push((began, clock.now()));
        if receipt.durability < Some(durability) {
            return Err(format!("acknowledged as {:?}", receipt.durability).into());
        }
    }
    chronicle.release().await?;
    Ok(sent)
}

/// Follows the chronicle; returns the arrival time of each event.
async fn follow(
    mut subscription: Subscription,
    clock: Clock,
    events: usize,
) -> Result<Vec<u64>, Failure> {
    let mut arrived = Vec::with_capacity(events);
    while arrived.len() < events {
        let updates = subscription.next_batch().await.ok_or("the subscription has ended")??;
        let now = clock.now();
        for update in updates {
            let event = event_of(update)?;
            let head = Head::read(&event.payload).ok_or("an event that is too short")?;
            if usize::try_from(head.sequence)? != arrived.len() {
                return Err(format!("event {} and not {}", head.sequence, arrived.len()).into());
            }
            arrived.push(now);
        }
    }
    Ok(arrived)
}
