//! Benchmark: parses lines into record batches on one core, as TSBS and agents write them. Also
//! runs only the reference's parser on the same lines.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs,
    dead_code,
    reason = "helpers of tests and benches fail as tests do, and use real files and clocks"
)]

#[path = "../tests/it/fixture.rs"]
mod fixture;

use std::{fmt::Write as _, hint::black_box};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use fixture::{Catalog, REQUEST};
use stratalog_line::{LineLimits, LineParser};

const HOSTS: u64 = 1_000;
const ROWS: u64 = 50_000;

/// Rows of a batch, as the server uses it.
const BATCH_ROWS: usize = 8_192;

/// Pseudo-random numbers.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        self.0 >> 11
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn float(&mut self) -> f64 {
        self.next() as f64 / (1_u64 << 53) as f64
    }
}

const USAGES: [&str; 10] =
    ["user", "system", "idle", "nice", "iowait", "irq", "softirq", "steal", "guest", "guest_nice"];

fn cpu_tags(text: &mut String, host: u64) {
    let _ = write!(
        text,
        "cpu,hostname=host_{host},region=eu-central-1,datacenter=eu-central-1a,rack={},os=Ubuntu15.10,arch=x86,team=SF,service={},service_version=1,service_environment=test ",
        host % 100,
        host % 20,
    );
}

fn stamp(row: u64) -> u64 {
    1_451_606_400_000_000_000 + row / HOSTS * 10_000_000_000
}

/// Lines of TSBS's cpu-only: ten numbers below 100 for each of `hosts` hosts in turn.
fn tsbs(hosts: u64, value: impl Fn(&mut Noise) -> String) -> String {
    let mut noise = Noise(1);
    let mut text = String::new();
    for row in 0..ROWS {
        cpu_tags(&mut text, row % hosts);
        for (at, usage) in USAGES.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            let _ = write!(text, "{comma}usage_{usage}={}", value(&mut noise));
        }
        let _ = writeln!(text, " {}", stamp(row));
    }
    text
}

/// Lines of sensors: one tag, and one or two fields.
fn sensors() -> String {
    let mut noise = Noise(2);
    let mut text = String::new();
    for row in 0..ROWS {
        let sensor = row % HOSTS;
        let celsius = noise.float() * 40.0;
        let _ = match row % 2 {
            0 => writeln!(text, "climate,sensor=s{sensor} celsius={celsius:.2} {}", stamp(row)),
            _ => writeln!(
                text,
                "power,sensor=s{sensor},phase=L{} watts={celsius:.1},on=t {}",
                sensor % 3,
                stamp(row)
            ),
        };
    }
    text
}

/// Lines with a string of some words beside two numbers.
fn logs() -> String {
    let mut noise = Noise(3);
    let mut text = String::new();
    for row in 0..ROWS {
        let _ = writeln!(
            text,
            "requests,host=web{},method=GET path=\"/api/v1/items/{}?page={}\",agent=\"Mozilla/5.0 (X11; Linux x86_64) \\\"like\\\" Gecko\",status=200i,ms={:.3} {}",
            row % 16,
            noise.below(100_000),
            noise.below(9),
            noise.float() * 100.0,
            stamp(row)
        );
    }
    text
}

/// Reads the text into batches, in chunks of 64 KiB, with a parser that already knows the series.
fn parse(parser: &mut LineParser, catalog: &Catalog, text: &str) -> usize {
    let mut rows = 0;
    let mut batches = |tables: Vec<stratalog_line::TableRows>| {
        for table in tables {
            let definition = table.definition().unwrap().clone();
            rows += black_box(table.into_batch(&definition).unwrap()).num_rows();
        }
    };
    parser.begin(REQUEST);
    for chunk in text.as_bytes().chunks(64 << 10) {
        parser.push(chunk, catalog).unwrap();
        if parser.rows() >= BATCH_ROWS {
            batches(parser.take());
        }
    }
    let outcome = parser.finish(catalog).unwrap();
    assert_eq!((outcome.lines_ok, outcome.lines_failed), (ROWS, 0));
    batches(outcome.tables);
    rows
}

fn benches(criterion: &mut Criterion) {
    for (name, text) in [
        ("tsbs_integers", tsbs(HOSTS, |noise| format!("{}i", noise.below(100)))),
        ("tsbs_hosts_50000", tsbs(ROWS, |noise| format!("{}i", noise.below(100)))),
        ("tsbs_decimals", tsbs(HOSTS, |noise| format!("{:.2}", noise.float() * 100.0))),
        ("tsbs_floats", tsbs(HOSTS, |noise| format!("{}", noise.float() * 100.0))),
        ("sensors", sensors()),
        ("logs", logs()),
    ] {
        let mut catalog = Catalog::default();
        fixture::read(&catalog, &text).tables.iter().for_each(|rows| {
            catalog.made_for(rows);
        });
        let mut group = criterion.benchmark_group(name);
        group.sample_size(20);
        group.throughput(Throughput::Bytes(text.len() as u64));
        let mut parser = LineParser::new(LineLimits::default());
        group.bench_function("batches", |bencher| {
            bencher.iter(|| parse(&mut parser, &catalog, &text));
        });
        group.bench_function("batches_by_a_new_parser", |bencher| {
            bencher.iter(|| parse(&mut LineParser::new(LineLimits::default()), &catalog, &text));
        });
        group.bench_function("reference_parse_only", |bencher| {
            bencher.iter(|| {
                let lines = influxdb_line_protocol::parse_lines(&text);
                lines.map(|line| black_box(line.unwrap()).field_set.len()).sum::<usize>()
            });
        });
        group.finish();
    }
}

criterion_group!(all, benches);
criterion_main!(all);
