//! Something that a client does, for whoever waits for it.

use std::{future::Future, pin::Pin, sync::Mutex, time::Duration};

use pyo3::{exceptions::PyRuntimeError, prelude::*};
use pyo3_async_runtimes::tokio as bridge;

use crate::error::raised;

/// How often a call that is waited for looks whether somebody has pressed Ctrl-C.
const SIGNALS_EVERY: Duration = Duration::from_millis(100);
/// Threads that calls run on.
const THREADS: usize = 2;

type Work = Pin<Box<dyn Future<Output = PyResult<Py<PyAny>>> + Send>>;

/// What is to be done: nothing is, before it is waited for.
#[pyclass(frozen, module = "stratalog._native")]
pub struct Call {
    work: Mutex<Option<Work>>,
}

/// Says how many threads calls run on; to be called once, before the first of them.
pub fn start_runtime() {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(THREADS).thread_name("stratalog").enable_all();
    bridge::init(runtime);
}

impl Call {
    /// A call whose result becomes an object of Python.
    pub fn new<T: Send + 'static>(
        work: impl Future<Output = stratalog_client::Result<T>> + Send + 'static,
        convert: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> Self {
        let work = async move {
            let done = work.await;
            Python::attach(|py| match done {
                Ok(value) => convert(py, value),
                Err(error) => Err(raised(py, error)),
            })
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
        let mut work = self.take()?;
        loop {
            let done = py.detach(|| {
                let waiting = async { tokio::time::timeout(SIGNALS_EVERY, &mut work).await };
                bridge::get_runtime().block_on(waiting)
            });
            match done {
                Ok(result) => return result,
                Err(_) => py.check_signals()?,
            }
        }
    }

    /// Does it for a coroutine of asyncio.
    fn __await__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        bridge::future_into_py(py, self.take()?)?.call_method0("__await__")
    }
}
