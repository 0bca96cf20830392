use crate::statement::parse;

#[test]
fn operands_keep_their_order() {
    let names: Vec<String> = (0..500).map(|at| format!("x{at}")).collect();
    for link in [" OR ", " AND "] {
        let chain = names.join(link);
        assert_eq!(parse::expression(&chain).unwrap().to_string(), chain);
    }
    let selects: Vec<String> = (0..300).map(|at| format!("SELECT {at}")).collect();
    for link in [" UNION ", " UNION ALL "] {
        let chain = selects.join(link);
        let tree = parse::statements(&chain, 1 << 20).unwrap().remove(0);
        assert_eq!(tree.statement.to_string(), chain);
    }
}
