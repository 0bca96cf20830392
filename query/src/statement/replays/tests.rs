use super::*;

#[test]
fn ranges_are_half_open_and_either_end_may_be_missing() {
    let condition = |text: &str| Range::of(text).unwrap().condition("\"time\"");
    assert_eq!(
        condition("[2024-01-01, 2024-01-02 03:00)"),
        "(\"time\" >= '2024-01-01' AND \"time\" < '2024-01-02 03:00')"
    );
    assert_eq!(condition("time [2024-01-01,)"), "(\"time\" >= '2024-01-01')");
    assert_eq!(condition(" TICK [ -5 , 100 ) "), "(_tick >= -5 AND _tick < 100)");
    assert_eq!(condition("gsn [,10)"), "(_gsn < 10)");
    assert_eq!(condition("[,)"), "true");
    assert_eq!(condition("[it's, )"), "(\"time\" >= 'it''s')");
}

#[test]
fn what_is_no_range_is_refused() {
    for wrong in
        ["", "2024-01-01", "(1, 2)", "[1, 2]", "[1)", "tick [a, b)", "gsn [1.5, )", "x [1, 2)"]
    {
        let error = Range::of(wrong).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidTextRepresentation, "{wrong}");
        assert!(error.hint().is_some());
    }
}
