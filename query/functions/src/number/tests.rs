use super::*;

#[test]
fn bounds_belong_to_the_bucket_that_they_start() {
    let whole = |value: i128| i256::from_i128(value);
    for (value, low, high, wanted) in
        [(-1, 0, 10, 0), (0, 0, 10, 1), (1, 0, 10, 1), (2, 0, 10, 2), (9, 0, 10, 5), (10, 0, 10, 6)]
    {
        assert_eq!(exact_bucket(whole(value), whole(low), whole(high), 5).unwrap(), wanted);
        let (value, low, high) = (value as f64, low as f64, high as f64);
        assert_eq!(floating_bucket(value, low, high, 5).unwrap(), wanted);
    }
    for (value, wanted) in [(11, 0), (10, 1), (8, 2), (1, 5), (0, 6)] {
        assert_eq!(exact_bucket(whole(value), whole(10), whole(0), 5).unwrap(), wanted);
        assert_eq!(floating_bucket(value as f64, 10.0, 0.0, 5).unwrap(), wanted);
    }
}

#[test]
fn an_exact_share_is_not_rounded() {
    let hundredths = |value: i128| i256::from_i128(value);
    assert_eq!(exact_bucket(hundredths(29), hundredths(0), hundredths(100), 100).unwrap(), 30);
    assert_eq!(floating_bucket(0.29, 0.0, 1.0, 100).unwrap(), 29);
}

#[test]
fn what_makes_no_buckets_is_refused() {
    for (value, low, high) in
        [(f64::NAN, 0.0, 1.0), (0.5, 1.0, 1.0), (0.5, f64::NEG_INFINITY, 1.0), (0.5, 0.0, f64::NAN)]
    {
        let error = floating_bucket(value, low, high, 5).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidWidthBucket);
    }
    assert_eq!(floating_bucket(f64::INFINITY, f64::MIN, f64::MAX, 2).unwrap(), 3);
    assert_eq!(floating_bucket(1.0, f64::MIN, f64::MAX, 2).unwrap(), 2);
    let error = exact_bucket(i256::ONE, i256::ONE, i256::ONE, 5).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidWidthBucket);
    assert_eq!(beyond(i32::MAX).unwrap_err().kind(), ErrorKind::NumericOutOfRange);
}
