use arrow::{
    array::{Array, AsArray, RecordBatch},
    datatypes::Int32Type,
};
use stratalog_model::{ColumnType, Error, Result};

use super::{
    ColumnSelection, CopyEncoding, CopyHeader, CopyLimits, CopyOptions, CopyParser, CopyWriter,
};
use crate::TextStyle;

fn columns() -> Vec<(String, ColumnType)> {
    vec![("id".into(), ColumnType::Integer), ("name".into(), ColumnType::Text)]
}

fn parser(options: &CopyOptions) -> CopyParser {
    CopyParser::new(options.clone(), columns(), TextStyle::default()).unwrap().for_table("t")
}

/// Parses data in chunks of `step` bytes; returns each row as `id=name`.
fn read(options: &CopyOptions, data: &[u8], step: usize) -> Result<Vec<String>> {
    let mut parser = parser(options);
    let mut batches = Vec::new();
    for piece in data.chunks(step) {
        batches.extend(parser.push(piece)?);
    }
    batches.extend(parser.finish()?);
    let mut rows = Vec::new();
    for batch in &batches {
        let ids = batch.column(0).as_primitive::<Int32Type>();
        let names = batch.column(1).as_string_view();
        for row in 0..batch.num_rows() {
            let id = if ids.is_null(row) { "NULL".into() } else { ids.value(row).to_string() };
            let name = if names.is_null(row) { "NULL" } else { names.value(row) };
            rows.push(format!("{id}={name}"));
        }
    }
    Ok(rows)
}

/// Parses data in chunks of several sizes; checks that the rows do not depend on the chunk size.
fn rows(options: &CopyOptions, data: &[u8]) -> Result<Vec<String>> {
    let whole = read(options, data, data.len().max(1));
    for step in 1..data.len().min(40) {
        let cut = read(options, data, step);
        match (&whole, &cut) {
            (Ok(whole), Ok(cut)) => assert_eq!(whole, cut, "in pieces of {step}"),
            (Err(whole), Err(cut)) => assert_eq!(whole.to_string(), cut.to_string()),
            _ => panic!("in pieces of {step}: {whole:?} and {cut:?}"),
        }
    }
    whole
}

fn error(options: &CopyOptions, data: &[u8]) -> (String, String, String) {
    let error: Error = rows(options, data).unwrap_err();
    let context = error.context().unwrap_or_default().to_string();
    (error.kind().sqlstate().to_string(), error.message().to_string(), context)
}

fn assert_error(options: &CopyOptions, data: &[u8], sqlstate: &str, message: &str, context: &str) {
    assert_eq!(error(options, data), (sqlstate.into(), message.into(), context.into()));
}

#[test]
fn null_where_none_may_be_names_the_line() {
    let mut parser = parser(&CopyOptions::default()).requiring(&["name".into()]);
    let error = parser.push(b"\\N\ta\n2\t\\N\n").unwrap_err();
    assert_eq!(error.kind().sqlstate(), "23502");
    assert_eq!(
        error.message(),
        "null value in column \"name\" of relation \"t\" violates not-null constraint"
    );
    assert_eq!(error.context(), Some("COPY t, line 2: \"2\t\\N\""));
}

#[test]
fn text_fields_and_escapes() {
    let text = CopyOptions::default();
    let data = b"1\ta\n2\t\\N\n\\N\tx\\ty\\\\z\\n\n3\t\n4\t\\101\\x42\\.\n";
    assert_eq!(rows(&text, data).unwrap(), ["1=a", "2=NULL", "NULL=x\ty\\z\n", "3=", "4=AB."]);
}

#[test]
fn text_backslash_newline_is_data() {
    let text = CopyOptions::default();
    assert_eq!(rows(&text, b"1\ta\\\nb\n2\tc\\\\\n").unwrap(), ["1=a\nb", "2=c\\"]);
}

#[test]
fn the_last_line_needs_no_newline() {
    assert_eq!(rows(&CopyOptions::default(), b"1\ta\n2\tb").unwrap(), ["1=a", "2=b"]);
    assert_eq!(rows(&CopyOptions::csv(), b"1,a\n2,b").unwrap(), ["1=a", "2=b"]);
    assert_eq!(rows(&CopyOptions::csv(), b"1,a\r\n2,b").unwrap(), ["1=a", "2=b"]);
    assert_eq!(rows(&CopyOptions::csv(), b"").unwrap(), Vec::<String>::new());
}

#[test]
fn the_end_marker_ends_the_data() {
    let rest = b"1\ta\n\\.\nthis is ignored";
    assert_eq!(rows(&CopyOptions::default(), rest).unwrap(), ["1=a"]);
    assert_eq!(rows(&CopyOptions::csv(), b"1,a\n\\.\nignored").unwrap(), ["1=a"]);
    assert_eq!(rows(&CopyOptions::csv(), b"1,a\n\\.").unwrap(), ["1=a"]);
}

#[test]
fn csv_quotes() {
    let csv = CopyOptions::csv();
    let data =
        "1,\"a,b\"\n2,\"say \"\"hi\"\"\"\n3,\n4,\"\"\n5,\"two\nlines\"\n6,x\"y,\"z\n,\"é\"\n";
    assert_eq!(
        rows(&csv, data.as_bytes()).unwrap(),
        ["1=a,b", "2=say \"hi\"", "3=NULL", "4=", "5=two\nlines", "6=xy,z", "NULL=é"]
    );
}

#[test]
fn csv_with_its_own_quote_and_escape() {
    let options =
        CopyOptions { quote: b'\'', escape: b'\\', delimiter: b';', ..CopyOptions::csv() };
    let data = b"1;'a;\\'b\\\\'\n2;'x\\y'\n";
    assert_eq!(rows(&options, data).unwrap(), ["1=a;'b\\", "2=x\\y"]);
}

#[test]
fn null_strings_and_forced_columns() {
    let named = |name: &str| ColumnSelection::Named(vec![name.to_string()]);
    let plain = CopyOptions { null: "-".into(), ..CopyOptions::csv() };
    assert_eq!(rows(&plain, b"-,-\n1,\"-\"\n2,\n").unwrap(), ["NULL=NULL", "1=-", "2="]);
    let kept = CopyOptions { force_not_null: named("name"), ..plain.clone() };
    assert_eq!(rows(&kept, b"1,-\n").unwrap(), ["1=-"]);
    let nulled = CopyOptions { force_null: named("name"), ..plain.clone() };
    assert_eq!(rows(&nulled, b"1,\"-\"\n").unwrap(), ["1=NULL"]);
    let unknown = CopyOptions { force_null: named("nobody"), ..plain };
    let error = CopyParser::new(unknown, columns(), TextStyle::default()).unwrap_err();
    assert_eq!(error.kind().sqlstate(), "42703");
}

#[test]
fn headers() {
    let present = CopyOptions { header: CopyHeader::Present, ..CopyOptions::csv() };
    assert_eq!(rows(&present, b"whatever\n1,a\n").unwrap(), ["1=a"]);
    let matching = CopyOptions { header: CopyHeader::Match, ..CopyOptions::csv() };
    assert_eq!(rows(&matching, b"id,\"name\"\n1,a\n").unwrap(), ["1=a"]);
    assert_error(
        &matching,
        b"id,nmae\n1,a\n",
        "22P04",
        "column name mismatch in header line field 2: got \"nmae\", expected \"name\"",
        "COPY t, line 1: \"id,nmae\"",
    );
    assert_error(
        &matching,
        b"id\n",
        "22P04",
        "wrong number of fields in header line: got 1, expected 2",
        "COPY t, line 1: \"id\"",
    );
}

#[test]
fn wrong_numbers_of_columns() {
    let text = CopyOptions::default();
    let csv = CopyOptions::csv();
    assert_error(
        &text,
        b"1\ta\n2\n",
        "22P04",
        "missing data for column \"name\"",
        "COPY t, line 2: \"2\"",
    );
    assert_error(
        &csv,
        b"1,a,b\n",
        "22P04",
        "extra data after last expected column",
        "COPY t, line 1: \"1,a,b\"",
    );
    assert_error(
        &csv,
        b"1,\"a\",b\n",
        "22P04",
        "extra data after last expected column",
        "COPY t, line 1: \"1,\"a\",b\"",
    );
    assert_error(
        &csv,
        b"1,a\n\n",
        "22P04",
        "missing data for column \"name\"",
        "COPY t, line 2: \"\"",
    );
}

#[test]
fn bad_values_name_line_and_column() {
    assert_error(
        &CopyOptions::csv(),
        b"1,a\n2,\"b\nc\"\nx,d\n",
        "22P02",
        "invalid input syntax for type integer: \"x\"",
        // A newline in quotes also begins a new line.
        "COPY t, line 4, column id: \"x\"",
    );
    let long = format!("{}\ta\n", "9".repeat(500));
    let (sqlstate, _, context) = error(&CopyOptions::default(), long.as_bytes());
    assert_eq!(sqlstate, "22003");
    assert_eq!(context, format!("COPY t, line 1, column id: \"{}...\"", "9".repeat(100)));
}

#[test]
fn bad_encodings() {
    let text = CopyOptions::default();
    assert_error(
        &text,
        b"1\ta\n2\t\xff\xfe\n",
        "22021",
        "invalid byte sequence for encoding \"UTF8\": 0xff 0xfe",
        "COPY t, line 2",
    );
    assert_eq!(error(&text, b"1\t\\377\n").0, "22021");
    assert_eq!(error(&text, b"1\ta\0b\n").1, "invalid byte sequence for encoding \"UTF8\": 0x00");
    assert_eq!(error(&text, b"1\t\\x00\n").0, "22021");
}

#[test]
fn line_ends() {
    let (text, csv) = (CopyOptions::default(), CopyOptions::csv());
    assert_eq!(rows(&text, b"1\ta\r\n2\tb\r\n").unwrap(), ["1=a", "2=b"]);
    assert_eq!(rows(&csv, b"1,\"a\r\nb\"\r\n").unwrap(), ["1=a\r\nb"]);
    assert_eq!(error(&text, b"1\ta\n2\tb\r\n").1, "literal carriage return found in data");
    assert_eq!(error(&text, b"1\ta\r\n2\tb\n").1, "literal newline found in data");
    assert_eq!(error(&csv, b"1,a\n2,b\r\n").1, "unquoted carriage return found in data");
    assert_eq!(error(&csv, b"1,a\r\n2,b\n").1, "unquoted newline found in data");
    assert_eq!(error(&csv, b"1,a\rb\n").1, "unquoted carriage return found in data");
    assert_eq!(rows(&text, b"1\ta\\\rb\n").unwrap(), ["1=a\rb"]);
}

#[test]
fn unterminated_quotes() {
    assert_error(
        &CopyOptions::csv(),
        b"1,a\n2,\"b\n3,c\n",
        "22P04",
        "unterminated CSV quoted field",
        "COPY t, line 2: \"2,\"b\n3,c\n\"",
    );
    // The error contains the line of the quote, for every chunk size.
    for (data, detail) in [
        ("1,a\n2,\"b\n3,c\n", "The quote on line 2 is never closed."),
        ("1,\"a\"\"\n\"\"\n", "The quote on line 1 is never closed."),
        ("\"\"\"1\n", "The quote on line 1 is never closed."),
        (
            "1,a\n\"2\n\",\"b\n3,c\n",
            "The quote on line 3, in the record that begins on line 2, is never closed.",
        ),
    ] {
        for size in [1, 3, 100] {
            let mut parser = parser(&CopyOptions::csv());
            let fed =
                data.as_bytes().chunks(size).try_for_each(|chunk| parser.push(chunk).map(drop));
            let error = fed.and_then(|()| parser.finish().map(drop)).unwrap_err();
            assert_eq!(error.kind().sqlstate(), "22P04", "{data:?}");
            assert_eq!(error.detail(), Some(detail), "{data:?}");
            assert!(error.hint().unwrap().contains("twice"));
        }
    }
}

#[test]
fn record_length_is_bounded() {
    let limits = CopyLimits { record_bytes_max: 100, ..CopyLimits::default() };
    let fed = |data: &[u8]| {
        let mut parser = parser(&CopyOptions::csv()).with_limits(limits);
        data.chunks(10).try_for_each(|piece| parser.push(piece).map(drop))
    };
    assert!(fed(format!("1,{}\n", "a".repeat(98)).as_bytes()).is_ok());
    let error = fed(format!("1,\"{}", "a".repeat(200)).as_bytes()).unwrap_err();
    assert_eq!(error.kind().sqlstate(), "54000");
    assert_eq!(error.context(), Some("COPY t, line 1"));
}

#[test]
fn batches_are_bounded_by_rows_and_bytes() {
    let data: String = (0..10).map(|id| format!("{id},abcdefgh\n")).collect();
    let sizes = |limits: CopyLimits| {
        let mut parser = parser(&CopyOptions::csv()).with_limits(limits);
        let mut batches = parser.push(data.as_bytes()).unwrap();
        batches.extend(parser.finish().unwrap());
        batches.iter().map(RecordBatch::num_rows).collect::<Vec<_>>()
    };
    let limits = CopyLimits::default();
    assert_eq!(sizes(limits), [10]);
    assert_eq!(sizes(CopyLimits { batch_rows_max: 4, ..limits }), [4, 4, 2]);
    assert_eq!(sizes(CopyLimits { batch_bytes_max: 25, ..limits }), [3, 3, 3, 1]);
}

#[test]
fn written_data_looks_as_postgresql_writes_it() {
    let text = CopyOptions::default();
    let mut reader = parser(&text);
    reader.push(b"1\ta\\tb\\\\\\n\\v\n2\t\\N\n3\t\n4\tsay \"x,y\"\n5\t\\\\.\n").unwrap();
    let batch = reader.finish().unwrap().unwrap();
    let write = |options: CopyOptions| {
        let writer = CopyWriter::new(options, batch.schema(), TextStyle::default());
        let mut out = Vec::new();
        writer.write_header(&mut out).unwrap();
        writer.write_batch(&batch, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    assert_eq!(write(text), "1\ta\\tb\\\\\\n\\v\n2\t\\N\n3\t\n4\tsay \"x,y\"\n5\t\\\\.\n");
    let header = CopyOptions { header: CopyHeader::Present, ..CopyOptions::csv() };
    assert_eq!(
        write(header),
        "id,name\n1,\"a\tb\\\n\u{b}\"\n2,\n3,\"\"\n4,\"say \"\"x,y\"\"\"\n5,\\.\n"
    );
    let forced = CopyOptions { force_quote: ColumnSelection::All, ..CopyOptions::csv() };
    assert!(write(forced).starts_with("\"1\",\"a\t"));
}

#[test]
fn rows_that_cannot_be_read_are_left_out_of_every_batch() {
    let options = CopyOptions { ignores_errors: true, verbose: true, ..CopyOptions::default() };
    let columns = vec![
        ("id".to_string(), ColumnType::Integer),
        ("list".to_string(), ColumnType::Array(Box::new(ColumnType::Integer))),
        ("at".to_string(), ColumnType::Date),
    ];
    let limits = CopyLimits { batch_rows_max: 2, ..CopyLimits::default() };
    let mut parser = CopyParser::new(options, columns, TextStyle::default())
        .unwrap()
        .for_table("t")
        .with_limits(limits);
    let long = "x".repeat(1_000);
    let data = format!(
        "1\t{{1,2}}\t2024-01-01\n2\t{{1,x}}\t2024-01-01\n\
         three\t{{3}}\t2024-01-01\n4\t{{4}}\t{long}\n5\t{{5,6}}\t2024-01-05\n6\t\\N\t2024-01-06\n"
    );
    let mut batches = parser.push(data.as_bytes()).unwrap();
    batches.extend(parser.finish().unwrap());
    // All rows of the second batch are skipped.
    let ids: Vec<Vec<i32>> = batches
        .iter()
        .map(|batch| batch.column(0).as_primitive::<Int32Type>().values().to_vec())
        .collect();
    assert_eq!(ids, [vec![1], vec![5, 6]]);
    let list = batches[1].column(1).as_list::<i32>();
    assert_eq!(list.value(0).as_primitive::<Int32Type>().values(), &[5, 6]);
    assert!(list.is_null(1));
    let skipped = parser.skipped();
    assert_eq!(skipped.rows, 3);
    assert!(skipped.messages[0].ends_with("at line 2 for column \"list\": \"{1,x}\""));
    assert!(skipped.messages[1].ends_with("at line 3 for column \"id\": \"three\""));
    assert!(
        skipped.messages[2].ends_with(&format!("\"{}...\"", "x".repeat(100))),
        "cut as in errors"
    );
    assert_eq!(skipped.summary().unwrap(), "3 rows were skipped due to data type incompatibility");
}

#[test]
fn latin1_comes_in_and_goes_out() {
    let mut options = CopyOptions { encoding: CopyEncoding::Latin1, ..CopyOptions::default() };
    let data = b"1\tcaf\xe9 \xdf\xff\n2\tplain\n";
    for step in [1, 5, 100] {
        assert_eq!(read(&options, data, step).unwrap(), ["1=caf\u{e9} \u{df}\u{ff}", "2=plain"]);
    }
    let mut parser = parser(&options);
    let mut batches = parser.push(data).unwrap();
    batches.extend(parser.finish().unwrap());
    let write = |options: &CopyOptions, batch: &RecordBatch| {
        let mut out = Vec::new();
        let writer = CopyWriter::new(options.clone(), batch.schema(), TextStyle::default());
        writer.write_batch(batch, &mut out).map(|()| out)
    };
    assert_eq!(write(&options, &batches[0]).unwrap(), data);
    options.encoding = CopyEncoding::Utf8;
    let euro = {
        let mut parser = self::parser(&options);
        parser.push("1\t5 \u{20ac}\n".as_bytes()).unwrap();
        parser.finish().unwrap().unwrap()
    };
    options.encoding = CopyEncoding::Latin1;
    let error = write(&options, &euro).unwrap_err();
    assert_eq!(error.kind().sqlstate(), "22P05");
    assert_eq!(
        error.message(),
        "character with byte sequence 0xe2 0x82 0xac in encoding \"UTF8\" has no equivalent in encoding \"LATIN1\""
    );
}

/// How many columns of the first batch have values, for data that may omit the last column.
fn given_columns(options: &CopyOptions, data: &[u8]) -> Result<usize> {
    let columns = [columns(), vec![("time".into(), ColumnType::Integer)]].concat();
    let mut parser = CopyParser::new(options.clone(), columns, TextStyle::default())?
        .for_table("t")
        .requiring(&["time".to_string()])
        .with_optional_last(true);
    let mut batches = parser.push(data)?;
    batches.extend(parser.finish()?);
    let batch = &batches[0];
    Ok(batch.columns().iter().filter(|column| column.null_count() < batch.num_rows()).count())
}

#[test]
fn the_last_column_is_left_out_of_all_records_or_of_none() {
    let csv = CopyOptions::csv();
    assert_eq!(given_columns(&csv, b"1,a\n2,b\n").unwrap(), 2);
    assert_eq!(given_columns(&csv, b"1,a,7\n2,b,8\n").unwrap(), 3);
    let code = |options: &CopyOptions, data: &[u8]| {
        given_columns(options, data).unwrap_err().kind().sqlstate()
    };
    assert_eq!(code(&csv, b"1,a\n2,b,8\n"), "22P04");
    assert_eq!(code(&csv, b"1,a,7\n2,b\n"), "22P04");
    assert_eq!(code(&csv, b"1\n"), "22P04");
    assert_eq!(code(&csv, b"1,a,\n"), "23502");
    assert_eq!(given_columns(&CopyOptions::default(), b"1\ta\n").unwrap(), 2);
    let matched = CopyOptions { header: CopyHeader::Match, ..csv };
    assert_eq!(given_columns(&matched, b"id,name\n1,a\n").unwrap(), 2);
    assert_eq!(given_columns(&matched, b"id,name,time\n1,a,7\n").unwrap(), 3);
    assert_eq!(code(&matched, b"id\n1\n"), "22P04");
    assert_eq!(code(&matched, b"id,name\n1,a,7\n"), "22P04");
}
