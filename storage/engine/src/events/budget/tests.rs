use super::*;

#[test]
fn claims_add_up_and_come_back() {
    let budget = Budget::new(100);
    let first = budget.claim(60).unwrap();
    let refused = budget.claim(41).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::OutOfMemory);
    assert!(refused.message().contains("60 of 100"));
    assert_eq!(budget.used(), 60);
    let second = budget.claim(40).unwrap();
    drop(first);
    assert_eq!(budget.used(), 40);
    drop(second);
    assert_eq!(budget.used(), 0);
}

#[test]
fn adjusting_keeps_the_sum_exact() {
    let budget = Budget::new(100);
    let mut claim = budget.claim(50).unwrap();
    claim.adjust(80);
    assert_eq!(budget.used(), 80);
    claim.adjust(10);
    assert_eq!(budget.used(), 10);
    let over = budget.claim_anyway(500);
    assert_eq!(budget.used(), 510);
    drop(over);
    drop(claim);
    assert_eq!(budget.used(), 0);
}
