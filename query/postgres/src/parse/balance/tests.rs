use crate::parse;

#[test]
fn operands_keep_their_order() {
    let names: Vec<String> = (0..500).map(|at| format!("x{at}")).collect();
    for link in [" OR ", " AND "] {
        let chain = names.join(link);
        assert_eq!(parse::expression(&chain).unwrap().to_string(), chain);
    }
    let selects: Vec<String> = (0..300).map(|at| format!("SELECT {at}")).collect();
    for link in [" UNION ", " UNION ALL ", " INTERSECT ", " INTERSECT ALL "] {
        let chain = selects.join(link);
        let tree = parse::statements(&chain, 1 << 20).unwrap().remove(0);
        assert_eq!(tree.statement.to_string(), chain);
    }
}

#[test]
fn the_operands_of_a_long_chain_of_except_are_one_set() {
    for (link, length, flat) in [(" EXCEPT ", 200, false), (" EXCEPT ALL ", 400, true)] {
        let selects: Vec<String> = (0..length).map(|at| format!("SELECT {at}")).collect();
        let chain = selects.join(link);
        let tree = parse::statements(&chain, 1 << 20).unwrap().remove(0);
        let wanted = match (flat, selects.split_first()) {
            (true, Some((first, rest))) => format!("{first}{link}({})", rest.join(" UNION ALL ")),
            _ => chain,
        };
        assert_eq!(tree.statement.to_string(), wanted);
    }
}
