use super::*;

#[test]
fn neighbours_merge_and_others_do_not() {
    let mut locator = Locator::default();
    locator.insert(1, 10, 1);
    locator.insert(11, 5, 11);
    assert_eq!(locator.runs.len(), 1);
    locator.insert(30, 5, 16);
    locator.insert(20, 5, 21);
    assert_eq!(locator.runs.len(), 3);
    let gsns = [
        (0, None),
        (1, Some(1)),
        (15, Some(15)),
        (16, None),
        (20, Some(21)),
        (24, Some(25)),
        (25, None),
        (34, Some(20)),
    ];
    for (seq, gsn) in gsns {
        assert_eq!(locator.gsn(seq), gsn, "{seq}");
    }
    assert_eq!(locator.run(12), Some((1, 16, 1)));
}
