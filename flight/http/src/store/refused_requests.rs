//! Remembers the refused lines of requests with an idempotency key, so that a retry of a request
//! gets the answer of the first attempt.

use std::collections::VecDeque;

use parking_lot::Mutex;
use stratalog_model::ProducerId;

use super::partial::Refusals;

/// Maximum number of producers for which the server remembers the last refusals. A new producer
/// replaces the oldest producer.
const PRODUCERS_MAX: usize = 256;

/// The refusals of each producer's last request, in memory only: a restart forgets them. A request
/// has at most 100 messages, so all producers together take a few megabytes.
#[derive(Debug, Default)]
pub(crate) struct RefusedRequests {
    requests: Mutex<VecDeque<((ProducerId, u64), Refusals)>>,
}

impl RefusedRequests {
    /// Remembers the refusals of a stored request. `request` is the producer's id and the request's
    /// number.
    pub(crate) fn keep(&self, request: (ProducerId, u64), refusals: &Refusals) {
        let mut requests = self.requests.lock();
        requests.retain(|((producer, _), _)| *producer != request.0);
        if refusals.count == 0 {
            return;
        }
        if requests.len() >= PRODUCERS_MAX {
            requests.pop_front();
        }
        requests.push_back((request, refusals.clone()));
    }

    /// The refusals of the first attempt of `request`; `None` if the server no longer remembers
    /// them.
    pub(crate) fn of_retry(&self, request: (ProducerId, u64)) -> Option<Refusals> {
        let requests = self.requests.lock();
        let (_, refusals) = requests.iter().find(|(kept, _)| *kept == request)?;
        Some(refusals.clone())
    }
}
