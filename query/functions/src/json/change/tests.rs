use super::*;

fn set(json: &str, path: &[&str], new: &str, add: bool) -> String {
    let path: Vec<String> = path.iter().map(|step| (*step).to_string()).collect();
    rewritten(json, &JsonChange::Set { path: &path, new, add }).unwrap()
}

// The expected values are the results of PostgreSQL 15.
#[test]
fn values_are_changed_at_a_path() {
    assert_eq!(set(r#"{"a": 1}"#, &["a"], "2", true), r#"{"a": 2}"#);
    assert_eq!(set(r#"{"a": 1}"#, &["b"], "2", true), r#"{"a": 1, "b": 2}"#);
    assert_eq!(set(r#"{"a": 1}"#, &["b"], "2", false), r#"{"a": 1}"#);
    assert_eq!(set("[1, 2]", &["-1"], "3", true), "[1, 3]");
    assert_eq!(set("[1, 2]", &["9"], "3", true), "[1, 2, 3]");
    assert_eq!(set("[1, 2]", &["-9"], "3", true), "[3, 1, 2]");
    assert_eq!(set(r#"{"a": {"b": 1}}"#, &["a", "b"], "2", true), r#"{"a": {"b": 2}}"#);
    let mut out = String::new();
    strip(r#"{"a": null, "b": [null, {"c": null}]}"#, &mut out, 0).unwrap();
    assert_eq!(normalize_jsonb(&out).unwrap(), r#"{"b": [null, {}]}"#);
}
