//! As-of joins: each left row is joined with the last rows of the right side that precede the left
//! row in time.
//!
//! A typical question about time series: the latest quote at the time of each trade, or the last
//! state of a machine at the time of each alarm. In SQL the question is a subquery with an ORDER BY
//! and a LIMIT ([`decorrelation`](stratalog_postgres::rules::subqueries::decorrelation) finds such
//! subqueries, and creates the node [`AsOf`](stratalog_postgres::rules::subqueries::as_of::AsOf)).
//!
//! ```text
//!   left  (key a, time 10:05)        ─►  the row a 10:04
//!   right (a 10:01) (a 10:04) (a 10:07) (b 10:05)
//! ```
//!
//! Both inputs are sorted by the join keys and then by time. One pass over both inputs is therefore
//! enough, and memory holds no more rows than one left row matches. A literal execution of the SQL
//! text would first join all pairs of rows, and number the rows afterwards.

mod execution;
mod merge;
mod planner;

pub use self::{execution::AsOfExec, planner::WithAsOf};
