use stratalog_line::TIME_COLUMN;
use stratalog_model::{ColumnType, ErrorKind};
use stratalog_telemetry::{
    Encoding, Layout, Outcome, STALE_NAN_BITS, TelemetryLimits, TelemetryReader,
};

use crate::{
    catalog::{Catalog, NS, table},
    messages::{
        Exemplar, Label, Metadata, NativeHistogram, TimeSeries, WriteRequest, series, snappy,
    },
    rows::{sample, samples},
};

fn read(timeseries: Vec<TimeSeries>, layout: Layout<'_>) -> Outcome {
    read_in(timeseries, layout, &Catalog::default())
}

fn read_in(timeseries: Vec<TimeSeries>, layout: Layout<'_>, catalog: &Catalog) -> Outcome {
    let body = snappy(&WriteRequest { timeseries, metadata: Vec::new() });
    let mut reader = TelemetryReader::new(TelemetryLimits::default());
    reader.remote_write(&body, layout, catalog).unwrap()
}

#[test]
fn a_table_for_each_metric() {
    let mut up = series(&[("__name__", "up"), ("instance", "a"), ("zone", "")], &[(1.0, 1_000)]);
    up.exemplars.push(Exemplar { value: 5.0, ..Exemplar::default() });
    let body = snappy(&WriteRequest {
        timeseries: vec![
            up,
            series(&[("__name__", "load"), ("cpu", "0")], &[(0.5, 2_000), (0.25, 1_000)]),
            series(&[("__name__", "up"), ("instance", "b")], &[(0.0, 1_001)]),
        ],
        metadata: vec![Metadata { kind: 1, metric_family_name: "up".to_string() }],
    });
    let mut reader = TelemetryReader::new(TelemetryLimits::default());
    for _ in 0..3 {
        let outcome = reader.remote_write(&body, Layout::PerMetric, &Catalog::default()).unwrap();
        assert_eq!((outcome.accepted, outcome.rejected, outcome.errors.len()), (4, 0, 0));
        assert_eq!(outcome.message(), "4 samples accepted, 0 rejected");
        assert_eq!(outcome.response(Encoding::Protobuf), b"");
        assert_eq!(outcome.tables[0].line(1), Some(3));
        assert_eq!(
            samples(outcome.tables),
            [
                sample("up", &[("instance", "a")], 1_000_000_000, 1.0),
                sample("up", &[("instance", "b")], 1_001_000_000, 0.0),
                sample("load", &[("cpu", "0")], 2_000_000_000, 0.5),
                sample("load", &[("cpu", "0")], 1_000_000_000, 0.25),
            ]
        );
    }
}

#[test]
fn one_table_for_all() {
    let timeseries = vec![
        series(&[("__name__", "up"), ("metric", "m"), ("value", "v")], &[(1.0, 1)]),
        series(&[("__name__", &"long_".repeat(20)), ("time", "t")], &[(2.0, 1)]),
    ];
    let outcome = read(timeseries, Layout::Single("metrics"));
    assert_eq!(outcome.errors, []);
    let up = [("metric", "up"), ("exported_metric", "m"), ("exported_value", "v")];
    let long = "long_".repeat(20);
    assert_eq!(
        samples(outcome.tables),
        [
            sample("metrics", &up, 1_000_000, 1.0),
            sample("metrics", &[("metric", &long), ("exported_time", "t")], 1_000_000, 2.0),
        ]
    );
}

#[test]
fn layouts_do_not_mix() {
    let body = snappy(&WriteRequest {
        timeseries: vec![series(&[("__name__", "up")], &[(1.0, 1)])],
        metadata: Vec::new(),
    });
    let mut reader = TelemetryReader::new(TelemetryLimits::default());
    let layouts = [Layout::PerMetric, Layout::Single("up"), Layout::Single("all")];
    for layout in layouts.iter().chain(&layouts) {
        let outcome = reader.remote_write(&body, *layout, &Catalog::default()).unwrap();
        let expected = match layout {
            Layout::PerMetric => sample("up", &[], 1_000_000, 1.0),
            Layout::Single(table) => sample(table, &[("metric", "up")], 1_000_000, 1.0),
        };
        assert_eq!(samples(outcome.tables), [expected]);
    }
}

#[test]
fn every_value_is_kept_as_it_is() {
    let bits = [STALE_NAN_BITS, f64::NAN.to_bits(), (-f64::NAN).to_bits(), 1, 1 << 63 | 1];
    let values = bits.map(f64::from_bits);
    let values: Vec<_> =
        values.iter().chain(&[f64::INFINITY, f64::NEG_INFINITY, f64::MAX]).collect();
    let written: Vec<_> = values.iter().map(|value| (**value, 5)).collect();
    let outcome = read(vec![series(&[("__name__", "m")], &written)], Layout::PerMetric);
    let read: Vec<_> = samples(outcome.tables).iter().map(|sample| sample.bits).collect();
    assert_eq!(read, values.iter().map(|value| value.to_bits()).collect::<Vec<_>>());
}

#[test]
fn a_bad_series_is_refused_alone() {
    let mut not_utf8 = series(&[("__name__", "m")], &[(1.0, 1)]);
    not_utf8.labels.push(Label { name: b"x".to_vec(), value: b"\xff".to_vec() });
    let cases = [
        (series(&[("__name__", "m"), ("a\nb", "1")], &[(1.0, 1)]), "newline", 1),
        (series(&[("a", "b")], &[(1.0, 1), (2.0, 2)]), "no metric name", 2),
        (series(&[], &[(1.0, 1)]), "no label at all", 1),
        (series(&[("__name__", ""), ("a", "b")], &[(1.0, 1)]), "no metric name", 1),
        (
            series(&[("__name__", "m"), ("b", ""), ("a", "")], &[(1.0, 1)]),
            "in the order of their names",
            1,
        ),
        (series(&[("__name__", "m"), ("b", ""), ("b", "1")], &[(1.0, 1)]), "\"b\" occurs twice", 1),
        (
            series(&[("__name__", "m"), ("exported_value", "1"), ("value", "2")], &[(1.0, 1)]),
            "labels \"value\" and \"exported_value\" would both be the tag \"exported_value\": the \
             table needs the name \"value\" itself",
            1,
        ),
        (series(&[("", "x"), ("__name__", "m")], &[(1.0, 1)]), "empty name", 1),
        (not_utf8, "is not UTF-8", 1),
        (
            series(&[("__name__", "m"), ("a", "x\ny")], &[(1.0, 1)]),
            "a newline, which a tag cannot",
            1,
        ),
        (series(&[("__name__", "m"), ("a", "x\0y")], &[(1.0, 1)]), "code 0", 1),
        (series(&[("__name__", "m"), (&"m".repeat(64), "1")], &[(1.0, 1)]), "64 bytes", 1),
        (series(&[("__name__", "m")], &[(1.0, i64::MAX), (2.0, 1)]), "the years 1677 to 2262", 1),
    ];
    for (bad, message, rejected) in cases {
        let count = bad.samples.len() as u64;
        let timeseries = vec![
            series(&[("__name__", "before")], &[(1.0, 1)]),
            bad,
            series(&[("__name__", "behind")], &[(1.0, 1)]),
        ];
        for layout in [Layout::PerMetric, Layout::Single("all")] {
            let outcome = read(timeseries.clone(), layout);
            assert!(outcome.errors[0].message.contains(message), "{outcome:?}");
            assert_eq!(outcome.errors[0].number, 2);
            assert!(!outcome.message().contains(char::is_control));
            assert_eq!((outcome.accepted, outcome.rejected), (2 + count - rejected, rejected));
            assert_eq!(samples(outcome.tables).len() as u64, outcome.accepted);
        }
    }
}

#[test]
fn native_histograms_are_counted_and_refused() {
    let mut both = series(&[("__name__", "m")], &[(1.0, 1)]);
    both.histograms = vec![NativeHistogram { count: 1, timestamp: 1 }; 3];
    let outcome = read(vec![both], Layout::PerMetric);
    assert_eq!((outcome.accepted, outcome.rejected), (1, 3));
    assert_eq!(
        outcome.message(),
        "1 sample accepted, 3 rejected: series 1: native histograms are not kept; send classic \
         histograms: in Prometheus, always_scrape_classic_histograms: true and \
         send_native_histograms: false"
    );
}

#[test]
fn a_table_that_takes_no_samples() {
    let catalog = Catalog::with([
        table("m", &[(TIME_COLUMN, NS), ("value", ColumnType::BigInt)], &[TIME_COLUMN]),
        table("n", &[(TIME_COLUMN, NS), ("a", ColumnType::BigInt)], &[TIME_COLUMN]),
        table("ok", &[(TIME_COLUMN, NS), ("value", ColumnType::Real)], &[TIME_COLUMN]),
    ]);
    let timeseries = vec![
        series(&[("__name__", "m")], &[(1.0, 1), (2.0, i64::MIN), (3.0, 2)]),
        series(&[("__name__", "n"), ("a", "1")], &[(1.0, 1)]),
        series(&[("__name__", "ok")], &[(1.0, 1)]),
    ];
    let outcome = read_in(timeseries, Layout::PerMetric, &catalog);
    assert_eq!((outcome.accepted, outcome.rejected, outcome.errors_count), (1, 4, 3));
    assert_eq!(
        outcome.errors[1].to_string(),
        "series 1: column \"value\" of table \"m\" is of type bigint, but telemetry needs double \
         precision; store the data in a table with another name, or let the server create the table"
    );
    assert!(outcome.errors[2].message.contains("tag \"a\""), "{}", outcome.errors[2]);
}

#[test]
fn bodies_that_are_none() {
    let catalog = Catalog::default();
    let mut limits = TelemetryLimits { body_bytes_max: 100, ..TelemetryLimits::default() };
    limits.rows_max = 3;
    let mut reader = TelemetryReader::new(limits);
    let mut fails = |body: &[u8], kind: ErrorKind, message: &str| {
        let error = reader.remote_write(body, Layout::PerMetric, &catalog).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.message().contains(message), "{error}");
        assert!(error.hint().is_some());
    };
    let compress = |bytes: &[u8]| snap::raw::Encoder::new().compress_vec(bytes).unwrap();
    use ErrorKind::{LimitExceeded, ProtocolViolation};
    fails(b"", ProtocolViolation, "it is empty");
    fails(b"\xff", ProtocolViolation, "snappy");
    fails(b"\x0atext", ProtocolViolation, "snappy");
    fails(&compress(&[0; 101]), LimitExceeded, "101 bytes; the maximum is 100");
    fails(b"\x60\x00", ProtocolViolation, "2 compressed bytes cannot become 96");
    fails(&compress(b"\x0a\x05abc"), ProtocolViolation, "a length says 5 bytes, and 3 are left");
    fails(&compress(b"\x0a"), ProtocolViolation, "the bytes end within a number");
    fails(&compress(b"\x0a\xff"), ProtocolViolation, "the bytes end within a number");
    fails(&compress(&[0xff; 11]), ProtocolViolation, "more than 64 bits");
    fails(
        &compress(b"\x08\x01"),
        ProtocolViolation,
        "field 1 of a message does not have its defined type",
    );
    fails(&compress(b"\x03"), ProtocolViolation, "3 is the key of no field");
    fails(&compress(b"\x0b"), ProtocolViolation, "11 is the key of no field");
    let four = series(&[("__name__", "m")], &[(1.0, 1); 4]);
    let four = WriteRequest { timeseries: vec![four], metadata: Vec::new() };
    fails(&snappy(&four), LimitExceeded, "more than 3 rows");
    // A valid series, and a series with a truncated sample.
    let mut half = prost::Message::encode_to_vec(&WriteRequest {
        timeseries: vec![series(&[("__name__", "m")], &[(1.0, 1)])],
        metadata: Vec::new(),
    });
    half.extend(b"\x0a\x0b\x0a\x05\x0a\x01a\x12\x00\x12\x02\x09\x00");
    fails(&compress(&half), ProtocolViolation, "the bytes end within a number");
    // No part of it remains for the next request.
    let none = reader.remote_write(&compress(b""), Layout::PerMetric, &catalog).unwrap();
    assert_eq!((none.tables.len(), none.accepted), (0, 0));
}

#[test]
fn labels_behind_samples() {
    let whole = series(&[("__name__", "m"), ("a", "1"), ("b", "2")], &[(1.0, 1)]);
    let mut parts = prost::Message::encode_to_vec(&TimeSeries {
        labels: whole.labels[..1].to_vec(),
        samples: whole.samples.clone(),
        ..TimeSeries::default()
    });
    let rest = TimeSeries { labels: whole.labels[1..].to_vec(), ..TimeSeries::default() };
    parts.extend(prost::Message::encode_to_vec(&rest));
    let mut body = vec![0x0a, u8::try_from(parts.len()).unwrap()];
    body.extend(parts);
    let body = snap::raw::Encoder::new().compress_vec(&body).unwrap();
    let mut reader = TelemetryReader::new(TelemetryLimits::default());
    let outcome = reader.remote_write(&body, Layout::PerMetric, &Catalog::default()).unwrap();
    assert_eq!(samples(outcome.tables), [sample("m", &[("a", "1"), ("b", "2")], 1_000_000, 1.0)]);
}

#[test]
fn wide_rows_are_bounded() {
    let label: Vec<String> = (0..500).map(|label| format!("l{label}")).collect();
    let timeseries: Vec<_> = (0..20_000_usize)
        .map(|number| series(&[("__name__", "m"), (&label[number % 500], "1")], &[(1.0, 1)]))
        .collect();
    let body = snappy(&WriteRequest { timeseries, metadata: Vec::new() });
    let limits = TelemetryLimits { batch_bytes_max: 64 << 20, ..TelemetryLimits::default() };
    let mut reader = TelemetryReader::new(limits);
    let error = reader.remote_write(&body, Layout::PerMetric, &Catalog::default()).unwrap_err();
    assert_eq!(error.message(), "the rows of the request have more than 67108864 bytes");
}

#[test]
fn a_metric_with_a_long_name_has_a_table_all_the_same() {
    let name = "m".repeat(64);
    let timeseries = vec![series(&[("__name__", &name), ("a", "b")], &[(1.0, 1)])];
    let outcome = read(timeseries.clone(), Layout::PerMetric);
    assert_eq!((outcome.accepted, outcome.rejected), (1, 0));
    let table = outcome.tables[0].measurement();
    assert!(table.len() == 63 && table.starts_with(&name[..46]), "{table}");
    let outcome = read(timeseries, Layout::Single("all"));
    assert_eq!(outcome.tables[0].measurement(), "all");
}
