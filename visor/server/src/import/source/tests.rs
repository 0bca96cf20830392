use std::{io::Write as _, sync::Arc};

use arrow::{
    array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray},
    datatypes::DataType,
};
use stratalog_model::ColumnType;

use super::*;

fn options(file: &tempfile::NamedTempFile, format: FileFormat) -> SourceOptions {
    SourceOptions {
        file: file.path().to_path_buf(),
        format,
        header: true,
        delimiter: b',',
        null: String::new(),
        infer_rows: 100,
    }
}

fn written(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn types(source: &dyn Source) -> Vec<(String, ColumnType)> {
    source.columns().unwrap().into_iter().map(|column| (column.name, column.column_type)).collect()
}

fn batches(source: &mut dyn Source, rows: u64) -> Vec<Batch> {
    std::iter::from_fn(|| source.next_batch(rows).unwrap()).collect()
}

fn text(batch: &Batch) -> &str {
    std::str::from_utf8(&batch.bytes).unwrap()
}

#[test]
fn csv_is_cut_at_records_and_keeps_count_of_lines() {
    let file = written("\u{feff}a,b\r\n1,\"x\ny\"\r\n2,\"q\"\"\"\r\n3,z");
    let mut source = open(options(&file, FileFormat::Csv)).unwrap();
    assert_eq!(
        types(source.as_ref()),
        [("a".to_string(), ColumnType::BigInt), ("b".to_string(), ColumnType::Text)]
    );
    let all = batches(source.as_mut(), 2);
    assert_eq!(all.len(), 2);
    assert_eq!(text(&all[0]), "1,\"x\ny\"\r\n2,\"q\"\"\"\r\n");
    assert_eq!((all[0].first_row, all[0].rows), (1, 2));
    assert_eq!(all[0].lines.of(1), Some(2));
    assert_eq!(text(&all[1]), "3,z");
    assert_eq!((all[1].first_row, all[1].rows), (3, 1));
    assert_eq!(all[1].lines.of(1), Some(5), "the quoted line end counts");
    assert_eq!(source.size(), Size::Bytes(all[1].end));
}

#[test]
fn csv_types_are_the_narrowest_that_hold_all_values() {
    let file = written(
        "i,w,d,b,c,day,ts,tz,u,t,e,x\n\
         1,99999999999999999999,1.5,true,007,2013-01-01,2013-01-01 05:00:00,2013-01-01T05:00:00Z,6f1f2ad1-9b1e-4a1c-8f7e-2f7f3ad1c001,10:20:30,,1\n\
         -2,1,2,false,11,2013-12-31,2013-01-01,2013-01-01 05:00:00+01,6f1f2ad1-9b1e-4a1c-8f7e-2f7f3ad1c002,23:59:59.5,,y\n",
    );
    let source = open(options(&file, FileFormat::Csv)).unwrap();
    let found: Vec<ColumnType> =
        types(source.as_ref()).into_iter().map(|(_, found)| found).collect();
    assert_eq!(
        found,
        [
            ColumnType::BigInt,
            ColumnType::Numeric { precision: 38, scale: 0 },
            ColumnType::Double,
            ColumnType::Boolean,
            ColumnType::Text,
            ColumnType::Date,
            ColumnType::Timestamp { precision: 9 },
            ColumnType::TimestampTz { precision: 9 },
            ColumnType::Uuid,
            ColumnType::Time,
            ColumnType::Text,
            ColumnType::Text,
        ]
    );
}

#[test]
fn csv_null_text_has_no_type_and_uneven_lines_are_named() {
    let file = written("a;b\nNA;1\n2;NA\n");
    let mut wanted = options(&file, FileFormat::Csv);
    wanted.delimiter = b';';
    wanted.null = "NA".to_string();
    let source = open(wanted).unwrap();
    assert!(types(source.as_ref()).iter().all(|(_, found)| *found == ColumnType::BigInt));
    assert_eq!(source.copy_options(), "FORMAT csv, DELIMITER ';', NULL 'NA'");
    let uneven = written("a,b\n1,2\n3\n");
    let error = open(options(&uneven, FileFormat::Csv)).err().unwrap();
    assert_eq!(error.message, "line 3 has 1 values for 2 columns");
}

#[test]
fn csv_with_an_open_quote_names_the_line_of_the_quote() {
    let said = |text: &str, infer_rows: usize| {
        let file = written(text);
        let wanted = SourceOptions { infer_rows, ..options(&file, FileFormat::Csv) };
        let error = open(wanted)
            .and_then(|mut source| {
                source.next_batch(1)?;
                source.next_batch(10)
            })
            .err()
            .unwrap();
        assert_eq!(
            (&*error.sqlstate, error.message.as_str()),
            ("22P04", "unterminated CSV quoted field")
        );
        assert!(error.hint.unwrap().contains("twice"));
        error.detail.unwrap().to_string()
    };
    let alone = "The quote on line 4 is never closed.";
    let within = "The quote on line 5, in the record that begins on line 4, is never closed.";
    for infer_rows in [0, 10] {
        assert_eq!(said("a,b\n1,\"x\n\"\n2,\"b\n3,c\n", infer_rows), alone);
        assert_eq!(said("a,b\n1,\"x\n\"\n2,\"b\"\"\n\"\"\n", infer_rows), alone);
        assert_eq!(said("a,b\n1,\"x\n\"\n\"2\n\",\"b\n3,c\n", infer_rows), within);
    }
    assert_eq!(said("a,\"b\n1,2\n", 10), "The quote on line 1 is never closed.");
}

#[test]
fn csv_longer_than_the_buffer_comes_out_whole() {
    let mut text_in = String::from("n,pad\n");
    for row in 0..60_000 {
        text_in.push_str(&format!("{row},\"{}\n\"\n", "x".repeat(row % 50)));
    }
    let file = written(&text_in);
    let mut source = open(options(&file, FileFormat::Csv)).unwrap();
    let all = batches(source.as_mut(), 7_001);
    assert_eq!(all.iter().map(|batch| batch.rows).sum::<u64>(), 60_000);
    let joined: String = all.iter().map(text).collect();
    assert_eq!(format!("n,pad\n{joined}"), text_in);
    for batch in &all {
        assert_eq!(batch.lines.of(1), Some(2 * batch.first_row));
    }
}

#[test]
fn ndjson_becomes_copy_text_in_the_tables_order() {
    let file = written(
        "{\"t\": \"2026-01-01T00:00:00Z\", \"n\": 1, \"x\": \"a\\tb\\\\\", \"o\": {\"k\": [1]}, \"l\": [\"p\", null]}\n\n{\"t\": \"2026-01-02T00:00:00Z\", \"n\": 1.5, \"o\": null}\n",
    );
    let mut source = open(options(&file, FileFormat::Ndjson)).unwrap();
    let mut columns = source.columns().unwrap();
    columns.sort_by(|left, right| left.name.cmp(&right.name));
    let found: Vec<&ColumnType> = columns.iter().map(|column| &column.column_type).collect();
    assert_eq!(
        found,
        [
            &ColumnType::Jsonb,
            &ColumnType::Double,
            &ColumnType::Jsonb,
            &ColumnType::TimestampTz { precision: 9 },
            &ColumnType::Text
        ]
    );
    columns[0].column_type = ColumnType::Array(Box::new(ColumnType::Text));
    source.bind(&columns).unwrap();
    let all = batches(source.as_mut(), 10);
    assert_eq!(
        text(&all[0]),
        "{\"p\",NULL}\t1\t{\"k\": [1]}\t2026-01-01T00:00:00Z\ta\\tb\\\\\n\\N\t1.5\t\\N\t2026-01-02T00:00:00Z\t\\N\n"
    );
    assert_eq!(all[0].lines, Lines::At(vec![1, 3]));
}

#[test]
fn ndjson_numbers_keep_their_digits() {
    let numbers = "123456789012345678901234567890.10";
    let file = written(&format!(
        "{{\"n\": {numbers}, \"j\": {{\"a\": {numbers}}}, \"l\": [{numbers}, null, 1e-5]}}\n"
    ));
    let mut source = open(options(&file, FileFormat::Ndjson)).unwrap();
    let list = ColumnType::Array(Box::new(ColumnType::NUMERIC));
    let columns = [("n", ColumnType::NUMERIC), ("j", ColumnType::Jsonb), ("l", list)];
    let named = |(name, column_type): (&str, _)| ResultColumn { name: name.into(), column_type };
    source.bind(&columns.map(named)).unwrap();
    assert_eq!(
        text(&batches(source.as_mut(), 10)[0]),
        format!("{numbers}\t{{\"a\": {numbers}}}\t{{\"{numbers}\",NULL,\"1e-5\"}}\n")
    );
}

#[test]
fn ndjson_errors_name_the_line() {
    for (bad, reason) in [("{\"a\": }", "line 2: not JSON"), ("[1]", "line 2: not a JSON object")] {
        let file = written(&format!("{{\"a\": 1}}\n{bad}\n"));
        let mut wanted = options(&file, FileFormat::Ndjson);
        wanted.infer_rows = 1;
        let mut source = open(wanted).unwrap();
        let columns = source.columns().unwrap();
        source.bind(&columns).unwrap();
        let error = source.next_batch(10).unwrap_err();
        assert!(error.message.starts_with(reason), "{}", error.message);
    }
    let file = written("{\"a\": 1}\n{\"b\": 1}\n");
    let mut wanted = options(&file, FileFormat::Ndjson);
    wanted.infer_rows = 1;
    let mut source = open(wanted).unwrap();
    let columns = source.columns().unwrap();
    source.bind(&columns).unwrap();
    assert!(source.next_batch(10).unwrap_err().message.starts_with("line 2, key \"b\""));
}

#[test]
fn parquet_keeps_its_types_and_is_cut_at_rows() {
    let times = TimestampMillisecondArray::from_iter_values((0..10_000).map(|n| n * 1000));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("time", Arc::new(times.with_timezone("UTC"))),
        ("n", Arc::new(Int64Array::from_iter((0..10_000).map(|n| (n % 3 > 0).then_some(n))))),
        ("s", Arc::new(StringArray::from_iter_values((0..10_000).map(|n| format!("s\t{n}"))))),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, true)),
    )
    .unwrap();
    assert_eq!(batch.schema().field(1).data_type(), &DataType::Int64);
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let mut writer =
        ::parquet::arrow::ArrowWriter::try_new(file.as_file_mut(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let mut source = open(options(&file, FileFormat::Parquet)).unwrap();
    assert_eq!(types(source.as_ref())[0].1, ColumnType::TimestampTz { precision: 3 });
    assert_eq!(source.size(), Size::Rows(10_000));
    let all = batches(source.as_mut(), 3_000);
    assert_eq!(all.iter().map(|batch| batch.rows).collect::<Vec<_>>(), [3000, 3000, 3000, 1000]);
    assert_eq!(text(&all[0]).lines().next(), Some("1970-01-01 00:00:00+00\t\\N\ts\\t0"));
    assert_eq!(all[3].first_row, 9001);
    let bad = written("no parquet");
    assert!(open(options(&bad, FileFormat::Parquet)).err().unwrap().message.contains("as Parquet"));
}

#[test]
fn errors_of_the_server_get_the_inputs_line() {
    let lines = Lines::At(vec![4, 9]);
    let error = SqlError {
        context: Some("COPY t, line 2, column x: \"y\"".into()),
        ..SqlError::local("bad")
    };
    assert_eq!(&*lines.relabel(error).context.unwrap(), "COPY t, line 9, column x: \"y\"");
    let rows = Lines::From { noun: "row", first: 101 };
    let error = SqlError { context: Some("COPY t, line 2".into()), ..SqlError::local("bad") };
    assert_eq!(&*rows.relabel(error).context.unwrap(), "COPY t, row 102");
}

#[test]
fn blank_lines_are_no_records_and_lines_keep_their_numbers() {
    let file = written("a,b\n\n1,2\n\r\n3,\"4\n4\"\n\n5,6\n\n");
    let mut source = open(options(&file, FileFormat::Csv)).unwrap();
    source.bind(&source.columns().unwrap()).unwrap();
    let batches = batches(source.as_mut(), 100);
    assert_eq!(batches.len(), 1);
    assert_eq!(text(&batches[0]), "1,2\n3,\"4\n4\"\n5,6\n");
    assert_eq!(batches[0].rows, 3);
    assert_eq!(batches[0].lines, Lines::At(vec![3, 5, 6, 8]));
    let mut source = open(options(&file, FileFormat::Csv)).unwrap();
    source.bind(&source.columns().unwrap()).unwrap();
    let lines: Vec<Lines> =
        self::batches(source.as_mut(), 2).into_iter().map(|batch| batch.lines).collect();
    assert_eq!(lines, [Lines::At(vec![3, 5, 6]), Lines::At(vec![8])]);
    // An empty line in a table with a single column is an empty value.
    let file = written("a\n1\n\n2\n");
    let mut source = open(options(&file, FileFormat::Csv)).unwrap();
    source.bind(&source.columns().unwrap()).unwrap();
    assert_eq!(source.next_batch(100).unwrap().unwrap().rows, 3);
}

#[test]
fn columns_without_a_name_are_called_by_their_place() {
    let file = written(",time,\n0,2026-01-01 00:00:00,x\n");
    let source = open(options(&file, FileFormat::Csv)).unwrap();
    assert_eq!(source.names().unwrap(), ["column1", "time", "column3"]);
}

#[test]
fn digits_that_a_double_would_lose_are_kept() {
    for (values, wanted) in [
        ("0.5\n9007199254740993", ColumnType::Numeric { precision: 38, scale: 1 }),
        ("123456789012345678.25", ColumnType::Numeric { precision: 38, scale: 2 }),
        ("1234567890123456789.0123456789", ColumnType::Numeric { precision: 38, scale: 10 }),
        ("12345678901234567890123456789012345678", ColumnType::Numeric { precision: 38, scale: 0 }),
        ("0.1\n0.30000000000000004\n1e300", ColumnType::Double),
        ("1.10000000000000000000\n0.25", ColumnType::Double),
        ("1.2500000000000000000e-5\n0.0000000000000000", ColumnType::Double),
        ("12345678901234567890123456789012345678901\n1.5", ColumnType::Text),
        ("123456789012345678.25\n1e5", ColumnType::Numeric { precision: 38, scale: 2 }),
        ("1.2345678901234567891e3\n-2E-8", ColumnType::Numeric { precision: 38, scale: 16 }),
        ("123456789012345678.25\n1e300", ColumnType::Text),
    ] {
        let wanted = [("v".to_string(), wanted)];
        let file = written(&format!("v\n{values}\n"));
        let source = open(options(&file, FileFormat::Csv)).unwrap();
        assert_eq!(types(source.as_ref()), wanted, "{values}");
        let lines: Vec<String> =
            values.lines().map(|value| format!("{{\"v\": {value}}}\n")).collect();
        let file = written(&lines.concat());
        let mut source = open(options(&file, FileFormat::Ndjson)).unwrap();
        assert_eq!(types(source.as_ref()), wanted, "{values}");
        let columns = source.columns().unwrap();
        source.bind(&columns).unwrap();
        assert_eq!(text(&batches(source.as_mut(), 10)[0]), format!("{values}\n"));
    }
}

#[test]
fn ndjson_columns_have_the_order_of_the_file() {
    let file = written("{\"z\": null, \"a\": [1, {\"y\": 2}]}\n{\"b\": true, \"z\": 1}\n");
    let source = open(options(&file, FileFormat::Ndjson)).unwrap();
    let expected = [
        ("z".to_string(), ColumnType::BigInt),
        ("a".to_string(), ColumnType::Jsonb),
        ("b".to_string(), ColumnType::Boolean),
    ];
    assert_eq!(types(source.as_ref()), expected);
}

#[test]
fn a_value_that_is_no_time_among_times_is_told() {
    let file = written("time,v\n2026-01-01 00:00:00,1\nN/A,2\n,3\n");
    let source = open(options(&file, FileFormat::Csv)).unwrap();
    assert_eq!(source.odd_times(), [("time".to_string(), "N/A".to_string())]);
}
