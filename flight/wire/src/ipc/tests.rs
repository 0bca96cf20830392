use std::{collections::HashMap, sync::Arc};

use arrow::{
    array::{ArrayRef, Int32Array, RecordBatch, StringArray},
    datatypes::{DataType, Field, Schema, TimeUnit, UnionFields, UnionMode},
    ipc::writer::IpcWriteOptions,
};
use arrow_flight::{
    SchemaAsIpc,
    utils::{batches_to_flight_data, flight_data_to_arrow_batch},
};

use super::*;

const LIMITS: BatchLimits = BatchLimits { rows_max: 1000, expanded_bytes_max: 10_000 };

fn of_schema(schema: &Schema) -> FlightData {
    SchemaAsIpc::new(schema, &IpcWriteOptions::default()).into()
}

fn of_rows(rows: usize) -> FlightData {
    let columns: [(&str, ArrayRef); 2] = [
        ("n", Arc::new(Int32Array::from(vec![Some(7); rows]))),
        ("t", Arc::new(StringArray::from(vec![Some("abc"); rows]))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    batches_to_flight_data(&batch.schema(), vec![batch]).unwrap().pop().unwrap()
}

fn schema_of_rows() -> Schema {
    let column = |name: &str, of: DataType| Field::new(name, of, true);
    Schema::new(vec![column("n", DataType::Int32), column("t", DataType::Utf8)])
}

fn checked(data: &FlightData, limits: &BatchLimits) -> Result<MessageContent, Fault> {
    check(data, Some(&schema_of_rows()), limits)
}

#[test]
fn what_is_right_passes() {
    assert_eq!(checked(&of_rows(100), &LIMITS), Ok(MessageContent::Rows));
    let child = |name: &str, data_type: DataType| Arc::new(Field::new(name, data_type, true));
    let types = [
        DataType::Null,
        DataType::Boolean,
        DataType::UInt16,
        DataType::Float16,
        DataType::Decimal128(38, -4),
        DataType::Decimal256(76, 76),
        DataType::FixedSizeBinary(0),
        DataType::Timestamp(TimeUnit::Second, Some("UTC".into())),
        DataType::Time64(TimeUnit::Nanosecond),
        DataType::Utf8View,
        DataType::Dictionary(Box::new(DataType::UInt8), Box::new(DataType::LargeUtf8)),
        DataType::List(child("item", DataType::Binary)),
        DataType::FixedSizeList(child("item", DataType::Date64), 3),
        DataType::Struct(vec![Field::new("a", DataType::Int8, true)].into()),
        DataType::RunEndEncoded(
            Arc::new(Field::new("run_ends", DataType::Int32, false)),
            child("values", DataType::Int8),
        ),
    ];
    let fields: Vec<Field> = types
        .into_iter()
        .enumerate()
        .map(|(at, of)| Field::new(format!("c{at}"), of, true))
        .collect();
    assert!(matches!(
        check(&of_schema(&Schema::new(fields)), None, &LIMITS),
        Ok(MessageContent::Schema(_))
    ));
}

#[test]
fn limits_hold() {
    assert!(matches!(checked(&of_rows(1001), &LIMITS), Err(Fault::TooLarge(_))));
    let few = BatchLimits { expanded_bytes_max: 100, ..LIMITS };
    assert!(matches!(checked(&of_rows(100), &few), Err(Fault::TooLarge(_))));
}

/// Sets each byte of a schema to a wrong value in turn: the decoder never panics.
#[test]
fn schemas_with_a_byte_wrong_do_not_panic() {
    let decimal = Field::new("d", DataType::Decimal128(38, 4), true);
    let time = Field::new("t", DataType::Time32(TimeUnit::Second), true);
    let number = Field::new("n", DataType::Int32, true);
    let listed = Field::new_list("l", Field::new("item", DataType::Float64, true), true);
    let right = of_schema(&Schema::new(vec![decimal, time, number, listed]));
    let mut refused = 0;
    for at in 0..right.data_header.len() {
        for bit in 0..8 {
            let mut header = right.data_header.to_vec();
            header[at] ^= 1 << bit;
            let wrong = FlightData { data_header: header.into(), ..FlightData::default() };
            refused += usize::from(check(&wrong, None, &LIMITS).is_err());
        }
    }
    assert!(refused > 100, "{refused}");
}

/// Flips each bit of a batch's header in turn: the batch is refused or decoded.
#[test]
fn batches_with_a_bit_wrong_do_not_panic() {
    let right = of_rows(5);
    let schema = Arc::new(schema_of_rows());
    let mut refused = 0;
    for at in 0..right.data_header.len() {
        for bit in 0..8 {
            let mut header = right.data_header.to_vec();
            header[at] ^= 1 << bit;
            let wrong = FlightData { data_header: header.into(), ..right.clone() };
            match check(&wrong, Some(&schema), &LIMITS) {
                Ok(MessageContent::Rows) => {
                    drop(flight_data_to_arrow_batch(&wrong, schema.clone(), &HashMap::new()));
                }
                Ok(_) => {}
                Err(_) => refused += 1,
            }
        }
    }
    assert!(refused > 100, "{refused}");
}

#[test]
fn a_column_without_room_for_what_it_says_is_told() {
    let column = Field::new("of", DataType::Int32, true);
    let schema = Schema::new(vec![column.clone(), column.clone(), column]);
    let told = check(&of_rows(5), Some(&schema), &LIMITS).unwrap_err();
    assert_eq!(told, Fault::Lies("column \"of\" is missing in the batch".to_string()));
    let told = check(&of_rows(5), None, &LIMITS).unwrap_err();
    assert_eq!(told, Fault::Lies("a batch precedes the schema".to_string()));
}

#[test]
fn unions_are_not_offered() {
    let parts = [Field::new("a", DataType::Int8, true), Field::new("b", DataType::Utf8, true)];
    let union = DataType::Union(UnionFields::try_new([3, 5], parts).unwrap(), UnionMode::Dense);
    let listed = Field::new_list("l", Field::new("u", union, true), true);
    let told = check(&of_schema(&Schema::new(vec![listed])), None, &LIMITS).unwrap_err();
    assert!(
        matches!(&told, Fault::NotOffered(what) if what.contains("\"u\" is a union")),
        "{told}"
    );
}

#[test]
fn offsets_of_half_a_value_are_told() {
    let schema = schema_of_rows();
    let mut rows = of_rows(5);
    let at = {
        let batch = root_as_message(&rows.data_header).unwrap().header_as_record_batch().unwrap();
        // The offsets of the texts come after their null buffer.
        let offsets = &batch.buffers().unwrap().get(3).0;
        offsets.as_ptr() as usize - rows.data_header.as_ptr() as usize
    };
    let mut header = rows.data_header.to_vec();
    header[at + 8..at + 16].copy_from_slice(&26_i64.to_le_bytes());
    rows.data_header = header.into();
    let told = check(&rows, Some(&schema), &LIMITS).unwrap_err();
    assert_eq!(
        told,
        Fault::Lies(
            "column \"t\" has 26 bytes, not a multiple of 4 bytes for each value".to_string()
        )
    );
}
