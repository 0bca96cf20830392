use arrow::{
    array::{ArrayRef, Int64Array, StringArray, StringViewArray},
    datatypes::{Field, Schema},
};

use serde_json::{Value, json};

use super::*;

fn read(pairs: &[(&str, &str)], last: Option<&str>) -> Result<String> {
    let pairs = pairs.iter().map(|(name, value)| (name.to_string(), value.to_string()));
    SubscribeParameters::read(pairs.collect(), last).map(|question| question.sql())
}

#[test]
fn a_request_is_a_statement() {
    assert_eq!(read(&[("table", "cpu")], None).unwrap(), "SUBSCRIBE \"cpu\"");
    assert_eq!(
        read(&[("table", "a\"b"), ("schema", "s"), ("gsn", "7")], None).unwrap(),
        "SUBSCRIBE \"s\".\"a\"\"b\" FROM GSN 7"
    );
    assert_eq!(
        read(&[("table", "cpu"), ("time", "it's"), ("where", "x > 1")], None).unwrap(),
        "SUBSCRIBE \"cpu\" FROM TIMESTAMP 'it''s' WHERE (x > 1\n)"
    );
    assert_eq!(
        read(&[("table", "cpu"), ("live", "true")], None).unwrap(),
        "SUBSCRIBE \"cpu\" LIVE"
    );
}

#[test]
fn who_comes_again_goes_on_behind_what_it_has() {
    let first = [("table", "cpu"), ("live", "true")];
    assert_eq!(read(&first, Some("41")).unwrap(), "SUBSCRIBE \"cpu\" FROM GSN 42");
    assert!(read(&first, Some("x")).is_err());
}

#[test]
fn what_is_not_understood_is_refused() {
    for wrong in [
        &[][..],
        &[("table", "cpu"), ("gsn", "1"), ("live", "true")],
        &[("table", "cpu"), ("gsn", "-1")],
        &[("table", "cpu"), ("live", "maybe")],
        &[("table", "cpu"), ("limit", "1")],
    ] {
        let error = read(wrong, None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidParameterValue, "{wrong:?}");
        assert!(error.hint().is_some());
    }
}

/// The table has a column with the name of the gap column.
#[test]
fn what_tells_of_a_gap_is_found_by_its_place() {
    let columns: [(&str, ArrayRef); 4] = [
        ("_gsn", Arc::new(Int64Array::from(vec![1, 7]))),
        ("_gap", Arc::new(StringViewArray::from(vec![Some("gsn [1, 7) deleted"), None]))),
        ("_gap", Arc::new(StringArray::from(vec![None, Some("hello")]))),
        ("v", Arc::new(Int64Array::from(vec![None, Some(1)]))),
    ];
    let fields =
        columns.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let columns = columns.iter().map(|(_, column)| Arc::clone(column)).collect();
    let batch = RecordBatch::try_new(schema, columns).unwrap();
    let told = events(&batch, &TextStyle::default()).unwrap();
    let (gap, event) = told.split_once("\n\n").unwrap();
    assert_eq!(gap, "event: gap\nid: 1\ndata: {\"_gsn\":1,\"gap\":\"gsn [1, 7) deleted\"}");
    let data = event.strip_prefix("id: 7\ndata: ").unwrap();
    let data: Value = serde_json::from_str(data).unwrap();
    assert_eq!(data, json!({ "_gsn": 7, "_gap": "hello", "v": 1 }));
}
