use super::pretty;

#[test]
fn sizes_for_people() {
    assert_eq!(pretty(0), "0 bytes");
    assert_eq!(pretty(8_192), "8192 bytes");
    assert_eq!(pretty(10_239), "10239 bytes");
    assert_eq!(pretty(10_240), "10 kB");
    assert_eq!(pretty(7_503 * 1_024), "7503 kB");
    assert_eq!(pretty(1 << 40), "1024 GB");
    assert_eq!(pretty(-20_480), "-20 kB");
    assert_eq!(pretty(10_485_247), "10239 kB");
    assert_eq!(pretty(10_736_893_951), "10239 MB");
    assert_eq!(pretty(10_736_893_952), "10 GB");
    assert_eq!(pretty(11_258_449_312_612_352), "10 PB");
    assert_eq!(pretty(i128::from(i64::MIN)), "-8192 PB");
    assert_eq!(pretty(i128::from(i64::MAX)), "8192 PB");
}
