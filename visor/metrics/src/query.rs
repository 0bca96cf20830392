//! The metrics of statements: planning, execution, results.

use std::sync::Arc;

use prometheus_client::metrics::counter::Counter;
use stratalog_model::ErrorKind;

use crate::{Histogram, Stopwatch, catalogue, registrar::Registrar};

/// A step of planning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanningStep {
    /// From the parsed statement to a logical plan with types.
    Logical,
    /// From the logical plan to physical operators, including the optimizer.
    Physical,
}

/// A kind of statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatementClass {
    /// A statement that reads.
    Read,
    /// A statement that writes events.
    Write,
    /// A statement that changes definitions, or CALL.
    Definition,
    /// The begin or the end of a transaction block.
    Transaction,
    /// A statement about the session.
    Session,
}

/// The names of [`PlanningStep`], in the order of the declaration.
const STEPS: [&str; 2] = ["logical", "physical"];

/// The names of [`StatementClass`], in the order of the declaration.
const CLASSES: [&str; 5] = ["read", "write", "definition", "transaction", "session"];

/// The metrics of statements.
#[derive(Debug, Clone)]
pub struct QueryMetrics(Arc<QuerySeries>);

#[derive(Debug)]
struct QuerySeries {
    /// Durations of planning, by step.
    planning: Vec<Histogram>,
    /// Durations of execution, by class of statements.
    execution: Vec<Histogram>,
    rows: Histogram,
    cancelled: Counter,
    memory_refused: Counter,
}

impl QueryMetrics {
    pub(crate) fn register(registrar: &mut Registrar) -> Self {
        let labels = |names: &[&str]| names.iter().map(|name| [name.to_string()]).collect();
        let (steps, classes): (Vec<_>, Vec<_>) = (labels(&STEPS), labels(&CLASSES));
        Self(Arc::new(QuerySeries {
            planning: registrar.each(&catalogue::QUERY_PLANNING_SECONDS, steps),
            execution: registrar.each(&catalogue::QUERY_EXECUTION_SECONDS, classes),
            rows: registrar.one(&catalogue::QUERY_ROWS),
            cancelled: registrar.one(&catalogue::QUERY_CANCELLED),
            memory_refused: registrar.one(&catalogue::QUERY_MEMORY_REFUSED),
        }))
    }

    /// Records a step of planning; the caller has started `stopwatch` at the beginning of the step.
    pub fn planned(&self, step: PlanningStep, stopwatch: Stopwatch) {
        if let Some(histogram) = self.0.planning.get(step as usize) {
            histogram.observe_duration(stopwatch.elapsed());
        }
    }

    /// Records the end of a statement; the caller has started `stopwatch` at its beginning.
    pub fn executed(&self, class: StatementClass, stopwatch: Stopwatch) {
        if let Some(histogram) = self.0.execution.get(class as usize) {
            histogram.observe_duration(stopwatch.elapsed());
        }
    }

    /// Records the number of rows of a result.
    pub fn returned(&self, rows: u64) {
        self.0.rows.observe(rows);
    }

    /// Counts the error that ended a statement, if it is a cancellation or a lack of memory.
    pub fn failed(&self, kind: ErrorKind) {
        match kind {
            ErrorKind::QueryCanceled => {
                self.0.cancelled.inc();
            }
            ErrorKind::OutOfMemory => {
                self.0.memory_refused.inc();
            }
            _ => {}
        }
    }
}
