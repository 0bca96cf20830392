use std::collections::BTreeMap;

use stratalog_model::ErrorKind;
use stratalog_telemetry::{Encoding, Outcome, TelemetryLimits, TelemetryReader};

use crate::{
    catalog::{Catalog, NOW_NS},
    messages::{
        Any, KeyValues, LogRecord, LogsRequest, Resource, ResourceLogs, Scope, ScopeLogs,
        any_value, key, text, texts,
    },
    rows,
};

pub fn request(log_records: Vec<LogRecord>) -> LogsRequest {
    let resource = texts(&[("service.name", "cart"), ("host.name", "h")]);
    let scope = Scope {
        name: "lib".to_string(),
        version: "1".to_string(),
        attributes: texts(&[("k", "v")]),
    };
    LogsRequest {
        resource_logs: vec![ResourceLogs {
            resource: Some(Resource { attributes: resource, dropped_attributes_count: 0 }),
            scope_logs: vec![ScopeLogs { scope: Some(scope), log_records }],
        }],
    }
}

fn read(request: &LogsRequest, limits: TelemetryLimits) -> stratalog_model::Result<Outcome> {
    let body = prost::Message::encode_to_vec(request);
    let mut reader = TelemetryReader::new(limits);
    reader.logs(&body, Encoding::Protobuf, "logs", NOW_NS, &Catalog::default())
}

fn columns(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let common = [
        ("service_name", "cart"),
        ("resource_attributes", "{\"service.name\":\"cart\",\"host.name\":\"h\"}"),
        ("scope_name", "lib"),
        ("scope_version", "1"),
        ("scope_attributes", "{\"k\":\"v\"}"),
    ];
    let pairs = common.iter().chain(pairs);
    pairs.map(|(name, value)| ((*name).to_string(), (*value).to_string())).collect()
}

#[test]
fn records() {
    let full = LogRecord {
        time_unix_nano: 5,
        observed_time_unix_nano: 6,
        severity_number: 9,
        severity_text: "INFO".to_string(),
        body: Some(text("hello\nworld")),
        attributes: vec![
            key("http.status", any_value(Any::Integer(200))),
            key("ok", any_value(Any::Boolean(true))),
        ],
        flags: 1,
        trace_id: (1..=16).collect(),
        span_id: vec![0xab; 8],
        event_name: "e".to_string(),
    };
    let map = KeyValues { values: vec![key("a", any_value(Any::Double(1.5)))] };
    let structured = LogRecord {
        observed_time_unix_nano: 7,
        body: Some(any_value(Any::Map(map))),
        trace_id: vec![0; 16],
        ..LogRecord::default()
    };
    let outcome =
        read(&request(vec![full, structured, LogRecord::default()]), TelemetryLimits::default());
    let outcome = outcome.unwrap();
    assert_eq!((outcome.accepted, outcome.rejected, outcome.errors_count), (3, 0, 0));
    let read = rows::texts(outcome.tables);
    let full = columns(&[
        ("severity_number", "9"),
        ("severity_text", "INFO"),
        ("body", "hello\nworld"),
        ("attributes", "{\"http.status\":200,\"ok\":true}"),
        ("flags", "1"),
        ("trace_id", "0102030405060708090a0b0c0d0e0f10"),
        ("span_id", "abababababababab"),
        ("event_name", "e"),
    ]);
    let structured = columns(&[("body", "{\"a\":1.5}")]);
    let expected = vec![(full, 5, None), (structured, 7, None), (columns(&[]), NOW_NS, None)];
    assert_eq!(read, [("logs".to_string(), expected)]);
}

#[test]
fn records_that_are_refused_alone() {
    let good = LogRecord::default();
    let zero = LogRecord { body: Some(text("a\0b")), ..LogRecord::default() };
    let late = LogRecord { time_unix_nano: u64::MAX, ..LogRecord::default() };
    let outcome = read(&request(vec![good.clone(), zero, late, good]), TelemetryLimits::default());
    let outcome = outcome.unwrap();
    assert_eq!((outcome.accepted, outcome.rejected), (2, 2));
    assert_eq!(
        outcome.message(),
        "2 log records accepted, 2 rejected: log record 2: the text for column \"body\" has a \
         character of code 0, which text cannot contain; remove the character | log record 3: time \
         18446744073709551615 ns is behind the year 2262; send nanoseconds since 1970"
    );
    let json = String::from_utf8(outcome.response(Encoding::Json)).unwrap();
    assert!(
        json.starts_with(
            "{\"partialSuccess\":{\"rejectedLogRecords\":\"2\",\"errorMessage\":\"2 log"
        )
    );
    assert_eq!(outcome.tables[0].rows(), 2);
}

#[test]
fn what_is_kept_more_often_than_sent_is_bounded() {
    let mut request = request(vec![LogRecord::default(); 1_000]);
    let resource = request.resource_logs[0].resource.as_mut().unwrap();
    resource.attributes.push(key("long", text(&"x".repeat(10_000))));
    let limits = TelemetryLimits { batch_bytes_max: 1 << 20, ..TelemetryLimits::default() };
    assert_eq!(read(&request, limits).unwrap_err().kind(), ErrorKind::LimitExceeded);
    assert_eq!(read(&request, TelemetryLimits::default()).unwrap().accepted, 1_000);
}
