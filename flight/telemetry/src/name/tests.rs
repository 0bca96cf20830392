use super::{NAME_BYTES_MAX, label_of, put_metric_name, table_of, tag_of};

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

#[test]
fn names_longer_than_a_tables() {
    assert_eq!(table_of(&"m".repeat(63)), "m".repeat(63));
    let long = "prometheus_remote_storage_string_interner_zero_reference_releases_total";
    let table = table_of(long);
    assert_eq!(table, "prometheus_remote_storage_string_interner_zero_5d486ae1a89b68f1");
    assert_eq!(table.len(), NAME_BYTES_MAX);
    assert_ne!(table_of(&format!("{long}s")), table);
    // The name is cut between characters, never within one.
    assert_eq!(table_of(&"ö".repeat(40)).len(), NAME_BYTES_MAX);
    assert!(table_of(&format!("a{}", "ö".repeat(40))).len() < NAME_BYTES_MAX);
}
