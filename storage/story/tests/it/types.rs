//! Every type is read back unchanged.

use std::sync::Arc;

use arrow::{
    array::{
        Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray,
        FixedSizeBinaryArray, Float32Array, Float64Array, Int16Array, Int32Array, Int64Array,
        IntervalMonthDayNanoArray, ListArray, RecordBatch, StringArray, StringViewArray,
        Time64MicrosecondArray, TimestampNanosecondArray,
    },
    buffer::{NullBuffer, OffsetBuffer},
    datatypes::{Int8Type, IntervalMonthDayNano},
};
use stratalog_model::{ColumnId, ColumnType, ErrorKind};
use stratalog_story::{GroupSummary, Source, Stories, StoryId, StorySchema, StorySettings};

use crate::fixture::*;

const ROWS: usize = 24;

/// Values of a type, including its extremes; every row is valid.
fn values(of: &ColumnType, rows: usize) -> ArrayRef {
    fn cycle<T: Clone>(values: &[T], rows: usize) -> Vec<T> {
        values.iter().cloned().cycle().take(rows).collect()
    }
    let times = [0, 1, -1, i64::MIN, i64::MAX, 1_700_000_000];
    match of {
        ColumnType::Boolean => Arc::new(BooleanArray::from(cycle(&[true, false, false], rows))),
        ColumnType::SmallInt => {
            Arc::new(Int16Array::from(cycle(&[0, i16::MIN, i16::MAX, -1], rows)))
        }
        ColumnType::Integer => {
            Arc::new(Int32Array::from(cycle(&[0, i32::MIN, i32::MAX, -1], rows)))
        }
        ColumnType::BigInt => {
            Arc::new(Int64Array::from(cycle(&[0, i64::MIN, i64::MAX, -1, 7], rows)))
        }
        ColumnType::Real => Arc::new(Float32Array::from(cycle(
            &[0.0, -0.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MIN, f32::MIN_POSITIVE],
            rows,
        ))),
        ColumnType::Double => Arc::new(Float64Array::from(cycle(
            &[0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, 5e-324, 0.1],
            rows,
        ))),
        ColumnType::Numeric { precision, scale } => {
            let most = 10_i128.pow(u32::from(*precision)) - 1;
            let numbers = Decimal128Array::from(cycle(&[0, most, -most, 1, -1], rows));
            Arc::new(numbers.with_precision_and_scale(*precision, *scale as i8).unwrap())
        }
        ColumnType::Text => Arc::new(StringViewArray::from(cycle(
            &["", "a", "twelve bytes", "more than twelve bytes", "\u{10FFFF}ß\0"],
            rows,
        ))),
        ColumnType::Jsonb => Arc::new(StringViewArray::from(cycle(
            &["null", "{\"a\": [1, 2.5, \"x\"]}", "\"a text that is longer than twelve\""],
            rows,
        ))),
        ColumnType::Bytea => {
            Arc::new(BinaryArray::from_iter_values(cycle(&[vec![], vec![0], vec![255; 40]], rows)))
        }
        ColumnType::Timestamp { .. } | ColumnType::TimestampTz { .. } => {
            let numbers: ArrayRef = Arc::new(Int64Array::from(cycle(&times, rows)));
            arrow::compute::cast(&numbers, &of.arrow_type()).unwrap()
        }
        ColumnType::Date => {
            Arc::new(Date32Array::from(cycle(&[0, i32::MIN, i32::MAX, 19_000], rows)))
        }
        ColumnType::Time => {
            Arc::new(Time64MicrosecondArray::from(cycle(&[0, 86_399_999_999, 1], rows)))
        }
        ColumnType::Interval => Arc::new(IntervalMonthDayNanoArray::from(cycle(
            &[
                IntervalMonthDayNano::new(0, 0, 0),
                IntervalMonthDayNano::new(i32::MIN, i32::MAX, i64::MIN),
                IntervalMonthDayNano::new(i32::MAX, -1, i64::MAX),
            ],
            rows,
        ))),
        ColumnType::Uuid => {
            let values = cycle(&[[0_u8; 16], [255; 16], [1; 16]], rows);
            Arc::new(FixedSizeBinaryArray::new(16, values.concat().into(), None))
        }
        ColumnType::Array(element) => {
            let lengths: Vec<usize> = (0..rows).map(|row| row % 4).collect();
            let elements = with_nulls(&values(element, lengths.iter().sum()), 3);
            let field = Arc::new(element.arrow_field("item", true));
            Arc::new(ListArray::new(field, OffsetBuffer::from_lengths(lengths), elements, None))
        }
    }
}

/// The same values, with every `nth` value NULL.
fn with_nulls(array: &ArrayRef, nth: usize) -> ArrayRef {
    let valid: Vec<bool> = (0..array.len()).map(|row| row % nth != nth - 1).collect();
    let data = array.to_data().into_builder().nulls(Some(NullBuffer::from(valid)));
    arrow::array::make_array(data.build().unwrap())
}

fn every_type() -> Vec<ColumnType> {
    let mut types = vec![
        ColumnType::Boolean,
        ColumnType::SmallInt,
        ColumnType::Integer,
        ColumnType::BigInt,
        ColumnType::Real,
        ColumnType::Double,
        ColumnType::Text,
        ColumnType::Jsonb,
        ColumnType::Bytea,
        ColumnType::Date,
        ColumnType::Time,
        ColumnType::Interval,
        ColumnType::Uuid,
    ];
    for precision in [0, 3, 6, 9] {
        types.push(ColumnType::Timestamp { precision });
        types.push(ColumnType::TimestampTz { precision });
    }
    for precision in 1..=38 {
        types.push(ColumnType::Numeric { precision, scale: precision / 2 });
        types.push(ColumnType::Numeric { precision, scale: precision });
    }
    let arrays: Vec<_> = types
        .iter()
        .filter(|of| !matches!(of, ColumnType::Numeric { precision, .. } if precision % 9 > 1))
        .map(|of| ColumnType::Array(Box::new(of.clone())))
        .collect();
    types.extend(arrays);
    types
}

/// Columns: time, then a nullable and a required column of each type; the key columns are `keys`.
fn schema_of(types: &[ColumnType], keys: &[u32]) -> StorySchema {
    let mut wide = schema();
    wide.columns.truncate(1);
    for (id, of) in (10..).step_by(2).zip(types) {
        wide.columns.push(column(id, &format!("nullable {of}.{id}"), of.clone(), true));
        wide.columns.push(column(id + 1, &format!("required {of}.{id}"), of.clone(), false));
    }
    wide.keys = keys.iter().copied().map(ColumnId).collect();
    wide
}

fn numbers(rows: usize) -> [ArrayRef; 3] {
    let number = |first: i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(first..first + rows as i64))
    };
    [number(i64::MIN), number(0), number(1)]
}

fn batch(schema: &StorySchema, columns: Vec<ArrayRef>, rows: usize) -> RecordBatch {
    let time: ArrayRef =
        Arc::new(TimestampNanosecondArray::from_iter_values(0..rows as i64).with_timezone("UTC"));
    let columns = [time].into_iter().chain(columns).chain(numbers(rows)).collect();
    RecordBatch::try_new(schema.arrow_schema(), columns).unwrap()
}

fn write(stories: &Stories, schema: &StorySchema, batches: &[RecordBatch]) -> Vec<RecordBatch> {
    let mut builder = stories.build(StoryId(1), schema, StorySettings::default()).unwrap();
    for batch in batches {
        builder.push(batch, summary(batch, "", "")).unwrap();
    }
    let built = wait(builder.finish()).unwrap();
    let story = wait(stories.open_story(&built)).unwrap();
    assert_eq!(story.schema(), schema);
    wait(story.check()).unwrap();
    let columns = schema.columns.iter().map(|column| Source::Column(column.id));
    let columns: Vec<_> = columns.chain([Source::Tick, Source::Seq, Source::Gsn]).collect();
    let groups = story.groups().iter();
    groups.map(|head| wait(story.read(head.number, &columns, None)).unwrap()).collect()
}

/// Equal to the bit, NaN and -0 included.
fn assert_same(read: &RecordBatch, written: &RecordBatch) {
    assert_eq!(read.schema(), written.schema());
    for ((field, read), written) in
        read.schema().fields().iter().zip(read.columns()).zip(written.columns())
    {
        assert_eq!(read.to_data(), written.to_data(), "{}", field.name());
        if let (Some(read), Some(written)) = (
            read.as_any().downcast_ref::<Float64Array>(),
            written.as_any().downcast_ref::<Float64Array>(),
        ) {
            let bits = |array: &Float64Array| {
                array.iter().map(|value| value.map(f64::to_bits)).collect::<Vec<_>>()
            };
            assert_eq!(bits(read), bits(written), "{}", field.name());
        }
    }
}

#[test]
fn every_type_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let types = every_type();
    let schema = schema_of(&types, &[]);
    let columns = |rows: usize, nth: usize| -> Vec<ArrayRef> {
        let both = types.iter().flat_map(|of| {
            let array = values(of, rows);
            [with_nulls(&array, nth), array]
        });
        both.collect()
    };
    let batches = [
        batch(&schema, columns(ROWS, 3), ROWS),
        batch(&schema, columns(1, 1), 1),
        batch(&schema, columns(5000, 7), 5000),
    ];
    let read = write(&local(folder.path()), &schema, &batches);
    for (read, written) in read.iter().zip(&batches) {
        assert_same(read, written);
    }
}

#[test]
fn every_type_of_key_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let types = [
        ColumnType::Boolean,
        ColumnType::SmallInt,
        ColumnType::Integer,
        ColumnType::BigInt,
        ColumnType::Text,
        ColumnType::Uuid,
        ColumnType::Date,
    ];
    for of in types {
        let stories = local(&folder.path().join(of.to_string()));
        let mut schema = schema_of(std::slice::from_ref(&of), &[11]);
        schema.columns.remove(1);
        let unsorted = values(&of, 2000);
        let order = arrow::compute::sort_to_indices(&unsorted, None, None).unwrap();
        let sorted = arrow::compute::take(&unsorted, &order, None).unwrap();
        let rows = batch(&schema, vec![Arc::clone(&sorted)], 2000);
        let settings = StorySettings { page_rows_max: 64, ..StorySettings::default() };
        let mut builder = stories.build(StoryId(1), &schema, settings).unwrap();
        builder.push(&rows, summary(&rows, "", "")).unwrap();
        let story = wait(stories.open_story(&wait(builder.finish()).unwrap())).unwrap();
        for row in (0..2000).step_by(97) {
            let keys =
                [stratalog_story::KeyValues { column: ColumnId(11), values: sorted.slice(row, 1) }];
            let all = stratalog_model::TickRanges::all();
            let selection = story.select(0, &all, &keys, &[]).unwrap().unwrap();
            assert!(selection.ranges().iter().any(|range| range.contains(&row)), "{of}");
            assert!(!selection.is_all(), "{of}");
            assert!(wait(story.may_hold(0, &keys)).unwrap(), "{of}");
        }
    }
}

#[test]
fn dictionaries_are_taken_and_other_types_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let stories = local(folder.path());
    let schema = schema_of(&[ColumnType::Text], &[]);
    let texts = StringArray::from(vec!["b", "a"]);
    let coded = DictionaryArray::<Int8Type>::new(vec![1, 0, 1, 1].into(), Arc::new(texts));
    let coded: ArrayRef = Arc::new(coded);
    let plain: ArrayRef = Arc::new(StringViewArray::from(vec!["a", "b", "a", "a"]));
    let expected = batch(&schema, vec![Arc::clone(&plain), plain], 4);
    let mut columns = expected.columns().to_vec();
    columns[1] = Arc::clone(&coded);
    columns[2] = coded;
    let mut fields = schema.arrow_schema().fields().to_vec();
    for (at, column) in columns.iter().enumerate() {
        fields[at] = Arc::new(arrow::datatypes::Field::new(
            fields[at].name(),
            column.data_type().clone(),
            fields[at].is_nullable(),
        ));
    }
    let schema_with_codes = Arc::new(arrow::datatypes::Schema::new(fields.clone()));
    let rows = RecordBatch::try_new(schema_with_codes, columns.clone()).unwrap();
    assert_same(&write(&stories, &schema, &[rows])[0], &expected);
    columns[1] = Arc::new(Int64Array::from(vec![1, 2, 3, 4]));
    fields[1] = Arc::new(arrow::datatypes::Field::new("n", columns[1].data_type().clone(), true));
    let rows =
        RecordBatch::try_new(Arc::new(arrow::datatypes::Schema::new(fields)), columns).unwrap();
    let mut builder = stories.build(StoryId(2), &schema, StorySettings::default()).unwrap();
    let error = builder.push(&rows, summary(&rows, "", "")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DatatypeMismatch);
}

#[test]
fn seconds_that_have_no_milliseconds_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let stories = local(folder.path());
    let of = ColumnType::Timestamp { precision: 0 };
    let schema = schema_of(std::slice::from_ref(&of), &[]);
    let far: ArrayRef = Arc::new(Int64Array::from(vec![i64::MAX - 1]));
    let far = arrow::compute::cast(&far, &of.arrow_type()).unwrap();
    let rows = batch(&schema, vec![Arc::clone(&far), far], 1);
    let mut builder = stories.build(StoryId(1), &schema, StorySettings::default()).unwrap();
    let summary = GroupSummary { ..summary(&rows, "", "") };
    assert_eq!(builder.push(&rows, summary).unwrap_err().kind(), ErrorKind::DatetimeOverflow);
}
