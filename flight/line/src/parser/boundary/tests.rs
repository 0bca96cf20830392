use proptest::prelude::*;

use super::Boundary;

/// Splits a text into its lines. Searches for the newlines in chunks of `piece` bytes.
fn lines(text: &str, piece: usize) -> Vec<String> {
    let mut lines = vec![Vec::new()];
    let mut boundary = Boundary::default();
    for piece in text.as_bytes().chunks(piece) {
        let mut rest = piece;
        while let Some(end) = boundary.find(rest) {
            lines.last_mut().unwrap().extend_from_slice(&rest[..end]);
            lines.push(Vec::new());
            rest = &rest[end..];
            boundary = Boundary::default();
        }
        lines.last_mut().unwrap().extend_from_slice(rest);
    }
    lines.into_iter().map(|line| String::from_utf8(line).unwrap()).collect()
}

#[test]
fn newlines_that_end_no_line() {
    for (text, count) in [
        ("a f=1\nb f=2\n", 3),
        ("a f=\"x\ny\"\nb", 2),
        ("a f=\"x\\\"\ny\"\nb", 2),
        ("a\\\nb f=1\nc", 2),
        ("a,t=\"x\ny\" f=1", 2),
        ("a \"f=1\nb", 2),
        ("a f=1,\"g=2\nb", 2),
        ("a f=1,g=\"\n\n\n", 1),
    ] {
        assert_eq!(lines(text, usize::MAX).len(), count, "{text:?}");
    }
}

proptest! {
    #[test]
    fn lines_are_those_of_the_reference(text in "[a ,=\"\\\\\n\ré]{0,60}", piece in 1_usize..9) {
        let reference: Vec<_> = influxdb_line_protocol::split_lines(&text).collect();
        let ours = lines(&text, usize::MAX);
        let trimmed: Vec<_> = ours.iter().enumerate().map(|(at, line)| {
            if at + 1 < ours.len() { line.strip_suffix('\n').unwrap() } else { line }
        }).collect();
        prop_assert_eq!(trimmed, reference);
        prop_assert_eq!(lines(&text, piece), ours);
    }
}
