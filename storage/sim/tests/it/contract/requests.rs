//! The server's handling of messages, and the check of each result.

use std::{
    sync::Arc,
    task::{Context, Poll, Waker},
};

use stratalog_model::{
    Acceptance, Append, BoxFuture, Clock, ClockReading, Durability, ErrorKind, EventStore, Gsn,
    ProducerId, Result,
    store::{AppendOptions, OnConflict, PushResult},
};
use stratalog_sim::{Failure, Operation};

use super::{
    client::{Answer, Message, Record, Reply},
    clocks::{MS, SECOND},
    model::{Placed, Verdict},
    server::finished,
    tables::{batch, event_of},
    world::{Event, World},
};

/// Maximum number of current statements; further statements are told to come again.
const STATEMENTS_MAX: usize = 16;

/// The result of a push: the append, and the admitted events.
type Pushed = (Box<dyn Append>, Result<PushResult>);

/// A current statement of the server.
pub struct Statement {
    client: usize,
    life: u64,
    record: Record,
    session: Acceptance,
    /// The first attempt is known to be committed: this attempt is not stored again.
    duplicate: bool,
    /// The last reading of the clock by the statement.
    looked: Option<ClockReading>,
    /// The error of the statement, unless another current copy of the statement is stored.
    refused: Option<ErrorKind>,
    state: State,
}

enum State {
    /// The rows are on their way in, and may wait for another statement.
    Pushing(BoxFuture<'static, Pushed>),
    /// The rows are in, but not committed.
    Open(Box<dyn Append>),
}

/// A statement without an answer at the failure of the disk.
pub struct Unknown {
    pub client: usize,
    pub number: u64,
    pub table: usize,
    pub placed: Vec<Placed>,
}

/// The producer id of a client.
pub fn producer_of(client: usize) -> ProducerId {
    ProducerId(client as u128 + 1)
}

impl World {
    /// A message has arrived at the server.
    pub fn arrive(&mut self, client: usize, life: u64, message: Message) {
        match message {
            Message::Connect { ask, sent_ns } => {
                let reading = self.server().clock.reading();
                let session = self.next_session;
                self.next_session += 1;
                self.sessions.insert(session, reading.now_ns);
                let reply = Reply::Connected { ask, sent_ns, session, reading };
                self.reply(client, life, reply);
            }
            Message::Sync { ask, sent_ns } => {
                let reading = self.server().clock.reading();
                self.reply(client, life, Reply::Clock { ask, sent_ns, reading });
            }
            Message::Record(record) => self.record(client, life, record),
        }
    }

    fn record(&mut self, client: usize, life: u64, record: Record) {
        let Some(since_ns) = self.sessions.get(&record.session).copied() else {
            return self.answer(client, life, &record, Answer::NoSession);
        };
        if self.statements.len() >= STATEMENTS_MAX {
            return self.answer(client, life, &record, Answer::Busy);
        }
        let session = Acceptance { since_ns, round_trip_ns: record.round_trip_ns, restores: false };
        let options = AppendOptions {
            durability: None,
            producer: Some((producer_of(client), record.number)),
            producer_from: None,
            acceptance: session,
        };
        let duplicate = self.model.is_committed(client, record.number);
        let table = Arc::clone(&self.plan.tables[record.table]);
        let rows = batch(&table, client, record.number, &record.rows);
        let on_conflict = if record.skip { OnConflict::Skip } else { OnConflict::Error };
        let mut append = self.server().engine.begin(options).unwrap();
        let pushing = Box::pin(async move {
            let pushed = append.push(&table, rows, on_conflict).await;
            (append, pushed)
        });
        let id = self.next_statement;
        self.next_statement += 1;
        let (looked, refused, state) = (None, None, State::Pushing(pushing));
        let statement =
            Statement { client, life, record, session, duplicate, looked, refused, state };
        self.statements.insert(id, statement);
        self.drive(id);
    }

    fn answer(&mut self, client: usize, life: u64, record: &Record, answer: Answer) {
        let (number, attempt) = (record.number, record.attempt);
        self.reply(client, life, Reply::Answer { number, attempt, answer });
    }

    /// Polls a statement on its way in.
    fn drive(&mut self, id: u64) {
        let has_copy = self.has_copy(id);
        let Some(statement) = self.statements.get_mut(&id) else { return };
        let State::Pushing(pushing) = &mut statement.state else { return };
        self.plan.seen.take_readings();
        let polled = pushing.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let readings = self.plan.seen.take_readings();
        let chronicle = &mut self.model.chronicles[statement.record.table];
        for reading in &readings {
            chronicle.note(&statement.session, reading);
        }
        statement.looked = readings.last().copied().or(statement.looked);
        match polled {
            Poll::Ready(pushed) => self.pushed(id, pushed),
            Poll::Pending if statement.refused.is_some() => {}
            // The statement has not read the clock again: the awaited statement is still open.
            Poll::Pending if chronicle.is_clocked() && readings.is_empty() => {
                let looked = statement.looked.as_ref().expect("it waits and has not looked");
                let waits = chronicle.waits(id, &statement.record.rows, Some(looked));
                assert!(has_copy || waits, "statement {id} waits for nobody");
            }
            Poll::Pending => {
                let looked = statement.looked.as_ref();
                let Record { rows, skip, .. } = &statement.record;
                match chronicle.judge(id, rows, *skip, &statement.session, looked) {
                    Verdict::Waits => self.summary.waited += u64::from(!readings.is_empty()),
                    // Without a window, the result of the last check stays valid: the awaited key
                    // may be another key.
                    Verdict::Refused(_)
                        if !chronicle.is_clocked() && chronicle.waits(id, rows, None) => {}
                    Verdict::Refused(kind) => {
                        assert!(
                            has_copy,
                            "statement {id} is refused, and waits for nobody: {kind:?}"
                        );
                        statement.refused = Some(kind);
                        self.summary.doubted += 1;
                    }
                    verdict => panic!("statement {id} waits for nobody: {verdict:?}"),
                }
            }
        }
    }

    /// Whether another copy of a statement, with the same or other times, may still be stored.
    fn has_copy(&self, id: u64) -> bool {
        let Some(Statement { client, record, .. }) = self.statements.get(&id) else {
            return false;
        };
        let others = self.statements.iter().filter(|(other, _)| **other != id);
        let mut others = others.filter(|(_, other)| other.refused.is_none());
        others.any(|(_, other)| (other.client, other.record.number) == (*client, record.number))
    }

    /// Polls the statements that waited for an ended statement, in the order of their arrival.
    fn drive_waiting(&mut self) {
        let waiting = self.statements.iter().filter(|(_, statement)| statement.is_pushing());
        let waiting: Vec<u64> = waiting.map(|(id, _)| *id).collect();
        waiting.into_iter().for_each(|id| self.drive(id));
    }

    /// The rows of a statement are in, or refused.
    fn pushed(&mut self, id: u64, (append, pushed): Pushed) {
        let Some(mut statement) = self.statements.remove(&id) else { return };
        if self.disk.is_halted() && pushed.is_err() {
            return;
        }
        let Statement { client, life, ref record, session, looked, duplicate, refused, .. } =
            statement;
        let (rows, looked) = (record.rows.as_slice(), looked.as_ref());
        let again = self.model.is_committed(client, record.number);
        let chronicle = &mut self.model.chronicles[record.table];
        let judged = || chronicle.judge(id, rows, record.skip, &session, looked);
        let verdict = match duplicate {
            true => None,
            false => Some(refused.map_or_else(judged, Verdict::Refused)),
        };
        match (pushed, verdict) {
            // Another copy was committed, before or meanwhile.
            (Ok(admitted), None) => {
                assert!(admitted.events.is_empty(), "a duplicate is taken");
            }
            (Ok(admitted), Some(Verdict::Refused(_))) if again => {
                assert!(admitted.events.is_empty(), "a duplicate is taken");
                statement.duplicate = true;
            }
            (Ok(admitted), Some(Verdict::Admitted(kept))) => {
                let ticks: Vec<i64> = kept.iter().map(|(_, tick)| *tick).collect();
                assert_eq!(admitted.events.ticks.to_vec(), ticks, "statement {id}");
                let skipped = (rows.len() - kept.len()) as u64;
                assert_eq!(admitted.skipped, skipped, "statement {id}");
                self.summary.skipped += skipped;
                self.summary.moved += chronicle.moved(rows, looked, &kept);
                let placed = kept.iter().zip(admitted.events.first_seq..);
                let placed = placed.map(|((at, tick), seq)| Placed {
                    host: rows[*at].host,
                    tick: *tick,
                    seq,
                    event: event_of(record.number, *at),
                });
                let skipped = chronicle.skipped(rows, looked, &kept);
                chronicle.hold(id, placed.collect(), skipped);
            }
            (Err(error), Some(Verdict::Refused(kind))) => {
                assert_eq!(error.kind(), kind, "statement {id}: {error}");
                assert!(!again, "statement {id} is refused, and was committed: {error}");
                match kind {
                    ErrorKind::OutsideWindow => self.summary.outside += 1,
                    _ => self.summary.taken += 1,
                }
                drop(append);
                let record = statement.record;
                self.answer(client, life, &record, Answer::Refused(kind));
                // Copies may have waited for this statement.
                return self.drive_waiting();
            }
            (pushed, verdict) => {
                let pushed = pushed.map(|admitted| admitted.events.ticks.to_vec());
                panic!("statement {id}, {record:?}: {pushed:?} instead of {verdict:?}");
            }
        }
        statement.state = State::Open(append);
        self.statements.insert(id, statement);
        let in_ns = match self.random.below(10) {
            0..7 => self.random.below(2 * MS),
            7..9 => self.random.below(30 * MS),
            _ => self.random.below(SECOND),
        };
        self.schedule(in_ns, Event::End(id));
    }

    /// Commits a statement, or breaks its client's connection before the commit.
    pub fn end(&mut self, id: u64) {
        let Some(Statement { client, life, record, duplicate, state, .. }) =
            self.statements.remove(&id)
        else {
            return;
        };
        let State::Open(append) = state else { return };
        let at = record.table;
        if !self.quiet && self.random.chance(6) {
            drop(append);
            self.model.chronicles[at].release(id);
            return self.drive_waiting();
        }
        let duplicate = duplicate || self.model.is_committed(client, record.number);
        let placed = self.model.held(id, at);
        // Sometimes the disk has no room for the statement.
        let full = !self.quiet && !duplicate && !placed.is_empty() && self.random.chance(3);
        if full {
            self.disk.fail(Operation::Write, 1, Failure::Full);
        }
        let answer = match finished(append.commit()) {
            Err(_) if self.disk.is_halted() => {
                self.model.chronicles[at].release(id);
                let number = record.number;
                self.unknown = Some(Unknown { client, number, table: at, placed });
                return;
            }
            Err(error) => {
                assert!(full && error.kind() == ErrorKind::DiskFull, "statement {id}: {error}");
                self.model.chronicles[at].release(id);
                self.summary.full += 1;
                Answer::Refused(ErrorKind::DiskFull)
            }
            Ok(appended) if duplicate => {
                assert!(appended.duplicate, "statement {id} is stored again: {appended:?}");
                assert_eq!((appended.rows, appended.first_gsn), (0, None));
                self.model.chronicles[at].release(id);
                self.summary.duplicates += 1;
                Answer::Stored
            }
            Ok(appended) => {
                assert!(!appended.duplicate && !full, "statement {id}: {appended:?}");
                assert_eq!(appended.durability, Durability::Disk);
                let first = self.model.head + 1;
                let rows = self.model.commit(id, at, client, record.number);
                assert_eq!(appended.rows, rows);
                let gsns = (rows > 0).then_some((Gsn(first), Gsn(self.model.head)));
                assert_eq!(appended.first_gsn.zip(appended.last_gsn), gsns);
                Answer::Stored
            }
        };
        self.answer(client, life, &record, answer);
        self.drive_waiting();
    }
}

impl Statement {
    fn is_pushing(&self) -> bool {
        matches!(self.state, State::Pushing(_))
    }
}
