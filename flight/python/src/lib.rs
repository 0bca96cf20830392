//! The Python package `stratalog`, as far as it is not written in Python.
//!
//! *What it is*: ChronoLog's own API of `stratalog-client` as classes of Python. Each operation is a
//! [`Call`](call::Call), which is waited for, or awaited by asyncio.
//!
//! *What it deliberately is not*: what people import. That is `stratalog` and `stratalog.aio`, in Python, whose
//! classes have the names, types and texts that people see.
//!
//! *Data path*: method → `Call` with a future of the client → a runtime of two threads → value → object of
//! Python. Events wait in a [`Feed`](feed::Feed) until Python takes them, so that none is lost with a task of
//! asyncio that is cancelled.

mod call;
mod chronicle;
mod chronolog;
mod error;
mod feed;
mod values;

use pyo3::prelude::*;

/// The module `stratalog._native`.
#[pymodule]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::{
        call::{Call, Running},
        chronicle::Chronicle,
        chronolog::{Chronolog, connect},
        feed::Feed,
        values::{ClockSync, Event, Gap, Range, Receipt},
    };

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::call::start_runtime()?;
        let ends = wrap_pyfunction!(crate::call::interpreter_ends, module)?;
        module.py().import("atexit")?.call_method1("register", (ends,))?;
        crate::error::add_to(module)
    }
}
