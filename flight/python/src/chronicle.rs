//! The handle of an acquired chronicle.

use pyo3::{prelude::*, pybacked::PyBackedBytes};
use stratalog_client::{Result, Start};

use crate::{
    call::Call,
    chronolog::{execute, seconds},
    feed::{Feed, Source},
    values,
    values::Range,
};

/// An acquired chronicle.
#[pyclass(frozen, module = "stratalog._native")]
pub struct Chronicle {
    chronicle: stratalog_client::Chronicle,
}

impl Chronicle {
    /// Wraps a handle of the Rust client.
    pub fn new(chronicle: stratalog_client::Chronicle) -> Self {
        Self { chronicle }
    }
}

#[pymethods]
impl Chronicle {
    #[getter]
    fn name(&self) -> &str {
        self.chronicle.name()
    }

    #[getter]
    fn index(&self) -> String {
        self.chronicle.granularity().to_string()
    }

    #[getter]
    fn base_ns(&self) -> i64 {
        self.chronicle.base_ns()
    }

    #[getter]
    fn lapses(&self) -> u64 {
        self.chronicle.lapses()
    }

    fn record(&self, payload: PyBackedBytes) -> Call {
        let chronicle = self.chronicle.clone();
        let recorded = async move { chronicle.record(&payload).await };
        Call::new(recorded, |py, receipt| values::receipt(py, &receipt))
    }

    fn record_batch(&self, payloads: Vec<PyBackedBytes>) -> Call {
        let chronicle = self.chronicle.clone();
        let recorded = async move { chronicle.record_batch(&payloads).await };
        Call::new(recorded, |py, receipts| values::receipts(py, &receipts))
    }

    /// Appends an event; waits while the buffer is full. The result is another call, which waits
    /// until the event is stored.
    fn append(&self, payload: PyBackedBytes) -> Call {
        let chronicle = self.chronicle.clone();
        let taken = async move { chronicle.append(&payload).await };
        Call::new(taken, |py, pending| {
            let stored = Call::new(pending, |py, receipt| values::receipt(py, &receipt));
            Ok(Py::new(py, stored)?.into_any())
        })
    }

    /// Waits until all appended events are stored; the result is their number since the last flush.
    fn flush(&self) -> Call {
        let chronicle = self.chronicle.clone();
        let flushed = async move { chronicle.flush().await };
        Call::new(flushed, |py, stored| Ok(stored.rows.into_pyobject(py)?.into_any().unbind()))
    }

    fn playback(&self, count: usize) -> Call {
        let chronicle = self.chronicle.clone();
        let newest = async move { chronicle.playback(count).await };
        Call::new(newest, |py, events| values::events(py, &events))
    }

    fn read_record(&self, gsn: u64) -> Call {
        let chronicle = self.chronicle.clone();
        let read = async move { chronicle.read_record(gsn).await };
        Call::new(read, |py, event| match event {
            Some(event) => values::event(py, &event),
            None => Ok(py.None()),
        })
    }

    fn replay(&self, ranges: Vec<PyRef<'_, Range>>, constraint: Option<String>) -> Call {
        let ranges: Vec<_> = ranges.iter().map(|range| range.0.clone()).collect();
        let chronicle = self.chronicle.clone();
        feed(async move {
            let replay = chronicle.replay(&ranges, constraint.as_deref()).await?;
            Ok(Source::Replay(replay))
        })
    }

    fn subscribe(
        &self,
        gsn: Option<u64>,
        time_ns: Option<i64>,
        live: bool,
        constraint: Option<String>,
    ) -> Call {
        let start = match (gsn, time_ns) {
            (Some(gsn), _) => Start::Gsn(gsn),
            (None, Some(time_ns)) => Start::Time(time_ns),
            (None, None) if live => Start::Live,
            (None, None) => Start::Beginning,
        };
        let chronicle = self.chronicle.clone();
        feed(async move {
            let subscription = chronicle.subscribe(start, constraint.as_deref()).await?;
            Ok(Source::Subscription(subscription))
        })
    }

    fn release(&self) -> Call {
        let chronicle = self.chronicle.clone();
        Call::done(async move { chronicle.release().await })
    }

    fn release_in(&self, time: f64) -> PyResult<Call> {
        let (chronicle, time) = (self.chronicle.clone(), seconds(time)?);
        Ok(Call::done(async move { chronicle.release_in(time).await }))
    }

    fn execute(&self, sql: String) -> Call {
        execute(self.chronicle.client().clone(), sql)
    }
}

fn feed(source: impl Future<Output = Result<Source>> + Send + 'static) -> Call {
    Call::new(source, |py, source| Ok(Py::new(py, Feed::new(source))?.into_any()))
}
