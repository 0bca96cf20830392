//! Fuzzer: OTLP from clients, metrics and logs, in protobuf and JSON.
//!
//! The first byte of an input selects the test. If OpenTelemetry's own messages can decode the
//! rest, they encode it again: the result must be the same rows.

#![no_main]
#![expect(dead_code, reason = "of the tests' helpers a part is used")]

#[path = "../../../line/tests/it/fixture.rs"]
mod catalog;
#[path = "../../tests/it/rows.rs"]
mod rows;

use catalog::{Catalog, NOW_NS};
use libfuzzer_sys::fuzz_target;
use opentelemetry_proto::tonic::collector::{
    logs::v1::ExportLogsServiceRequest, metrics::v1::ExportMetricsServiceRequest,
};
use prost::Message;
use stratalog_line::RowLimits;
use stratalog_model::Result;
use stratalog_telemetry::{Encoding, Layout, Outcome, TelemetryLimits, TelemetryReader};

#[derive(Clone, Copy)]
enum Form {
    Metrics,
    SingleMetrics,
    Logs,
}

fuzz_target!(|input: &[u8]| {
    let [what, body @ ..] = input else { return };
    let form = match what & 3 {
        0 => Form::SingleMetrics,
        1 => Form::Logs,
        _ => Form::Metrics,
    };
    let mut limits = TelemetryLimits { errors_max: 5, ..TelemetryLimits::default() };
    if what & 4 == 0 {
        limits.rows = RowLimits {
            tables_max: 3,
            columns_max: 16,
            columns_total_max: 40,
            series_max: 3,
            series_bytes_max: 500, ..RowLimits::default() };
        limits.origins_max = 2;
        limits.rows_max = 20;
    }
    let mut reader = TelemetryReader::new(limits);
    let encoding = if what & 8 == 0 { Encoding::Protobuf } else { Encoding::Json };
    let once = read(&mut reader, body, encoding, form);
    let again = read(&mut reader, body, encoding, form);
    assert_eq!(once.as_ref().ok(), again.as_ref().ok(), "by a reader that knows it");
    let Ok(rows) = once else { return };
    if encoding == Encoding::Protobuf
        && let Some((protobuf, json)) = written_anew(body, form)
    {
        let anew = read(&mut reader, &protobuf, encoding, form).unwrap();
        assert_eq!(rows, anew, "written anew");
        let json = String::from_utf8(json).unwrap();
        if lost(&rows.0, &json) {
            return;
        }
        let of_json = read(&mut reader, json.as_bytes(), Encoding::Json, form);
        assert_eq!(rows, of_json.unwrap_or_else(|error| panic!("{error}: {json}")), "{json}");
    }
});

/// True if a number is NaN or infinite: the JSON of OpenTelemetry's messages loses such numbers.
fn lost(rows: &[String], json: &str) -> bool {
    let nulls =
        ["[null", ",null", "Value\":null", "asDouble\":null", "quantile\":null", "\"value\":null"];
    nulls.iter().any(|null| json.contains(null))
        || rows.iter().any(|row| {
            let row = row.replace("\"le\": \"+Inf\"", "");
            ["NaN", "inf", "Inf"].iter().any(|name| row.contains(name))
        })
}

/// The body encoded again, in protobuf and in JSON.
fn written_anew(body: &[u8], form: Form) -> Option<(Vec<u8>, Vec<u8>)> {
    Some(match form {
        Form::Logs => {
            let message = ExportLogsServiceRequest::decode(body).ok()?;
            (message.encode_to_vec(), serde_json::to_vec(&message).ok()?)
        }
        _ => {
            let message = ExportMetricsServiceRequest::decode(body).ok()?;
            (message.encode_to_vec(), serde_json::to_vec(&message).ok()?)
        }
    })
}

/// The result of a request: rows as text, and the counts of accepted items.
fn read(
    reader: &mut TelemetryReader,
    body: &[u8],
    encoding: Encoding,
    form: Form,
) -> Result<(Vec<String>, u64, u64)> {
    let catalog = Catalog::default();
    let outcome: Outcome = match form {
        Form::Metrics => reader.metrics(body, encoding, Layout::PerMetric, NOW_NS, &catalog),
        Form::SingleMetrics => {
            reader.metrics(body, encoding, Layout::Single("all"), NOW_NS, &catalog)
        }
        Form::Logs => reader.logs(body, encoding, "logs", NOW_NS, &catalog),
    }?;
    let _ = (outcome.response(Encoding::Protobuf), outcome.response(Encoding::Json));
    assert!(outcome.message().len() < 3_000);
    let (accepted, rejected) = (outcome.accepted, outcome.rejected);
    let mut shown = Vec::new();
    for (table, rows) in rows::texts(outcome.tables) {
        shown.extend(rows.iter().map(|row| format!("{table} {row:?}")));
    }
    assert!(shown.len() as u64 >= accepted);
    shown.iter_mut().for_each(|row| {
        // An encoder may leave out the sign of a zero.
        *row = row.replace("Some(9223372036854775808)", "Some(0)").replace("\"-0.0\"", "\"0.0\"");
    });
    Ok((shown, accepted, rejected))
}
