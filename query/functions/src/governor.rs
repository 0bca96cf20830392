//! Limits the memory of expressions in a running statement, and stops their evaluation when the
//! statement must end (CL-10).
//!
//! ```text
//!   statement ─► governed(future) ─► thread-local governor ─► check(), charge()
//!                      └─► tasks that DataFusion spawns inherit the governor (see `install`)
//! ```
//! Without a governor, a thread has no limits, for example when a test folds constants.

use std::{
    any::Any,
    cell::{Cell, RefCell},
    fmt::Debug,
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use datafusion::common::{Result as PlanResult, runtime::JoinSetTracer};
use stratalog_model::{Error, ErrorKind, Result};
use tokio::time::Sleep;

use crate::failed;

mod charged_buffers;

pub use charged_buffers::{array_bytes, batch_bytes, largest_list_bytes, value_bytes, with_charge};

/// The maximum size of one value in bytes. PostgreSQL has the same limit.
pub const VALUE_BYTES_MAX: usize = (1 << 30) - 1;

/// A result with fewer bytes is not charged to the memory budget of the statement.
pub const CHARGED_BYTES_MIN: usize = 256 << 10;

/// The target size in bytes for the result of one call, if the batch can be split into smaller
/// batches.
pub const SPLIT_BYTES: usize = 32 << 20;

/// The maximum size in bytes of a constant that the planner computes in advance.
pub const FOLDED_BYTES_MAX: usize = 1 << 20;

/// A thread reports its allocations to the governor when they exceed this number of bytes.
const REPORTED_BYTES_MIN: usize = 1 << 20;

/// The interval at which a paused task checks whether it may continue.
const REST: Duration = Duration::from_millis(10);

/// The maximum number of charges for constants that one thread keeps.
const CONSTANTS_MAX: usize = 32;

/// The limits of one statement. The query service implements this trait.
pub trait Governor: Debug + Send + Sync {
    /// Checks whether the statement may continue.
    ///
    /// # Errors
    /// `QueryCanceled` or `Shutdown` if the statement must stop.
    fn check(&self) -> Result<()>;

    /// Reserves `bytes` of the statement's memory budget.
    ///
    /// # Errors
    /// `OutOfMemory` if the budget is exhausted; the budget is then unchanged.
    fn grow(&self, bytes: usize) -> Result<()>;

    /// Returns `bytes` to the statement's memory budget.
    fn shrink(&self, bytes: usize);

    /// Reports the number of bytes that a thread of the statement has allocated since its last
    /// report, minus the bytes that it has freed. The number includes all memory, whether or not
    /// [`Self::grow`] was called for it.
    fn allocated(&self, bytes: isize) {
        let _ = bytes;
    }

    /// True if the tasks of the statement must pause, because memory is short and another statement
    /// runs first.
    fn rests(&self) -> bool {
        false
    }

    /// Called when a further task of the statement starts.
    fn task_begins(&self) {}

    /// Called when a task of the statement has ended and has freed its memory.
    fn task_ends(&self) {}
}

/// The situation in which a thread evaluates expressions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Evaluation {
    /// The thread evaluates a batch that the caller cannot split.
    #[default]
    Whole,
    /// The thread evaluates a batch that the caller splits after `OutOfMemory`, to try again with
    /// smaller batches.
    Splittable,
    /// The planner evaluates a constant in advance.
    Planning,
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<dyn Governor>>> = const { RefCell::new(None) };
    /// The allocated bytes minus the freed bytes of this thread since the last report to a
    /// governor.
    static ALLOCATED: Cell<isize> = const { Cell::new(0) };
    static EVALUATION: Cell<Evaluation> = const { Cell::new(Evaluation::Whole) };
    /// The charges for constants; each entry has the address of the constant.
    static CONSTANTS: RefCell<Vec<(usize, Charge)>> = const { RefCell::new(Vec::new()) };
}

/// The governor of the current thread; `None` if the thread works for no statement.
pub fn current() -> Option<Arc<dyn Governor>> {
    CURRENT.with_borrow(Clone::clone)
}

/// How the current thread evaluates expressions.
pub fn evaluation() -> Evaluation {
    EVALUATION.get()
}

/// Adds `bytes` to the allocated bytes of the current thread. A negative number counts freed bytes.
#[inline]
pub fn count_allocated(bytes: isize) {
    ALLOCATED.set(ALLOCATED.get().wrapping_add(bytes));
}

/// Reports the allocated bytes to the governor of the current thread, if there are at least
/// [`REPORTED_BYTES_MIN`].
fn report_allocated() {
    let bytes = ALLOCATED.get();
    if bytes.unsigned_abs() >= REPORTED_BYTES_MIN {
        CURRENT.with_borrow(|governor| {
            if let Some(governor) = governor {
                ALLOCATED.set(0);
                governor.allocated(bytes);
            }
        });
    }
}

/// Checks whether the statement of the current thread may continue.
///
/// # Errors
/// The errors of [`Governor::check`].
pub fn check() -> PlanResult<()> {
    check_statement().map_err(failed)
}

/// Checks whether the statement of the current thread may continue. Differs from [`check`] only in
/// the error type, which is of this project and not of DataFusion.
///
/// # Errors
/// The errors of [`Governor::check`].
pub fn check_statement() -> Result<()> {
    report_allocated();
    CURRENT.with_borrow(|governor| governor.as_ref().map_or(Ok(()), |governor| governor.check()))
}

/// Counts the steps of a loop, and calls [`check`] only once in many steps.
#[derive(Debug, Default)]
pub struct Pace(u32);

impl Pace {
    /// The number of steps between two checks.
    const STEPS: u32 = 1 << 7;

    /// Counts a step; every 128th step also checks whether the statement may continue.
    ///
    /// # Errors
    /// The errors of [`check`].
    pub fn step(&mut self) -> PlanResult<()> {
        self.0 = self.0.wrapping_add(1);
        match self.0 % Self::STEPS {
            0 => check(),
            _ => Ok(()),
        }
    }
}

/// An amount of memory that is charged to the budget of a statement. Dropping the charge returns
/// the memory to the budget.
#[derive(Debug)]
pub struct Charge {
    governor: Option<Arc<dyn Governor>>,
    bytes: usize,
}

impl Charge {
    /// Changes the amount of the charge to `bytes`.
    ///
    /// # Errors
    /// `OutOfMemory` if the budget is exhausted.
    pub fn resize(&mut self, bytes: usize) -> Result<()> {
        if let Some(governor) = &self.governor {
            match bytes.checked_sub(self.bytes) {
                Some(more) => governor.grow(more)?,
                None => governor.shrink(self.bytes - bytes),
            }
        }
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if let Some(governor) = &self.governor
            && self.bytes > 0
        {
            governor.shrink(self.bytes);
        }
    }
}

/// Charges `bytes` to the budget of the statement that the current thread works for.
///
/// # Errors
/// `OutOfMemory` if the budget is exhausted.
pub fn charge(bytes: usize) -> Result<Charge> {
    let mut charge = Charge { governor: current(), bytes: 0 };
    charge.resize(bytes)?;
    Ok(charge)
}

/// Charges `bytes` to the budget of the statement of `governor`.
///
/// # Errors
/// `OutOfMemory` if the budget is exhausted.
pub fn charge_to(governor: &Arc<dyn Governor>, bytes: usize) -> Result<Charge> {
    let mut charge = Charge { governor: Some(Arc::clone(governor)), bytes: 0 };
    charge.resize(bytes)?;
    Ok(charge)
}

/// Keeps the charge for a constant in the current thread. `address` is the constant's address in
/// memory. The charge ends when [`take_constant`] removes it, when the current evaluation ends, or
/// when too many other constants follow.
pub fn keep_constant(address: usize, charge: Charge) {
    CONSTANTS.with_borrow_mut(|constants| {
        if constants.len() >= CONSTANTS_MAX {
            constants.remove(0);
        }
        constants.push((address, charge));
    });
}

/// Removes and returns the charge for the constant at `address`, if there is one.
pub fn take_constant(address: usize) -> Option<Charge> {
    CONSTANTS.with_borrow_mut(|constants| {
        let at = constants.iter().position(|(known, _)| *known == address)?;
        Some(constants.swap_remove(at).1)
    })
}

/// Restores the state of the thread when dropped, at the end of [`within`] and [`evaluating`], even
/// after a panic.
struct StateRestorer {
    /// The previous governor, and the bytes that were allocated under it and not reported.
    governor: Option<(Option<Arc<dyn Governor>>, isize)>,
    evaluation: Evaluation,
    constants: Vec<(usize, Charge)>,
}

impl Drop for StateRestorer {
    fn drop(&mut self) {
        EVALUATION.set(self.evaluation);
        let inner = CONSTANTS.replace(std::mem::take(&mut self.constants));
        drop(inner);
        if let Some((outside, allocated)) = self.governor.take() {
            let inside = CURRENT.replace(outside);
            let bytes = ALLOCATED.replace(allocated);
            if let Some(governor) = inside.filter(|_| bytes != 0) {
                governor.allocated(bytes);
            }
        }
    }
}

/// Runs `work` with `governor` as the governor of the thread.
pub fn within<T>(governor: &Arc<dyn Governor>, work: impl FnOnce() -> T) -> T {
    let _restored = StateRestorer {
        governor: Some((CURRENT.replace(Some(Arc::clone(governor))), ALLOCATED.replace(0))),
        evaluation: EVALUATION.replace(Evaluation::Whole),
        constants: CONSTANTS.take(),
    };
    work()
}

/// Runs `work` with this kind of evaluation. Afterwards, the charges for constants end.
pub fn evaluating<T>(evaluation: Evaluation, work: impl FnOnce() -> T) -> T {
    let _restored = StateRestorer {
        governor: None,
        evaluation: EVALUATION.replace(evaluation),
        constants: CONSTANTS.take(),
    };
    work()
}

/// Runs a future that plans a statement, with [`Evaluation::Planning`] during each poll.
pub async fn planning<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|context| evaluating(Evaluation::Planning, || future.as_mut().poll(context))).await
}

/// Runs a future with `governor` as the governor of the thread during each poll.
pub async fn governed<F: Future>(governor: Arc<dyn Governor>, future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|context| within(&governor, || future.as_mut().poll(context))).await
}

type AnyFuture = Pin<Box<dyn Future<Output = Box<dyn Any + Send>> + Send>>;
type AnyBlock = Box<dyn FnOnce() -> Box<dyn Any + Send> + Send>;

/// Counts a task of a statement as running, from the start of the task until the release of its
/// memory.
#[derive(Debug)]
pub struct RunningTask(Arc<dyn Governor>);

impl RunningTask {
    /// Counts a further running task for the statement of `governor`.
    pub fn of(governor: Arc<dyn Governor>) -> Self {
        governor.task_begins();
        Self(governor)
    }
}

impl Drop for RunningTask {
    fn drop(&mut self) {
        self.0.task_ends();
    }
}

/// The future of a task. The task counts as ended only after the data of the inner future is
/// dropped.
struct Task<T> {
    future: Pin<Box<dyn Future<Output = T> + Send>>,
    rest: Option<Pin<Box<Sleep>>>,
    running_task: RunningTask,
}

impl<T> Task<T> {
    fn new(future: Pin<Box<dyn Future<Output = T> + Send>>, running_task: RunningTask) -> Self {
        Self { future, rest: None, running_task }
    }
}

impl<T> Future for Task<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let governor = Arc::clone(&self.running_task.0);
        while governor.rests() {
            let rest = self.rest.get_or_insert_with(|| Box::pin(tokio::time::sleep(REST)));
            if rest.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            self.rest = None;
        }
        self.rest = None;
        within(&governor, || self.future.as_mut().poll(context))
    }
}

/// Wraps `future` as a separate task of the statement of `governor`. The task pauses while the
/// governor asks for it.
pub fn task<F>(governor: Arc<dyn Governor>, future: F) -> impl Future<Output = F::Output> + Send
where
    F: Future + Send + 'static,
{
    Task::new(Box::pin(future), RunningTask::of(governor))
}

/// Passes the governor of the current thread on to the tasks that DataFusion spawns for a plan.
struct GovernorTracer;

impl JoinSetTracer for GovernorTracer {
    fn trace_future(&self, future: AnyFuture) -> AnyFuture {
        match current() {
            Some(governor) => Box::pin(Task::new(future, RunningTask::of(governor))),
            None => future,
        }
    }

    fn trace_block(&self, block: AnyBlock) -> AnyBlock {
        match current() {
            Some(governor) => {
                let running_task = RunningTask::of(governor);
                Box::new(move || {
                    let result = within(&running_task.0, block);
                    drop(running_task);
                    result
                })
            }
            None => block,
        }
    }
}

/// Makes the tasks that DataFusion spawns inherit the governor of the spawning thread, for the
/// whole process. Only the first call has an effect.
pub fn install() {
    // A process has at most one tracer. An error means that an earlier call has set the tracer.
    let _ = datafusion::common::runtime::set_join_set_tracer(&GovernorTracer);
}

/// Checks the predicted size of a result before the result is computed. Refuses a large batch if
/// the caller can split the batch, and a large constant if it can be computed at execution.
///
/// # Errors
/// `OutOfMemory` if the result is too large.
pub fn check_batch(bytes: usize, rows: usize) -> Result<()> {
    let too_large = match evaluation() {
        Evaluation::Planning => bytes > FOLDED_BYTES_MAX,
        Evaluation::Splittable => rows > 1 && bytes > SPLIT_BYTES,
        Evaluation::Whole => false,
    };
    if !too_large {
        return Ok(());
    }
    Err(Error::new(ErrorKind::OutOfMemory, "out of memory")
        .with_detail(format!("an expression would make {bytes} bytes for {rows} rows at once"))
        .with_hint("make shorter values, or process fewer rows at once"))
}

/// The error for a value longer than [`VALUE_BYTES_MAX`]; `what` names the function or value.
pub fn too_long(what: &str, bytes: usize) -> Error {
    Error::new(ErrorKind::LimitExceeded, "requested length too large").with_detail(format!(
        "{what} would make a value of {bytes} bytes; a value has at most {VALUE_BYTES_MAX}"
    ))
}

#[cfg(test)]
mod tests;
