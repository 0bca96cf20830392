//! Feeds: buffers for the events of a replay or a subscription, until Python code takes the events.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use pyo3::prelude::*;
use stratalog_client::{Event, Replay, Subscription, Update};

use crate::{call::Call, values};

/// A buffer for the events of a replay or a subscription. The feed keeps each event until Python
/// code takes the event.
#[pyclass(frozen, module = "stratalog._native")]
pub struct Feed {
    state: Arc<State>,
}

struct State {
    source: tokio::sync::Mutex<Source>,
    ready: Mutex<VecDeque<Update>>,
}

/// The source of the events.
pub enum Source {
    /// A finite replay.
    Replay(Replay),
    /// An endless subscription.
    Subscription(Subscription),
}

impl Source {
    async fn next_batch(&mut self) -> Option<stratalog_client::Result<Vec<Update>>> {
        match self {
            Source::Subscription(subscription) => subscription.next_batch().await,
            Source::Replay(replay) => {
                let updates = |events: Vec<Event>| events.into_iter().map(Update::Event).collect();
                replay.next_batch().await.map(|batch| batch.map(updates))
            }
        }
    }
}

impl Feed {
    /// Creates a feed for the events of `source`.
    pub fn new(source: Source) -> Self {
        let source = tokio::sync::Mutex::new(source);
        Self { state: Arc::new(State { source, ready: Mutex::default() }) }
    }
}

#[pymethods]
impl Feed {
    /// Waits for events for at most `seconds`; without a limit if `seconds` is None. The result is
    /// True if events have arrived.
    fn more(&self, seconds: Option<f64>) -> Call {
        let state = Arc::clone(&self.state);
        let work = async move {
            let mut source = state.source.lock().await;
            if state.has_some() {
                return Ok(true);
            }
            let time = seconds.map(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)));
            let batch = match time {
                // A number of seconds that is too large for a duration means no timeout.
                Some(Ok(time)) => {
                    tokio::time::timeout(time, source.next_batch()).await.ok().flatten()
                }
                Some(Err(_)) | None => source.next_batch().await,
            };
            let Some(updates) = batch.transpose()? else { return Ok(false) };
            state.ready.lock().unwrap_or_else(PoisonError::into_inner).extend(updates);
            Ok(true)
        };
        Call::new(work, |py, more| Ok(more.into_pyobject(py)?.to_owned().into_any().unbind()))
    }

    /// Removes and returns the events that have arrived.
    fn take(&self, py: Python<'_>) -> PyResult<Vec<Py<PyAny>>> {
        let mut ready = self.state.ready.lock().unwrap_or_else(PoisonError::into_inner);
        let taken =
            ready.iter().map(|update| values::update(py, update)).collect::<PyResult<_>>()?;
        ready.clear();
        Ok(taken)
    }
}

impl State {
    fn has_some(&self) -> bool {
        !self.ready.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}
