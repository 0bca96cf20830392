//! Benchmark: requests of Prometheus and OpenTelemetry's collector into record batches, on one
//! core.

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

#[path = "../../line/tests/it/fixture.rs"]
mod catalog;
#[path = "../tests/it/messages.rs"]
mod messages;

use std::hint::black_box;

use catalog::{Catalog, NOW_NS};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use messages::{
    Data, Histogram, HistogramPoint, LogRecord, LogsRequest, Metric, Number, Resource,
    ResourceLogs, Scope, ScopeLogs, TimeSeries, WriteRequest, gauge, metric, metrics, number,
    series, snappy, text, texts,
};
use prost::Message as _;
use stratalog_telemetry::{Encoding, Layout, Outcome, TelemetryLimits, TelemetryReader};

const METRICS: usize = 20;
const TARGETS: usize = 100;

const LABELS: [&str; 8] =
    ["instance", "job", "cluster", "namespace", "pod", "container", "node", "region"];

/// Pseudo-random numbers.
fn noise(seed: usize) -> f64 {
    (seed.wrapping_mul(2_654_435_761) % 1_000_003) as f64 / 7.0
}

/// Series of a scrape: ten labels and `samples` samples each.
fn scrape(samples: usize) -> Vec<u8> {
    let mut timeseries: Vec<TimeSeries> = Vec::new();
    for target in 0..TARGETS {
        for number in 0..METRICS {
            let name = format!("container_network_number_{number}_total");
            let values = LABELS.map(|label| format!("{label}-value-{target}"));
            let mut labels: Vec<(&str, &str)> = vec![("__name__", &name)];
            labels.extend(LABELS.iter().copied().zip(values.iter().map(String::as_str)));
            labels.sort_unstable();
            let sample = |at: usize| {
                (noise(target * 31 + number + at), 1_700_000_000_000 + 15_000 * at as i64)
            };
            timeseries.push(series(&labels, &(0..samples).map(sample).collect::<Vec<_>>()));
        }
    }
    snappy(&WriteRequest { timeseries, metadata: Vec::new() })
}

fn attributes(target: usize) -> Vec<(String, String)> {
    let pairs = ["http.method", "http.route", "net.host.name", "server.port", "status"];
    pairs.iter().map(|key| ((*key).to_string(), format!("value-{target}"))).collect()
}

fn points() -> Vec<u8> {
    let list = (0..METRICS).map(|at| {
        let points = (0..TARGETS).map(|target| {
            let pairs = attributes(target);
            let pairs: Vec<_> = pairs.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
            number(1_700_000_000_000_000_000, Number::AsDouble(noise(at + target)), &pairs)
        });
        gauge(&format!("http.server.number.{at}"), points.collect())
    });
    request(list.collect())
}

fn histograms() -> Vec<u8> {
    let bounds = vec![0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
    let data_points = (0..TARGETS).map(|target| {
        let pairs = attributes(target);
        let pairs: Vec<_> = pairs.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        HistogramPoint {
            attributes: texts(&pairs),
            time_unix_nano: 1_700_000_000_000_000_000,
            count: 78,
            sum: Some(noise(target)),
            bucket_counts: (1..=12).collect(),
            explicit_bounds: bounds.clone(),
            ..HistogramPoint::default()
        }
    });
    let data = Histogram { data_points: data_points.collect(), aggregation_temporality: 2 };
    request(vec![metric("http.server.duration", Data::Histogram(data))])
}

fn request(list: Vec<Metric>) -> Vec<u8> {
    let resource =
        texts(&[("service.name", "cart"), ("service.instance.id", "i-1"), ("host.name", "h")]);
    let scope = Scope { name: "library".to_string(), ..Scope::default() };
    metrics(resource, Some(scope), list).encode_to_vec()
}

fn logs() -> Vec<u8> {
    let record = |at: usize| LogRecord {
        time_unix_nano: 1_700_000_000_000_000_000 + at as u64,
        severity_number: 9,
        severity_text: "INFO".to_string(),
        body: Some(text(&format!("GET /api/v1/items/{at} took {} ms", noise(at)))),
        attributes: texts(&[("http.method", "GET"), ("http.route", "/api/v1/items/{id}")]),
        trace_id: vec![7; 16],
        span_id: vec![9; 8],
        ..LogRecord::default()
    };
    let resource = texts(&[("service.name", "cart"), ("host.name", "h")]);
    LogsRequest {
        resource_logs: vec![ResourceLogs {
            resource: Some(Resource { attributes: resource, dropped_attributes_count: 0 }),
            scope_logs: vec![ScopeLogs {
                scope: None,
                log_records: (0..2_000).map(record).collect(),
            }],
        }],
    }
    .encode_to_vec()
}

/// The batches of an outcome.
fn batches(outcome: Outcome) -> usize {
    assert_eq!(outcome.errors_count, 0);
    let batch = |rows: stratalog_line::TableRows| {
        let definition = rows.definition().unwrap().clone();
        black_box(rows.into_batch(&definition).unwrap()).num_rows()
    };
    outcome.tables.into_iter().map(batch).sum()
}

fn measure(
    criterion: &mut Criterion,
    name: &str,
    body: &[u8],
    read: impl Fn(&mut TelemetryReader, &[u8], &Catalog) -> Outcome,
) {
    let mut catalog = Catalog::default();
    let mut reader = TelemetryReader::new(TelemetryLimits::default());
    for rows in read(&mut reader, body, &catalog).tables {
        catalog.made_for(&rows);
    }
    let rows = batches(read(&mut reader, body, &catalog));
    let mut group = criterion.benchmark_group(name);
    group.sample_size(20);
    group.throughput(Throughput::Elements(rows as u64));
    group.bench_function("batches", |bencher| {
        bencher.iter(|| batches(read(&mut reader, body, &catalog)));
    });
    group.bench_function("batches_by_a_new_reader", |bencher| {
        bencher.iter(|| {
            let mut reader = TelemetryReader::new(TelemetryLimits::default());
            batches(read(&mut reader, body, &catalog))
        });
    });
    group.finish();
}

fn benches(criterion: &mut Criterion) {
    let remote_write = |layout| {
        move |reader: &mut TelemetryReader, body: &[u8], catalog: &Catalog| {
            reader.remote_write(body, layout, catalog).unwrap()
        }
    };
    let (one, many) = (scrape(1), scrape(100));
    measure(criterion, "remote_write", &one, remote_write(Layout::PerMetric));
    measure(criterion, "remote_write_single", &one, remote_write(Layout::Single("all")));
    measure(criterion, "remote_write_100_samples", &many, remote_write(Layout::PerMetric));
    let otlp = |reader: &mut TelemetryReader, body: &[u8], catalog: &Catalog| {
        let encoding = Encoding::Protobuf;
        reader.metrics(body, encoding, Layout::PerMetric, NOW_NS, catalog).unwrap()
    };
    measure(criterion, "otlp_gauges", &points(), otlp);
    measure(criterion, "otlp_histograms", &histograms(), otlp);
    measure(criterion, "otlp_logs", &logs(), |reader, body, catalog| {
        reader.logs(body, Encoding::Protobuf, "logs", NOW_NS, catalog).unwrap()
    });
}

criterion_group!(all, benches);
criterion_main!(all);
