//! Converts line protocol to typed columns.
//!
//! *What it is*: a parser of InfluxDB's line protocol that reads the bytes of a socket straight
//! into a column builder per field ([`LineParser`]); the row builder below the parser, for any
//! other protocol that writes series of fields ([`RowBuilder`]: tables, series and columns, but no
//! text); and the result of both, a [`RecordBatch`](arrow::array::RecordBatch) per table with the
//! schema of its definition ([`TableRows`]).
//!
//! *What it deliberately is not*: a server, a catalog or DDL. The crate opens no socket, starts no
//! task, does not depend on DataFusion and creates no table and no column: it reports the tags and
//! fields that a table lacks, and the caller decides whether to create columns. The crate evaluates
//! no DEFAULT: a column without a value in the line is NULL.
//!
//! *Data path*: bytes → lines ([`LineParser::push`]) → look-up of the series by its bytes, and of
//! the column of each value ([`Row`]) → [`LineParser::take`] → [`TableRows::into_batch`] →
//! `RecordBatch`.
//!
//! ```
//! use std::sync::Arc;
//! use stratalog_line::{LineLimits, LineParser, LineRequest, Precision, Tables};
//! use stratalog_model::ChronicleDefinition;
//!
//! struct NoTables;
//! impl Tables for NoTables {
//!     fn table(&self, _measurement: &str) -> Option<Arc<ChronicleDefinition>> {
//!         None
//!     }
//! }
//!
//! let mut parser = LineParser::new(LineLimits::default());
//! parser.begin(LineRequest { precision: Precision::Second, now_ns: 0 });
//! parser.push(b"cpu,host=a usage=58i,id", &NoTables)?;
//! parser.push(b"le=41.5 1451606400\ncpu usage=1.5\n", &NoTables)?;
//! let outcome = parser.finish(&NoTables)?;
//!
//! let cpu = &outcome.tables[0];
//! assert_eq!((cpu.measurement(), cpu.rows(), cpu.new_tags()), ("cpu", 1, &["host".to_string()][..]));
//! assert_eq!(cpu.new_fields()[1].0, "idle");
//! assert_eq!(
//!     outcome.errors[0].to_string(),
//!     "line 2: field \"usage\" of table \"cpu\": the column became one of type bigint, \
//!      and the line has a float; write an integer, 1i, as in the first line of the request that has it"
//! );
//! # Ok::<(), stratalog_model::Error>(())
//! ```
//!
//! # A line
//!
//! ```text
//! cpu,host=a,region=eu usage=58i,idle=41.5 1451606400000000000
//! └┬┘ └──────┬───────┘ └───┬───┘ └───┬───┘ └────────┬────────┘
//! measurement tags         fields                   timestamp
//! └────────┬─────────┘ └─────────┬─────────────────┘
//! identity: looked up as bytes,  field by field: is this the label that followed last time?
//! parsed only when new
//! ```
//!
//! The bytes before the first space identify the series. The parser parses these bytes only for a
//! new series. Otherwise the parser only compares the bytes, first with the identity that followed
//! the previous series last time. Fields work the same way: the parser first tries the label
//! (`usage=`) of the column that followed last time. The parser converts a value directly from the
//! bytes of the line and appends the value to its column. A column without a value in the line
//! stays shorter than the other columns; the next value for the column first adds NULLs for the
//! missing rows. If a line turns out to be wrong, the parser removes its values from the columns.
//! The parser checks that text is valid UTF-8: names and tags when they are new, strings each time.
//! All other parts of a line are ASCII.
//!
//! The column of a tag is not built row by row: rows keep the number of their series within the
//! batch, and one pass builds the batch's column from the values of its series.
//!
//! # Where values go
//!
//! | written | kind | new column | also fits |
//! |---|---|---|---|
//! | `1`, `1.5e3` | float | `double precision` | `real` |
//! | `1i` | integer | `bigint` | `integer`, `smallint`, `numeric` |
//! | `1u` | unsigned integer | `numeric(20,0)` | `bigint`, `integer`, `smallint`, `numeric` |
//! | `"text"` | string | `text` | |
//! | `t`, `true`, `f`, `false` … | boolean | `boolean` | |
//! | tag | | `text`, in the key | `text` outside of the key, where no rows replace each other |
//!
//! Ranges are checked line by line. Any other pair is an error of the line: no value is converted
//! to another kind. If a series lacks a tag, the key column has the value '', because key columns
//! cannot be NULL. No tag value can be '', so '' always means a missing tag. A field may fill a key
//! column whose type is not text. A line without a timestamp has the time that the caller passed,
//! plus a nanosecond for each earlier line without a timestamp.
//!
//! # Differences from the reference
//!
//! The reference is the crate `influxdb-line-protocol` 2.0, the parser of InfluxDB 3; the tests and
//! the fuzzer compare with this parser. Accepted here, as in InfluxDB 1 and 2, but not by the
//! reference:
//!
//! - lines that end with carriage return and newline;
//! - spaces after the last field of a line without a timestamp;
//! - comments with quotes: a comment always ends at its newline;
//! - bytes that are not UTF-8: only the line with these bytes is an error (in a comment the bytes
//!   are no error).
//!
//! Refused here but accepted by the reference, each with an error of its line:
//!
//! - a comma without a backslash in the name of a tag or field (`cpu,a,b=1 v=1`): nearly always a
//!   value is missing;
//! - a comma after the only field (`cpu v=1,`);
//! - a tag or field that is given twice, or a name that is both; the reference takes the last
//!   value, or the error is found later;
//! - a float beyond the range of 64 bits (`1e400`), which the reference reads as infinite; neither
//!   parser reads NaN or infinity by name;
//! - a newline in a name or in the value of a tag, even if the newline is escaped;
//! - the character U+0000, which a text column cannot store;
//! - names of more than 63 bytes, names of system columns, and `time` as a tag or field of a new
//!   table;
//! - values of another kind than the column has: with the reference, the database finds this error.
//!
//! Both parsers accept an `=` without a backslash in the value of a tag (`cpu,a=b=c` has the value
//! `b=c`). In both, a backslash that escapes nothing is an ordinary character.
//!
//! # Bounds
//!
//! [`LineLimits`] limits the length of lines, the cache of tables, columns and series, and the list
//! of errors. The caller limits the memory of the rows: it calls [`LineParser::take`] when
//! [`LineParser::rows`] or [`LineParser::bytes`] are high enough.

pub mod builder;
mod column;
mod fault;
pub mod kind;
pub mod limits;
mod name;
pub mod parser;
pub mod precision;
pub mod row;
pub mod rows;
pub mod series;
mod table;
mod tag;

pub use builder::{RowBuilder, Tables};
pub use fault::LineError;
pub use kind::{ColumnKind, FieldValue};
pub use limits::{LineLimits, NAME_BYTES_MAX, RowLimits};
pub use parser::{LineParser, LineRequest, Outcome};
pub use precision::Precision;
pub use row::Row;
pub use rows::TableRows;
pub use series::SeriesNumber;
pub use table::TIME_COLUMN;
