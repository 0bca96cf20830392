use std::sync::Arc;

use arrow::{
    array::{Array, AsArray, DictionaryArray, RecordBatch, StringViewArray},
    datatypes::{DataType, Field, Int32Type, Schema},
};
use stratalog_model::ColumnType;

use super::{convert, outgoing};

#[test]
fn views_become_plain_and_dictionaries_stay() {
    let keys: DictionaryArray<Int32Type> = ["a", "b", "a"].into_iter().collect();
    let texts = StringViewArray::from(vec![Some("x"), None, Some("a text longer than 12 bytes")]);
    let schema = Schema::new(vec![
        ColumnType::Text.arrow_field("t", true),
        Field::new("k", keys.data_type().clone(), false),
        ColumnType::Array(Box::new(ColumnType::Text)).arrow_field("l", true),
    ]);
    let out = outgoing(&schema);
    assert_eq!(out.field(0).data_type(), &DataType::Utf8);
    assert_eq!(out.field(1).data_type(), keys.data_type());
    let DataType::List(item) = out.field(2).data_type() else { panic!("not a list") };
    assert_eq!(item.data_type(), &DataType::Utf8);
    assert_eq!(out.field(0).metadata().get("ARROW:FLIGHT:SQL:TYPE_NAME").unwrap(), "text");

    let lists = arrow::array::new_null_array(schema.field(2).data_type(), 3);
    let batch =
        RecordBatch::try_new(Arc::new(schema), vec![Arc::new(texts), Arc::new(keys), lists])
            .unwrap();
    let sent = convert(&batch, &out).unwrap();
    assert_eq!(sent.column(0).as_string::<i32>().value(2), "a text longer than 12 bytes");
    assert!(sent.column(0).is_null(1));
}
