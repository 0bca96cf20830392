//! The fifteen query types of the benchmark TSBS for the cpu-only use case, in Stratalog's SQL.

use super::generator::{Chance, CpuShape, METRICS};

const HOUR_NS: i64 = 3_600_000_000_000;

/// A query type of TSBS, which can generate queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueryType {
    /// The name of the type in TSBS.
    pub name: &'static str,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The maxima of some metrics per minute, over some hosts and hours.
    SingleGroupBy { metrics: usize, hosts: usize, hours: i64 },
    /// The maxima of all metrics per hour, over some hosts and eight hours.
    MaxAll { hosts: usize },
    /// The means of some metrics per hour and host, over twelve hours.
    DoubleGroupBy { metrics: usize },
    /// The rows with a usage above 90, of one host or of all hosts, over twelve hours.
    HighCpu { hosts: usize },
    /// The last row of every host.
    LastPoint,
    /// The maxima of the last five minutes before a point in time.
    GroupByOrderByLimit,
}

const fn single(name: &'static str, metrics: usize, hosts: usize, hours: i64) -> QueryType {
    QueryType { name, kind: Kind::SingleGroupBy { metrics, hosts, hours } }
}

/// All types, in TSBS's order.
pub const QUERY_TYPES: [QueryType; 15] = [
    single("single-groupby-1-1-1", 1, 1, 1),
    single("single-groupby-1-1-12", 1, 1, 12),
    single("single-groupby-1-8-1", 1, 8, 1),
    single("single-groupby-5-1-1", 5, 1, 1),
    single("single-groupby-5-1-12", 5, 1, 12),
    single("single-groupby-5-8-1", 5, 8, 1),
    QueryType { name: "cpu-max-all-1", kind: Kind::MaxAll { hosts: 1 } },
    QueryType { name: "cpu-max-all-8", kind: Kind::MaxAll { hosts: 8 } },
    QueryType { name: "double-groupby-1", kind: Kind::DoubleGroupBy { metrics: 1 } },
    QueryType { name: "double-groupby-5", kind: Kind::DoubleGroupBy { metrics: 5 } },
    QueryType { name: "double-groupby-all", kind: Kind::DoubleGroupBy { metrics: 10 } },
    QueryType { name: "high-cpu-all", kind: Kind::HighCpu { hosts: 0 } },
    QueryType { name: "high-cpu-1", kind: Kind::HighCpu { hosts: 1 } },
    QueryType { name: "lastpoint", kind: Kind::LastPoint },
    QueryType { name: "groupby-orderby-limit", kind: Kind::GroupByOrderByLimit },
];

impl QueryType {
    /// A short description of the query.
    pub fn description(&self) -> String {
        let some = |count: usize, what: &str| match count {
            1 => format!("1 {what}"),
            _ => format!("{count} {what}s"),
        };
        match self.kind {
            Kind::SingleGroupBy { metrics, hosts, hours } => {
                format!("{}, {}, {hours} h", some(metrics, "metric"), some(hosts, "host"))
            }
            Kind::MaxAll { hosts } => {
                format!("{}, {}, 8 h", some(METRICS.len(), "metric"), some(hosts, "host"))
            }
            Kind::DoubleGroupBy { metrics } => {
                format!("{}, every host, 12 h", some(metrics, "metric"))
            }
            Kind::HighCpu { hosts: 0 } => "all rows above 90, 12 h".to_string(),
            Kind::HighCpu { hosts } => format!("the same of {}", some(hosts, "host")),
            Kind::LastPoint => "last row of every host".to_string(),
            Kind::GroupByOrderByLimit => "maxima of 5 last minutes".to_string(),
        }
    }

    /// Generates a query of this type for the table `cpu` with rows of `shape`. `chance` chooses
    /// hosts and times.
    pub fn sql(&self, shape: &CpuShape, chance: &mut Chance) -> String {
        match self.kind {
            Kind::SingleGroupBy { metrics, hosts, hours } => format!(
                "SELECT time_bucket(INTERVAL '1 minute', time) AS minute, {} FROM cpu \
                 WHERE {} AND {} GROUP BY minute ORDER BY minute",
                aggregates("max", metrics),
                host_filter(shape, hosts, chance),
                window(shape, hours, chance),
            ),
            Kind::MaxAll { hosts } => format!(
                "SELECT time_bucket(INTERVAL '1 hour', time) AS hour, {} FROM cpu \
                 WHERE {} AND {} GROUP BY hour ORDER BY hour",
                aggregates("max", METRICS.len()),
                host_filter(shape, hosts, chance),
                window(shape, 8, chance),
            ),
            Kind::DoubleGroupBy { metrics } => format!(
                "SELECT time_bucket(INTERVAL '1 hour', time) AS hour, hostname, {} FROM cpu \
                 WHERE {} GROUP BY hour, hostname ORDER BY hour, hostname",
                aggregates("avg", metrics),
                window(shape, 12, chance),
            ),
            Kind::HighCpu { hosts: 0 } => format!(
                "SELECT * FROM cpu WHERE usage_user > 90.0 AND {}",
                window(shape, 12, chance)
            ),
            Kind::HighCpu { hosts } => format!(
                "SELECT * FROM cpu WHERE usage_user > 90.0 AND {} AND {}",
                window(shape, 12, chance),
                host_filter(shape, hosts, chance),
            ),
            Kind::LastPoint => {
                "SELECT DISTINCT ON (hostname) * FROM cpu ORDER BY hostname, time DESC".to_string()
            }
            Kind::GroupByOrderByLimit => format!(
                "SELECT time_bucket(INTERVAL '1 minute', time) AS minute, max(usage_user) FROM cpu \
                 WHERE time < TIMESTAMPTZ '{}' GROUP BY minute ORDER BY minute DESC LIMIT 5",
                timestamp(start_of_window(shape, 1, chance) + HOUR_NS),
            ),
        }
    }
}

fn aggregates(function: &str, metrics: usize) -> String {
    let each: Vec<String> = METRICS
        .iter()
        .take(metrics)
        .map(|metric| format!("{function}({metric}) AS {function}_{metric}"))
        .collect();
    each.join(", ")
}

fn host_filter(shape: &CpuShape, hosts: usize, chance: &mut Chance) -> String {
    let mut chosen = std::collections::BTreeSet::new();
    while chosen.len() < hosts.min(shape.hosts) {
        chosen.insert(chance.below(shape.hosts as u64));
    }
    let names: Vec<String> = chosen.iter().map(|number| format!("'host_{number}'")).collect();
    format!("hostname IN ({})", names.join(", "))
}

fn window(shape: &CpuShape, hours: i64, chance: &mut Chance) -> String {
    let start = start_of_window(shape, hours, chance);
    format!(
        "time >= TIMESTAMPTZ '{}' AND time < TIMESTAMPTZ '{}'",
        timestamp(start),
        timestamp(start + hours * HOUR_NS)
    )
}

/// A random time in whole seconds, such that the data covers at least `hours` hours after it.
fn start_of_window(shape: &CpuShape, hours: i64, chance: &mut Chance) -> i64 {
    let room = (shape.end_ns() - shape.start_ns - hours * HOUR_NS).max(0) / 1_000_000_000;
    let offset = chance.below(u64::try_from(room + 1).unwrap_or(1));
    shape.start_ns + i64::try_from(offset).unwrap_or(0) * 1_000_000_000
}

/// Nanoseconds since 1970 as the text of a timestamp literal.
pub fn timestamp(ns: i64) -> String {
    chrono::DateTime::from_timestamp_nanos(ns).format("%Y-%m-%d %H:%M:%S+00").to_string()
}
