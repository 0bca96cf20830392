//! Fuzzer: line protocol from clients, for tables that exist and tables that do not.
//!
//! The first byte of an input selects the test; the second byte is the size of the pieces. Text for
//! tables that do not exist is also read by the reference.

#![no_main]
#![expect(dead_code, reason = "of the tests' helpers a part is used")]

#[path = "../../tests/it/fixture.rs"]
mod fixture;
#[path = "../../tests/it/model.rs"]
mod model;

use arrow::array::{Array, AsArray};
use fixture::{Catalog, NS, table};
use libfuzzer_sys::fuzz_target;
use stratalog_line::{LineLimits, LineParser, LineRequest, Outcome, Precision, RowLimits};
use stratalog_model::ColumnType;

const PRECISIONS: [Precision; 8] = [
    Precision::Nanosecond,
    Precision::Microsecond,
    Precision::Millisecond,
    Precision::Second,
    Precision::Minute,
    Precision::Hour,
    Precision::Auto,
    Precision::Nanosecond,
];

fuzz_target!(|input: &[u8]| {
    let [what, piece, text @ ..] = input else { return };
    let piece = usize::from(*piece).max(1);
    let mut limits = LineLimits {
        errors_max: usize::MAX,
        rows: RowLimits { series_max: 3, ..RowLimits::default() },
        ..LineLimits::default()
    };
    if what & 1 == 0
        && let Ok(text) = std::str::from_utf8(text)
    {
        if let Err(difference) = model::compare(text, piece, limits) {
            panic!("{difference}");
        }
        return;
    }
    if what & 2 == 0 {
        limits.line_bytes_max = 60;
        limits.rows.columns_max = 6;
        limits.rows.tables_max = 3;
        limits.rows.columns_total_max = 20;
        limits.rows.series_bytes_max = 500;
    }
    let precision = PRECISIONS[usize::from(what >> 2 & 7)];
    let whole = read(text, text.len().max(1), precision, limits, false);
    assert_eq!(read(text, piece, precision, limits, false), whole, "in pieces");
    assert_eq!(read(text, piece, precision, limits, true), whole, "taken in between");
});

thread_local! {
    static CATALOG: Catalog = catalog();
}

/// Tables of all kinds of columns.
fn catalog() -> Catalog {
    let kinds = [
        ("t", ColumnType::TimestampTz { precision: 3 }),
        ("k", ColumnType::Text),
        ("l", ColumnType::Text),
        ("r", ColumnType::Real),
        ("d", ColumnType::Double),
        ("s", ColumnType::SmallInt),
        ("i", ColumnType::Integer),
        ("b", ColumnType::BigInt),
        ("n", ColumnType::Numeric { precision: 5, scale: 2 }),
        ("x", ColumnType::Text),
        ("o", ColumnType::Boolean),
        ("u", ColumnType::Uuid),
    ];
    let mut strict = table(
        "c",
        &[("time", NS), ("k", ColumnType::Text), ("v", ColumnType::BigInt)],
        &["k", "time"],
    );
    strict.columns[2].nullable = false;
    Catalog::with([
        table("a", &kinds, &["k", "l", "t"]),
        table("b", &kinds[..8], &["i", "k", "t"]),
        strict,
    ])
}

/// The result of a request, from a parser that has read a request before: rows as text, by line,
/// and errors.
fn read(
    text: &[u8],
    piece: usize,
    precision: Precision,
    limits: LineLimits,
    takes: bool,
) -> (Vec<(u64, String)>, u64, u64) {
    let mut catalog = CATALOG.with(|catalog| Catalog(catalog.0.clone()));
    let mut parser = LineParser::new(limits);
    let mut lines = Vec::new();
    let request = LineRequest { precision, now_ns: fixture::NOW_NS };
    parser.begin(request);
    let mut tables = Vec::new();
    for piece in text.chunks(piece) {
        parser.push(piece, &catalog).unwrap();
        let _ = (parser.rows(), parser.bytes());
        if takes {
            tables.extend(parser.take());
        }
    }
    let Outcome { tables: rest, errors, lines_ok, lines_failed } = parser.finish(&catalog).unwrap();
    tables.extend(rest);
    let rows = tables.iter().map(|rows| rows.rows() as u64).sum::<u64>();
    assert_eq!(rows, lines_ok);
    for rows in tables {
        let numbers: Vec<_> = (0..rows.rows()).map(|row| rows.line(row).unwrap()).collect();
        let definition = catalog.made_for(&rows);
        let batch = rows.into_batch(&definition).unwrap();
        let schema = batch.schema();
        for (row, number) in numbers.into_iter().enumerate() {
            let values =
                schema.fields().iter().zip(batch.columns()).filter_map(|(field, column)| {
                    // A tag that came first in a later batch is not part of the key.
                    let empty =
                        column.as_string_view_opt().is_some_and(|text| text.value(row).is_empty());
                    (!empty && column.is_valid(row))
                        .then(|| format!("{} {:?}", field.name(), column.slice(row, 1)))
                });
            // The columns come in another order for the same reason.
            let mut values: Vec<_> = values.collect();
            values.sort();
            lines.push((number, values.join("\n")));
        }
    }
    lines.extend(errors.into_iter().map(|error| (error.line, format!("{} {error:?}", error.line))));
    lines.sort();
    (lines, lines_ok, lines_failed)
}
