//! A key-value store on a chronicle: every put is an event, and the newest event of a key is its value.
//!
//! ```text
//!   put, delete ─► record ─► chronicle ─► subscription ─► a map in memory ─► get
//! ```
//! Any number of processes have the same store: each process reads the same events in the same
//! order. A new process reads all events from the beginning and reaches the same state.
//!
//! `cargo run -p stratalog-client --example key_value_store [chronolog://host:port]`

use std::{collections::BTreeMap, error::Error};

use stratalog_client::{
    Acquire, Chronicle, Chronolog, Event, Granularity, Start, Subscription, Tags, Update,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1);
    run(&url.unwrap_or_else(|| "chronolog://127.0.0.1:50051".to_string())).await
}

/// Runs two stores that share a chronicle, as two processes would.
///
/// # Errors
/// Errors of the server.
pub async fn run(url: &str) -> Result<(), Box<dyn Error>> {
    let log = Chronolog::connect(url).await?;
    // The chronicle exists already if another process has created it.
    if let Err(error) = log.create("settings", Granularity::NANOSECOND, &Tags::new()).await
        && error.sqlstate() != Some("42P07")
    {
        return Err(error.into());
    }
    let mut here = Store::open(&log, "settings").await?;
    let mut there = Store::open(&log, "settings").await?;
    here.put("colour", "green").await?;
    here.put("shape", "round").await?;
    there.put("colour", "blue").await?;
    here.delete("shape").await?;
    // Both stores see all earlier events.
    for store in [&mut here, &mut there] {
        let (colour, shape) = (store.get("colour").await?, store.get("shape").await?);
        println!("colour {colour:?}, shape {shape:?}");
        if colour.as_deref() != Some("blue") || shape.is_some() {
            return Err("the stores differ".into());
        }
    }
    here.close().await?;
    there.close().await?;
    log.disconnect().await;
    Ok(())
}

/// The store of one process.
struct Store {
    chronicle: Chronicle,
    events: Subscription,
    values: BTreeMap<String, String>,
    applied: u64,
}

impl Store {
    async fn open(log: &Chronolog, name: &str) -> stratalog_client::Result<Self> {
        let chronicle = log.acquire(name, Acquire::shared()).await?;
        let events = chronicle.subscribe(Start::Beginning, None).await?;
        Ok(Self { chronicle, events, values: BTreeMap::new(), applied: 0 })
    }

    async fn put(&mut self, key: &str, value: &str) -> Result<(), Box<dyn Error>> {
        self.write(&format!("{key}={value}")).await
    }

    async fn delete(&mut self, key: &str) -> Result<(), Box<dyn Error>> {
        self.write(key).await
    }

    /// The value of a key after all earlier puts of all processes. Writes a marker event to the
    /// log, and applies all events before the marker.
    async fn get(&mut self, key: &str) -> Result<Option<String>, Box<dyn Error>> {
        self.write("").await?;
        Ok(self.values.get(key).cloned())
    }

    async fn write(&mut self, payload: &str) -> Result<(), Box<dyn Error>> {
        let receipt = self.chronicle.record(payload).await?;
        match receipt.gsn {
            Some(gsn) => self.catch_up(gsn).await,
            // The acknowledgement was lost with its connection, although the event was stored:
            // write another marker.
            None => Box::pin(self.write("")).await,
        }
    }

    async fn catch_up(&mut self, gsn: u64) -> Result<(), Box<dyn Error>> {
        while self.applied < gsn {
            match self.events.next().await.ok_or("the subscription has ended")?? {
                Update::Event(event) => self.apply(&event)?,
                Update::Gap { what, .. } => return Err(format!("puts are missing: {what}").into()),
            }
        }
        Ok(())
    }

    fn apply(&mut self, event: &Event) -> Result<(), Box<dyn Error>> {
        let payload = std::str::from_utf8(&event.payload)?;
        match payload.split_once('=') {
            Some((key, value)) => drop(self.values.insert(key.to_string(), value.to_string())),
            None => drop(self.values.remove(payload)),
        }
        self.applied = event.gsn;
        Ok(())
    }

    async fn close(self) -> stratalog_client::Result<()> {
        self.chronicle.release().await
    }
}
