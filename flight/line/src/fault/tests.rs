use stratalog_model::{Error, ErrorKind};

use super::{LineErrors, excerpt};

#[test]
fn keeps_the_first_and_counts_all() {
    let mut errors = LineErrors::default();
    let error = Error::new(ErrorKind::BadCopyFormat, "no fields").with_hint("write one");
    for line in 1..=5 {
        errors.add(2, line, b"cpu", &error);
    }
    assert_eq!(errors.count, 5);
    assert_eq!(errors.first_errors.len(), 2);
    assert_eq!(errors.first_errors[1].to_string(), "line 2: no fields; write one");
}

#[test]
fn lines_are_cut_between_characters() {
    let mut errors = LineErrors::default();
    let error = Error::new(ErrorKind::BadCopyFormat, "x");
    let long = format!("x{}", "é".repeat(300));
    errors.add(9, 1, long.as_bytes(), &error);
    assert_eq!(errors.first_errors[0].original, format!("x{}", "é".repeat(127)));
    errors.add(9, 1, &[0xff; 300], &error);
    assert!(errors.first_errors[1].original.len() <= 256);
    assert_eq!(excerpt(&"a".repeat(65)), format!("{}…", "a".repeat(64)));
    assert_eq!(excerpt("short"), "short");
}
