//! Benchmark: writes doubles as text on one core: measurements with few decimals, and doubles with
//! all digits.

#![expect(clippy::unwrap_used, reason = "benches fail as tests do")]

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, Float64Array},
    datatypes::{DataType, Field},
};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use stratalog_text::{ColumnWriter, TextStyle};

const ROWS: u32 = 100_000;

fn doubles(criterion: &mut Criterion) {
    let field = Field::new("v", DataType::Float64, true);
    let style = TextStyle::default();
    let mut group = criterion.benchmark_group("write");
    group.throughput(Throughput::Elements(u64::from(ROWS)));
    for (name, divisor) in [("whole", 1.0), ("two_decimals", 100.0), ("all_digits", 700.0)] {
        let values = (0..ROWS).map(|row| f64::from(row * 7 % 10_000 + 1) / divisor);
        let array: ArrayRef = Arc::new(Float64Array::from_iter_values(values));
        let mut out = Vec::new();
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                out.clear();
                let writer = ColumnWriter::new(array.as_ref(), &field, &style).unwrap();
                for row in 0..array.len() {
                    writer.write(row, &mut out);
                }
                out.len()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, doubles);
criterion_main!(benches);
