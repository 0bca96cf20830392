//! Benchmark: parses COPY text and CSV in the shape of TSBS's cpu data into record batches, on one
//! core.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs,
    reason = "helpers of tests and benches fail as tests do, and use real files and clocks"
)]

use std::fmt::Write as _;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use stratalog_model::ColumnType;
use stratalog_text::{CopyOptions, CopyParser, TextStyle};

const ROWS: usize = 50_000;

fn columns() -> Vec<(String, ColumnType)> {
    let mut columns = vec![("time".to_string(), ColumnType::TimestampTz { precision: 9 })];
    columns.extend((0..10).map(|at| (format!("tag{at}"), ColumnType::Text)));
    columns.extend((0..10).map(|at| (format!("usage{at}"), ColumnType::Double)));
    columns
}

fn data(delimiter: char, fractions: bool) -> String {
    let tags = [
        "host_123",
        "eu-central-1",
        "eu-central-1a",
        "6",
        "Ubuntu15.10",
        "x86",
        "SF",
        "19",
        "1",
        "test",
    ];
    let mut text = String::new();
    let mut state = 1_u64;
    for row in 0..ROWS {
        let _ = write!(
            text,
            "2016-01-01 {:02}:{:02}:{:02}+00",
            row / 3600 % 24,
            row / 60 % 60,
            row % 60
        );
        for tag in tags {
            let _ = write!(text, "{delimiter}{tag}");
        }
        for _ in 0..10 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let value = (state >> 33) % 100;
            if fractions {
                let value = (state >> 11) as f64 / (1_u64 << 53) as f64 * 100.0;
                let _ = write!(text, "{delimiter}{value}");
            } else {
                let _ = write!(text, "{delimiter}{value}");
            }
        }
        text.push('\n');
    }
    text
}

fn copy_in(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("copy_in");
    group.sample_size(20);
    for (name, options, delimiter, fractions) in [
        ("csv", CopyOptions::csv(), ',', false),
        ("csv_fractions", CopyOptions::csv(), ',', true),
        ("text", CopyOptions::default(), '\t', false),
    ] {
        let data = data(delimiter, fractions);
        group.throughput(Throughput::ElementsAndBytes {
            elements: ROWS as u64,
            bytes: data.len() as u64,
        });
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let mut parser =
                    CopyParser::new(options.clone(), columns(), TextStyle::default()).unwrap();
                let mut rows = 0;
                for chunk in data.as_bytes().chunks(64 << 10) {
                    rows += parser
                        .push(chunk)
                        .unwrap()
                        .iter()
                        .map(|batch| batch.num_rows())
                        .sum::<usize>();
                }
                rows + parser.finish().unwrap().map_or(0, |batch| batch.num_rows())
            });
        });
    }
    group.finish();
}

criterion_group!(benches, copy_in);
criterion_main!(benches);
