//! Fuzzer: remote write from clients.
//!
//! The first byte of an input selects the test. If the published encoder of remote write can decode
//! the rest, the encoder encodes it again: the result must be the same rows.

#![no_main]
#![expect(dead_code, reason = "of the tests' helpers a part is used")]

#[path = "../../../line/tests/it/fixture.rs"]
mod catalog;
#[path = "../../tests/it/rows.rs"]
mod rows;

use catalog::Catalog;
use libfuzzer_sys::fuzz_target;
use prost_of_remote_write::Message as _;
use rows::Sample;
use stratalog_line::RowLimits;
use stratalog_model::Result;
use stratalog_telemetry::{Layout, TelemetryLimits, TelemetryReader};

fuzz_target!(|input: &[u8]| {
    let [what, body @ ..] = input else { return };
    let layout = if what & 1 == 0 { Layout::PerMetric } else { Layout::Single("all") };
    let mut limits = TelemetryLimits { errors_max: 5, ..TelemetryLimits::default() };
    if what & 2 == 0 {
        limits.rows = RowLimits {
            tables_max: 3,
            columns_max: 6,
            columns_total_max: 20,
            series_max: 3,
            series_bytes_max: 500, ..RowLimits::default() };
        limits.rows_max = 20;
    }
    if what & 4 == 0 {
        limits.body_bytes_max = 1 << 16;
    }
    let mut reader = TelemetryReader::new(limits);
    if what & 4 == 0 {
        let _ = read(&mut reader, body, layout);
        return;
    }
    let compressed = compress(body);
    let once = read(&mut reader, &compressed, layout);
    let again = read(&mut reader, &compressed, layout);
    assert_eq!(once.as_ref().ok(), again.as_ref().ok(), "by a reader that knows it");
    if let (Ok(samples), Ok(message)) = (once, prometheus_remote_write::WriteRequest::decode(body))
    {
        let written = compress(&message.encode_to_vec());
        assert_eq!(samples, read(&mut reader, &written, layout).unwrap(), "written anew");
    }
});

fn compress(body: &[u8]) -> Vec<u8> {
    snap::raw::Encoder::new().compress_vec(body).unwrap()
}

fn read(reader: &mut TelemetryReader, body: &[u8], layout: Layout<'_>) -> Result<Vec<Sample>> {
    let outcome = reader.remote_write(body, layout, &Catalog::default())?;
    assert!(outcome.message().len() < 3_000);
    assert_eq!(outcome.errors_count == 0, outcome.errors.is_empty());
    let mut samples = rows::samples(outcome.tables);
    assert_eq!(samples.len() as u64, outcome.accepted);
    // An encoder may leave out the sign of a zero.
    samples.iter_mut().filter(|sample| sample.bits == 1 << 63).for_each(|sample| sample.bits = 0);
    Ok(samples)
}
