use arrow::array::{BooleanArray, Decimal128Array, Float64Array, Int32Array, StringViewArray};

use super::*;

fn sample(rows: usize) -> (Vec<Column>, Vec<DataType>, Vec<ArrayRef>) {
    let arrays: Vec<ArrayRef> = vec![
        Arc::new((0..rows).map(|row| (row % 5 != 1).then_some(row as i64)).collect::<Int64Array>()),
        Arc::new(
            (0..rows).map(|row| Some(format!("host_{}", row % 9))).collect::<StringViewArray>(),
        ),
        Arc::new(Float64Array::from_iter_values((0..rows).map(|row| row as f64 / 3.0))),
        Arc::new(
            (0..rows)
                .map(|row| Some(format!("unique text of the row {row}")))
                .collect::<StringViewArray>(),
        ),
        Arc::new(StringViewArray::new_null(rows)),
        Arc::new(BooleanArray::from_iter((0..rows).map(|row| Some(row % 3 == 0)))),
        Arc::new(
            Decimal128Array::from_iter_values((0..rows).map(|row| row as i128 - 7))
                .with_precision_and_scale(20, 3)
                .unwrap(),
        ),
        Arc::new(Int32Array::from_iter_values((0..rows).map(|row| row as i32))),
    ];
    let types = arrays.iter().map(|array| array.data_type().clone()).collect();
    let columns = arrays.iter().map(|array| Column::store(array).unwrap()).collect();
    (columns, types, arrays)
}

#[test]
fn what_is_encoded_comes_back() {
    for rows in [1, 2, 63, 64, 1000, 5000] {
        let (columns, types, arrays) = sample(rows);
        let ticks: ScalarBuffer<i64> =
            (0..rows as i64).map(|row| row * 3 - 10).collect::<Vec<_>>().into();
        for ticks in [None, Some(&ticks)] {
            let payload = encode(&columns, ticks).unwrap();
            assert_eq!(payload.as_ptr() as usize % 64, 0);
            let decoded = decode(&payload, &schema_of(&types), rows).unwrap();
            assert_eq!(decoded.ticks.as_ref(), ticks);
            for (column, array) in decoded.columns.iter().zip(&arrays) {
                assert_eq!(column.slice(0, rows).unwrap().as_ref(), array.as_ref());
            }
        }
    }
}

#[test]
fn what_is_written_at_once_is_what_is_written_in_two_steps() {
    for (rows, padding) in [(1, 16), (3, 16), (63, 16), (64, 64), (1000, 64)] {
        let (_, _, arrays) = sample(rows);
        let mut begun = MutableBuffer::new(0);
        begun.extend_from_slice(&[7; 64]);
        let message = message(arrays.clone(), rows, padding, &mut IpcWriteContext::default());
        let mut expected = MutableBuffer::new(0);
        expected.extend_from_slice(&[7; 64]);
        message.unwrap().write(&mut expected);
        let found = write_behind(begun, arrays, rows, padding).unwrap();
        assert_eq!(found.as_slice(), expected.as_slice(), "{rows} rows");
    }
}

#[test]
fn arrays_lie_in_the_payload() {
    let (columns, types, _) = sample(1000);
    let payload = encode(&columns, None).unwrap();
    let decoded = decode(&payload, &schema_of(&types), 1000).unwrap();
    let Column::Plain(array) = &decoded.columns[2] else { panic!("stored plain") };
    let start = array.as_primitive::<arrow::datatypes::Float64Type>().values().as_ptr() as usize;
    let payload_start = payload.as_ptr() as usize;
    assert!((payload_start..payload_start + payload.len()).contains(&start));
}

#[test]
fn slices_carry_only_their_rows() {
    let (_, _, arrays) = sample(5000);
    let columns: Vec<Column> =
        arrays.iter().map(|array| Column::store(&array.slice(100, 10)).unwrap()).collect();
    let payload = encode(&columns, None).unwrap();
    assert!(payload.len() < 3000, "{}", payload.len());
}

#[test]
fn wrong_bytes_are_told_not_decoded() {
    let (columns, types, _) = sample(100);
    let payload = encode(&columns, None).unwrap();
    assert!(decode(&payload, &schema_of(&types), 99).is_err());
    assert!(decode(&payload, &schema_of(types.get(1..).unwrap()), 100).is_err());
    assert!(decode(&Bytes::new(), &schema_of(&types), 100).is_err());
    for len in [4, 9, 60, 100, payload.len() / 2] {
        assert!(decode(&payload.slice(..len), &schema_of(&types), 100).is_err(), "{len}");
    }
    let mut other = payload.to_vec();
    other[0] = 9;
    let error = decode(&Bytes::from(other), &schema_of(&types), 100).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DataCorrupted);
}

#[test]
fn an_unaligned_payload_is_read_too() {
    let (columns, types, arrays) = sample(200);
    let payload = encode(&columns, None).unwrap();
    let mut shifted = vec![0; 3];
    shifted.extend_from_slice(&payload);
    let decoded = decode(&Bytes::from(shifted).slice(3..), &schema_of(&types), 200).unwrap();
    for (column, array) in decoded.columns.iter().zip(&arrays) {
        assert_eq!(column.slice(0, 200).unwrap().as_ref(), array.as_ref());
    }
}
