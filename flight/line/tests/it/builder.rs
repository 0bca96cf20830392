//! The builder without text, as a decoder of another protocol uses it.

use arrow::{array::AsArray, datatypes::Float64Type};
use stratalog_line::{FieldValue, RowBuilder, RowLimits};

use crate::fixture::{Catalog, batches};

#[test]
fn rows_of_series_that_another_decoder_names() {
    let mut catalog = Catalog::default();
    let mut builder = RowBuilder::new(RowLimits::default());
    builder.begin();
    for tick in 0..10_i64 {
        for host in ["a", "b"] {
            let identity = format!("\x01up\x02{host}");
            let series = match builder.find(identity.as_bytes()) {
                Some(series) => series,
                None => {
                    assert_eq!(tick, 0);
                    let tags = [("host", host), ("empty", "")];
                    builder.intern(identity.as_bytes(), "up", &tags).unwrap()
                }
            };
            let mut row = builder.row(series, &catalog).unwrap();
            row.push("value", FieldValue::Float(if tick == 3 { f64::NAN } else { 1.0 })).unwrap();
            if tick % 2 == 0 {
                row.push("note", FieldValue::Text("even")).unwrap();
            }
            // A dropped row leaves nothing behind.
            if tick == 5 {
                row.push("late", FieldValue::Boolean(true)).unwrap();
                continue;
            }
            row.commit(tick, u32::try_from(tick).unwrap()).unwrap();
        }
    }
    assert_eq!(builder.rows(), 18);
    let tables = builder.take();
    assert_eq!(tables[0].new_tags(), ["host"]);
    assert_eq!(tables[0].new_fields().len(), 2);
    let batch = batches(&mut catalog, tables).remove("up").unwrap();
    let value = batch.column_by_name("value").unwrap().as_primitive::<Float64Type>();
    assert!(value.value(6).is_nan() && value.value(7).is_nan());
    assert_eq!(batch.column_by_name("note").unwrap().null_count(), 8);
}

#[test]
fn a_series_that_was_forgotten_is_no_other() {
    let catalog = Catalog::default();
    let limits = RowLimits { series_max: 1, ..RowLimits::default() };
    let mut builder = RowBuilder::new(limits);
    let first = builder.intern(b"1", "m", &[("t", "1")]).unwrap();
    let second = builder.intern(b"2", "m", &[("t", "2")]).unwrap();
    assert!(builder.row(first, &catalog).is_err());
    assert!(builder.row(second, &catalog).is_ok());
    let error = builder.intern(b"3", "m", &[("t", "1"), ("t", "1")]).unwrap_err();
    assert_eq!(error.message(), "tag \"t\" is given twice");
}
