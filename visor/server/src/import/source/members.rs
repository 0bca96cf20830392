//! Splits a JSON text into the texts of the values: numbers keep all digits. The JSON must be
//! valid.

/// The texts of the members of an object, or of the items of an array.
pub(super) fn parts(composite: &str) -> Vec<&str> {
    let trimmed = composite.trim();
    let inner = trimmed.get(1..trimmed.len().saturating_sub(1)).unwrap_or_default();
    let (mut depth, mut quoted, mut escaped, mut start) = (0_usize, false, false, 0);
    let mut parts = Vec::new();
    for (at, byte) in inner.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                parts.push(inner.get(start..at).unwrap_or_default().trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    let last = inner.get(start..).unwrap_or_default().trim();
    if !last.is_empty() {
        parts.push(last);
    }
    parts
}

/// Splits the text of a member of an object into its name and the text of its value.
pub(super) fn named(member: &str) -> Option<(String, &str)> {
    let mut names = serde_json::Deserializer::from_str(member).into_iter::<String>();
    let name = names.next()?.ok()?;
    let value = member.get(names.byte_offset()..)?.trim_start().strip_prefix(':')?;
    Some((name, value.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_those_of_the_line() {
        let line = r#" {"a,\"b": [1.50, {"x": "],"}, []], "n" : -0.10e+05 ,"é":"\\","o":{}} "#;
        let found: Vec<(String, &str)> = parts(line).into_iter().filter_map(named).collect();
        let named = |name: &str| found.iter().find(|(known, _)| known == name).unwrap().1;
        assert_eq!(found.len(), 4);
        assert_eq!(parts(named("a,\"b")), ["1.50", r#"{"x": "],"}"#, "[]"]);
        assert_eq!(named("n"), "-0.10e+05");
        assert_eq!((named("é"), named("o")), (r#""\\""#, "{}"));
        assert!(parts("{}").is_empty() && parts("[ ]").is_empty());
    }
}
