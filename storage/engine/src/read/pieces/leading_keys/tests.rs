use super::*;

fn keys(keys: &[&str], whole: bool) -> LeadingKeys {
    LeadingKeys { keys: keys.iter().map(|key| key.as_bytes().to_vec()).collect(), whole }
}

#[test]
fn parts_are_told_by_their_first_and_last_key() {
    for (wanted, first, last, may) in [
        ("b", "a", "c", true),
        ("b", "b1", "b9", true),
        ("b", "a", "b", true),
        ("b", "a", "b7", true),
        ("b", "b7", "c", true),
        ("b", "c", "d", false),
        ("b", "a1", "az", false),
    ] {
        assert_eq!(
            keys(&[wanted], false).may_lie_between(b(first), b(last)),
            may,
            "{first} {last}"
        );
    }
    let two = keys(&["b", "x"], false);
    assert!(two.may_lie_between(b"w", b"y") && two.may_lie_between(b"x5", b"x6"));
    assert!(!two.may_lie_between(b"c", b"w"));
    // A whole key does not match a longer key with the same beginning.
    assert!(!keys(&["b"], true).may_lie_between(b"b1", b"b9"));
    assert!(keys(&["b"], true).may_lie_between(b"a", b"b"));
    assert!(keys(&["b"], true).as_beginnings().may_lie_between(b"b1", b"b9"));
    assert_eq!(keys(&["b"], false).whole(), None);
    // An empty beginning matches all keys.
    assert!(keys(&[""], false).may_lie_between(b"a", b"b"));
}

fn b(text: &str) -> &[u8] {
    text.as_bytes()
}
