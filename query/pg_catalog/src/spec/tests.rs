use super::*;

#[test]
fn every_column_has_a_known_type_and_names_are_unique() {
    for specs in [
        tables::TABLES,
        views::VIEWS,
        information_schema::INFORMATION_SCHEMA,
        information_schema::INFORMATION_TABLES,
        own::OWN,
    ] {
        for spec in specs {
            let mut names: Vec<&str> = Vec::new();
            for column in spec.columns.split(',') {
                let (name, kind) = column.trim().split_once(' ').unwrap();
                let kind = kind.trim().trim_end_matches('?');
                // The rows of each catalog table also have a type.
                let of_rows = kind
                    .strip_suffix("[]")
                    .is_some_and(|name| SYSTEM_TABLES.iter().any(|table| table.name == name));
                assert!(of_rows || oid_of_name(kind).is_some(), "{}.{name}: {kind}", spec.name);
                assert!(!names.contains(&name), "{}.{name}", spec.name);
                names.push(name);
            }
        }
        assert!(specs.windows(2).all(|pair| pair[0].name < pair[1].name));
    }
    let mut oids: Vec<i64> = SYSTEM_TABLES.iter().map(|table| table.oid).collect();
    oids.sort_unstable();
    assert!(oids.windows(2).all(|pair| pair[0] < pair[1]));
}
