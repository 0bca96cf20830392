use std::sync::{Arc, Mutex};

use stratalog_model::ColumnType;

use super::*;

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn columns() -> Vec<ResultColumn> {
    [
        ("n", ColumnType::BigInt),
        ("name", ColumnType::Text),
        ("ok", ColumnType::Boolean),
        ("tags", ColumnType::Array(Box::new(ColumnType::Text))),
        ("extra", ColumnType::Jsonb),
    ]
    .into_iter()
    .map(|(name, column_type)| ResultColumn { name: name.to_string(), column_type })
    .collect()
}

fn rows() -> TextRows {
    let mut rows = TextRows::new(5);
    for value in
        [Some("1"), Some("a, \"b\"\nc"), Some("t"), Some("{x,NULL,\"y z\"}"), Some("{\"k\": 1}")]
    {
        rows.push(value);
    }
    for value in [Some("-22"), Some(""), None, Some("{}"), None] {
        rows.push(value);
    }
    rows
}

fn written(options: &OutputOptions) -> String {
    let target = Shared::default();
    let mut output = output(options, Box::new(target.clone())).unwrap();
    output.columns(&columns()).unwrap();
    output.rows(&rows()).unwrap();
    output.end().unwrap();
    let bytes = target.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

fn format(format: Format) -> OutputOptions {
    OutputOptions { format, ..OutputOptions::default() }
}

#[test]
fn csv_tells_null_from_the_empty_string() {
    assert_eq!(
        written(&format(Format::Csv)),
        "n,name,ok,tags,extra\n1,\"a, \"\"b\"\"\nc\",t,\"{x,NULL,\"\"y z\"\"}\",\"{\"\"k\"\": 1}\"\n-22,\"\",,{},\n"
    );
}

#[test]
fn csv_quotes_what_its_own_options_would_change() {
    let target = Shared::default();
    let options = CsvOptions { header: false, delimiter: b'\t', null: "t".into() };
    let mut output = csv(Box::new(target.clone()), options);
    output.columns(&columns()).unwrap();
    output.rows(&rows()).unwrap();
    output.end().unwrap();
    let text = String::from_utf8(target.0.lock().unwrap().clone()).unwrap();
    assert_eq!(
        text,
        "1\t\"a, \"\"b\"\"\nc\"\t\"t\"\t\"{x,NULL,\"\"y z\"\"}\"\t\"{\"\"k\"\": 1}\"\n-22\t\tt\t{}\tt\n"
    );
}

#[test]
fn json_has_numbers_booleans_arrays_and_objects() {
    let lines = "{\"n\":1,\"name\":\"a, \\\"b\\\"\\nc\",\"ok\":true,\"tags\":[\"x\",null,\"y z\"],\"extra\":{\"k\": 1}}\n\
                 {\"n\":-22,\"name\":\"\",\"ok\":null,\"tags\":[],\"extra\":null}\n";
    assert_eq!(written(&format(Format::Ndjson)), lines);
    let array: serde_json::Value = serde_json::from_str(&written(&format(Format::Json))).unwrap();
    assert_eq!(array.as_array().unwrap().len(), 2);
}

#[test]
fn tables_align_numbers_right_and_count_rows() {
    assert_eq!(
        written(&format(Format::Table)),
        "  n  |   name    | ok |      tags      |  extra\n\
         -----+-----------+----+----------------+----------\n\
         \u{20}  1 | a, \"b\"\\nc | t  | {x,NULL,\"y z\"} | {\"k\": 1}\n\
         \u{20}-22 |           |    | {}             |\n\
         (2 rows)\n"
    );
}

#[test]
fn tables_never_pass_the_terminals_width() {
    for width in 3..60 {
        let table = TableOptions { expanded: false, width_max: Some(width) };
        let text = written(&OutputOptions { table, ..OutputOptions::default() });
        let records = text.contains("RECORD");
        for line in text.lines().filter(|_| !records) {
            assert!(display_width(line) <= width, "{width}: {line}");
        }
    }
    let narrow = TableOptions { expanded: false, width_max: Some(44) };
    let text = written(&OutputOptions { table: narrow, ..OutputOptions::default() });
    assert!(text.contains('…'), "{text}");
}

#[test]
fn expanded_tables_put_one_value_on_a_line() {
    let table = TableOptions { expanded: true, width_max: None };
    let text = written(&OutputOptions { table, ..OutputOptions::default() });
    assert!(text.starts_with("-[ RECORD 1 ]\nn     | 1\nname  | a, \"b\"\n      | c\n"), "{text}");
}

#[test]
fn a_parquet_file_keeps_types_and_nulls() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("result.parquet");
    let options =
        OutputOptions { format: Format::Parquet, file: Some(file.clone()), ..Default::default() };
    assert_eq!(written(&options), "");
    let reader = ::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(
        std::fs::File::open(file).unwrap(),
    )
    .unwrap()
    .build()
    .unwrap();
    let batches: Vec<_> = reader.map(Result::unwrap).collect();
    assert_eq!(batches.iter().map(|batch| batch.num_rows()).sum::<usize>(), 2);
    let schema = batches[0].schema();
    assert_eq!(schema.field(0).data_type(), &arrow::datatypes::DataType::Int64);
    assert_eq!(batches[0].column(2).null_count(), 1);
    assert!(output(&format(Format::Parquet), Box::new(Shared::default())).is_err());
}
