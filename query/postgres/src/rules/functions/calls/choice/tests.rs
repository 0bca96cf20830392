use super::*;
use crate::rules::functions::calls::signatures;

fn text(text: &str) -> ValueType {
    ValueType::Text(text.to_string())
}

fn typed(column_type: ColumnType) -> ValueType {
    ValueType::Typed(column_type, true)
}

fn wanted(name: &str, given: &[ValueType]) -> Option<Vec<Option<ColumnType>>> {
    choose(signatures::of(name), given).map(|choice| choice.wanted)
}

#[test]
fn what_has_no_type_takes_that_of_the_function() {
    use ColumnType as T;
    let integer = typed(T::Integer);
    assert_eq!(wanted("sqrt", &[text("4")]), Some(vec![Some(T::Double)]));
    assert_eq!(wanted("repeat", &[text("a"), ValueType::Null]), Some(vec![None, Some(T::Integer)]));
    assert_eq!(
        wanted("series_list", &[integer.clone(), ValueType::Null]),
        Some(vec![Some(T::Integer), Some(T::Integer)])
    );
    assert_eq!(
        wanted("power", &[typed(T::NUMERIC), text("3")]),
        Some(vec![None, Some(T::Numeric { precision: 1, scale: 0 })])
    );
    assert_eq!(
        wanted("array_append", &[typed(T::Array(Box::new(T::Integer))), text("2")]),
        Some(vec![None, Some(T::Integer)])
    );
}

#[test]
fn types_are_exact_or_cast_to_those_preferred() {
    use ColumnType as T;
    assert_eq!(wanted("sqrt", &[typed(T::Integer)]), Some(vec![Some(T::Double)]));
    assert_eq!(wanted("sqrt", &[typed(T::NUMERIC)]), Some(vec![None]));
    assert_eq!(wanted("abs", &[typed(T::Integer)]), Some(vec![Some(T::Integer)]));
    assert_eq!(
        wanted("gcd", &[typed(T::Integer), typed(T::BigInt)]),
        Some(vec![Some(T::BigInt), None])
    );
    assert_eq!(wanted("sqrt", &[typed(T::Text)]), None);
    assert_eq!(wanted("sqrt", &[]), None);
    assert_eq!(wanted("sqrt", &[ValueType::Other]), None);
}
