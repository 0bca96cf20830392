//! Requests of all shapes: all values come back, and a damaged request leaves no partial data.

use std::collections::BTreeMap;

use proptest::{collection::vec, prelude::*};
use stratalog_telemetry::{Encoding, Layout, TelemetryLimits, TelemetryReader};

use crate::{
    catalog::{Catalog, NOW_NS},
    messages::{
        Any, KeyValues, LogRecord, LogsRequest, MetricsRequest, Number, NumberPoint, Scope, Values,
        any_value, gauge, key, metrics, number,
    },
    rows::{self, Sample, samples},
};

type Labels = BTreeMap<String, String>;
type Series = (Labels, Vec<(u64, i64)>);

fn series() -> impl Strategy<Value = Vec<Series>> {
    let label = prop_oneof!["[a-d]", "[a-z]{1,3}_x", Just("time".to_string())];
    let labels = prop::collection::btree_map(label, "[a-zß]{0,4}", 0..5);
    let timestamp = prop_oneof![Just(0), -9_000_000_000_000..9_000_000_000_000_i64];
    let samples = vec((any::<u64>(), timestamp), 0..5);
    vec(("[m-p]", labels, samples), 0..8).prop_map(|all| {
        let mut all: Vec<Series> = all
            .into_iter()
            .map(|(metric, mut labels, samples)| {
                labels.insert("__name__".to_string(), metric);
                (labels, samples)
            })
            .collect();
        // The encoder puts series in order itself.
        all.sort();
        all.dedup_by(|one, other| one.0 == other.0);
        all
    })
}

/// A request as encoded by the published encoder.
fn written(series: &[Series]) -> Vec<u8> {
    use prometheus_remote_write::{Label, Sample, TimeSeries, WriteRequest};
    let timeseries = series.iter().map(|(labels, samples)| TimeSeries {
        labels: labels
            .iter()
            .map(|(name, value)| Label { name: name.clone(), value: value.clone() })
            .collect(),
        samples: samples
            .iter()
            .map(|(bits, timestamp)| Sample { value: f64::from_bits(*bits), timestamp: *timestamp })
            .collect(),
    });
    WriteRequest { timeseries: timeseries.collect() }.encode_proto3()
}

fn expected(series: &[Series], single: bool) -> Vec<Sample> {
    let mut all = Vec::new();
    for (labels, samples) in series {
        let metric = &labels["__name__"];
        let mut tags = labels.clone();
        tags.retain(|name, value| !value.is_empty() && name != "__name__");
        if let Some(time) = tags.remove("time") {
            tags.insert("exported_time".to_string(), time);
        }
        if single {
            tags.insert("metric".to_string(), metric.clone());
        }
        let table = if single { "all".to_string() } else { metric.clone() };
        for (bits, ms) in samples {
            let (table, tags) = (table.clone(), tags.clone());
            // The encoder omits values equal to 0.
            let bits = if *bits == 1 << 63 { 0 } else { *bits };
            all.push(Sample { table, tags, time_ns: ms * 1_000_000, bits });
        }
    }
    all.sort();
    all
}

fn compress(body: &[u8]) -> Vec<u8> {
    snap::raw::Encoder::new().compress_vec(body).unwrap()
}

fn attribute() -> impl Strategy<Value = Any> {
    let leaf = prop_oneof![
        "\\PC{0,6}".prop_map(Any::Text),
        any::<bool>().prop_map(Any::Boolean),
        any::<i64>().prop_map(Any::Integer),
        any::<f64>().prop_map(Any::Double),
        vec(any::<u8>(), 0..4).prop_map(Any::Bytes),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let map = vec(("[a-c]", inner.clone()), 0..3).prop_map(|pairs| {
            let pairs = pairs.into_iter().map(|(name, value)| key(&name, any_value(value)));
            Any::Map(KeyValues { values: pairs.collect() })
        });
        let list = vec(inner, 0..3).prop_map(|values| {
            Any::List(Values { values: values.into_iter().map(any_value).collect() })
        });
        prop_oneof![map, list]
    })
}

fn points() -> impl Strategy<Value = Vec<NumberPoint>> {
    let value = prop_oneof![
        any::<u64>().prop_map(|bits| Number::AsDouble(f64::from_bits(bits))),
        (-(1_i64 << 53)..=1 << 53).prop_map(Number::AsInt),
    ];
    let attributes = prop::collection::btree_map("[a-c]", "[x-z]{1,3}", 0..4);
    let point = (0..i64::MAX.cast_unsigned(), value, attributes);
    vec(
        point.prop_map(|(time, value, attributes)| {
            let attributes: Vec<_> =
                attributes.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            number(time, value, &attributes)
        }),
        0..6,
    )
}

fn metrics_request() -> impl Strategy<Value = MetricsRequest> {
    vec(("[m-o]\\.[a-b]", points()), 0..5).prop_map(|list| {
        let scope = Scope { name: "lib".to_string(), ..Scope::default() };
        metrics(
            Vec::new(),
            Some(scope),
            list.into_iter().map(|(name, p)| gauge(&name, p)).collect(),
        )
    })
}

fn logs_request() -> impl Strategy<Value = LogsRequest> {
    let attributes = prop::collection::btree_map("[a-c]", attribute(), 0..3);
    let record = (1..i64::MAX.cast_unsigned(), attribute(), attributes, "[ -~]{0,5}");
    let record = record.prop_map(|(time, body, attributes, severity_text)| LogRecord {
        time_unix_nano: time,
        severity_text,
        body: Some(any_value(body)),
        attributes: attributes
            .into_iter()
            .map(|(name, value)| key(&name, any_value(value)))
            .collect(),
        ..LogRecord::default()
    });
    vec(record, 0..5).prop_map(crate::logs::request)
}

/// Truncated and changed bodies; each may only cause an error.
fn damaged(body: &[u8], changes: &[(usize, u8)]) -> Vec<Vec<u8>> {
    let mut all: Vec<_> = (0..body.len()).map(|end| body[..end].to_vec()).collect();
    let mut changed = body.to_vec();
    for (at, byte) in changes.iter().filter(|_| !body.is_empty()) {
        changed[at % body.len()] = *byte;
        all.push(changed.clone());
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_sample_comes_back(requests in vec(series(), 1..4), single in any::<bool>()) {
        let mut reader = TelemetryReader::new(TelemetryLimits::default());
        let layout = if single { Layout::Single("all") } else { Layout::PerMetric };
        for series in requests {
            let body = compress(&written(&series));
            let outcome = reader.remote_write(&body, layout, &Catalog::default()).unwrap();
            prop_assert_eq!(outcome.errors_count, 0, "{}", outcome.message());
            let mut read = samples(outcome.tables);
            prop_assert_eq!(read.len() as u64, outcome.accepted);
            read.sort();
            prop_assert_eq!(read, expected(&series, single));
        }
    }

    #[test]
    fn damaged_remote_write(series in series(), changes in vec(any::<(usize, u8)>(), 0..40)) {
        let mut reader = TelemetryReader::new(TelemetryLimits::default());
        let body = written(&series);
        let all = expected(&series, false);
        for (at, damaged) in damaged(&body, &changes).iter().enumerate() {
            let read = reader.remote_write(&compress(damaged), Layout::PerMetric, &Catalog::default());
            let Ok(outcome) = read else { continue };
            let accepted = outcome.accepted;
            let read = samples(outcome.tables);
            prop_assert_eq!(read.len() as u64, accepted);
            // If a body is cut between two series, the series before the cut are complete.
            if at < body.len() {
                prop_assert!(read.iter().all(|sample| all.contains(sample)));
            }
        }
        let compressed = compress(&body);
        for (at, damaged) in damaged(&compressed, &changes).iter().enumerate() {
            let read = reader.remote_write(damaged, Layout::PerMetric, &Catalog::default());
            prop_assert!(at >= compressed.len() || read.is_err());
        }
    }

    #[test]
    fn every_point_comes_back(request in metrics_request()) {
        let body = prost::Message::encode_to_vec(&request);
        let mut reader = TelemetryReader::new(TelemetryLimits::default());
        let layout = Layout::PerMetric;
        let outcome =
            reader.metrics(&body, Encoding::Protobuf, layout, NOW_NS, &Catalog::default()).unwrap();
        prop_assert_eq!(outcome.errors_count, 0, "{}", outcome.message());
        let mut expected = Vec::new();
        for metric in &request.resource_metrics[0].scope_metrics[0].metrics {
            let Some(crate::messages::Data::Gauge(gauge)) = &metric.data else { continue };
            for point in &gauge.data_points {
                let value = match point.value.as_ref().unwrap() {
                    Number::AsDouble(value) => *value,
                    Number::AsInt(value) => *value as f64,
                };
                let text = |value: &Option<crate::messages::AnyValue>| match value {
                    Some(crate::messages::AnyValue { value: Some(Any::Text(text)) }) => text.clone(),
                    other => panic!("{other:?}"),
                };
                let tags = point.attributes.iter().map(|a| (a.key.clone(), text(&a.value)));
                let mut tags: Labels = tags.collect();
                tags.insert("otel_scope_name".to_string(), "lib".to_string());
                let time = i64::try_from(point.time_unix_nano).unwrap();
                let time_ns = if time == 0 { NOW_NS } else { time };
                let table = metric.name.replace('.', "_");
                expected.push(Sample { table, tags, time_ns, bits: value.to_bits() });
            }
        }
        let mut read = samples(outcome.tables);
        read.sort();
        expected.sort();
        prop_assert_eq!(read, expected);
    }

    #[test]
    fn damaged_metrics(request in metrics_request(), changes in vec(any::<(usize, u8)>(), 0..40)) {
        let body = prost::Message::encode_to_vec(&request);
        let mut reader = TelemetryReader::new(TelemetryLimits::default());
        for damaged in damaged(&body, &changes) {
            let layout = Layout::Single("all");
            let read =
                reader.metrics(&damaged, Encoding::Protobuf, layout, NOW_NS, &Catalog::default());
            if let Ok(outcome) = read {
                prop_assert!(samples(outcome.tables).len() as u64 >= outcome.accepted);
            }
        }
    }

    #[test]
    fn every_record_comes_back(request in logs_request()) {
        let body = prost::Message::encode_to_vec(&request);
        let mut reader = TelemetryReader::new(TelemetryLimits::default());
        let read = reader.logs(&body, Encoding::Protobuf, "logs", NOW_NS, &Catalog::default());
        let outcome = read.unwrap();
        let records = &request.resource_logs[0].scope_logs[0].log_records;
        prop_assert_eq!(outcome.accepted, records.len() as u64, "{}", outcome.message());
        for (_, rows) in rows::texts(outcome.tables) {
            for ((columns, time_ns, _), record) in rows.iter().zip(records) {
                prop_assert_eq!(time_ns.cast_unsigned(), record.time_unix_nano);
                let column = |name: &str| columns.get(name).cloned().unwrap_or_default();
                prop_assert_eq!(&column("severity_text"), &record.severity_text);
                if let Some(Any::Text(text)) = &record.body.as_ref().unwrap().value {
                    prop_assert_eq!(&column("body"), text);
                }
                prop_assert_eq!(column("attributes").is_empty(), record.attributes.is_empty());
            }
        }
        for damaged in damaged(&body, &[]) {
            let _ = reader.logs(&damaged, Encoding::Protobuf, "logs", NOW_NS, &Catalog::default());
        }
    }
}
