use stratalog_model::ErrorKind;
use stratalog_telemetry::{
    Encoding, Layout, Outcome, STALE_NAN_BITS, TelemetryLimits, TelemetryReader,
};

use crate::{
    catalog::{Catalog, NOW_NS},
    messages::{
        Any, Data, Exponential, ExponentialPoint, Histogram, HistogramPoint, KeyValue, KeyValues,
        Metric, MetricsRequest, Number, NumberPoint, Quantile, Scope, Sum, Summary, SummaryPoint,
        Values, any_value, gauge, key, metric, metrics, number, text, texts,
    },
    rows::{sample, samples},
};

fn read(request: &MetricsRequest, layout: Layout<'_>) -> Outcome {
    let body = prost::Message::encode_to_vec(request);
    let mut reader = TelemetryReader::new(TelemetryLimits::default());
    let catalog = Catalog::default();
    let once = reader.metrics(&body, Encoding::Protobuf, layout, NOW_NS, &catalog).unwrap();
    let again = reader.metrics(&body, Encoding::Protobuf, layout, NOW_NS, &catalog).unwrap();
    assert_eq!((once.accepted, once.rejected), (again.accepted, again.rejected));
    assert_eq!(samples(once.tables), samples(again.tables));
    reader.metrics(&body, Encoding::Protobuf, layout, NOW_NS, &catalog).unwrap()
}

/// Metrics of a resource without attributes.
fn plain(list: Vec<Metric>) -> MetricsRequest {
    metrics(Vec::new(), None, list)
}

#[test]
fn numbers() {
    let sum = Sum {
        data_points: vec![number(0, Number::AsInt(1 << 53), &[])],
        aggregation_temporality: 2,
        is_monotonic: true,
    };
    let request = plain(vec![
        gauge(
            "room.temp",
            vec![number(5, Number::AsDouble(21.5), &[("room.name", "k"), ("no", "")])],
        ),
        metric("2xx/s", Data::Sum(sum)),
    ]);
    let outcome = read(&request, Layout::PerMetric);
    assert_eq!((outcome.accepted, outcome.rejected, outcome.errors_count), (2, 0, 0));
    assert_eq!(
        samples(outcome.tables),
        [
            sample("room_temp", &[("room_name", "k")], 5, 21.5),
            sample("_2xx_s", &[], NOW_NS, 9_007_199_254_740_992.0),
        ]
    );
}

#[test]
fn resource_and_scope() {
    let mut resource = texts(&[
        ("service.namespace", "shop"),
        ("service.name", "cart"),
        ("service.instance.id", "i-1"),
        ("host.name", "h"),
    ]);
    resource.push(key("process.pid", any_value(Any::Integer(7))));
    let scope = Scope {
        name: "lib".to_string(),
        version: "1.2".to_string(),
        attributes: texts(&[("short.name", "l")]),
    };
    let points = vec![
        number(7, Number::AsDouble(1.0), &[("job", "mine"), ("le", "5")]),
        number(6, Number::AsDouble(2.0), &[]),
    ];
    let request = metrics(resource, Some(scope), vec![gauge("m", points)]);
    let outcome = read(&request, Layout::Single("all"));
    assert_eq!((outcome.accepted, outcome.errors_count), (2, 0));
    let of_all = [
        ("metric", "m"),
        ("job", "shop/cart"),
        ("instance", "i-1"),
        ("otel_scope_name", "lib"),
        ("otel_scope_version", "1.2"),
        ("otel_scope_short_name", "l"),
    ];
    let first = [&of_all[..], &[("exported_job", "mine"), ("le", "5")]].concat();
    let info = [
        ("metric", "target_info"),
        ("job", "shop/cart"),
        ("instance", "i-1"),
        ("host_name", "h"),
        ("process_pid", "7"),
    ];
    assert_eq!(
        samples(outcome.tables),
        [
            sample("all", &first, 7, 1.0),
            sample("all", &of_all, 6, 2.0),
            sample("all", &info, 7, 1.0),
        ]
    );
}

#[test]
fn no_target_info_without_a_name_or_without_anything_to_tell() {
    for resource in [texts(&[("host.name", "h")]), texts(&[("service.name", "s")])] {
        let request =
            metrics(resource, None, vec![gauge("m", vec![number(1, Number::AsInt(1), &[])])]);
        assert_eq!(read(&request, Layout::PerMetric).tables.len(), 1);
    }
}

#[test]
fn values_of_attributes() {
    let list = Any::List(Values { values: vec![any_value(Any::Integer(1)), text("a\"\n")] });
    let map = Any::Map(KeyValues {
        values: vec![
            key("x", any_value(Any::Double(f64::NAN))),
            key("y", any_value(Any::Bytes(vec![255]))),
            KeyValue { key: "z".to_string(), value: None },
        ],
    });
    let mut point = number(1, Number::AsInt(1), &[("a.b", "2"), ("a_b", "1"), ("9", "nine")]);
    point.attributes.extend([
        key("list", any_value(list)),
        key("map", any_value(map)),
        key("no", any_value(Any::Boolean(false))),
        key("int", any_value(Any::Integer(i64::MIN))),
        key("double", any_value(Any::Double(0.1))),
        key("big", any_value(Any::Double(1e300))),
        key("infinite", any_value(Any::Double(f64::INFINITY))),
        key("bytes", any_value(Any::Bytes(b"\x00\x01".to_vec()))),
        key("time", text("t")),
        key("_tick", text("u")),
    ]);
    let outcome = read(&plain(vec![gauge("m", vec![point])]), Layout::PerMetric);
    let tags = [
        ("a_b", "2;1"),
        ("key_9", "nine"),
        ("list", "[1,\"a\\\"\\n\"]"),
        ("map", "{\"x\":\"NaN\",\"y\":\"/w==\",\"z\":null}"),
        ("no", "false"),
        ("int", "-9223372036854775808"),
        ("double", "0.1"),
        ("big", "1e300"),
        ("infinite", "+Inf"),
        ("bytes", "AAE="),
        ("exported_time", "t"),
        ("exported__tick", "u"),
    ];
    assert_eq!(samples(outcome.tables), [sample("m", &tags, 1, 1.0)]);
}

fn histogram(point: HistogramPoint) -> MetricsRequest {
    let data = Histogram { data_points: vec![point], aggregation_temporality: 2 };
    plain(vec![metric("took", Data::Histogram(data))])
}

#[test]
fn histograms() {
    let point = HistogramPoint {
        attributes: texts(&[("path", "/")]),
        time_unix_nano: 9,
        count: 10,
        sum: Some(4.5),
        bucket_counts: vec![1, 2, 7],
        explicit_bounds: vec![0.005, 10.0],
        min: Some(0.001),
        max: Some(11.0),
        ..HistogramPoint::default()
    };
    let outcome = read(&histogram(point.clone()), Layout::PerMetric);
    assert_eq!((outcome.accepted, outcome.rejected), (1, 0));
    let path = ("path", "/");
    assert_eq!(
        samples(outcome.tables),
        [
            sample("took_bucket", &[path, ("le", "0.005")], 9, 1.0),
            sample("took_bucket", &[path, ("le", "10")], 9, 3.0),
            sample("took_bucket", &[path, ("le", "+Inf")], 9, 10.0),
            sample("took_count", &[path], 9, 10.0),
            sample("took_sum", &[path], 9, 4.5),
            sample("took_min", &[path], 9, 0.001),
            sample("took_max", &[path], 9, 11.0),
        ]
    );
    let ended = HistogramPoint { flags: 1, ..point };
    let outcome = read(&histogram(ended), Layout::PerMetric);
    assert!(samples(outcome.tables).iter().all(|sample| sample.bits == STALE_NAN_BITS));
    let none = HistogramPoint { count: 3, time_unix_nano: 1, ..HistogramPoint::default() };
    let outcome = read(&histogram(none), Layout::PerMetric);
    assert_eq!(
        samples(outcome.tables),
        [sample("took_bucket", &[("le", "+Inf")], 1, 3.0), sample("took_count", &[], 1, 3.0)]
    );
}

#[test]
fn summaries() {
    let quantile = |quantile, value| Quantile { quantile, value };
    let point = SummaryPoint {
        time_unix_nano: 9,
        count: 10,
        sum: 4.5,
        quantile_values: vec![quantile(0.5, 1.0), quantile(1.0, 3.0)],
        ..SummaryPoint::default()
    };
    let summary = Summary { data_points: vec![point] };
    let outcome = read(&plain(vec![metric("took", Data::Summary(summary))]), Layout::PerMetric);
    assert_eq!(
        samples(outcome.tables),
        [
            sample("took", &[("quantile", "0.5")], 9, 1.0),
            sample("took", &[("quantile", "1")], 9, 3.0),
            sample("took_sum", &[], 9, 4.5),
            sample("took_count", &[], 9, 10.0),
        ]
    );
}

#[test]
fn points_without_a_recorded_value() {
    let point = NumberPoint { flags: 1, time_unix_nano: 3, ..NumberPoint::default() };
    let outcome = read(&plain(vec![gauge("m", vec![point])]), Layout::PerMetric);
    let stale = f64::from_bits(STALE_NAN_BITS);
    assert_eq!(samples(outcome.tables), [sample("m", &[], 3, stale)]);
}

#[test]
fn points_that_are_refused_alone() {
    let good = number(1, Number::AsInt(1), &[]);
    let with = |name: &str, attributes: &[(&str, &str)], time| {
        gauge(name, vec![number(time, Number::AsInt(1), attributes)])
    };
    let mut deep = text("x");
    for _ in 0..40 {
        deep = any_value(Any::List(Values { values: vec![deep] }));
    }
    let mut nested = good.clone();
    nested.attributes.push(key("deep", deep));
    let buckets = |bucket_counts: Vec<u64>, explicit_bounds: Vec<f64>| {
        let point = HistogramPoint { bucket_counts, explicit_bounds, ..HistogramPoint::default() };
        metric(
            "h",
            Data::Histogram(Histogram { data_points: vec![point], aggregation_temporality: 0 }),
        )
    };
    let summary = SummaryPoint {
        quantile_values: vec![Quantile { quantile: 1.5, value: 0.0 }],
        ..SummaryPoint::default()
    };
    let exponential = vec![ExponentialPoint { time_unix_nano: 1, count: 1, scale: 2 }; 2];
    let mut many = good.clone();
    many.attributes = (0..1_601).map(|at| key(&format!("k{at}"), text("v"))).collect();
    let cases = [
        (gauge("m", vec![many]), 1, "a series has 1601 attributes"),
        (with("", &[], 1), 1, "a metric has no name"),
        (with("m", &[], u64::MAX), 1, "behind the year 2262"),
        (with("m", &[("a", "x\ny")], 1), 1, "a newline"),
        (gauge("m", vec![NumberPoint::default()]), 1, "a point without a value"),
        (gauge("m", vec![nested]), 1, "nested too deeply"),
        (buckets(vec![1, 2], vec![]), 1, "2 counts and 0 bounds"),
        (buckets(vec![], vec![1.0]), 1, "0 counts and 1 bounds"),
        (buckets(vec![1, 2, 3], vec![1.0, 1.0]), 1, "do not ascend"),
        (buckets(vec![1, 2], vec![f64::INFINITY]), 1, "do not ascend"),
        (buckets(vec![u64::MAX, 1], vec![1.0]), 1, "more than 64 bits"),
        (
            metric("s", Data::Summary(Summary { data_points: vec![summary] })),
            1,
            "outside of 0 to 1",
        ),
        (
            metric("e", Data::Exponential(Exponential { data_points: exponential })),
            2,
            "exponential",
        ),
        (Metric { name: "none".to_string(), ..Metric::default() }, 0, "no data of a known kind"),
    ];
    for (bad, rejected, message) in cases {
        let request =
            plain(vec![gauge("a", vec![good.clone()]), bad, gauge("b", vec![good.clone()])]);
        let outcome = read(&request, Layout::PerMetric);
        assert_eq!((outcome.accepted, outcome.rejected), (2, rejected), "{outcome:?}");
        assert_eq!(outcome.errors_count, 1);
        assert!(outcome.errors[0].message.contains(message), "{}", outcome.errors[0]);
        assert_eq!(outcome.errors[0].number, 2);
        let response = outcome.response(Encoding::Protobuf);
        let message = outcome.message();
        assert!(response.windows(message.len()).any(|part| part == message.as_bytes()));
        let json = String::from_utf8(outcome.response(Encoding::Json)).unwrap();
        let expected = format!("{{\"partialSuccess\":{{\"rejectedDataPoints\":\"{rejected}\",");
        assert!(json.starts_with(&expected), "{json}");
        assert_eq!(samples(outcome.tables).len(), 2);
    }
}

#[test]
fn bodies_that_are_none() {
    let mut reader =
        TelemetryReader::new(TelemetryLimits { body_bytes_max: 50, ..TelemetryLimits::default() });
    let mut fails = |body: &[u8], kind, message: &str| {
        let read =
            reader.metrics(body, Encoding::Protobuf, Layout::PerMetric, 0, &Catalog::default());
        let error = read.unwrap_err();
        assert_eq!(error.kind(), kind);
        assert!(error.message().contains(message), "{error}");
    };
    fails(&[0; 51], ErrorKind::LimitExceeded, "the body has 51 bytes; the maximum is 50");
    fails(
        b"{\"resourceMetrics\":[]}",
        ErrorKind::ProtocolViolation,
        "is not a valid ExportMetrics",
    );
    fails(b"\x0a\x04\x0a\x00\x0a\x00", ErrorKind::ProtocolViolation, "a resource occurs twice");
    let name = plain(vec![metric("\u{e9}", Data::Gauge(crate::messages::Gauge::default()))]);
    let mut body = prost::Message::encode_to_vec(&name);
    let at = body.iter().position(|byte| *byte == 0xc3).unwrap();
    body[at] = 0xff;
    fails(&body, ErrorKind::ProtocolViolation, "the name of a metric is not UTF-8");
}

#[test]
fn text_that_is_kept_more_often_than_sent_is_bounded() {
    let scope = Scope { name: "s".repeat(100_000), ..Scope::default() };
    let points =
        (0..100).map(|at| number(1, Number::AsInt(1), &[("a", &at.to_string())])).collect();
    let request = metrics(Vec::new(), Some(scope), vec![gauge("m", points)]);
    let limits = TelemetryLimits { batch_bytes_max: 1 << 20, ..TelemetryLimits::default() };
    let body = prost::Message::encode_to_vec(&request);
    let mut reader = TelemetryReader::new(limits);
    let read = reader.metrics(&body, Encoding::Protobuf, Layout::PerMetric, 0, &Catalog::default());
    assert_eq!(read.unwrap_err().kind(), ErrorKind::LimitExceeded);
}

#[test]
fn integers_that_a_double_cannot_hold_are_refused() {
    let points =
        [1 << 53, (1 << 53) + 1, i64::MAX, i64::MIN, -(1 << 53) - 1, (1 << 60) + (1 << 20)];
    let points =
        points.into_iter().zip(1..).map(|(value, time)| number(time, Number::AsInt(value), &[]));
    let outcome = read(&plain(vec![gauge("m", points.collect())]), Layout::PerMetric);
    assert_eq!((outcome.accepted, outcome.rejected), (3, 3));
    assert!(outcome.errors[0].message.contains("has the integer 9007199254740993"), "{outcome:?}");
    let values = [
        (1, 9_007_199_254_740_992.0),
        (4, -9_223_372_036_854_775_808.0),
        (6, 1_152_921_504_607_895_552.0),
    ];
    assert_eq!(samples(outcome.tables), values.map(|(time, value)| sample("m", &[], time, value)));

    let histogram = Histogram {
        data_points: vec![HistogramPoint {
            time_unix_nano: 1,
            count: (1 << 53) + 1,
            bucket_counts: vec![1 << 53, 1],
            explicit_bounds: vec![1.0],
            ..HistogramPoint::default()
        }],
        aggregation_temporality: 2,
    };
    let outcome = read(&plain(vec![metric("h", Data::Histogram(histogram))]), Layout::PerMetric);
    assert_eq!((outcome.accepted, outcome.rejected, outcome.tables.len()), (0, 1, 0));
}

#[test]
fn names_that_become_one_do_not_replace_each_other() {
    let point = |attribute: &str| number(1, Number::AsInt(1), &[(attribute, "x")]);
    for layout in [Layout::PerMetric, Layout::Single("all")] {
        let request = plain(vec![
            gauge("a.b", vec![point("k")]),
            gauge("a_b", vec![point("k"), point("k")]),
            gauge("m", vec![point("c.d"), point("c_d"), point("c.d")]),
            gauge("n", vec![point("c_d")]),
        ]);
        let outcome = read(&request, layout);
        assert_eq!((outcome.accepted, outcome.rejected), (4, 3), "{outcome:?}");
        let errors = outcome.errors.iter().map(|error| error.message.as_str());
        let metrics = "the gauge \"a_b\" and the gauge \"a.b\" are both stored as \"a_b\", and values of \
                       one metric would replace values of the other; rename one of the two at the sender";
        let attributes = "the attribute \"c_d\" and the attribute \"c.d\" are both stored as \"c_d\", and \
                          points with one attribute would replace points with the other; rename one of \
                          the two at the sender";
        assert_eq!(errors.collect::<Vec<_>>(), [metrics, metrics, attributes]);
    }
}

#[test]
fn a_metric_beside_a_part_of_a_histogram_is_told_from_the_part() {
    let point = HistogramPoint { time_unix_nano: 1, count: 3, ..HistogramPoint::default() };
    let histogram = Histogram { data_points: vec![point], aggregation_temporality: 2 };
    let request = plain(vec![
        metric("x", Data::Histogram(histogram)),
        gauge("x_count", vec![number(1, Number::AsInt(1), &[])]),
        gauge("x_bucket", vec![number(1, Number::AsInt(1), &[])]),
    ]);
    let outcome = read(&request, Layout::PerMetric);
    assert_eq!((outcome.accepted, outcome.rejected), (1, 2), "{outcome:?}");
    for (error, message) in outcome.errors.iter().zip([
        "the gauge \"x_count\" and the count of the histogram \"x\" are both stored as \"x_count\"",
        "the gauge \"x_bucket\" and the buckets of the histogram \"x\" are both stored as",
    ]) {
        assert!(error.message.starts_with(message), "{error}");
    }
}

#[test]
fn a_refused_point_and_a_point_with_both_keys_own_no_name() {
    let point = |time, attributes: &[(&str, &str)]| number(time, Number::AsInt(1), attributes);
    let both = [("http.method", "GET"), ("http_method", "PUT")];
    let request = plain(vec![
        gauge(
            "m",
            vec![point(1, &both), point(2, &both[..1]), point(3, &both), point(4, &both[1..])],
        ),
        // Refused for another attribute: because of a newline, and because of another owner.
        gauge("n", vec![point(1, &[("a.b", "x"), ("z", "x\ny")]), point(2, &[("a_b", "x")])]),
        gauge("o", vec![point(1, &[("d.e", "x")]), point(2, &[("a.b", "x"), ("d_e", "x")])]),
        gauge("o", vec![point(3, &[("a_b", "x")])]),
        gauge("p.q", vec![point(1, &[("z", "x\ny")])]),
        gauge("p_q", vec![point(2, &[])]),
    ]);
    let outcome = read(&request, Layout::PerMetric);
    assert_eq!((outcome.accepted, outcome.rejected), (7, 4), "{outcome:?}");
    let refused: Vec<u64> = outcome.errors.iter().map(|error| error.number).collect();
    assert_eq!(refused, [4, 5, 8, 10]);
    let joined = [("http_method", "GET;PUT")];
    let single = [("http_method", "GET")];
    assert_eq!(
        samples(outcome.tables)[..3],
        [sample("m", &joined, 1, 1.0), sample("m", &single, 2, 1.0), sample("m", &joined, 3, 1.0)]
    );
}
