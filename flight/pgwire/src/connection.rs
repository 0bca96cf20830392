//! A connection with a client after the start-up: reads messages and writes the answers.

mod copy;
mod cursor;
mod extended;
mod portal;
mod simple;
mod work;

use std::{collections::HashMap, sync::Arc, time::Duration};

use bytes::Bytes;
use stratalog_metrics::{DoorMetrics, RequestClass};
use stratalog_model::{Error, ErrorKind};
use stratalog_query::{Session, TransactionState};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    time::Instant,
};

use self::portal::{Portal, Statement};
use crate::{
    PgwireSettings,
    budget::Budget,
    frontend::{Frontend, InboundItem, MessageReader},
    outbound::{OutboundBuffer, Severity},
    server::Stop,
};

/// A connection frees memory after the client has been silent for this time.
const QUIET: Duration = Duration::from_secs(5);

/// The reason for which a step of a connection ended early.
#[derive(Debug)]
pub(crate) enum StepEnd {
    /// The statement failed; the connection continues.
    Error(Error),
    /// The client has disconnected, or has sent Terminate.
    Gone,
    /// The connection must end; the client receives the error.
    Fatal(Error),
}

impl From<Error> for StepEnd {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// The result of a step of a connection.
pub(crate) type Step<T> = std::result::Result<T, StepEnd>;

/// The state of a connection with one client.
pub(crate) struct Connection<R, W> {
    reader: MessageReader<R>,
    writer: Option<W>,
    out: OutboundBuffer,
    session: Arc<Session>,
    settings: Arc<PgwireSettings>,
    stop: Stop,
    door: DoorMetrics,
    statements: HashMap<String, Arc<Statement>>,
    portals: HashMap<String, Portal>,
    /// Bounds the memory of named statements and portals.
    prepared_budget: Budget,
    /// True after a failed message of the extended protocol: messages are ignored until Sync.
    skipping: bool,
    /// True if the current message contains further statements after the running statement.
    followed: bool,
    /// The number of Sync messages so far.
    rounds: u64,
    /// True if the server has answered all messages and waits for the client.
    at_rest: bool,
    /// True after a long silence of the client, when the connection has freed the memory of its
    /// caches and buffers.
    resting: bool,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Connection<R, W> {
    /// Creates a connection. `out` already contains the answers to the start-up message.
    pub(crate) fn new(
        reader: MessageReader<R>,
        writer: W,
        out: OutboundBuffer,
        session: Arc<Session>,
        settings: Arc<PgwireSettings>,
        stop: Stop,
        door: DoorMetrics,
    ) -> Self {
        let prepared_budget = Budget::new(settings.kept_bytes_max);
        Self {
            reader,
            writer: Some(writer),
            out,
            session,
            settings,
            stop,
            door,
            statements: HashMap::new(),
            portals: HashMap::new(),
            prepared_budget,
            skipping: false,
            followed: false,
            rounds: 0,
            at_rest: true,
            resting: false,
        }
    }

    /// Reads and answers messages until the connection ends.
    pub(crate) async fn run(&mut self) -> StepEnd {
        loop {
            if let Err(ending) = self.turn().await {
                // Ends running work before the final message is sent.
                self.portals.clear();
                return ending;
            }
        }
    }

    /// Returns the socket, and the last bytes for the client: the buffered output, then `error` as
    /// the final message. `None` if no further message can be sent, because the output ended in the
    /// middle of a message.
    pub(crate) fn farewell(&mut self, error: &Error) -> Option<(W, Vec<u8>)> {
        self.out.error(Severity::Fatal, error).ok()?;
        Some((self.writer.take()?, std::mem::take(&mut self.out.bytes)))
    }

    /// Reads one message and answers it.
    async fn turn(&mut self) -> Step<()> {
        if self.stop.soft.is_cancelled() {
            return Err(shutting_down());
        }
        let inbound = self.next_message().await?;
        // Another session may have terminated this session while the message arrived.
        self.session.check_terminated().map_err(StepEnd::Fatal)?;
        let (kind, body) = match inbound {
            InboundItem::Message(kind, body) => (kind, Ok(body)),
            InboundItem::Refused(kind, error) => (kind, Err(error)),
            InboundItem::Closed => return Err(StepEnd::Gone),
            InboundItem::Broken(error) => return Err(StepEnd::Fatal(error)),
        };
        self.at_rest = false;
        if self.skipping && !matches!(kind, b'S' | b'X') {
            return Ok(());
        }
        // Only these messages run statements and count as requests in the metrics.
        let _request = match kind {
            b'Q' => Some(self.door.begin(RequestClass::Simple)),
            b'E' => Some(self.door.begin(RequestClass::Extended)),
            _ => None,
        };
        let answered = match body {
            Ok(body) => self.answer(kind, body).await,
            // The client may still send data for a COPY that has failed; the server ignores this
            // data.
            Err(_) if matches!(kind, b'c' | b'f') => Ok(()),
            Err(error) => Err(StepEnd::Error(error)),
        };
        match answered {
            Err(StepEnd::Error(error)) => {
                self.report(&error)?;
                match kind {
                    b'P' | b'B' | b'D' | b'E' | b'C' => self.skipping = true,
                    b'd' | b'c' | b'f' | b'H' => {}
                    _ => {
                        self.end_implicit().await?;
                        self.ready()?;
                    }
                }
            }
            other => other?,
        }
        // The output grows without Sync too: a client may send any number of messages before it
        // reads an answer.
        self.flush_if_full().await
    }

    /// Reads the next message. If no message has arrived, sends the buffered output before waiting.
    async fn next_message(&mut self) -> Step<InboundItem> {
        if let Some(inbound) = self.reader.buffered() {
            return Ok(inbound);
        }
        self.flush().await?;
        let limit = if self.at_rest { self.session.idle_limit() } else { None };
        let began = Instant::now();
        self.resting = false;
        loop {
            let quiet = (self.at_rest && !self.resting).then_some(QUIET);
            tokio::select! {
                biased;
                inbound = self.reader.next() => return Ok(inbound),
                () = self.stop.soft.cancelled() => return Err(shutting_down()),
                error = self.session.terminated() => return Err(StepEnd::Fatal(error)),
                () = until(limit.map(|limit| began + limit)) => {
                    return Err(idle_for_too_long(self.session.transaction()));
                }
                () = until(quiet.map(|quiet| began + quiet)) => self.rest(),
            }
        }
    }

    /// Frees the memory of caches and buffers, which the next message allocates again.
    fn rest(&mut self) {
        self.resting = true;
        self.session.rest();
        self.out.rest();
        self.reader.rest();
    }

    async fn answer(&mut self, kind: u8, body: Bytes) -> Step<()> {
        match Frontend::decode(kind, body)? {
            Frontend::Query(sql) => self.simple_query(&sql).await,
            Frontend::Parse(parse) => self.parse(parse).await,
            Frontend::Bind(bind) => self.bind(bind),
            Frontend::Describe(describe) => self.describe(&describe),
            Frontend::Execute(execute) => self.execute(&execute).await,
            Frontend::Close(close) => self.close(&close),
            Frontend::Sync => {
                self.skipping = false;
                self.rounds = self.rounds.wrapping_add(1);
                self.end_implicit().await?;
                self.ready()
            }
            Frontend::Flush => self.flush().await,
            // The client may still send data for a COPY that has failed; the server ignores this
            // data.
            Frontend::CopyData(_) | Frontend::CopyDone | Frontend::CopyFail(_) => Ok(()),
            Frontend::Terminate => Err(StepEnd::Gone),
            Frontend::FunctionCall => Err(StepEnd::Error(
                Error::new(
                    ErrorKind::FeatureNotSupported,
                    "function calls by message are not supported",
                )
                .with_hint("use SELECT function(...)"),
            )),
            Frontend::Password => Err(StepEnd::Fatal(Error::new(
                ErrorKind::ProtocolViolation,
                "a password was sent without being asked for",
            ))),
        }
    }

    /// Sends an error to the client, and marks an open transaction block as failed.
    fn report(&mut self, error: &Error) -> Step<()> {
        self.session.check_terminated().map_err(StepEnd::Fatal)?;
        self.session.fail_transaction();
        self.door.failed(error.kind());
        self.tell()?;
        self.out.error(Severity::Error, error).map_err(StepEnd::Fatal)
    }

    /// Writes the notices of the command to the output, then CommandComplete with `tag`.
    fn complete(&mut self, tag: &str) -> Result<(), Error> {
        self.notify()?;
        self.out.complete(tag)
    }

    /// Writes the notices that the session has collected to the output.
    fn notify(&mut self) -> Result<(), Error> {
        self.session.take_notices().iter().try_for_each(|notice| self.out.notice(notice))
    }

    /// Writes new notices and changed settings to the output.
    fn tell(&mut self) -> Step<()> {
        self.notify().map_err(StepEnd::Fatal)?;
        for (name, value) in self.session.take_parameter_changes() {
            self.out.parameter_status(&name, &value).map_err(StepEnd::Fatal)?;
        }
        Ok(())
    }

    /// Writes ReadyForQuery to the output, which ends a round of messages.
    fn ready(&mut self) -> Step<()> {
        self.tell()?;
        let state = self.session.transaction();
        if state == TransactionState::Idle {
            // A portal does not outlive its transaction.
            self.portals.clear();
        }
        self.out.ready(state).map_err(StepEnd::Fatal)?;
        self.at_rest = true;
        Ok(())
    }

    /// Sends the buffered output. Returns when the socket has accepted all bytes.
    async fn flush(&mut self) -> Step<()> {
        if self.out.bytes.is_empty() {
            return Ok(());
        }
        let Some(writer) = self.writer.as_mut() else { return Err(StepEnd::Gone) };
        let sending = async {
            writer.write_all(&self.out.bytes).await?;
            // TLS has a buffer of its own.
            writer.flush().await
        };
        let sent = tokio::select! {
            biased;
            sent = sending => sent,
            _ = self.session.terminated() => {
                self.writer = None;
                return Err(StepEnd::Gone);
            }
            () = self.stop.hard.cancelled() => {
                // The output ends in the middle of a message, so the server can send no further
                // message.
                self.writer = None;
                return Err(StepEnd::Gone);
            }
        };
        self.out.sent(self.settings.output_buffer_bytes);
        sent.map_err(|_| StepEnd::Gone)
    }

    async fn flush_if_full(&mut self) -> Step<()> {
        if self.out.bytes.len() >= self.settings.output_buffer_bytes {
            self.flush().await?;
        }
        Ok(())
    }
}

/// Waits until `moment`, or for ever if `moment` is `None`.
async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

fn idle_for_too_long(state: TransactionState) -> StepEnd {
    if state == TransactionState::Idle {
        return StepEnd::Fatal(Error::new(
            ErrorKind::IdleSession,
            "terminating connection due to idle-session timeout",
        ));
    }
    StepEnd::Fatal(
        Error::new(
            ErrorKind::IdleInTransaction,
            "terminating connection due to idle-in-transaction timeout",
        )
        .with_detail("the writes of the transaction block are rolled back"),
    )
}

fn shutting_down() -> StepEnd {
    StepEnd::Fatal(Error::new(
        ErrorKind::Shutdown,
        "terminating connection due to administrator command",
    ))
}
