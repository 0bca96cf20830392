//! The acquisition of a chronicle by a client's session, kept for the lifetime of the client.
//!
//! ```text
//!   ACQUIRE … FOR lease ─► acquired ─ a quarter of the lease later ────► ACQUIRE renews the lease
//!                           │
//!                           ├─ the server restarted: a new session ────► ACQUIRE NOWAIT
//!                           └─ the lease ran out, server unreachable ──► ACQUIRE NOWAIT
//! ```
//!
//! The statement fails if another session has acquired the chronicle in the meantime. Every use of
//! a connection checks the acquisition first, so no statement runs in a session without the
//! acquisition.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::{
    connection::{Connection, Session},
    error::{Error, ErrorKind, Result},
};

/// The client renews a lease when 1/4 of the lease has passed.
const RENEWAL_PARTS: u32 = 4;

/// The acquisition of a client's session, and the lease of the acquisition.
#[derive(Debug)]
pub(crate) struct SessionAcquisition {
    /// The chronicle's name in error messages.
    name: String,
    /// The ACQUIRE statement without its FOR clause.
    statement: String,
    lease: Duration,
    state: Mutex<LeaseState>,
}

#[derive(Debug)]
struct LeaseState {
    /// The session that made the acquisition, and the time of the last successful ACQUIRE.
    requested: Option<(Arc<Session>, Instant)>,
    /// The time at which the acquisition ends without renewal; `None` if the client renews the
    /// lease.
    ends: Option<Instant>,
    /// True if the server has reported that the lease ran out.
    ran_out: bool,
    /// True if the lease ran out and the server then refused a new acquisition.
    refused: bool,
    lapses: u64,
}

impl SessionAcquisition {
    /// Describes an acquisition that `session` has just made for the time `lease`. If `timed`, the
    /// client does not renew the acquisition, which then ends after `lease`.
    pub(crate) fn new(
        name: String,
        statement: String,
        lease: Duration,
        timed: bool,
        session: Arc<Session>,
    ) -> Self {
        let now = Instant::now();
        let state = LeaseState {
            requested: Some((session, now)),
            ends: timed.then(|| now + lease),
            ran_out: false,
            refused: false,
            lapses: 0,
        };
        Self { name, statement, lease, state: Mutex::new(state) }
    }

    /// The number of times that the session lost the acquisition and acquired the chronicle again.
    pub(crate) fn lapses(&self) -> u64 {
        self.state.lock().lapses
    }

    /// Sends ACQUIRE in the session of `connection` if a renewal is due, or if this session has not
    /// made the acquisition.
    ///
    /// # Errors
    /// `Closed` if the acquisition has ended; errors of the server, among them SQLSTATE 55P03 if
    /// other sessions have acquired the chronicle.
    pub(crate) async fn keep(&self, connection: &Connection) -> Result<()> {
        let now = Instant::now();
        let Some(lease) = self.due(&connection.session, now)? else { return Ok(()) };
        match connection.update(&timed(&self.statement, lease, true), None).await {
            Ok(_) => self.record_acquired(&connection.session, now),
            Err(error) if self.is_renewable(&connection.session, now, &error) => {
                tracing::debug!(%error, chronicle = %self.name, "the acquisitions were not renewed");
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// True if the session keeps its acquisition although the server refused the renewal with
    /// `error`: the chronicle is being dropped, and the session may use the chronicle until the
    /// lease runs out.
    fn is_renewable(&self, session: &Arc<Session>, now: Instant, error: &Error) -> bool {
        if !error.is_wrong_state() {
            return false;
        }
        let mut state = self.state.lock();
        let ran_out = std::mem::take(&mut state.ran_out);
        state.refused |= ran_out;
        let requested = state.requested.as_ref().filter(|(known, _)| Arc::ptr_eq(known, session));
        !ran_out && requested.is_some_and(|(_, requested)| now < *requested + self.lease)
    }

    /// The lease to request if the client must send ACQUIRE now; `None` if no ACQUIRE is due.
    fn due(&self, session: &Arc<Session>, now: Instant) -> Result<Option<Duration>> {
        let state = self.state.lock();
        let requested = state.requested.as_ref().filter(|(known, _)| Arc::ptr_eq(known, session));
        let fresh = |requested: Instant| now < requested + self.lease / RENEWAL_PARTS;
        match (state.ends, requested) {
            (Some(ends), _) if ends <= now => Err(Error::new(
                ErrorKind::Closed,
                format!("the acquisition of chronicle {} has run out", self.name),
            )
            .with_hint("acquire the chronicle again, for a new handle")),
            (Some(_), Some(_)) => Ok(None),
            (Some(ends), None) => Ok(Some(ends.saturating_duration_since(now))),
            (None, Some((_, requested))) if !state.ran_out && fresh(*requested) => Ok(None),
            (None, _) => Ok(Some(self.lease)),
        }
    }

    /// Records a successful ACQUIRE of `session`, sent at `requested`. Counts a lapse if the
    /// previous acquisition had ended before.
    fn record_acquired(&self, session: &Arc<Session>, requested: Instant) {
        let mut state = self.state.lock();
        let unbroken = !state.ran_out
            && state.requested.as_ref().is_some_and(|(known, before)| {
                Arc::ptr_eq(known, session) && requested < *before + self.lease
            });
        state.lapses += u64::from(!unbroken);
        (state.ran_out, state.refused) = (false, false);
        state.requested = Some((Arc::clone(session), requested));
    }

    /// Ends the acquisition after `time`: the client requests a lease of `time` and no longer
    /// renews it.
    ///
    /// # Errors
    /// As [`Self::keep`].
    pub(crate) async fn end_in(&self, connection: &Connection, time: Duration) -> Result<()> {
        let now = Instant::now();
        connection.update(&timed(&self.statement, time, true), None).await?;
        self.state.lock().ends = Some(now + time);
        self.record_acquired(&connection.session, now);
        Ok(())
    }

    /// True if `error` reports that the lease of this acquisition ran out, and the client may
    /// acquire again. Records the loss, so that the next use of a connection sends ACQUIRE.
    pub(crate) fn ran_out(&self, error: &Error) -> bool {
        let mut state = self.state.lock();
        let goes_on = state.ends.is_none() && !state.refused;
        let ran_out = goes_on && error.is_lease_lost();
        state.ran_out |= ran_out;
        ran_out
    }
}

/// Completes the ACQUIRE statement with `FOR lease`, and with NOWAIT if `nowait` is true.
pub(crate) fn timed(statement: &str, lease: Duration, nowait: bool) -> String {
    let nowait = if nowait { " NOWAIT" } else { "" };
    format!("{statement} FOR INTERVAL '{} milliseconds'{nowait}", lease.as_millis().max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(40);

    fn acquired(timed: bool) -> (SessionAcquisition, Arc<Session>) {
        let session = Arc::new(Session::of("Bearer one".parse().unwrap()));
        let statement = "ACQUIRE CHRONICLE t SHARED".to_string();
        let acquired =
            SessionAcquisition::new("t".to_string(), statement, LEASE, timed, Arc::clone(&session));
        (acquired, session)
    }

    fn server_says(sqlstate: &str) -> Error {
        let mut status = tonic::Status::failed_precondition("x");
        status.metadata_mut().insert("sqlstate", sqlstate.parse().unwrap());
        status.into()
    }

    #[test]
    fn a_lease_is_renewed_in_time() {
        let (acquired, session) = acquired(false);
        let now = Instant::now();
        assert_eq!(acquired.due(&session, now).unwrap(), None);
        let later = now + LEASE / 3;
        assert_eq!(acquired.due(&session, later).unwrap(), Some(LEASE));
        acquired.record_acquired(&session, later);
        assert_eq!(acquired.due(&session, later).unwrap(), None);
        assert_eq!(acquired.lapses(), 0);
    }

    #[test]
    fn what_lapsed_is_acquired_anew_and_counted() {
        let (acquired, session) = acquired(false);
        let now = Instant::now();
        for other in ["42P01", "55000", "55P03"] {
            assert!(!acquired.ran_out(&server_says(other)), "{other}");
        }
        assert_eq!(acquired.due(&session, now).unwrap(), None);
        assert!(acquired.ran_out(&server_says("SL003")));
        assert_eq!(acquired.due(&session, now).unwrap(), Some(LEASE));
        acquired.record_acquired(&session, now);
        assert_eq!((acquired.due(&session, now).unwrap(), acquired.lapses()), (None, 1));
        let another = Arc::new(Session::of("Bearer two".parse().unwrap()));
        assert_eq!(acquired.due(&another, now).unwrap(), Some(LEASE));
        acquired.record_acquired(&another, now);
        acquired.record_acquired(&another, now + 2 * LEASE);
        assert_eq!(acquired.lapses(), 3);
    }

    #[test]
    fn what_is_held_is_used_while_it_is_being_dropped() {
        let (acquired, session) = acquired(false);
        let now = Instant::now();
        let (dropped, lost) = (server_says("55000"), server_says("SL003"));
        assert!(acquired.is_renewable(&session, now + LEASE / 2, &dropped));
        assert!(!acquired.is_renewable(&session, now + 2 * LEASE, &dropped));
        assert!(!acquired.is_renewable(&session, now, &server_says("55P03")));
        // The server refused the write because the chronicle is being dropped; the lease has not
        // run out.
        assert!(!acquired.ran_out(&dropped));
        assert!(acquired.is_renewable(&session, now, &dropped));
        assert_eq!(acquired.lapses(), 0);
        // After a second loss the client reports the error and does not acquire again.
        assert!(acquired.ran_out(&lost));
        assert!(!acquired.is_renewable(&session, now, &dropped));
        assert!(!acquired.ran_out(&lost), "it is of no use to try again");
        assert!(acquired.is_renewable(&session, now, &dropped));
        let another = Arc::new(Session::of("Bearer two".parse().unwrap()));
        assert!(!acquired.is_renewable(&another, now, &dropped));
    }

    #[test]
    fn a_timed_one_ends() {
        let (acquired, session) = acquired(true);
        let now = Instant::now();
        assert_eq!(acquired.due(&session, now + LEASE / 2).unwrap(), None);
        let another = Arc::new(Session::of("Bearer two".parse().unwrap()));
        let left = acquired.due(&another, now + LEASE / 2).unwrap().unwrap();
        assert!(left <= LEASE / 2 && left > LEASE / 3);
        let over = acquired.due(&session, now + LEASE + Duration::from_secs(1)).unwrap_err();
        assert_eq!(over.kind(), ErrorKind::Closed);
        assert!(!acquired.ran_out(&server_says("SL003")));
    }

    #[test]
    fn times_are_written_as_intervals() {
        let sql = timed("ACQUIRE CHRONICLE t SHARED", Duration::from_millis(1500), true);
        assert_eq!(sql, "ACQUIRE CHRONICLE t SHARED FOR INTERVAL '1500 milliseconds' NOWAIT");
        let sql = timed("A", Duration::from_nanos(1), false);
        assert_eq!(sql, "A FOR INTERVAL '1 milliseconds'");
    }
}
