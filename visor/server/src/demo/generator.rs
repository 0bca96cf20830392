//! Generates rows like the cpu-only use case of the benchmark TSBS: hosts with ten tags report ten
//! metrics at a fixed interval. The same seed gives the same rows on every machine, and with any
//! number of generators that share the hosts.

use std::{io::Write as _, sync::Arc};

use arrow::{
    array::{ArrayRef, Float64Array, RecordBatch, StringViewArray, TimestampNanosecondArray},
    datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit},
    error::ArrowError,
};

/// The tag columns; the first is the key column.
pub const TAGS: [&str; 10] = [
    "hostname",
    "region",
    "datacenter",
    "rack",
    "os",
    "arch",
    "team",
    "service",
    "service_version",
    "service_environment",
];

/// The metric columns.
pub const METRICS: [&str; 10] = [
    "usage_user",
    "usage_system",
    "usage_idle",
    "usage_nice",
    "usage_iowait",
    "usage_irq",
    "usage_softirq",
    "usage_steal",
    "usage_guest",
    "usage_guest_nice",
];

const REGIONS: [(&str, &[&str]); 5] = [
    ("eu-central-1", &["eu-central-1a", "eu-central-1b"]),
    ("eu-west-1", &["eu-west-1a", "eu-west-1b", "eu-west-1c"]),
    ("us-east-1", &["us-east-1a", "us-east-1b", "us-east-1c", "us-east-1e"]),
    ("us-west-2", &["us-west-2a", "us-west-2b", "us-west-2c"]),
    ("ap-northeast-1", &["ap-northeast-1a", "ap-northeast-1c"]),
];
const SYSTEMS: [&str; 3] = ["Ubuntu16.04LTS", "Ubuntu16.10", "Ubuntu15.10"];
const ARCHITECTURES: [&str; 2] = ["x64", "x86"];
const TEAMS: [&str; 4] = ["SF", "NYC", "LON", "CHI"];
const ENVIRONMENTS: [&str; 3] = ["production", "staging", "test"];

/// How many rows to generate, and the seed that determines their content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuShape {
    /// The number of hosts.
    pub hosts: usize,
    /// The number of reports of each host.
    pub steps: usize,
    /// The time of the first report in nanoseconds since 1970; whole seconds.
    pub start_ns: i64,
    /// The time between reports in nanoseconds; whole seconds.
    pub interval_ns: i64,
    /// The seed of all random numbers.
    pub seed: u64,
}

impl CpuShape {
    /// Total number of rows.
    pub fn rows(&self) -> u64 {
        self.hosts as u64 * self.steps as u64
    }

    /// The end of the last report's interval in nanoseconds since 1970.
    pub fn end_ns(&self) -> i64 {
        let steps = i64::try_from(self.steps).unwrap_or(i64::MAX);
        self.start_ns.saturating_add(steps.saturating_mul(self.interval_ns))
    }
}

/// The CREATE TABLE statement for the rows.
pub fn create_table(name: &str) -> String {
    let tags: Vec<String> = TAGS
        .iter()
        .map(|tag| format!("{tag} TEXT{}", if *tag == TAGS[0] { " NOT NULL" } else { "" }))
        .collect();
    let metrics: Vec<String> =
        METRICS.iter().map(|metric| format!("{metric} DOUBLE PRECISION")).collect();
    format!(
        "CREATE TABLE {name} (time TIMESTAMPTZ NOT NULL, {}, {}, PRIMARY KEY ({}, time))",
        tags.join(", "),
        metrics.join(", "),
        TAGS[0]
    )
}

/// The Arrow schema of [`CpuGenerator::next_batch`]: the columns of [`create_table`].
pub fn arrow_schema() -> SchemaRef {
    let time = DataType::Timestamp(TimeUnit::Nanosecond, Some(Arc::from("UTC")));
    let mut fields = vec![Field::new("time", time, false)];
    fields.extend(TAGS.iter().map(|tag| Field::new(*tag, DataType::Utf8View, *tag != TAGS[0])));
    fields.extend(METRICS.iter().map(|metric| Field::new(*metric, DataType::Float64, true)));
    Arc::new(Schema::new(fields))
}

/// A host: its tags, the current values of its metrics, and its random generator.
#[derive(Debug, Clone)]
struct Host {
    tags: [String; 10],
    /// The tags as they appear in a line of COPY, with a tab before and after.
    tag_text: Vec<u8>,
    metrics: [f64; 10],
    chance: Chance,
}

/// Generates the reports of the hosts, ordered by time and then by host.
#[derive(Debug, Clone)]
pub struct CpuGenerator {
    shape: CpuShape,
    hosts: Vec<Host>,
    step: usize,
}

impl CpuGenerator {
    /// Generates all rows of `shape`.
    pub fn new(shape: CpuShape) -> Self {
        Self::part(shape, 0, 1)
    }

    /// Generates only the rows of the hosts whose number is `part` modulo `parts`. All parts
    /// together give the rows of [`CpuGenerator::new`].
    pub fn part(shape: CpuShape, part: usize, parts: usize) -> Self {
        let hosts =
            (part..shape.hosts).step_by(parts.max(1)).map(|number| Host::new(shape.seed, number));
        Self { shape, hosts: hosts.collect(), step: 0 }
    }

    /// Appends the reports of the next `steps` points in time to `lines`, in COPY's text format.
    /// Returns the number of appended rows; 0 at the end.
    pub fn next_copy(&mut self, steps: usize, lines: &mut Vec<u8>) -> u64 {
        let mut rows = 0;
        for _ in 0..steps {
            let Some(time_ns) = self.advance() else { break };
            let time = chrono::DateTime::from_timestamp_nanos(time_ns)
                .format("%Y-%m-%d %H:%M:%S+00")
                .to_string();
            for host in &mut self.hosts {
                lines.extend_from_slice(time.as_bytes());
                lines.extend_from_slice(&host.tag_text);
                for (at, value) in host.walk().into_iter().enumerate() {
                    // A write to memory cannot fail.
                    let _ =
                        if at == 0 { write!(lines, "{value}") } else { write!(lines, "\t{value}") };
                }
                lines.push(b'\n');
                rows += 1;
            }
        }
        rows
    }

    /// The reports of the next `steps` points in time as a batch; `None` at the end.
    ///
    /// # Errors
    /// None in practice: the columns fit the schema.
    pub fn next_batch(&mut self, steps: usize) -> Result<Option<RecordBatch>, ArrowError> {
        let rows = steps.saturating_mul(self.hosts.len());
        let mut times = Vec::with_capacity(rows);
        let mut tags: Vec<Vec<String>> = vec![Vec::with_capacity(rows); TAGS.len()];
        let mut metrics: Vec<Vec<f64>> = vec![Vec::with_capacity(rows); METRICS.len()];
        for _ in 0..steps {
            let Some(time_ns) = self.advance() else { break };
            for host in &mut self.hosts {
                times.push(time_ns);
                let values = host.walk();
                for (column, tag) in tags.iter_mut().zip(&host.tags) {
                    column.push(tag.clone());
                }
                for (column, value) in metrics.iter_mut().zip(values) {
                    column.push(f64::from(value));
                }
            }
        }
        if times.is_empty() {
            return Ok(None);
        }
        let times = TimestampNanosecondArray::from(times).with_timezone("UTC");
        let mut columns: Vec<ArrayRef> = vec![Arc::new(times)];
        for tag in tags {
            columns.push(Arc::new(StringViewArray::from_iter_values(tag)));
        }
        for metric in metrics {
            columns.push(Arc::new(Float64Array::from(metric)));
        }
        RecordBatch::try_new(arrow_schema(), columns).map(Some)
    }

    /// Moves to the next point in time; returns it in nanoseconds since 1970, or `None` at the end.
    fn advance(&mut self) -> Option<i64> {
        if self.step >= self.shape.steps {
            return None;
        }
        let step = i64::try_from(self.step).ok()?;
        self.step += 1;
        self.shape.start_ns.checked_add(step.checked_mul(self.shape.interval_ns)?)
    }
}

impl Host {
    fn new(seed: u64, number: usize) -> Self {
        let mut chance = Chance(seed ^ (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        chance.bits();
        let (region, datacenters) = chance.pick(&REGIONS).copied().unwrap_or(("", &[]));
        let tags = [
            format!("host_{number}"),
            region.to_string(),
            chance.pick(datacenters).copied().unwrap_or("").to_string(),
            chance.below(100).to_string(),
            chance.pick(&SYSTEMS).copied().unwrap_or("").to_string(),
            chance.pick(&ARCHITECTURES).copied().unwrap_or("").to_string(),
            chance.pick(&TEAMS).copied().unwrap_or("").to_string(),
            chance.below(20).to_string(),
            chance.below(2).to_string(),
            chance.pick(&ENVIRONMENTS).copied().unwrap_or("").to_string(),
        ];
        let metrics = std::array::from_fn(|_| chance.below(101) as f64);
        let mut tag_text = vec![b'\t'];
        for tag in &tags {
            tag_text.extend_from_slice(tag.as_bytes());
            tag_text.push(b'\t');
        }
        Self { tags, tag_text, metrics, chance }
    }

    /// Moves each metric one step of a random walk between 0 and 100. The values are integers, so
    /// that their sum is exact as a double in any order of summation.
    fn walk(&mut self) -> [u8; 10] {
        let mut values = [0; 10];
        for (metric, value) in self.metrics.iter_mut().zip(&mut values) {
            *metric = (*metric + self.chance.bell()).clamp(0.0, 100.0);
            *value = *metric as u8;
        }
        values
    }
}

/// SplitMix64: a small random generator with the same numbers on every machine.
#[derive(Debug, Clone)]
pub struct Chance(pub u64);

impl Chance {
    /// The next 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A random number below `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        let wide = u128::from(self.bits()) * u128::from(end);
        u64::try_from(wide >> 64).unwrap_or(0)
    }

    /// A random element of `items`.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        let at = self.below(items.len() as u64);
        items.get(usize::try_from(at).ok()?)
    }

    /// A random number with about a normal distribution, mean 0 and standard deviation 1. Computed
    /// from the number of ones in 64 random bits.
    fn bell(&mut self) -> f64 {
        (f64::from(self.bits().count_ones()) - 32.0) / 4.0
    }
}

#[cfg(test)]
mod tests;
