//! Acquisition of chronicles by a session (ACQUIRE and RELEASE), and the use of chronicles by the
//! session's statements (F8–F13).

use std::{
    pin::pin,
    sync::{Arc, Weak, atomic::Ordering},
};

use stratalog_model::{
    Append, ChronicleDefinition, ChronicleId, Error, ErrorKind, Result, Snapshot, Subject,
    TickRange,
};
use stratalog_pg_catalog::CatalogView as _;
use stratalog_postgres::{errors::times::shown_time, parse::DropMode};
use stratalog_visor_core::{
    Acquisitions,
    acquisition::{
        Acquisition, Claim, DropGuard, HolderId, Moment, Pause, QueuePlace, Refusal, Standing, Use,
        UseGuard,
    },
};

use super::{Session, views::SessionCatalogView};
use crate::{
    statement::{as_of_sealed, column_reads::ColumnReads},
    table::projection::confined,
};

/// Maximum number of other holders that an error message lists.
const OTHERS_SHOWN_MAX: usize = 5;

/// Waits until the acquisitions change, or until the maximum time of the pause has passed.
pub async fn wait_out(pause: Pause) {
    let Pause { at_most, changed } = pause;
    // A dropped sender also counts as a change.
    match at_most {
        Some(at_most) => {
            let _ = tokio::time::timeout(at_most, changed).await;
        }
        None => {
            let _ = changed.await;
        }
    }
}

/// The behaviour of an ACQUIRE if other sessions have acquired the chronicle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Fails at once.
    Not,
    /// Waits in the queue until the other holders release the chronicle.
    InTurn,
}

/// A chronicle in use by a statement.
#[derive(Debug)]
pub struct EnteredChronicle {
    /// The ticks that the statement sees and may write.
    pub ticks: TickRange,
    /// The acquisition time of the session: nanoseconds since 1970; `None` without an ACQUIRE.
    since_ns: Option<i64>,
    /// A guard of the use: the use ends when the guard drops. `None` if the open block keeps the
    /// guard until the end of the block.
    pub using: Option<UseGuard>,
}

impl EnteredChronicle {
    /// Tells the append when the session acquired the chronicle: the append refuses earlier times.
    /// Call before the first event. Has no effect if the times do not go by the clock.
    pub fn announce(&self, append: &mut dyn Append, chronicle: &ChronicleDefinition) {
        if chronicle.time_source.is_clocked() {
            append.acquired(chronicle.id, self.since_ns);
        }
    }
}

/// The snapshot that a statement reads, with guards that mark the chronicles as in use during the
/// read.
#[derive(Debug, Clone)]
pub struct PinnedSnapshot {
    /// The visible events. If the session has acquired a range of a chronicle, only the events in
    /// the range are visible. For a chronicle read AS OF SEALED, only events that can no longer
    /// change are visible.
    pub snapshot: Arc<dyn Snapshot>,
    uses: Option<Arc<[UseGuard]>>,
    reads: Arc<ColumnReads>,
}

/// Guards of the chronicles that a statement reads, and the range of ticks of each chronicle that
/// the statement may see.
struct ReadAccess {
    reads: Arc<ColumnReads>,
    uses: Option<Arc<[UseGuard]>>,
    within: Vec<(ChronicleId, TickRange)>,
}

impl ReadAccess {
    fn of(self, snapshot: Arc<dyn Snapshot>) -> PinnedSnapshot {
        let snapshot = confined(snapshot, self.within);
        PinnedSnapshot { snapshot, uses: self.uses, reads: self.reads }
    }
}

impl PinnedSnapshot {
    /// The guards of the uses. The reader keeps the guards until the end of the read.
    pub fn uses(&self) -> Option<Arc<[UseGuard]>> {
        self.uses.clone()
    }

    /// The columns that the statement reads.
    pub fn reads(&self) -> &Arc<ColumnReads> {
        &self.reads
    }
}

/// A chronicle that an endless statement (SUBSCRIBE) reads. The chronicle stays in use until this
/// value drops, even after the end of the block in which the statement began.
#[derive(Debug)]
pub struct FollowedChronicle {
    /// A weak reference: a cursor of the session owns the result of the statement, and a result
    /// that owned its session would form a reference cycle.
    session: Weak<Session>,
    using: UseGuard,
    reads: Arc<ColumnReads>,
    /// The rights of the session.
    seen: Arc<SessionCatalogView>,
}

impl FollowedChronicle {
    /// The visible ticks: the range that the session had acquired when the statement began.
    pub fn ticks(&self) -> TickRange {
        self.using.ticks()
    }

    /// Checks that the session may still read the chronicle. Call before each read of new events.
    ///
    /// # Errors
    /// `LeaseLost` if the session's lease has run out; the errors of missing rights.
    pub fn check(&self) -> Result<()> {
        let chronicle = self.using.chronicle();
        self.using.check().map_err(|refusal| match self.session.upgrade() {
            Some(session) => session.refusal_error(chronicle, refusal),
            None => closed(),
        })?;
        self.seen.check_subscription(chronicle, &self.reads)
    }
}

impl Session {
    pub(crate) fn acquisitions(&self) -> &Arc<Acquisitions> {
        &self.parts().acquisitions
    }

    /// The owner of the acquisitions of this session: the session itself, or the original session
    /// of a twin.
    pub fn holder(&self) -> HolderId {
        self.holder
    }

    /// Checks the rights to read `reads`, and takes the snapshot for the statement. From the
    /// chronicles in `sealed` (AS OF SEALED), only events that can no longer change are visible.
    ///
    /// # Errors
    /// The errors of [`ColumnReads::check`], [`Self::enter`], `EventStore::seal` and `Transaction::snapshot`.
    pub(crate) async fn pin(
        &self,
        reads: &Arc<ColumnReads>,
        sealed: &[Arc<ChronicleDefinition>],
    ) -> Result<PinnedSnapshot> {
        let store = self.store().as_ref();
        // Check the leases first: data read through an expired lease must not be used.
        let mut reading = self.enter_all(reads)?;
        sealed.iter().for_each(|chronicle| self.drop_lost_writes(chronicle.id));
        as_of_sealed::seal(store, sealed)?;
        let snapshot = self.transaction.snapshot(store, reads.chronicles()).await?;
        reading.within.extend(as_of_sealed::parts(snapshot.as_ref(), sealed));
        Ok(reading.of(snapshot))
    }

    /// Like [`Self::pin`], with a snapshot that the statement already has.
    ///
    /// # Errors
    /// The errors of [`Self::enter`].
    pub(crate) fn pin_over(
        &self,
        snapshot: Arc<dyn Snapshot>,
        reads: &Arc<ColumnReads>,
    ) -> Result<PinnedSnapshot> {
        Ok(self.enter_all(reads)?.of(snapshot))
    }

    fn enter_all(&self, reads: &Arc<ColumnReads>) -> Result<ReadAccess> {
        self.seen.check_reads(reads)?;
        let (mut uses, mut within) = (Vec::new(), Vec::new());
        for chronicle in reads.chronicles() {
            let entered = self.enter(*chronicle, Use::Read)?;
            uses.extend(entered.using);
            if entered.ticks != TickRange::ALL {
                within.push((*chronicle, entered.ticks));
            }
        }
        let uses = (!uses.is_empty()).then(|| uses.into());
        Ok(ReadAccess { uses, within, reads: Arc::clone(reads) })
    }

    /// Begins an endless read of a chronicle, for a SUBSCRIBE.
    ///
    /// # Errors
    /// The errors of [`Self::enter`] for a read.
    pub(crate) fn follow(
        &self,
        chronicle: ChronicleId,
        reads: &Arc<ColumnReads>,
    ) -> Result<FollowedChronicle> {
        self.seen.check_subscription(chronicle, reads)?;
        let (using, reads) = (self.enter_outside_block(chronicle)?, Arc::clone(reads));
        let (session, seen) = (Weak::clone(&self.itself), Arc::clone(&self.seen));
        Ok(FollowedChronicle { session, using, reads, seen })
    }

    /// Marks chronicles as in use by a reader that may continue after the end of the block.
    ///
    /// # Errors
    /// The errors of [`Self::enter`] for a read.
    pub(crate) fn enter_beyond_block(&self, reads: &ColumnReads) -> Result<Arc<[UseGuard]>> {
        reads.chronicles().iter().map(|chronicle| self.enter_outside_block(*chronicle)).collect()
    }

    fn enter_outside_block(&self, chronicle: ChronicleId) -> Result<UseGuard> {
        let entered = self.acquisitions().enter(chronicle, self.holder, Use::Read);
        entered.map_err(|refusal| self.refusal_error(chronicle, refusal))
    }

    /// Marks a chronicle as in use, until the end of the statement or of its block.
    ///
    /// # Errors
    /// `LeaseLost` if the session's lease on the chronicle has run out. For a write:
    /// `ObjectNotInPrerequisiteState` during a drop of the chronicle, and `LockNotAvailable` if
    /// another session has acquired the chronicle EXCLUSIVE, or waits for an EXCLUSIVE acquisition.
    pub(crate) fn enter(&self, chronicle: ChronicleId, what: Use) -> Result<EnteredChronicle> {
        let what = match what {
            Use::Write if self.transaction.is_writing(chronicle) => Use::WriteOn,
            other => other,
        };
        let entered = self.acquisitions().enter(chronicle, self.holder, what);
        let using = entered.map_err(|refusal| self.refusal_error(chronicle, refusal))?;
        if what.writes() {
            self.drop_lost_writes(chronicle);
        }
        let (ticks, since_ns) = (using.ticks(), using.since_ns());
        Ok(EnteredChronicle { ticks, since_ns, using: self.transaction.hold(using) })
    }

    /// Drops the uncommitted rows that other sessions wrote to a chronicle in open blocks, if the
    /// leases of these sessions have run out. Such rows can never be committed, and no session may
    /// wait for the keys and times in the rows.
    pub(super) fn drop_lost_writes(&self, chronicle: ChronicleId) {
        let holders = self.acquisitions().void_holders(chronicle);
        if holders.is_empty() {
            return;
        }
        let open = self.service.sessions().open();
        let others = open.iter().filter(|session| session.process_id() != self.process_id());
        // A twin has the same holder and may own the block.
        for other in others.filter(|session| holders.contains(&session.holder)) {
            if let Some((lost, refusal)) = other.transaction.void() {
                other.transaction.lose(other.refusal_error(lost, refusal));
            }
        }
    }

    /// Runs `work`, which may wait for other writers of a chronicle. When the lease of such a
    /// writer runs out, drops the uncommitted rows of the writer: `work` can continue.
    pub(crate) async fn with_lost_writes_dropped<T>(
        &self,
        chronicle: ChronicleId,
        work: impl Future<Output = T>,
    ) -> T {
        let mut work = pin!(work);
        while let Some(end) = self.acquisitions().next_end(chronicle) {
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = tokio::time::sleep(end) => self.drop_lost_writes(chronicle),
            }
        }
        work.await
    }

    /// Acquires a chronicle. If other sessions hold the chronicle and `wait` allows a wait, returns
    /// a place in the queue instead.
    ///
    /// # Errors
    /// The errors of ACQUIRE.
    pub(crate) fn acquire(
        &self,
        chronicle: &ChronicleDefinition,
        claim: Claim,
        wait: Wait,
    ) -> Result<Option<QueuePlace>> {
        let acquired = match wait {
            Wait::Not => {
                let acquired = self.acquisitions().acquire(chronicle.id, self.holder, claim);
                acquired.map(|()| None)
            }
            Wait::InTurn => self.acquisitions().ask(chronicle.id, self.holder, claim),
        };
        acquired.map_err(|refusal| self.refusal_error(chronicle.id, refusal))
    }

    /// Checks, after an ACQUIRE, that the session and the chronicle still exist; otherwise gives up
    /// the acquisition. A session that was closed in the meantime has already released its
    /// chronicles. Also drops uncommitted rows of sessions whose leases have run out.
    ///
    /// # Errors
    /// `ConnectionFailure`, `UndefinedTable`.
    pub(crate) fn keep_acquired(&self, chronicle: &ChronicleDefinition) -> Result<()> {
        if self.is_left() {
            self.acquisitions().release(chronicle.id, self.holder);
            return Err(closed());
        }
        if let Some(gone) = self.missing_error(chronicle) {
            self.acquisitions().forget(chronicle.id);
            return Err(gone);
        }
        self.drop_lost_writes(chronicle.id);
        Ok(())
    }

    /// Whether no open session remains that will release the acquired chronicles: this session is
    /// closed, or the original session of this twin is closed.
    fn is_left(&self) -> bool {
        let is_closed = |session: &Session| session.closed.load(Ordering::Acquire);
        if self.holder.0 == self.process_id() {
            return is_closed(self);
        }
        let first = self.service.sessions().get(self.holder.0);
        is_closed(self) || first.is_none_or(|first| is_closed(&first))
    }

    /// The error if the common catalog does not contain the chronicle; `None` if the chronicle
    /// exists. A chronicle created in an open block also counts as missing.
    pub(crate) fn missing_error(&self, chronicle: &ChronicleDefinition) -> Option<Error> {
        if self.parts().catalog.state().chronicle_by_id(chronicle.id).is_some() {
            return None;
        }
        let message = format!("relation \"{}\" does not exist", chronicle.name);
        let error = Error::new(ErrorKind::UndefinedTable, message);
        Some(error.with_detail("The relation was dropped in the meantime."))
    }

    /// Begins to drop a chronicle. During the lifetime of the returned value, no session acquires
    /// the chronicle or begins to write to it.
    ///
    /// # Errors
    /// `ObjectInUse` if other sessions have acquired the chronicle, `LeaseLost` if the session's
    /// lease on the chronicle has run out. No errors with FORCE.
    pub(crate) fn close_to_drop(
        &self,
        chronicle: ChronicleId,
        dropping: DropMode,
    ) -> Result<DropGuard> {
        if dropping == DropMode::Force {
            return Ok(self.acquisitions().close(chronicle, self.holder));
        }
        self.check_lease(chronicle)?;
        let door = self.acquisitions().close_if_free(chronicle, self.holder);
        door.map_err(|others| self.in_use(chronicle, &others))
    }

    /// Checks that the session's lease on a chronicle has not run out.
    ///
    /// # Errors
    /// `LeaseLost`.
    pub(crate) fn check_lease(&self, chronicle: ChronicleId) -> Result<()> {
        let checked = self.acquisitions().check(chronicle, self.holder);
        checked.map_err(|refusal| self.refusal_error(chronicle, refusal))
    }

    /// Releases a chronicle.
    ///
    /// # Errors
    /// `ObjectNotInPrerequisiteState` if the session has not acquired the chronicle.
    pub(crate) fn release(&self, chronicle: &ChronicleDefinition) -> Result<()> {
        if self.acquisitions().release(chronicle.id, self.holder) {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::ObjectNotInPrerequisiteState,
            format!("chronicle \"{}\" is not acquired by this session", chronicle.name),
        )
        .with_subject(chronicle.subject()))
    }

    /// Releases all chronicles acquired by the session.
    pub(crate) fn release_all(&self) {
        self.acquisitions().leave(self.holder);
    }

    /// The error for the client if the acquisitions refuse a request.
    pub(crate) fn refusal_error(&self, chronicle: ChronicleId, refusal: Refusal) -> Error {
        let (name, subject) = self.name_and_subject(chronicle);
        let error = match refusal {
            Refusal::Taken(others) => not_available(
                format!("could not acquire chronicle \"{name}\": {}", self.first(&others)),
                self.all(&others),
            )
            .with_hint("omit NOWAIT to wait for the chronicle, or acquire a free range"),
            Refusal::LockedOut(other) if other.standing == Standing::Waiting => not_available(
                format!(
                    "session {} is about to acquire chronicle \"{name}\" EXCLUSIVE",
                    other.holder.session()
                ),
                self.all(&[other]),
            )
            .with_hint("send the statement again a little later: the ACQUIRE waits for running writers"),
            Refusal::LockedOut(other) => not_available(
                format!("chronicle \"{name}\" cannot be written to: {}", self.first(&[other])),
                self.all(&[other]),
            )
            .with_hint("send the statement again after the release of the chronicle; stratalog.acquisitions shows the holders"),
            Refusal::Lost(lost) => Error::new(
                ErrorKind::LeaseLost,
                format!("the lease on chronicle \"{name}\" ran out{}", self.at(lost.until)),
            )
            .with_hint(format!(
                "ACQUIRE CHRONICLE {name} again, or RELEASE CHRONICLE {name} to continue without the acquisition"
            )),
            Refusal::Closing => Error::new(
                ErrorKind::ObjectNotInPrerequisiteState,
                format!("chronicle \"{name}\" is being dropped"),
            )
            .with_detail("The chronicle accepts no more events, and stays readable until it is dropped."),
            Refusal::Deadlock(others) => {
                Error::new(ErrorKind::DeadlockDetected, "deadlock detected")
                    .with_detail(format!(
                        "ACQUIRE CHRONICLE {name} waits for sessions that wait for this session. {}",
                        self.all(&others)
                    ))
                    .with_hint("acquire chronicles in the same order everywhere")
            }
            Refusal::TooMany(most) => {
                limit(format!("a session acquires at most {most} chronicles"))
                    .with_hint("RELEASE unneeded chronicles")
            }
            Refusal::Crowded(most) => {
                limit(format!("{most} sessions already wait to acquire chronicle \"{name}\""))
                    .with_hint("try again later")
            }
        };
        error.with_subject(subject)
    }

    /// The name of a chronicle for messages, and the separate name fields (schema, table) of its
    /// errors.
    fn name_and_subject(&self, chronicle: ChronicleId) -> (String, Subject) {
        match self.seen.state().chronicle_by_id(chronicle) {
            Some(known) => (known.name.clone(), known.subject()),
            None => (chronicle.to_string(), Subject::default()),
        }
    }

    /// The error of an ACQUIRE after a wait of `lock_timeout`.
    pub(crate) fn timed_out(
        &self,
        chronicle: &ChronicleDefinition,
        others: &[Acquisition],
    ) -> Error {
        not_available("canceling statement due to lock timeout".to_string(), self.all(others))
            .with_hint("raise lock_timeout, or try again later")
            .with_subject(chronicle.subject())
    }

    /// The error of a DROP of a chronicle acquired by other sessions.
    fn in_use(&self, chronicle: ChronicleId, others: &[Acquisition]) -> Error {
        let (name, subject) = self.name_and_subject(chronicle);
        Error::new(
            ErrorKind::ObjectInUse,
            format!("cannot drop table \"{name}\": {}", self.first(others)),
        )
        .with_detail(self.all(others))
        .with_hint(format!(
            "DROP TABLE {name} ASYNC drops the table after the last release, DROP TABLE {name} FORCE at once"
        ))
        .with_subject(subject)
    }

    /// A short text about the first of the other sessions, for the error message.
    fn first(&self, others: &[Acquisition]) -> String {
        let Some(first) = others.first() else {
            return "other sessions use the chronicle".to_string();
        };
        let does = match first.standing {
            Standing::Held => {
                format!("has acquired the chronicle {}{}", first.mode, self.until(first.until))
            }
            Standing::Lost => "had acquired the chronicle".to_string(),
            Standing::Waiting => format!("waits to acquire the chronicle {}", first.mode),
            Standing::Reading => "reads the chronicle".to_string(),
            Standing::Writing => "writes to the chronicle".to_string(),
        };
        let more = match others.len() {
            0 | 1 => String::new(),
            count => format!(" (and {} more)", count - 1),
        };
        format!("session {} {does}{more}", first.holder.session())
    }

    /// The other sessions, one line each, for the detail of the error.
    fn all(&self, others: &[Acquisition]) -> String {
        let open = self.service.sessions().open();
        let lines = others.iter().take(OTHERS_SHOWN_MAX).map(|other| {
            let session =
                open.iter().find(|session| session.process_id() == other.holder.session());
            let who = session.map_or_else(String::new, |session| {
                let (login, application) = (session.login(), session.setting("application_name"));
                let from = login.client_address.as_deref();
                let parts = [
                    Some(format!("user \"{}\"", login.user)),
                    application.filter(|name| !name.is_empty()).map(|name| format!("\"{name}\"")),
                    from.map(|from| format!("from {from}")),
                ];
                format!(" ({})", parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
            });
            let mode = match other.standing {
                Standing::Held | Standing::Lost | Standing::Waiting => format!(" {}", other.mode),
                Standing::Reading | Standing::Writing => String::new(),
            };
            let ticks = match other.ticks {
                TickRange::ALL => String::new(),
                ticks => format!(" ticks {ticks}"),
            };
            format!(
                "Session {}{who}: {}{mode}{ticks} since {}{}.",
                other.holder.session(),
                other.standing,
                self.time(other.since),
                self.until(other.until)
            )
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    fn until(&self, until: Option<Moment>) -> String {
        until.map_or_else(String::new, |until| format!(" until {}", self.time(until)))
    }

    fn at(&self, until: Option<Moment>) -> String {
        until.map_or_else(String::new, |until| format!(" at {}", self.time(until)))
    }

    fn time(&self, moment: Moment) -> String {
        shown_time(self.acquisitions().wall_ns(moment), &self.text_style())
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::ConnectionFailure, "the session is closed")
}

/// The error for a chronicle acquired by other sessions.
fn not_available(message: String, others: String) -> Error {
    Error::new(ErrorKind::LockNotAvailable, message).with_detail(others)
}

fn limit(message: String) -> Error {
    Error::new(ErrorKind::LimitExceeded, message)
}
