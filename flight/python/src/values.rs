//! The Python classes of arguments and results.

use std::ops::Bound as End;

use pyo3::{prelude::*, types::PyBytes};
use stratalog_client as client;

/// A raw event.
#[pyclass(frozen, get_all, module = "stratalog")]
pub struct Event {
    tick: i64,
    gsn: u64,
    time_ns: i64,
    payload: Py<PyBytes>,
}

#[pymethods]
impl Event {
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let payload = self.payload.bind(py).repr()?;
        Ok(format!(
            "Event(tick={}, gsn={}, time_ns={}, payload={payload})",
            self.tick, self.gsn, self.time_ns
        ))
    }
}

/// A gap in a subscription: the events at these positions are missing.
#[pyclass(frozen, get_all, module = "stratalog")]
pub struct Gap {
    gsn: u64,
    what: String,
}

#[pymethods]
impl Gap {
    fn __repr__(&self) -> String {
        format!("Gap(gsn={}, what={:?})", self.gsn, self.what)
    }
}

/// The receipt of a recorded event.
#[pyclass(frozen, get_all, module = "stratalog")]
pub struct Receipt {
    tick: Option<i64>,
    time_ns: Option<i64>,
    gsn: Option<u64>,
    durability: Option<String>,
    new_ticks: u32,
}

#[pymethods]
impl Receipt {
    fn __repr__(&self) -> String {
        let text_or_none = |number: Option<String>| number.unwrap_or_else(|| "None".to_string());
        format!(
            "Receipt(tick={}, gsn={}, durability={:?})",
            text_or_none(self.tick.map(|tick| tick.to_string())),
            text_or_none(self.gsn.map(|gsn| gsn.to_string())),
            self.durability.as_deref().unwrap_or("None"),
        )
    }
}

/// The relation of this machine's clock to the server's clock.
#[pyclass(frozen, get_all, module = "stratalog")]
pub struct ClockSync {
    time_ns: i64,
    error_ns: u64,
    drift: f64,
    distance_ns: i64,
    round_trip_ns: u64,
    epoch: u64,
    jumps: u64,
}

#[pymethods]
impl ClockSync {
    fn __repr__(&self) -> String {
        format!(
            "ClockSync(time_ns={}, error_ns={}, drift={})",
            self.time_ns, self.error_ns, self.drift
        )
    }
}

/// A range of events.
#[pyclass(frozen, module = "stratalog._native")]
pub struct Range(pub(crate) client::Range);

#[pymethods]
impl Range {
    #[staticmethod]
    fn all() -> Self {
        Self(client::Range::all())
    }

    #[staticmethod]
    fn times(start_ns: Option<i64>, end_ns: Option<i64>) -> Self {
        Self(client::Range::times((from(start_ns), to(end_ns))))
    }

    #[staticmethod]
    fn ticks(start: Option<i64>, end: Option<i64>) -> Self {
        Self(client::Range::ticks((from(start), to(end))))
    }

    #[staticmethod]
    fn gsns(start: Option<u64>, end: Option<u64>) -> Self {
        Self(client::Range::gsns((from(start), to(end))))
    }
}

fn from<T>(start: Option<T>) -> End<T> {
    start.map_or(End::Unbounded, End::Included)
}

fn to<T>(end: Option<T>) -> End<T> {
    end.map_or(End::Unbounded, End::Excluded)
}

/// Converts an event to a Python object.
pub fn event(py: Python<'_>, event: &client::Event) -> PyResult<Py<PyAny>> {
    let payload = PyBytes::new(py, &event.payload).unbind();
    let event = Event { tick: event.tick, gsn: event.gsn, time_ns: event.time_ns, payload };
    Ok(Py::new(py, event)?.into_any())
}

/// Converts events to a Python list.
pub fn events(py: Python<'_>, events: &[client::Event]) -> PyResult<Py<PyAny>> {
    let all = events.iter().map(|one| event(py, one)).collect::<PyResult<Vec<_>>>()?;
    Ok(all.into_pyobject(py)?.into_any().unbind())
}

/// Converts an update of a subscription to a Python object.
pub fn update(py: Python<'_>, update: &client::Update) -> PyResult<Py<PyAny>> {
    match update {
        client::Update::Event(one) => event(py, one),
        client::Update::Gap { gsn, what } => {
            Ok(Py::new(py, Gap { gsn: *gsn, what: what.clone() })?.into_any())
        }
    }
}

/// Converts a receipt to a Python object.
pub fn receipt(py: Python<'_>, receipt: &client::Receipt) -> PyResult<Py<PyAny>> {
    let receipt = Receipt {
        tick: receipt.tick,
        time_ns: receipt.time_ns,
        gsn: receipt.gsn,
        durability: receipt.durability.map(|durability| durability.to_string()),
        new_ticks: receipt.new_ticks,
    };
    Ok(Py::new(py, receipt)?.into_any())
}

/// Converts receipts to a Python list.
pub fn receipts(py: Python<'_>, receipts: &[client::Receipt]) -> PyResult<Py<PyAny>> {
    let all = receipts.iter().map(|one| receipt(py, one)).collect::<PyResult<Vec<_>>>()?;
    Ok(all.into_pyobject(py)?.into_any().unbind())
}

/// Converts the result of a clock comparison to a Python object.
pub fn clock_sync(py: Python<'_>, sync: &client::ClockSync) -> PyResult<Py<PyAny>> {
    let sync = ClockSync {
        time_ns: sync.estimate.time_ns,
        error_ns: sync.estimate.error_ns,
        drift: sync.drift,
        distance_ns: sync.distance_ns,
        round_trip_ns: u64::try_from(sync.round_trip.as_nanos()).unwrap_or(u64::MAX),
        epoch: sync.epoch,
        jumps: sync.jumps,
    };
    Ok(Py::new(py, sync)?.into_any())
}
