use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use stratalog_model::{ErrorKind, clock::ClockStatus, store::MoveKind, store::StoreStatus};

use super::*;

fn page_of(metrics: &Metrics) -> String {
    metrics.page(&ServerStatus {
        store: &StoreStatus::default(),
        clock: &ClockStatus::default(),
        sessions: 2,
        sessions_running: 1,
        moves_running: 0,
        moves_failed: 0,
        certificate_expires_ns: None,
        up_ns: 5_500_000_000,
    })
}

/// The name, labels and value of each sample on a page.
fn samples(page: &str) -> Vec<(String, BTreeMap<String, String>, f64)> {
    let sample = |line: &str| {
        let (series, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = match series.split_once('{') {
            Some((name, labels)) => (name, labels.strip_suffix('}').unwrap()),
            None => (series, ""),
        };
        let label = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap();
            (name.to_string(), value.trim_matches('"').to_string())
        };
        let labels = labels.split(',').filter(|pair| !pair.is_empty()).map(label).collect();
        (name.to_string(), labels, value.parse().unwrap())
    };
    page.lines().filter(|line| !line.starts_with('#')).map(sample).collect()
}

fn value(page: &str, series: &str) -> f64 {
    value_on_page(page, series).unwrap_or_else(|| panic!("{series} is missing in\n{page}"))
}

#[test]
fn the_page_contains_the_list_and_nothing_else() {
    let page = page_of(&Metrics::new());
    let mut exported = BTreeMap::new();
    let mut helps = BTreeMap::new();
    for line in page.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|of| of.split_once(' ')) {
            assert!(exported.insert(name, kind).is_none(), "{name} is exported twice");
        }
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|of| of.split_once(' ')) {
            helps.insert(name, help);
        }
    }
    let listed: BTreeMap<&str, &str> = METRICS.iter().map(|of| (of.name, of.kind)).collect();
    assert_eq!(exported, listed);
    assert_eq!(METRICS.len(), listed.len(), "a metric is in the list twice");
    for metric in METRICS {
        assert_eq!(helps.get(metric.name), Some(&metric.help));
        assert_eq!(metric.kind == "histogram", !metric.buckets.is_empty(), "{}", metric.name);
        assert!(metric.buckets.is_sorted_by(|a, b| a < b), "{}", metric.name);
        let of_metric = |name: &str| match metric.kind {
            "histogram" => ["_bucket", "_sum", "_count"]
                .iter()
                .any(|suffix| name.strip_suffix(suffix) == Some(metric.name)),
            _ => name == metric.name,
        };
        let found: BTreeSet<BTreeSet<String>> = samples(&page)
            .into_iter()
            .filter(|(name, ..)| of_metric(name))
            .map(|(_, labels, _)| labels.into_keys().filter(|label| label != "le").collect())
            .collect();
        let labels: BTreeSet<String> = metric.labels.iter().map(ToString::to_string).collect();
        assert_eq!(found, BTreeSet::from([labels]), "the labels of {}", metric.name);
    }
}

#[test]
fn every_sample_has_two_fields() {
    // Simple parsers expect exactly one space per line.
    let page = page_of(&Metrics::new());
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        assert_eq!(line.split_whitespace().count(), 2, "{line}");
    }
    assert_eq!(value(&page, "stratalog_up_seconds"), 5.0);
    assert_eq!(value(&page, "stratalog_sessions"), 2.0);
}

#[test]
fn a_histogram_counts_each_value_once() {
    let metrics = Metrics::new();
    for rows in [0, 1, 2, 10, 11, 20_000_000] {
        metrics.queries().returned(rows);
    }
    let page = page_of(&metrics);
    let below =
        |bound: &str| value(&page, &format!("stratalog_query_rows_bucket{{le=\"{bound}\"}}"));
    // The upper bounds are inclusive, and each count includes the counts of all lower buckets.
    assert_eq!([below("0"), below("1"), below("10"), below("100")], [1.0, 2.0, 4.0, 5.0]);
    assert_eq!(below("+Inf"), 6.0);
    assert_eq!(value(&page, "stratalog_query_rows_count"), 6.0);
    assert_eq!(value(&page, "stratalog_query_rows_sum"), 20_000_024.0);
}

#[test]
fn durations_are_in_seconds() {
    let histogram = Histogram::new(&[1_000, 1_000_000], 1e9);
    histogram.observe_duration(Duration::from_micros(1));
    histogram.observe_duration(Duration::from_secs(3));
    assert_eq!(histogram.count(), 2);
    let metrics = Metrics::new();
    metrics.moves().moved(MoveKind::Archive, Duration::from_millis(2_500), 4096);
    metrics.moves().failed(MoveKind::Archive, Duration::ZERO);
    let page = page_of(&metrics);
    assert_eq!(value(&page, "stratalog_move_seconds_sum{kind=\"archive\"}"), 2.5);
    assert_eq!(value(&page, "stratalog_move_seconds_count{kind=\"archive\"}"), 2.0);
    assert_eq!(value(&page, "stratalog_move_seconds_bucket{kind=\"archive\",le=\"2\"}"), 1.0);
    assert_eq!(value(&page, "stratalog_move_bytes_sum{kind=\"archive\"}"), 4096.0);
    assert_eq!(value(&page, "stratalog_move_failures_total{kind=\"archive\"}"), 1.0);
    assert_eq!(value(&page, "stratalog_move_failures_total{kind=\"flush\"}"), 0.0);
}

#[test]
fn a_connection_is_open_until_its_drop() {
    let metrics = Metrics::new();
    let door = metrics.door(Door::Lines);
    let open = [door.connected(), door.connected()];
    door.refused();
    let [first, second] = open;
    drop(first);
    let page = page_of(&metrics);
    let of =
        |name: &str| value(&page, &format!("stratalog_door_connections{name}{{door=\"lines\"}}"));
    assert_eq!([of(""), of("_accepted_total"), of("_refused_total")], [1.0, 2.0, 1.0]);
    drop(second);
    assert_eq!(value(&page_of(&metrics), "stratalog_door_connections{door=\"lines\"}"), 0.0);
    assert_eq!(value(&page_of(&metrics), "stratalog_door_connections{door=\"http\"}"), 0.0);
}

#[test]
fn every_kind_of_error_has_a_series() {
    let metrics = Metrics::new();
    for kind in ErrorKind::ALL {
        metrics.door(Door::Flight).failed(*kind);
    }
    metrics.door(Door::Flight).failed_with("99999");
    metrics.door(Door::Flight).failed_with("é");
    let page = page_of(&metrics);
    let errors = samples(&page).into_iter().filter(|(name, labels, _)| {
        name == "stratalog_door_errors_total" && labels["door"] == "flight"
    });
    let sum: f64 = errors.map(|(.., count)| count).sum();
    assert_eq!(sum, ErrorKind::ALL.len() as f64);
    let class = "stratalog_door_errors_total{door=\"flight\",class=\"57\"}";
    let stops = ErrorKind::ALL.iter().filter(|kind| kind.sqlstate().starts_with("57"));
    assert_eq!(value(&page, class), stops.count() as f64);
}

#[test]
fn requests_and_statements_have_a_series_each() {
    let metrics = Metrics::new();
    for class in RequestClass::ALL {
        drop(metrics.door(class.door()).begin(class));
    }
    for class in [StatementClass::Read, StatementClass::Session] {
        metrics.queries().executed(class, Stopwatch::start());
    }
    metrics.queries().planned(PlanningStep::Physical, Stopwatch::start());
    metrics.queries().failed(ErrorKind::QueryCanceled);
    metrics.queries().failed(ErrorKind::OutOfMemory);
    metrics.queries().failed(ErrorKind::SyntaxError);
    let page = page_of(&metrics);
    for class in RequestClass::ALL {
        let (door, request) = (class.door().name(), class.name());
        let series = format!(
            "stratalog_door_request_seconds_count{{door=\"{door}\",request=\"{request}\"}}"
        );
        assert_eq!(value(&page, &series), 1.0);
    }
    let statements = "stratalog_query_execution_seconds_count";
    assert_eq!(value(&page, &format!("{statements}{{statement=\"read\"}}")), 1.0);
    assert_eq!(value(&page, &format!("{statements}{{statement=\"write\"}}")), 0.0);
    assert_eq!(value(&page, &format!("{statements}{{statement=\"session\"}}")), 1.0);
    let planning = "stratalog_query_planning_seconds_count";
    assert_eq!(value(&page, &format!("{planning}{{step=\"logical\"}}")), 0.0);
    assert_eq!(value(&page, &format!("{planning}{{step=\"physical\"}}")), 1.0);
    assert_eq!(value(&page, "stratalog_query_cancelled_total"), 1.0);
    assert_eq!(value(&page, "stratalog_query_memory_refused_total"), 1.0);
}

#[test]
fn each_journal_has_its_series() {
    let metrics = Metrics::new();
    metrics.journal(JournalName::Events).wrote_group(7, 700);
    metrics.journal(JournalName::Manifest).synced(Stopwatch::start());
    let waiting = metrics.journal(JournalName::Catalog).wait();
    let page = page_of(&metrics);
    assert_eq!(value(&page, "stratalog_journal_group_events_sum{log=\"events\"}"), 7.0);
    assert_eq!(value(&page, "stratalog_journal_group_bytes_sum{log=\"events\"}"), 700.0);
    assert_eq!(value(&page, "stratalog_journal_sync_seconds_count{log=\"manifest\"}"), 1.0);
    assert_eq!(value(&page, "stratalog_journal_sync_seconds_count{log=\"events\"}"), 0.0);
    assert_eq!(value(&page, "stratalog_journal_appends_waiting{log=\"catalog\"}"), 1.0);
    drop(waiting);
    let page = page_of(&metrics);
    assert_eq!(value(&page, "stratalog_journal_appends_waiting{log=\"catalog\"}"), 0.0);
    // Metrics without a registry can be counted, but appear nowhere.
    JournalMetrics::default().wrote_group(1, 1);
    MoveMetrics::default().failed(MoveKind::Index, Duration::from_nanos(1));
}
