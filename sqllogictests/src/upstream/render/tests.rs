use super::*;

#[test]
fn floats_are_plain_and_rounded_half_to_even() {
    for (value, cell_text) in [
        (0.1, "0.1"),
        (-0.0, "0"),
        (1e20, "100000000000000000000"),
        (1.0 / 3.0, "0.333333333333"),
        (2.0 / 3.0, "0.666666666667"),
        (0.9999999999999, "1"),
        (-2.5, "-2.5"),
        (1e-13, "0"),
    ] {
        assert_eq!(float(value), cell_text, "{value}");
    }
    assert_eq!(rounded("0.0000000000005"), "0");
    assert_eq!(rounded("0.0000000000015"), "0.000000000002");
}
