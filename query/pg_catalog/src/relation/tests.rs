use super::*;

#[test]
fn names_are_split_and_folded() {
    let parts = |text: &str| name_parts(text);
    assert_eq!(parts("Cpu"), Some(vec!["cpu".to_string()]));
    assert_eq!(parts("public.\"Cpu.x\""), Some(vec!["public".to_string(), "Cpu.x".to_string()]));
    assert_eq!(parts("\"a\"\"b\""), Some(vec!["a\"b".to_string()]));
    assert_eq!(parts(""), None);
    assert_eq!(parts("a."), None);
    assert_eq!(parts("\"a"), None);
}
