use arrow::{array::AsArray as _, datatypes::Int32Type};
use proptest::prelude::*;
use stratalog_model::{ColumnType, ErrorKind};
use stratalog_text::{TextStyle, copy::CopyLimits};

use super::{BinaryCopyParser, TRAILER, header};

fn parser(batch_rows_max: usize) -> BinaryCopyParser {
    let columns =
        vec![("n".to_string(), ColumnType::Integer), ("word".to_string(), ColumnType::Text)];
    let limits = CopyLimits { batch_rows_max, record_bytes_max: 1_000, ..CopyLimits::default() };
    BinaryCopyParser::new(
        "t".to_string(),
        columns,
        &["n".to_string()],
        TextStyle::default(),
        limits,
    )
}

fn row(number: i32, word: Option<&str>) -> Vec<u8> {
    let mut bytes = vec![0, 2, 0, 0, 0, 4];
    bytes.extend(number.to_be_bytes());
    match word {
        Some(word) => {
            bytes.extend(i32::try_from(word.len()).unwrap().to_be_bytes());
            bytes.extend(word.as_bytes());
        }
        None => bytes.extend((-1_i32).to_be_bytes()),
    }
    bytes
}

fn read(
    mut parser: BinaryCopyParser,
    pieces: &[&[u8]],
) -> stratalog_model::Result<Vec<(i32, Option<String>)>> {
    let mut batches = Vec::new();
    for piece in pieces {
        batches.extend(parser.push(piece)?);
    }
    batches.extend(parser.finish()?);
    let mut rows = Vec::new();
    for batch in batches {
        let words = batch.column(1).as_string_view().clone();
        let numbers = batch.column(0).as_primitive::<Int32Type>().clone();
        rows.extend(
            numbers.values().iter().copied().zip(words.iter().map(|word| word.map(str::to_string))),
        );
    }
    Ok(rows)
}

fn refused(bytes: &[u8]) -> (ErrorKind, String) {
    let error = read(parser(8), &[bytes]).unwrap_err();
    (error.kind(), error.message().to_string())
}

fn data(parts: &[&[u8]]) -> Vec<u8> {
    let mut all = header().to_vec();
    parts.iter().for_each(|part| all.extend_from_slice(part));
    all
}

proptest! {
    #[test]
    fn cut_anywhere_it_reads_the_same(
        rows in prop::collection::vec((any::<i32>(), prop::option::of(".{0,20}")), 0..30),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        extension in prop::collection::vec(any::<u8>(), 0..10),
        with_trailer in any::<bool>(),
    ) {
        let rows: Vec<(i32, Option<String>)> = rows
            .into_iter()
            .map(|(number, word)| (number, word.map(|word| word.replace('\0', ""))))
            .collect();
        let mut bytes = header().to_vec();
        let length = u32::try_from(extension.len()).unwrap();
        bytes.truncate(bytes.len() - 4);
        bytes.extend(length.to_be_bytes());
        bytes.extend(extension);
        for (number, word) in &rows {
            bytes.extend(row(*number, word.as_deref()));
        }
        if with_trailer {
            bytes.extend(TRAILER);
        }
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
        cuts.sort_unstable();
        let mut pieces = Vec::new();
        let mut start = 0;
        for cut in cuts.into_iter().chain([bytes.len()]) {
            pieces.push(&bytes[start..cut]);
            start = cut;
        }
        prop_assert_eq!(read(parser(7), &pieces).unwrap(), rows);
    }

    #[test]
    fn a_part_of_the_data_is_refused_unless_it_ends_with_a_row(
        cut in any::<prop::sample::Index>()
    ) {
        let bytes = data(&[&row(1, Some("one")), &row(2, None), &TRAILER]);
        let ends = [19, 19 + row(1, Some("one")).len(), bytes.len() - 2, bytes.len()];
        let cut = cut.index(bytes.len());
        prop_assert_eq!(read(parser(8), &[&bytes[..cut]]).is_ok(), ends.contains(&cut));
    }
}

#[test]
fn what_is_wrong_is_told() {
    let bad = ErrorKind::BadCopyFormat;
    let told = |bytes: &[u8], kind, message: &str| {
        assert_eq!(refused(bytes), (kind, message.to_string()));
    };
    told(b"PGCOPY\n\xff\r\nx", bad, "COPY file signature not recognized");
    told(b"", bad, "COPY file signature not recognized");
    let mut flags = header();
    flags[12] = 1;
    told(&flags, bad, "unrecognized critical flags in COPY file header");
    let mut length = header();
    length[15] = 0xff;
    told(&length, bad, "invalid COPY file header (wrong length)");
    told(&data(&[&[0, 3]]), bad, "row field count is 3, expected 2");
    told(&data(&[&[0, 2, 0xff, 0xff, 0xff, 0xfe]]), bad, "invalid field size");
    told(&data(&[&row(1, None), &[0, 2, 0]]), bad, "unexpected EOF in COPY data");
    told(&data(&[&TRAILER, &[0]]), bad, "received copy data after EOF marker");
    let invalid = ErrorKind::InvalidBinaryRepresentation;
    let short = [0, 2, 0, 0, 0, 1, 7, 0xff, 0xff, 0xff, 0xff];
    assert_eq!(refused(&data(&[&short])).0, invalid);
    assert_eq!(refused(&data(&[&row(1, Some("a\0b"))])).0, ErrorKind::InvalidEncoding);
    let null = [0, 2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
    assert_eq!(refused(&data(&[&null])).0, ErrorKind::NotNullViolation);
    let huge = [0, 2, 0x7f, 0xff, 0xff, 0xff];
    let long = vec![0; 2_000];
    assert_eq!(refused(&data(&[&huge, &long])).0, ErrorKind::LimitExceeded);
}

#[test]
fn the_first_row_decides_about_an_optional_last_column() {
    let short = |number: i32| {
        let mut bytes = vec![0, 1, 0, 0, 0, 4];
        bytes.extend(number.to_be_bytes());
        bytes
    };
    let rows = |parts: &[&[u8]]| read(parser(8).with_optional_last(true), &[&data(parts)]);
    let omitted = rows(&[&short(1), &short(2), &TRAILER]).unwrap();
    assert_eq!(omitted, [(1, None), (2, None)]);
    let given = rows(&[&row(1, Some("one")), &TRAILER]).unwrap();
    assert_eq!(given, [(1, Some("one".to_string()))]);
    for mixed in [[short(1), row(2, None)].concat(), [row(1, None), short(2)].concat()] {
        assert_eq!(rows(&[&mixed]).unwrap_err().kind(), ErrorKind::BadCopyFormat);
    }
    assert_eq!(refused(&data(&[&short(1)])).1, "row field count is 1, expected 2");
}
