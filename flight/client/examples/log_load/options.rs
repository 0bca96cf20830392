//! Command-line options: `--name value` …

use std::{collections::HashMap, error::Error, str::FromStr, time::Duration};

use stratalog_client::{Acquire, Chronolog, Durability, Granularity, Tags, TickSource};

pub(crate) type Failure = Box<dyn Error + Send + Sync>;

const NAMES: [&str; 18] = [
    "server",
    "work",
    "chronicle",
    "size",
    "clients",
    "window",
    "warm-up",
    "seconds",
    "durability",
    "time-source",
    "tail",
    "events",
    "count",
    "subscribers",
    "handles",
    "interval-ms",
    "threads",
    "directory",
];

#[derive(Debug)]
pub(crate) struct Options {
    given: HashMap<String, String>,
}

impl Options {
    pub(crate) fn read(mut words: impl Iterator<Item = String>) -> Result<Self, Failure> {
        let mut given = HashMap::new();
        while let Some(word) = words.next() {
            let name = word.strip_prefix("--").filter(|name| NAMES.contains(name));
            let name = name.ok_or_else(|| format!("{word}: there are --{}", NAMES.join(", --")))?;
            let value = words.next().ok_or_else(|| format!("{word} has no value"))?;
            given.insert(name.to_string(), value);
        }
        Ok(Self { given })
    }

    pub(crate) fn text(&self, name: &str, otherwise: &str) -> String {
        self.given.get(name).map_or_else(|| otherwise.to_string(), String::clone)
    }

    pub(crate) fn get<T: FromStr>(&self, name: &str, otherwise: T) -> Result<T, Failure> {
        match self.given.get(name) {
            Some(text) => text.parse().map_err(|_| format!("--{name} {text} cannot be").into()),
            None => Ok(otherwise),
        }
    }

    pub(crate) fn seconds(&self, name: &str, otherwise: u64) -> Result<Duration, Failure> {
        Ok(Duration::from_secs(self.get(name, otherwise)?))
    }

    /// The name of the existing chronicle (`--chronicle`).
    pub(crate) fn chronicle(&self) -> Result<String, Failure> {
        Ok(self.given.get("chronicle").ok_or("--chronicle is missing")?.clone())
    }

    pub(crate) async fn connect(&self) -> Result<Chronolog, Failure> {
        Ok(Chronolog::connect(self.text("server", "chronolog://127.0.0.1:50051")).await?)
    }

    /// Makes a chronicle of raw events.
    pub(crate) async fn create(&self, log: &Chronolog, name: &str) -> Result<(), Failure> {
        let tags = Tags::new().time_source(self.get("time-source", TickSource::Client)?);
        Ok(log.create(name, Granularity::NANOSECOND, &tags).await?)
    }

    pub(crate) fn durability(&self) -> Result<Durability, Failure> {
        self.get("durability", Durability::Disk)
    }

    /// The options with which appenders acquire the chronicle.
    pub(crate) fn acquire(&self) -> Result<Acquire, Failure> {
        Ok(Acquire::shared().durability(self.durability()?))
    }
}
