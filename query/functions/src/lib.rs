//! SQL functions and operators that DataFusion lacks.
//!
//! *What it is*: `time_bucket`, jsonb operators, uuid, and the PostgreSQL functions that need no
//! session; the conversion of untyped literals by PostgreSQL's rules; timestamps in the session's
//! time zone; walks over syntax trees and plans ([`walk`], [`plan_walk`]), compiled only once for
//! all crates with walks.
//!
//! *What it deliberately is not*: the crate keeps no session and reads no catalog (the crate
//! `stratalog-pg-catalog` does), and touches no file or network.
//!
//! *Data path*: [`register`] puts the functions, operators and rewrites into a session; a plan
//! refers to them by name; DataFusion calls them with Arrow arrays.

mod array_containment;
mod arrays;
mod bytes;
mod cases;
mod cast;
mod date_part;
mod format;
pub mod function;
pub mod governor;
mod growth;
mod integer_rounding;
mod interval;
mod json;
mod like;
mod lists;
pub mod literal;
mod make_time;
pub mod metered;
mod misc;
mod number;
mod number_pattern;
mod numbers;
mod operator;
mod ordered_set;
mod overlap;
pub mod plan_walk;
mod quote;
pub mod regex;
mod register;
mod series;
mod similar;
mod sleep;
pub mod style;
mod text_form;
mod texts;
pub mod time_bucket;
mod time_pattern;
pub mod walk;
mod zone;

pub use cast::decimal::to_numeric;
pub use date_part::{CalendarUnit, Extract, steady_unit};
pub use function::failed;
pub use growth::{is_predicted, padded_lengths};
pub use integer_rounding::to_integer;
pub use json::{KEY as JSONB_KEY, choice as json_choice};
pub use like::{ILIKE_MATCH, LIKE_MATCH, ilike_match, like_match};
pub use metered::scalar_bytes;
pub use misc::with_backslashes;
pub use operator::JsonSubscripts;
pub use quote::{quote_ident, quote_literal};
pub use register::{FunctionPage, documentation, operators, register};
pub use series::TimeSeries;
