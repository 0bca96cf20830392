//! The threads that run physical plans. Because plans run on separate threads, a long computation
//! never delays protocols that read client messages (CL-10). Short plans start on the thread of
//! their reader.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::{execution::TaskContext, physical_plan::ExecutionPlan};
use futures::stream::BoxStream;
use stratalog_model::{Error, Result};
use stratalog_postgres::errors::from_datafusion;
use tokio::runtime::{Builder, Handle, Runtime};

use super::{running_plan::RunningPlan, short_plans::is_short};
use crate::{
    rules::{sliced_batches::slice, stoppable_joins::guard},
    session::{planner::start, work::Work},
};

/// Stack size in bytes of a thread that plans or runs queries. Planning and execution recurse into
/// expressions. The longest chain of ORs that the parser accepts uses a quarter of the stack.
pub const STACK_BYTES: usize = 64 << 20;

/// The pool of threads that run plans.
#[derive(Debug)]
pub struct Execution {
    runtime: Option<Runtime>,
}

impl Execution {
    /// Starts `threads` threads.
    ///
    /// # Errors
    /// `Io` if the system cannot start a thread.
    pub fn new(threads: usize) -> Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads.max(1))
            .thread_name("query")
            .thread_stack_size(STACK_BYTES)
            .enable_all()
            .build()
            .map_err(|error| Error::io("cannot start the threads of queries", error))?;
        Ok(Self { runtime: Some(runtime) })
    }

    fn handle(&self) -> Result<&Handle> {
        match &self.runtime {
            Some(runtime) => Ok(runtime.handle()),
            None => Err(Error::internal("queries have no threads")),
        }
    }

    /// Runs a plan and streams its batches. A drop of the stream stops the plan. A short plan
    /// starts on the thread of its reader.
    ///
    /// # Errors
    /// An error if the threads have already ended.
    pub fn run(
        &self,
        stoppable: StoppablePlan,
        tasks: Arc<TaskContext>,
    ) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let StoppablePlan { plan, own } = stoppable;
        let threads = self.handle()?.clone();
        Ok(Box::pin(match is_short(&plan) {
            true => RunningPlan::on_reader(move || start(plan, tasks), threads, own),
            false => RunningPlan::on_threads(move || start(plan, tasks), &threads, own),
        }))
    }
}

/// A plan whose long computations check whether the statement was stopped.
#[derive(Debug)]
pub struct StoppablePlan {
    /// The plan.
    pub plan: Arc<dyn ExecutionPlan>,
    /// The part of the statement that runs this plan. A stop of the statement stops the part; a
    /// drop of the rows by the reader also stops the part.
    own: Arc<Work>,
}

impl StoppablePlan {
    /// Adds stop checks to `plan`, and makes the plan a part of the statement `work`.
    ///
    /// # Errors
    /// The errors from rebuilding a join.
    pub fn new(plan: Arc<dyn ExecutionPlan>, work: &Arc<Work>) -> Result<Self> {
        let own = work.part();
        let plan = guard(plan, &own).and_then(slice).map_err(from_datafusion)?;
        Ok(Self { plan, own })
    }
}

impl Drop for Execution {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Do not wait here: the last owner may drop the service on a thread that must not
            // block.
            runtime.shutdown_background();
        }
    }
}
