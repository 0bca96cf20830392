use super::*;

fn shown(scan: &ScanMetrics) -> String {
    let mut set = MetricsSet::new();
    add(&mut set, scan);
    set.to_string()
}

#[test]
fn tiers_without_a_part_are_not_shown() {
    let scan = ScanMetrics::default();
    assert_eq!(shown(&scan), "");
    scan.tablet.pruned(7);
    let text = shown(&scan);
    assert!(text.contains("tablet_parts_pruned=7") && text.contains("tablet_parts_read=0"));
    assert!(!text.contains("journal") && !text.contains("story"), "{text}");
    scan.journal.read(12, 345);
    scan.journal.read(3, 5);
    let text = shown(&scan);
    for part in ["journal_parts_read=2", "journal_rows_read=15", "journal_bytes_read=350"] {
        assert!(text.contains(part), "{text}");
    }
}
