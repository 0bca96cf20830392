//! Where plans run: threads of their own, so that a plan that computes for long never
//! keeps protocols from reading what clients send (CL-10). Short ones begin with their reader.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::{execution::TaskContext, physical_plan::ExecutionPlan};
use futures::stream::BoxStream;
use stratalog_model::{Error, Result};
use tokio::runtime::{Builder, Handle, Runtime};

use super::{running::Running, short::is_short};
use crate::{
    errors::from_datafusion,
    rules::{guarded::guard, sliced::slice},
    session::{planner::start, work::Work},
};

/// Bytes of the stack of a thread that plans or runs queries: both go down an expression
/// level by level, and the longest chain of ORs that the parser lets through takes a quarter.
pub const STACK_BYTES: usize = 64 << 20;

/// The threads of running plans.
#[derive(Debug)]
pub struct Execution {
    runtime: Option<Runtime>,
}

impl Execution {
    /// `threads` threads.
    ///
    /// # Errors
    /// `Io` when the system has no thread for us.
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

    /// Runs a plan; its batches come through the stream. Dropping the stream stops the plan. A short
    /// one begins with whoever asks for its rows.
    ///
    /// # Errors
    /// When there are no threads any more.
    pub fn run(
        &self,
        stoppable: StoppablePlan,
        tasks: Arc<TaskContext>,
    ) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let StoppablePlan { plan, own } = stoppable;
        let threads = self.handle()?.clone();
        Ok(Box::pin(match is_short(&plan) {
            true => Running::here(move || start(plan, tasks), threads, own),
            false => Running::there(move || start(plan, tasks), &threads, own),
        }))
    }
}

/// A plan that can be stopped while it computes.
#[derive(Debug)]
pub struct StoppablePlan {
    /// The plan.
    pub plan: Arc<dyn ExecutionPlan>,
    /// Its own part of the statement: stopped with it, or when nobody wants its rows.
    own: Arc<Work>,
}

impl StoppablePlan {
    /// `plan`, as part of `work`.
    ///
    /// # Errors
    /// What rebuilding a join says.
    pub fn new(plan: Arc<dyn ExecutionPlan>, work: &Arc<Work>) -> Result<Self> {
        let own = work.part();
        let plan = guard(plan, &own).and_then(slice).map_err(from_datafusion)?;
        Ok(Self { plan, own })
    }
}

impl Drop for Execution {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // The service may be dropped on a thread that must not wait.
            runtime.shutdown_background();
        }
    }
}
