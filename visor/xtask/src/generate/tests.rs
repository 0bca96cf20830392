use super::{Kind, error_kinds, promises};

#[test]
fn kinds_are_read_from_the_table() {
    let source = "macro_rules! kinds { }\n\nkinds! {\n    /// No room;\n    /// nothing kept.\n    DiskFull = \"53100\", true;\n}\n";
    let full = Kind {
        name: "DiskFull".to_string(),
        sqlstate: "53100".to_string(),
        retryable: true,
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
