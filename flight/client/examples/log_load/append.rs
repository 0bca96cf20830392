//! Appenders, each with a window of unacknowledged events, and a subscriber that follows.
//!
//! ```text
//!          warm-up          measured            what is on its way
//!   begin ────────── from ══════════════ until ───────────────────► the last is acknowledged, and followed
//! ```

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::{Map, Value, json};
use stratalog_client::{Acquire, Chronicle, Chronolog, Durability, Pending, Start, Subscription};

use crate::{
    options::{Failure, Options},
    own::Own,
    record::{HEAD_BYTES, Head, Noise, event_of},
    samples::{Clock, Samples, nanoseconds},
};

/// The interval at which a follower without news checks for completion.
const POLL: Duration = Duration::from_millis(50);
/// A run fails if an event does not arrive this long after the last acknowledgement.
const CATCH_UP: Duration = Duration::from_secs(120);

pub(crate) async fn run(options: &Options) -> Result<Value, Failure> {
    let own = Own::create(options).await?;
    let found = measure(&own.log, &own.name, options).await;
    own.end(found).await
}

/// The state that all clients of a run share.
struct Load {
    clock: Clock,
    /// Only events between these two times are counted.
    from: u64,
    until: u64,
    size: usize,
    window: usize,
    durability: Durability,
    /// The number of events of all clients; unknown until all of them have ended.
    appended: AtomicU64,
}

impl Load {
    fn counts(&self, now: u64) -> bool {
        (self.from..self.until).contains(&now)
    }
}

/// The counts of one client, or of all clients.
#[derive(Default)]
struct Appended {
    events: u64,
    new_ticks: u64,
    times: Samples,
}

async fn measure(log: &Chronolog, name: &str, options: &Options) -> Result<Value, Failure> {
    let clients: u32 = options.get("clients", 8)?;
    let mut handles = Vec::new();
    for _ in 0..clients {
        handles.push(log.acquire(name, options.acquire()?).await?);
    }
    let reader = match options.get("tail", 1)? {
        0 => None,
        _ => Some(log.acquire(name, Acquire::shared()).await?),
    };
    let subscription = match &reader {
        Some(reader) => Some(reader.subscribe(Start::Beginning, None).await?),
        None => None,
    };
    let clock = Clock::start();
    let from = clock.now() + nanoseconds(options.seconds("warm-up", 2)?);
    let measured = options.seconds("seconds", 5)?;
    let load = Arc::new(Load {
        clock,
        from,
        until: from + nanoseconds(measured),
        size: options.get("size", 4096)?,
        window: options.get("window", 128)?,
        durability: options.durability()?,
        appended: AtomicU64::new(u64::MAX),
    });
    if load.size < HEAD_BYTES || load.window == 0 {
        return Err(format!("--size is {HEAD_BYTES} or more, and --window 1 or more").into());
    }
    let tail = subscription.map(|events| tokio::spawn(follow(events, clients, Arc::clone(&load))));
    let appending: Vec<_> = (0..)
        .zip(handles)
        .map(|(number, handle)| tokio::spawn(append(handle, number, Arc::clone(&load))))
        .collect();
    let mut all = Appended::default();
    for client in appending {
        let one = client.await??;
        all.events += one.events;
        all.new_ticks += one.new_ticks;
        all.times.append(one.times);
    }
    load.appended.store(all.events, Ordering::Release);
    let seconds = measured.as_secs_f64();
    let mut found = Map::new();
    found.insert("seconds".to_string(), json!(seconds));
    found.insert("records".to_string(), json!(all.events));
    found.insert("new_ticks".to_string(), json!(all.new_ticks));
    all.times.rate("append", seconds, &mut found);
    if let Some(tail) = tail {
        let tail = tokio::time::timeout(CATCH_UP, tail).await;
        let (mut tail, moved) = tail.map_err(|_| "the subscriber does not get all events")???;
        // Only events with a new tick may be out of order.
        if moved > all.new_ticks {
            return Err(format!("{moved} events are not in the order of their client").into());
        }
        tail.rate("tail", seconds, &mut found);
    }
    if let Some(reader) = reader {
        reader.release().await?;
    }
    Ok(found.into())
}

async fn append(chronicle: Chronicle, number: u32, load: Arc<Load>) -> Result<Appended, Failure> {
    let mut record = Noise::new(number).bytes(load.size);
    let mut waiting: VecDeque<(u64, Pending)> = VecDeque::with_capacity(load.window);
    let mut all = Appended::default();
    loop {
        if waiting.len() >= load.window {
            settle(&mut waiting, &mut all, &load).await?;
        }
        let began = load.clock.now();
        if began >= load.until {
            break;
        }
        Head { client: number, sequence: all.events, began }.write(&mut record);
        waiting.push_back((began, chronicle.append(&record).await?));
        all.events += 1;
    }
    while !waiting.is_empty() {
        settle(&mut waiting, &mut all, &load).await?;
    }
    chronicle.release().await?;
    Ok(all)
}

/// Waits for the oldest event in flight.
async fn settle(
    waiting: &mut VecDeque<(u64, Pending)>,
    all: &mut Appended,
    load: &Load,
) -> Result<(), Failure> {
    let Some((began, pending)) = waiting.pop_front() else { return Ok(()) };
    let receipt = pending.await?;
    let now = load.clock.now();
    if receipt.durability < Some(load.durability) {
        return Err(format!("acknowledged as {:?}", receipt.durability).into());
    }
    all.new_ticks += u64::from(receipt.new_ticks);
    if load.counts(now) {
        all.times.add(now - began);
    }
    Ok(())
}

/// Receives each event once, until all have arrived; counts the events that arrived after later
/// events of the same client.
async fn follow(
    mut events: Subscription,
    clients: u32,
    load: Arc<Load>,
) -> Result<(Samples, u64), Failure> {
    let mut seen: Vec<Vec<bool>> = (0..clients).map(|_| Vec::new()).collect();
    let (mut count, mut moved, mut times) = (0, 0, Samples::default());
    while count < load.appended.load(Ordering::Acquire) {
        let Ok(updates) = tokio::time::timeout(POLL, events.next_batch()).await else { continue };
        let updates = updates.ok_or("the subscription has ended")??;
        let now = load.clock.now();
        for update in updates {
            let event = event_of(update)?;
            let head = Head::read(&event.payload).ok_or("an event that is too short")?;
            let client = usize::try_from(head.client).ok().and_then(|client| seen.get_mut(client));
            let client = client.ok_or("an event of an unknown client")?;
            let at = usize::try_from(head.sequence)?;
            if client.len() <= at {
                client.resize(at + 1, false);
            } else {
                moved += 1;
            }
            match client.get_mut(at) {
                Some(once) if !*once => *once = true,
                _ => return Err(format!("event {at} of client {} came twice", head.client).into()),
            }
            count += 1;
            if load.counts(now) {
                times.add(now.saturating_sub(head.began));
            }
        }
    }
    Ok((times, moved))
}
