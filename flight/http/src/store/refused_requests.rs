//! Refused lines of numbered requests: the retry of a request receives the answer of the first
//! attempt.

use std::collections::VecDeque;

use parking_lot::Mutex;
use stratalog_model::ProducerId;

use super::partial::Refusals;

/// Producers whose last refusals are kept. One producer more takes the place of the oldest.
const PRODUCERS_MAX: usize = 256;

/// The refusals of the last request of each producer, in memory alone: a restart forgets them. A
/// request has the messages of at most 100 lines, so all together take a few megabytes.
#[derive(Debug, Default)]
pub(crate) struct RefusedRequests {
    requests: Mutex<VecDeque<((ProducerId, u64), Refusals)>>,
}

impl RefusedRequests {
    /// Keeps the refusals of a request that was stored.
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

    /// The refusals of the first attempt of a request, `None` if they are not known.
    pub(crate) fn of_retry(&self, request: (ProducerId, u64)) -> Option<Refusals> {
        let requests = self.requests.lock();
        let (_, refusals) = requests.iter().find(|(kept, _)| *kept == request)?;
        Some(refusals.clone())
    }
}
