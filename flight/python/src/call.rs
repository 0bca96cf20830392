//! Something that a client does, for whoever waits for it.

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

/// How often a call that is waited for looks whether somebody has pressed Ctrl-C.
const SIGNALS_EVERY: Duration = Duration::from_millis(100);
/// Threads that calls run on.
const THREADS: usize = 2;
/// How long the end of the interpreter waits for threads that are about to tell it something.
const TOLD_WITHIN: Duration = Duration::from_secs(5);

static RUNTIME: OnceLock<Runtime> = OnceLock::new();
static TELLING: Telling = Telling { state: Mutex::new((0, false)), changed: Condvar::new() };

/// Threads of the runtime that are attached to the interpreter, or about to be, and whether it ends: a
/// thread that meets its end is taken down, and the process with it.
struct Telling {
    state: Mutex<(usize, bool)>,
    changed: Condvar,
}

impl Telling {
    fn state(&self) -> MutexGuard<'_, (usize, bool)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&'static self) -> Option<Teller> {
        let mut state = self.state();
        let (threads, ends) = &mut *state;
        *threads += usize::from(!*ends);
        (!*ends).then_some(Teller(self))
    }

    fn ends(&self) -> bool {
        self.state().1
    }
}

/// A thread that is attached, or about to be.
struct Teller(&'static Telling);

impl Drop for Teller {
    fn drop(&mut self) {
        self.0.state().0 -= 1;
        self.0.changed.notify_all();
    }
}

/// What `tell` does with the interpreter; never, once that ends.
async fn attached<T>(tell: impl FnOnce(Python<'_>) -> T) -> T {
    match TELLING.begin() {
        Some(_teller) => Python::attach(tell),
        None => std::future::pending().await,
    }
}

/// To be called when the interpreter ends: from now on it is told nothing.
#[pyfunction]
pub fn interpreter_ends(py: Python<'_>) {
    py.detach(|| {
        let mut state = TELLING.state();
        state.1 = true;
        let told = TELLING.changed.wait_timeout_while(state, TOLD_WITHIN, |state| state.0 > 0);
        drop(told);
    });
}

type Work = Pin<Box<dyn Future<Output = PyResult<Py<PyAny>>> + Send>>;

/// What is to be done: nothing is, before it is waited for.
#[pyclass(frozen, module = "stratalog._native")]
pub struct Call {
    work: Mutex<Option<Work>>,
}

/// A call that runs by itself.
#[pyclass(frozen, module = "stratalog._native")]
pub struct Running {
    task: AbortHandle,
}

/// Starts the threads on which calls run.
///
/// # Errors
/// Those of the operating system.
pub fn start_runtime() -> io::Result<()> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(THREADS).thread_name("stratalog").enable_all();
    // A module is made once for a process.
    let _ = RUNTIME.set(runtime.build()?);
    Ok(())
}

fn runtime() -> PyResult<&'static Runtime> {
    RUNTIME.get().ok_or_else(|| PyRuntimeError::new_err("the module is not made yet"))
}

impl Call {
    /// A call whose result becomes an object of Python.
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

    /// A call whose result is of no interest.
    pub fn done(work: impl Future<Output = stratalog_client::Result<()>> + Send + 'static) -> Self {
        Self::new(work, |py, ()| Ok(py.None()))
    }

    fn take(&self) -> PyResult<Work> {
        let work = self.work.lock().ok().and_then(|mut work| work.take());
        work.ok_or_else(|| PyRuntimeError::new_err("this was waited for before"))
    }
}

#[pymethods]
impl Call {
    /// Does it, and returns its result; other threads of Python go on meanwhile.
    fn wait(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let (mut work, runtime) = (self.take()?, runtime()?);
        loop {
            let done = py.detach(|| {
                let waiting = async { tokio::time::timeout(SIGNALS_EVERY, &mut work).await };
                runtime.block_on(waiting)
            });
            match done {
                Ok(result) => return result,
                Err(_) if TELLING.ends() => {
                    return Err(PyRuntimeError::new_err("the interpreter ends"));
                }
                Err(_) => py.check_signals()?,
            }
        }
    }

    /// Does it on a thread of its own, and calls `told` there with the result and None, or None and the
    /// exception.
    fn start(&self, told: Py<PyAny>) -> PyResult<Running> {
        let work = self.take()?;
        let task = runtime()?.spawn(async move {
            let result = work.await;
            let tell = |py: Python<'_>| {
                let answered = match result {
                    Ok(value) => told.call1(py, (value, py.None())),
                    Err(error) => told.call1(py, (py.None(), error.into_value(py))),
                };
                if let Err(error) = answered {
                    error.write_unraisable(py, None);
                }
                drop(told);
            };
            attached(tell).await;
        });
        Ok(Running { task: task.abort_handle() })
    }

    /// Does it for a coroutine of asyncio.
    fn __await__<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let waiting = this.py().import("stratalog._awaited")?.call_method1("result_of", (this,))?;
        waiting.call_method0("__await__")
    }
}

#[pymethods]
impl Running {
    /// Nobody waits for it any more.
    fn cancel(&self) {
        self.task.abort();
    }
}
