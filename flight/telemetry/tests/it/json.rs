use stratalog_model::ErrorKind;
use stratalog_telemetry::{Encoding, Layout, TelemetryLimits, TelemetryReader};

use crate::{
    catalog::{Catalog, NOW_NS},
    messages::{
        Any, Data, Histogram, HistogramPoint, LogRecord, Number, Values, any_value, gauge, key,
        metric, metrics, number, text,
    },
    rows::{self, samples},
};

const METRICS: &str = r#"
{ "resourceMetrics": [ { "resource": { "attributes": [
      { "key": "service.name", "value": { "stringValue": "my.service" } } ] },
    "schemaUrl": null, "unknown": { "a": [1, {"b": null}, "\"]}", -1.5e-3, true] },
    "scopeMetrics": [ { "metrics": [
      { "name": "my.gauge", "unit": "1", "gauge": { "dataPoints": [
        { "asDouble": 10, "timeUnixNano": "1544712660300000000", "startTimeUnixNano": 0,
          "attributes": [ { "key": "my.gauge.attr", "value": { "stringValue": "\u00e9\ud83d\ude00\/\t" } },
            { "key": "list", "value": { "arrayValue": { "values": [ {"intValue": "7"}, {"boolValue": true} ] } } },
            { "key": "bytes", "value": { "bytesValue": "AAE=" } } ] },
        { "asInt": "-3", "timeUnixNano": 5 },
        { "asInt": 4, "timeUnixNano": 6 },
        { "asDouble": "Infinity", "timeUnixNano": 7 },
        { "asDouble": 0.1, "flags": 0 } ] } },
      { "name": "h", "histogram": { "aggregationTemporality": 1, "dataPoints": [
        { "timeUnixNano": "9", "count": 2, "sum": 2.5, "bucketCounts": ["1", 1],
          "explicitBounds": [1], "min": 0, "max": 2 } ] } }
    ] } ] } ] }"#;

#[test]
fn metrics_are_those_of_protobuf() {
    let mut first = number(1_544_712_660_300_000_000, Number::AsDouble(10.0), &[]);
    let list = Values { values: vec![any_value(Any::Integer(7)), any_value(Any::Boolean(true))] };
    first.attributes = vec![
        key("my.gauge.attr", text("é😀/\t")),
        key("list", any_value(Any::List(list))),
        key("bytes", any_value(Any::Bytes(vec![0, 1]))),
    ];
    let points = vec![
        first,
        number(5, Number::AsInt(-3), &[]),
        number(6, Number::AsInt(4), &[]),
        number(7, Number::AsDouble(f64::INFINITY), &[]),
        number(0, Number::AsDouble(0.1), &[]),
    ];
    let point = HistogramPoint {
        time_unix_nano: 9,
        count: 2,
        sum: Some(2.5),
        bucket_counts: vec![1, 1],
        explicit_bounds: vec![1.0],
        min: Some(0.0),
        max: Some(2.0),
        ..HistogramPoint::default()
    };
    let histogram = Histogram { data_points: vec![point], aggregation_temporality: 1 };
    let list = vec![gauge("my.gauge", points), metric("h", Data::Histogram(histogram))];
    let request = metrics(vec![key("service.name", text("my.service"))], None, list);
    let body = prost::Message::encode_to_vec(&request);
    let mut reader = TelemetryReader::new(TelemetryLimits::default());
    let mut read = |body: &[u8], encoding| {
        let layout = Layout::PerMetric;
        let outcome = reader.metrics(body, encoding, layout, NOW_NS, &Catalog::default()).unwrap();
        assert_eq!((outcome.accepted, outcome.errors_count), (6, 0), "{}", outcome.message());
        samples(outcome.tables)
    };
    assert_eq!(read(METRICS.as_bytes(), Encoding::Json), read(&body, Encoding::Protobuf));
}

#[test]
fn logs_are_those_of_protobuf() {
    let json = r#"{"resourceLogs":[{"resource":{"attributes":[
        {"key":"service.name","value":{"stringValue":"cart"}},
        {"key":"host.name","value":{"stringValue":"h"}}]},
      "scopeLogs":[{"scope":{"name":"lib","version":"1","attributes":[
        {"key":"k","value":{"stringValue":"v"}}]},
      "logRecords":[{"timeUnixNano":"5","severityNumber":9,"severityText":"I","flags":257,
        "traceId":"5B8EFFF798038103D269B633813FC60C","spanId":"eee19b7ec3c1b174",
        "body":{"kvlistValue":{"values":[{"key":"a","value":{"doubleValue":1.5}}]}},
        "attributes":[{"key":"n","value":{"intValue":"-1"}}]},{"severityNumber":-1}]}]}]}"#;
    let map = crate::messages::KeyValues { values: vec![key("a", any_value(Any::Double(1.5)))] };
    let record = LogRecord {
        time_unix_nano: 5,
        severity_number: 9,
        severity_text: "I".to_string(),
        flags: 257,
        trace_id: (0..32)
            .step_by(2)
            .map(|at| {
                u8::from_str_radix(&"5B8EFFF798038103D269B633813FC60C"[at..at + 2], 16).unwrap()
            })
            .collect(),
        span_id: vec![0xee, 0xe1, 0x9b, 0x7e, 0xc3, 0xc1, 0xb1, 0x74],
        body: Some(any_value(Any::Map(map))),
        attributes: vec![key("n", any_value(Any::Integer(-1)))],
        ..LogRecord::default()
    };
    let unknown = LogRecord { severity_number: -1, ..LogRecord::default() };
    let request = crate::logs::request(vec![record, unknown]);
    let body = prost::Message::encode_to_vec(&request);
    let mut reader = TelemetryReader::new(TelemetryLimits::default());
    let mut read = |body: &[u8], encoding| {
        let outcome = reader.logs(body, encoding, "logs", NOW_NS, &Catalog::default()).unwrap();
        assert_eq!((outcome.accepted, outcome.errors_count), (2, 0), "{}", outcome.message());
        rows::texts(outcome.tables)
    };
    assert_eq!(read(json.as_bytes(), Encoding::Json), read(&body, Encoding::Protobuf));
}

#[test]
fn what_is_no_json_of_otlp() {
    let mut reader =
        TelemetryReader::new(TelemetryLimits { body_bytes_max: 200, ..TelemetryLimits::default() });
    let catalog = Catalog::default();
    let mut fails = |body: &str, kind, message: &str| {
        let read = reader.logs(body.as_bytes(), Encoding::Json, "logs", 0, &catalog);
        let error = read.unwrap_err();
        assert_eq!(error.kind(), kind, "{body}: {error}");
        assert!(error.message().contains(message), "{body}: {error}");
    };
    let record = |record: &str| {
        format!("{{\"resourceLogs\":[{{\"scopeLogs\":[{{\"logRecords\":[{record}]}}]}}]}}")
    };
    use ErrorKind::ProtocolViolation as Wrong;
    fails("", Wrong, "an object is expected at byte 0, found \"\"");
    fails("[]", Wrong, "an object is expected at byte 0");
    fails("{\"resourceLogs\":[]} x", Wrong, "the end is expected at byte 20, found \"x\"");
    fails("{\"resourceLogs\":{}}", Wrong, "a list is expected at byte 16");
    fails("{\"a\":1,}", Wrong, "quotes is expected");
    fails("{\"a\":01}", Wrong, "without leading zeros");
    fails("{\"a\":\"\\ud800x\"}", Wrong, "an escape of JSON is expected at byte 6");
    fails("{\"a\":\"\n\"}", Wrong, "the end of the text");
    fails("{\"a\":nul}", Wrong, "a value is expected");
    fails(
        &record("{\"flags\":-1}"),
        Wrong,
        "an integer of 32 bits for \"flags\" is expected at byte 55",
    );
    fails(&record("{\"traceId\":\"xyz\"}"), Wrong, "hexadecimal digits for \"traceId\"");
    fails(&record("{\"severityText\":5}"), Wrong, "a text for \"severityText\"");
    fails(&record("{\"timeUnixNano\":\"-1\"}"), Wrong, "an integer of 64 bits");
    fails(&record("{\"body\":{\"doubleValue\":\"x\"}}"), Wrong, "a number for \"doubleValue\"");
    fails(&"[".repeat(200), Wrong, "an object is expected");
    fails(&format!("{{\"a\":{}", "[".repeat(190)), Wrong, "less depth is expected");
    fails(&" ".repeat(201), ErrorKind::LimitExceeded, "the body has 201 bytes");
    let read = reader.logs(b"{\"a\":\"\xff\"}", Encoding::Json, "logs", 0, &catalog);
    assert_eq!(read.unwrap_err().kind(), ErrorKind::InvalidEncoding);
}
