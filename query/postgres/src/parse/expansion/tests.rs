use crate::parse::{expression, statements};

fn nested(form: &str, levels: usize) -> String {
    (0..levels).fold("x".to_string(), |inner, _| form.replace("{}", &inner))
}

#[test]
fn levels_that_copy_their_operand_are_limited() {
    for (form, allowed, refused) in [
        ("coalesce({}, 2)", 13, 14),
        ("({} BETWEEN 1 AND 2)::int", 13, 14),
        ("({} IN (1, 2, 3))::int", 8, 9),
        ("({}::text LIKE 'a%')::int", 13, 14),
        ("({} = 1)::int", 13, 14),
    ] {
        let text = |levels| format!("SELECT {} FROM t", nested(form, levels));
        assert!(statements(&text(allowed), 1 << 20).is_ok(), "{form}");
        let error = statements(&text(refused), 1 << 20).unwrap_err().to_string();
        assert!(error.contains("nests expressions too deeply"), "{form}: {error}");
        assert!(expression(&nested(form, refused)).is_err(), "{form}");
    }
}

#[test]
fn levels_without_copies_are_deep() {
    for form in ["abs({})", "(SELECT {} FROM t)", "(x IN (SELECT y FROM t WHERE {}))"] {
        let text = format!("SELECT {} FROM t", nested(form, 60));
        assert!(statements(&text, 1 << 20).is_ok(), "{form}");
    }
}

#[test]
fn levels_beside_each_other_do_not_count() {
    let calls = vec!["coalesce(abs(x), 1)"; 500].join(" + ");
    assert!(statements(&format!("SELECT {}", calls.replace(" + ", ", ")), 1 << 20).is_ok());
}
