//! Line protocol into typed columns.
//!
//! *What it is*: a parser of InfluxDB's line protocol that goes from the bytes of a socket straight
//! into one column builder per field ([`LineParser`]); the builder below it, which knows tables,
//! series and columns but no text ([`RowBuilder`]), for whatever other protocol writes series of
//! fields; and their outcome, a [`RecordBatch`](arrow::array::RecordBatch) of each table in the
//! shape of its definition ([`TableRows`]).
//!
//! *What it deliberately is not*: a server, a catalog or DDL. It opens no socket, starts no task,
//! knows no DataFusion, makes no table and no column: it says which tags and fields a table lacks,
//! and the caller decides. It evaluates no DEFAULT: what no line says is NULL.
//!
//! *Data path*: bytes → lines ([`LineParser::push`]) → series by their bytes, values by column
//! ([`Row`]) → [`LineParser::take`] → [`TableRows::into_batch`] → `RecordBatch`.
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
//! identity: looked up as bytes,  column by column: is this the label that followed last time?
//! parsed once
//! ```
//!
//! The bytes before the first space tell the series; they are parsed when they come for the first
//! time, and compared with those of the series that came next last time ever after. Of a field the
//! same is asked: the label (`usage=`) of the column that followed last time. A value is read where
//! it stands and pushed to its column; a column that a line does not name is left shorter, and is
//! made as long as the others when it is named again. A line that is found to be wrong takes its
//! values back. Text is checked to be UTF-8 where it enters: names and tags when they are new,
//! strings each time; all else that a line may have is ASCII.
//!
//! A tag's column is not built row by row: rows keep the number of their series within the batch,
//! and the batch's column is made in one go from the values of its series.
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
//! Ranges are checked line by line. Any other pair is an error of the line: no value is converted to
//! another kind. A tag that a series does not have is '' in a key column, which takes no NULL; no tag
//! can say '', so that this means one thing only. A field may fill a key column that is not text.
//! A line without a timestamp has the time that the caller gave, a nanosecond later than the one
//! before that had none.
//!
//! # Where it differs from the reference
//!
//! The reference is the crate `influxdb-line-protocol` 2.0, the parser of InfluxDB 3, which the tests
//! and the fuzzer compare with. Accepted here and not there, as InfluxDB 1 and 2 do:
//!
//! - lines that end with carriage return and newline;
//! - spaces behind the last field of a line without a timestamp;
//! - comments with quotes: a comment ends at its newline, whatever it says;
//! - bytes that are not UTF-8: the line that has them is an error, and no other (in a comment they
//!   are none).
//!
//! Refused here and not there, each with an error of its line:
//!
//! - a comma without a backslash in the name of a tag or field (`cpu,a,b=1 v=1`): nearly always a
//!   value is missing;
//! - a comma behind the only field (`cpu v=1,`);
//! - a tag or field that is given twice, or one that is both; there the last one wins, or it is
//!   found later;
//! - a float beyond the range of 64 bits (`1e400`), which there is infinite; neither reads NaN or
//!   infinity by name;
//! - a newline in a name or in the value of a tag, even if it is escaped;
//! - the character of code 0, which text cannot hold;
//! - names of more than 63 bytes, names of system columns, and `time` as a tag or field of a new table;
//! - values of another kind than the column has: there the database finds it.
//!
//! Both take an `=` without a backslash in the value of a tag (`cpu,a=b=c` has the value `b=c`), and a
//! backslash that escapes nothing for itself.
//!
//! # Bounds
//!
//! Lines, tables, columns and series that are remembered, errors that are kept: [`LineLimits`]. Rows
//! are bounded by the caller, who takes them when [`LineParser::rows`] or [`LineParser::bytes`] say so.

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
