//! The native part of the Python package `stratalog`.
//!
//! *What it is*: ChronoLog's own API of `stratalog-client` as Python classes. Each operation is a
//! [`Call`](call::Call), to wait for or to await in asyncio.
//!
//! *What it deliberately is not*: the public Python API. `stratalog` and `stratalog.aio`, written
//! in Python, define its names, types and documentation.
//!
//! *Data path*: method → `Call` with a future of the client → a runtime with two threads → value →
//! Python object. Events wait in a [`Feed`](feed::Feed) until Python takes them, so that a
//! cancelled asyncio task loses no event.

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
