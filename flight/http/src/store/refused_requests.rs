//! Remembers the refused lines of numbered requests, so that the retry of a request gets the answer
//! of the first attempt.

use std::collections::VecDeque;

use parking_lot::Mutex;
use stratalog_model::ProducerId;

use super::partial::Refusals;

/// Maximum number of producers whose last refusals are remembered; a new producer replaces the
/// oldest.
const PRODUCERS_MAX: usize = 256;

/// The refusals of each producer's last request, in memory only: a restart forgets them. A request
/// has at most 100 messages, so all producers together take a few megabytes.
#[derive(Debug, Default)]
pub(crate) struct RefusedRequests {
    requests: Mutex<VecDeque<((ProducerId, u64), Refusals)>>,
}

impl RefusedRequests {
    /// Remembers the refusals of a stored request.
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

    /// The refusals of the first attempt of `request`; `None` if they are forgotten.
    pub(crate) fn of_retry(&self, request: (ProducerId, u64)) -> Option<Refusals> {
        let requests = self.requests.lock();
        let (_, refusals) = requests.iter().find(|(kept, _)| *kept == request)?;
        Some(refusals.clone())
    }
}
