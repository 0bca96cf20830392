use super::{Kind, Setting, error_kinds, promises, session_settings};

#[test]
fn kinds_are_read_from_the_table() {
    let source = "macro_rules! kinds { }\n\nkinds! {\n    /// No room;\n    /// nothing kept.\n    DiskFull = \"53100\", true, ResourceExhausted;\n}\n";
    let full = Kind {
        name: "DiskFull".to_string(),
        sqlstate: "53100".to_string(),
        retryable: true,
        status: "ResourceExhausted".to_string(),
        meaning: "No room; nothing kept.".to_string(),
    };
    assert_eq!(error_kinds(source), [full]);
    assert_eq!(error_kinds("nothing"), []);
}

#[test]
fn the_product_has_kinds_and_promises() {
    let kinds = include_str!("../../../../storage/model/src/error.rs");
    assert!(error_kinds(kinds).len() > 40);
    let registry = include_str!("../../../../storage/model/src/invariant.rs");
    let numbers: Vec<String> = promises(registry).into_iter().map(|(number, _)| number).collect();
    assert_eq!(numbers, ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10"]);
}

#[test]
fn session_settings_are_read_from_their_registry() {
    let source = "    setting(\"a\", \"\\\"$user\\\", public\", Rule::OneOf(&[\"x\", \"y\"]), false, \"does, this\"),\n    setting(\"b\", VERSION, Rule::Fixed, true, \"that\"),\n";
    let setting = |name: &str, default: &str, rule: &str, does: &str| Setting {
        name: name.to_string(),
        default: default.to_string(),
        rule: rule.to_string(),
        does: does.to_string(),
    };
    assert_eq!(
        session_settings(source),
        [
            setting("a", "\"$user\", public", "OneOf", "does, this"),
            setting("b", "", "Fixed", "that"),
        ]
    );
}
