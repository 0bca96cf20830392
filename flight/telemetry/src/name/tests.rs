use super::{label_of, put_metric_name, tag_of};

#[test]
fn names_as_prometheus_has_them() {
    let metric = |name: &str| {
        let mut out = String::new();
        put_metric_name(&mut out, name);
        out
    };
    for (name, expected) in [
        ("http.server.duration", "http_server_duration"),
        ("job:rate5m", "job:rate5m"),
        ("5xx", "_5xx"),
        ("größe", "gr__e"),
        ("", ""),
    ] {
        assert_eq!(metric(name), expected);
    }
    for (key, expected) in [("host.name", "host_name"), ("a:b", "a_b"), ("1st", "key_1st")] {
        assert_eq!(label_of(key), expected);
    }
}

#[test]
fn names_that_a_table_needs_itself() {
    for name in ["time", "value", "_seq"] {
        assert_eq!(tag_of(name, false), format!("exported_{name}"));
    }
    assert_eq!(tag_of("metric", false), "metric");
    assert_eq!(tag_of("metric", true), "exported_metric");
    assert_eq!(tag_of("host", true), "host");
}
