use super::*;

#[test]
fn fixed_rows_fit_their_tables() {
    for (schema, name, fill) in FIXED {
        let table = crate::spec::system_table(schema, name).unwrap_or_else(|| panic!("{name}"));
        let mut rows = Rows::new(table);
        fill(&mut rows).unwrap();
        assert!(rows.finish().unwrap().num_rows() > 0, "{name}");
    }
    for (schema, name, _) in LIVE {
        assert!(crate::spec::system_table(schema, name).is_some(), "{schema}.{name}");
    }
    assert!(is_always_empty("pg_catalog", "pg_publication"));
    assert!(!is_always_empty("pg_catalog", "pg_class"));
    assert!(!is_always_empty("public", "cpu"));
}
