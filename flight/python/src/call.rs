//! Operations of the client as Python objects. Python code waits for the result in a thread, or
//! awaits the result in asyncio.

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use pyo3::{exceptions::PyRuntimeError, prelude::*};
use tokio::{runtime::Runtime, task::AbortHandle};

use crate::error::raised;

/// The interval at which a blocking call checks for Ctrl-C.
const SIGNALS_EVERY: Duration = Duration::from_millis(100);
/// Number of runtime threads.
const THREADS: usize = 2;
/// The maximal time for which the exiting interpreter waits for runtime threads that are attached
/// to it.
const ATTACH_TIME_MAX: Duration = Duration::from_secs(5);

static RUNTIME: OnceLock<Runtime> = OnceLock::new();
static ATTACHED_THREADS: AttachedThreads =
    AttachedThreads { state: Mutex::new((0, false)), changed: Condvar::new() };

/// The number of runtime threads that are attached to the interpreter or about to attach, and
/// whether the interpreter is exiting. A thread that attached during the exit would crash the
/// process.
struct AttachedThreads {
    state: Mutex<(usize, bool)>,
    changed: Condvar,
}

impl AttachedThreads {
    fn state(&self) -> MutexGuard<'_, (usize, bool)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&'static self) -> Option<AttachedThread> {
        let mut state = self.state();
        let (threads, ends) = &mut *state;
        *threads += usize::from(!*ends);
        (!*ends).then_some(AttachedThread(self))
    }

    fn ends(&self) -> bool {
        self.state().1
    }
}

/// Counts one thread as attached until dropped.
struct AttachedThread(&'static AttachedThreads);

impl Drop for AttachedThread {
    fn drop(&mut self) {
        self.0.state().0 -= 1;
        self.0.changed.notify_all();
    }
}

/// Attaches the thread to the Python interpreter and runs `tell`. Never returns if the interpreter
/// is exiting.
async fn attached<T>(tell: impl FnOnce(Python<'_>) -> T) -> T {
    match ATTACHED_THREADS.begin() {
        Some(_teller) => Python::attach(tell),
        None => std::future::pending().await,
    }
}

/// Prevents runtime threads from attaching to the interpreter. The Python package calls this
/// function when the interpreter exits.
#[pyfunction]
pub fn interpreter_ends(py: Python<'_>) {
    py.detach(|| {
        let mut state = ATTACHED_THREADS.state();
        state.1 = true;
        let deliver =
            ATTACHED_THREADS
                .changed
                .wait_timeout_while(state, ATTACH_TIME_MAX, |state| state.0 > 0);
        drop(deliver);
    });
}

type Work = Pin<Box<dyn Future<Output = PyResult<Py<PyAny>>> + Send>>;

/// An operation of the client. The operation starts when a caller waits for its result or awaits
/// it.
#[pyclass(frozen, module = "stratalog._native")]
pub struct Call {
    work: Mutex<Option<Work>>,
}

/// A running operation.
#[pyclass(frozen, module = "stratalog._native")]
pub struct Running {
    task: AbortHandle,
}

/// Starts the runtime threads.
///
/// # Errors
/// Errors of the operating system.
pub fn start_runtime() -> io::Result<()> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(THREADS).thread_name("stratalog").enable_all();
    // Python creates the module once per process, so the runtime is not set yet.
    let _ = RUNTIME.set(runtime.build()?);
    Ok(())
}

fn runtime() -> PyResult<&'static Runtime> {
    RUNTIME.get().ok_or_else(|| PyRuntimeError::new_err("the module is not made yet"))
}

impl Call {
    /// Creates an operation. `convert` turns the result into a Python object.
    pub fn new<T: Send + 'static>(
        work: impl Future<Output = stratalog_client::Result<T>> + Send + 'static,
        convert: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> Self {
        let work = async move {
            let done = work.await;
            let converted = |py: Python<'_>| match done {
                Ok(value) => convert(py, value),
                Err(error) => Err(raised(py, error)),
            };
            attached(converted).await
        };
        Self { work: Mutex::new(Some(Box::pin(work))) }
    }

    /// Creates an operation without a result.
    pub fn done(work: impl Future<Output = stratalog_client::Result<()>> + Send + 'static) -> Self {
        Self::new(work, |py, ()| Ok(py.None()))
    }

    fn take(&self) -> PyResult<Work> {
        let work = self.work.lock().ok().and_then(|mut work| work.take());
        work.ok_or_else(|| PyRuntimeError::new_err("the operation was already awaited"))
    }
}

#[pymethods]
impl Call {
    /// Runs the operation, blocks until it ends, and returns its result. Other Python threads
    /// continue in the meantime.
    fn wait(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let (mut work, runtime) = (self.take()?, runtime()?);
        loop {
            let done = py.detach(|| {
                let waiting = async { tokio::time::timeout(SIGNALS_EVERY, &mut work).await };
                runtime.block_on(waiting)
            });
            match done {
                Ok(result) => return result,
                Err(_) if ATTACHED_THREADS.ends() => {
                    return Err(PyRuntimeError::new_err("the interpreter ends"));
                }
                Err(_) => py.check_signals()?,
            }
        }
    }

    /// Starts the operation on a runtime thread and returns immediately. At the end the runtime
    /// thread calls `deliver(result, None)` or `deliver(None, exception)`.
    fn start(&self, deliver: Py<PyAny>) -> PyResult<Running> {
        let work = self.take()?;
        let task = runtime()?.spawn(async move {
            let result = work.await;
            let tell = |py: Python<'_>| {
                let answered = match result {
                    Ok(value) => deliver.call1(py, (value, py.None())),
                    Err(error) => deliver.call1(py, (py.None(), error.into_value(py))),
                };
                if let Err(error) = answered {
                    error.write_unraisable(py, None);
                }
                drop(deliver);
            };
            attached(tell).await;
        });
        Ok(Running { task: task.abort_handle() })
    }

    /// Makes the operation awaitable in asyncio.
    fn __await__<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let waiting = this.py().import("stratalog._awaited")?.call_method1("result_of", (this,))?;
        waiting.call_method0("__await__")
    }
}

#[pymethods]
impl Running {
    /// Cancels the operation.
    fn cancel(&self) {
        self.task.abort();
    }
}
