use arrow::datatypes::{IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit};
use stratalog_sim::Random;

use super::*;

fn text(values: impl IntoIterator<Item = Option<String>>) -> ArrayRef {
    Arc::new(values.into_iter().collect::<StringViewArray>())
}

fn same(column: &Column, array: &ArrayRef) {
    assert_eq!(column.slice(0, column.len()).unwrap().as_ref(), array.as_ref());
}

#[test]
fn repeated_text_becomes_codes_and_comes_back() {
    for (distinct, wide) in [(3, false), (200, false), (1000, true)] {
        let array = text((0..8000).map(|row| {
            (row % 7 != 3).then(|| format!("a value longer than twelve bytes {}", row % distinct))
        }));
        let column = Column::store(&array).unwrap();
        assert_eq!(matches!(column, Column::Coded16 { .. }), wide, "{distinct}");
        assert_eq!(matches!(column, Column::Coded8 { .. }), !wide, "{distinct}");
        same(&column, &array);
        let picked = UInt32Array::from(vec![7, 0, 3, 7999]);
        assert_eq!(
            column.rows(&picked).unwrap().as_ref(),
            take(&array, &picked, None).unwrap().as_ref()
        );
    }
}

#[test]
fn distinct_text_stays_plain_and_leaves_foreign_buffers() {
    let big = text((0..4000).map(|row| Some(format!("distinct text number {row}"))));
    let slice = big.slice(10, 20);
    let column = Column::store(&slice).unwrap();
    assert!(matches!(column, Column::Plain(_)));
    same(&column, &slice);
    assert!(column.slice(0, 20).unwrap().get_array_memory_size() < 2000);
}

#[test]
fn short_and_long_text_do_not_mix_up() {
    let array = text((0..64).map(|row| match row % 4 {
        0 => Some("exactly12byt".to_string()),
        1 => Some("exactly12byte".to_string()),
        2 => Some(String::new()),
        _ => None,
    }));
    let column = Column::store(&array).unwrap();
    assert!(matches!(&column, Column::Coded8 { values, .. } if values.len() == 3));
    same(&column, &array);
    let parts = [column.clone(), column];
    same(&Column::concat(&parts).unwrap(), &concat(&[&array, &array]).unwrap());
}

#[test]
fn picked_and_joined_text_is_stored_as_if_it_came_so() {
    let mut random = Random::new(11);
    for _ in 0..300 {
        let mut texts = || {
            let rows = [0, 9, 60, 700, 3000][random.below(5) as usize];
            let (distinct, nulls) = (random.between(1, 400), random.below(3));
            text((0..rows).map(|_| {
                let value = random.below(distinct);
                (nulls == 0 || random.below(nulls + 1) > 0).then(|| format!("{value:0>13}"))
            }))
        };
        let arrays = [texts(), texts(), texts()];
        let columns = arrays.each_ref().map(|array| Column::store(array).unwrap());
        let joined = Column::concat(&columns).unwrap();
        let whole = concat(&arrays.each_ref().map(|array| array.as_ref())).unwrap();
        same(&joined, &whole);
        let len = whole.len() as u64;
        let picks = if len > 0 { random.below(900) } else { 0 };
        let picked: UInt32Array = (0..picks).map(|_| random.below(len) as u32).collect();
        let stored = Column::store(&take(&whole, &picked, None).unwrap()).unwrap();
        for column in [joined, Column::store(&whole).unwrap()] {
            assert_eq!(format!("{:?}", column.pick(&picked).unwrap()), format!("{stored:?}"));
        }
    }
}

#[test]
fn constants_of_every_kind() {
    for (value, data_type) in [
        ("42", DataType::Int32),
        ("1.5", DataType::Float64),
        ("12.34", DataType::Decimal128(6, 2)),
        ("true", DataType::Boolean),
        ("text", DataType::Utf8View),
        ("2026-01-02", DataType::Date32),
        ("\\x00ff", DataType::Binary),
        ("550e8400-e29b-41d4-a716-446655440000", DataType::FixedSizeBinary(16)),
    ] {
        let column = Column::constant(Some(value), &data_type, 3).unwrap();
        let array = column.slice(0, 3).unwrap();
        assert_eq!(array.data_type(), &data_type);
        assert_eq!(array.null_count(), 0, "{value}");
    }
    assert_eq!(
        Column::constant(None, &DataType::Int16, 4).unwrap().slice(0, 4).unwrap().null_count(),
        4
    );
    assert!(Column::constant(Some("x"), &DataType::Int32, 1).is_err());

    let list = |item: DataType| DataType::new_list(item, true);
    for (text, item, elements) in [
        ("{}", DataType::Int32, 0),
        ("{1,NULL,-3}", DataType::Int32, 3),
        ("{a,\"b, \\\"c\\\"\",NULL,\"NULL\",\"\"}", DataType::Utf8View, 5),
    ] {
        let array = Column::constant(Some(text), &list(item.clone()), 2).unwrap();
        let array = array.slice(0, 2).unwrap();
        assert_eq!(array.as_list::<i32>().value(1).len(), elements, "{text}");
        assert_eq!(array.data_type(), &list(item));
    }
    for text in ["1,2", "{1,}", "{\"a}", "{x}"] {
        assert!(Column::constant(Some(text), &list(DataType::Int32), 1).is_err(), "{text}");
    }
    let interval = DataType::Interval(IntervalUnit::MonthDayNano);
    for (text, months, days, nanoseconds) in [
        ("00:00:00", 0, 0, 0),
        ("1 year 2 mons -3 days +04:05:06.25", 14, -3, 14_706_250_000_000),
        ("-00:00:00.000000007", 0, 0, -7),
    ] {
        let array = Column::constant(Some(text), &interval, 1).unwrap().slice(0, 1).unwrap();
        let expected = IntervalMonthDayNano::new(months, days, nanoseconds);
        assert_eq!(array.as_primitive::<IntervalMonthDayNanoType>().value(0), expected, "{text}");
    }
    for text in ["1", "1 week", "x:y", "1 day 2"] {
        assert!(Column::constant(Some(text), &interval, 1).is_err(), "{text}");
    }
}
