//! The sessions of write requests: all write requests of one login share a session.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::Mutex;
use stratalog_access::Authenticated;
use stratalog_model::Result;
use stratalog_query::Session;

/// Maximum number of kept sessions. A login beyond this number replaces the session that was not
/// used for the longest time; requests that run in the replaced session go on.
const WRITERS_MAX: usize = 64;

/// The kept sessions with their logins; the last used session is first.
#[derive(Debug, Default)]
pub(crate) struct Writers(Mutex<VecDeque<(Authenticated, Arc<Session>)>>);

impl Writers {
    /// The session of a login. Opens a missing session with `open`.
    ///
    /// # Errors
    /// The errors of `open`.
    pub(crate) fn of(
        &self,
        login: &Authenticated,
        open: impl FnOnce() -> Result<Arc<Session>>,
    ) -> Result<Arc<Session>> {
        let mut writers = self.0.lock();
        writers.retain(|(_, session)| session.check_terminated().is_ok());
        let known = writers.iter().position(|(known, _)| known == login);
        let entry = match known.and_then(|at| writers.remove(at)) {
            Some(entry) => entry,
            None => (login.clone(), open()?),
        };
        let session = Arc::clone(&entry.1);
        writers.push_front(entry);
        writers.truncate(WRITERS_MAX);
        Ok(session)
    }
}
