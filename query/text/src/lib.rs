//! Converts values to and from PostgreSQL's text format, and reads and writes COPY data.
//!
//! *What it is*: column-at-a-time writers over Arrow arrays ([`ColumnWriter`]), builders that read
//! text into Arrow columns with PostgreSQL's rules and errors ([`ColumnBuilder`]), and incremental
//! readers and writers of COPY's text and CSV ([`copy`]).
//!
//! *What it deliberately is not*: the crate opens no file or socket, plans no SQL, does not know
//! DataFusion, and keeps no session: the session's settings arrive as a [`TextStyle`].
//!
//! *Data path*: bytes → [`copy::CopyParser`] → [`ColumnBuilder`] per column → `RecordBatch`; and
//! back: `RecordBatch` → [`ColumnWriter`] per column → bytes.

pub mod builder;
pub mod calendar;
pub mod copy;
mod failing_row;
pub mod json;
pub mod parse;
pub mod style;
pub mod write;
pub mod zone;

pub use builder::{ColumnBuilder, parse_value};
pub use copy::{CopyFormat, CopyHeader, CopyOptions, CopyParser, CopyWriter};
pub use failing_row::failing_row;
pub use json::normalize_jsonb;
pub use parse::{abbreviated, array::parse_array};
pub use style::{ByteaOutput, DateOrder, IntervalStyle, TextStyle};
pub use write::{ColumnWriter, type_name, write_value};
pub use zone::{TimeZone, ZoneName, zone_names};
