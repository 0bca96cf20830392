//! Where plans run: threads of their own, so that a plan that computes for long never
//! keeps protocols from reading what clients send (CL-10).

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use arrow::array::RecordBatch;
use datafusion::{execution::TaskContext, physical_plan::ExecutionPlan};
use futures::{Stream, StreamExt, stream::BoxStream};
use stratalog_model::{Error, Result};
use tokio::{
    runtime::{Builder, Handle, Runtime},
    sync::mpsc::{Receiver, channel},
    task::JoinHandle,
};

use crate::{
    errors::from_datafusion,
    rules::guarded::guard,
    session::{
        planner::start,
        work::{Stop, Work},
    },
};

/// Batches that wait for a slow client, at most.
const BATCHES_AHEAD: usize = 2;

/// Bytes of the stack of a thread that plans or runs queries: both go down an expression
/// level by level, and the longest chain of ORs that the parser lets through takes a quarter.
pub const STACK_BYTES: usize = 8 << 20;

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

    /// Runs a plan; its batches come through the stream. Dropping the stream stops the plan.
    ///
    /// # Errors
    /// When there are no threads any more.
    pub fn run(
        &self,
        stoppable: StoppablePlan,
        tasks: Arc<TaskContext>,
    ) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let StoppablePlan { plan, own } = stoppable;
        let (sender, batches) = channel(BATCHES_AHEAD);
        let task = self.handle()?.spawn(async move {
            let mut stream = match start(plan, tasks) {
                Ok(stream) => stream,
                Err(error) => {
                    let _ = sender.send(Err(error)).await;
                    return;
                }
            };
            while let Some(batch) = stream.next().await {
                let batch = batch.map_err(from_datafusion);
                let failed = batch.is_err();
                if sender.send(batch).await.is_err() || failed {
                    return;
                }
            }
        });
        Ok(Box::pin(Pumped { batches, task, ended: false, own }))
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
        let plan = guard(plan, &own).map_err(from_datafusion)?;
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

/// The batches of a plan that runs on other threads.
struct Pumped {
    batches: Receiver<Result<RecordBatch>>,
    task: JoinHandle<()>,
    ended: bool,
    own: Arc<Work>,
}

impl Stream for Pumped {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        match self.batches.poll_recv(context) {
            Poll::Ready(None) => match Pin::new(&mut self.task).poll(context) {
                Poll::Ready(joined) => {
                    self.ended = true;
                    match joined {
                        Err(error) if error.is_panic() => {
                            tracing::error!(%error, "a plan panicked");
                            let error = Error::internal("the statement failed unexpectedly");
                            Poll::Ready(Some(Err(error)))
                        }
                        _ => Poll::Ready(None),
                    }
                }
                Poll::Pending => Poll::Pending,
            },
            other => other,
        }
    }
}

impl Drop for Pumped {
    fn drop(&mut self) {
        self.own.stop(Stop::Closed);
        self.task.abort();
    }
}
