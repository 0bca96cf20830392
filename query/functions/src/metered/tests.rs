use arrow::{
    array::{Int64Array, StringViewArray},
    datatypes::Field,
};
use datafusion::{
    common::config::ConfigOptions,
    functions::string::{concat, repeat},
    logical_expr::lit,
};

use super::*;

fn text(text: &str) -> ColumnarValue {
    ColumnarValue::Scalar(ScalarValue::Utf8View(Some(text.to_string())))
}

fn call(function: &ScalarUDF, args: Vec<ColumnarValue>, rows: usize) -> Result<ColumnarValue> {
    let field = |data_type: DataType| Arc::new(Field::new("x", data_type, true));
    let arg_fields: Vec<FieldRef> = args.iter().map(|value| field(value.data_type())).collect();
    let scalar_arguments = vec![None; args.len()];
    let return_field = function.return_field_from_args(ReturnFieldArgs {
        arg_fields: &arg_fields,
        scalar_arguments: &scalar_arguments,
    })?;
    let config_options = Arc::new(ConfigOptions::default());
    invoke(
        function,
        ScalarFunctionArgs { args, arg_fields, number_rows: rows, return_field, config_options },
    )
}

fn kind(result: Result<ColumnarValue>) -> ErrorKind {
    match result.unwrap_err() {
        datafusion::error::DataFusionError::External(error) => {
            error.downcast_ref::<Error>().unwrap().kind()
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_value_past_the_limit_is_refused_before_it_is_made() {
    let count = ColumnarValue::Scalar(ScalarValue::Int64(Some(1 << 40)));
    assert_eq!(kind(call(&repeat(), vec![text("x"), count], 1)), ErrorKind::LimitExceeded);
}

#[test]
fn a_batch_that_can_be_split_is_refused_early() {
    let counts: ArrayRef = Arc::new(Int64Array::from(vec![1 << 20; 100]));
    let arguments = || vec![text("x"), ColumnarValue::Array(Arc::clone(&counts))];
    let refused = governor::evaluating(governor::Evaluation::Splittable, || {
        kind(call(&repeat(), arguments(), 100))
    });
    assert_eq!(refused, ErrorKind::OutOfMemory);
    let one = vec![text("x"), ColumnarValue::Array(counts.slice(0, 1))];
    governor::evaluating(governor::Evaluation::Splittable, || call(&repeat(), one, 1)).unwrap();
}

#[test]
fn long_constants_are_not_folded() {
    let count = |count| ColumnarValue::Scalar(ScalarValue::Int64(Some(count)));
    governor::evaluating(governor::Evaluation::Planning, || {
        assert!(call(&repeat(), vec![text("x"), count(10)], 1).is_ok());
        assert!(call(&repeat(), vec![text("x"), count(2 << 20)], 1).is_err());
    });
}

#[test]
fn a_long_constant_is_in_memory_once() {
    let long = "x".repeat(1 << 20);
    let array = expanded(&text(&long), 1000).unwrap();
    assert_eq!((array.len(), array.as_string_view().value(999).len()), (1000, 1 << 20));
    assert!(array.get_array_memory_size() < 4 << 20);
}

#[test]
fn texts_are_joined_row_by_row() {
    let metering = Metering::default();
    let texts: ArrayRef =
        Arc::new(StringViewArray::from(vec![Some("a"), None, Some("long long long text")]));
    let joined = call(&metering.concat, vec![ColumnarValue::Array(texts), text("-b")], 3).unwrap();
    let joined = joined.into_array(3).unwrap();
    let joined: Vec<_> = joined.as_string_view().iter().collect();
    assert_eq!(joined, [Some("a-b"), None, Some("long long long text-b")]);
    let both = call(&metering.concat, vec![text("a"), text("b")], 3).unwrap();
    assert!(
        matches!(both, ColumnarValue::Scalar(ScalarValue::Utf8View(Some(text))) if text == "ab")
    );
}

#[test]
fn names_stay_as_they_are() {
    let metering = Metering::default();
    let call = metering.concat.call(vec![lit("a"), lit("b")]);
    assert_eq!(call.schema_name().to_string(), "Utf8(\"a\") || Utf8(\"b\")");
    assert_eq!(metered(concat()).name(), "concat");
}
