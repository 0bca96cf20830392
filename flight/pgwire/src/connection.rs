//! One connection: messages in, answers out.

mod copy;
mod cursor;
mod extended;
mod kept;
mod simple;
mod work;

use std::{collections::HashMap, sync::Arc, time::Duration};

use bytes::Bytes;
use stratalog_model::{Error, ErrorKind};
use stratalog_query::{Session, TransactionState};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    time::Instant,
};

use self::kept::{Portal, Statement};
use crate::{
    PgwireSettings,
    budget::Budget,
    frontend::{Frontend, Inbound, MessageReader},
    outbound::{Outbound, Severity},
    server::Stop,
};

/// How long a client is silent before its connection lets go of memory.
const QUIET: Duration = Duration::from_secs(5);

/// Why something could not go on.
#[derive(Debug)]
pub(crate) enum Ending {
    /// The statement failed; the connection goes on.
    Error(Error),
    /// The client is gone, or said goodbye.
    Gone,
    /// The connection ends, and the client is told why.
    Fatal(Error),
}

impl From<Error> for Ending {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// Result of a step of the conversation.
pub(crate) type Step<T> = std::result::Result<T, Ending>;

/// A conversation with one client.
pub(crate) struct Connection<R, W> {
    reader: MessageReader<R>,
    writer: Option<W>,
    out: Outbound,
    session: Arc<Session>,
    settings: Arc<PgwireSettings>,
    stop: Stop,
    statements: HashMap<String, Arc<Statement>>,
    portals: HashMap<String, Portal>,
    /// For what statements and portals hold.
    kept: Budget,
    /// An extended message failed: what follows is dropped until Sync.
    skipping: bool,
    /// Statements of the message that is answered follow the one that runs.
    followed: bool,
    /// How many Sync messages came.
    rounds: u64,
    /// Every round is over: the client is to speak.
    at_rest: bool,
    /// The client has said nothing for long: what can be made anew is let go.
    resting: bool,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Connection<R, W> {
    /// A conversation whose greeting is in `out`.
    pub(crate) fn new(
        reader: MessageReader<R>,
        writer: W,
        out: Outbound,
        session: Arc<Session>,
        settings: Arc<PgwireSettings>,
        stop: Stop,
    ) -> Self {
        let kept = Budget::new(settings.kept_bytes_max);
        Self {
            reader,
            writer: Some(writer),
            out,
            session,
            settings,
            stop,
            statements: HashMap::new(),
            portals: HashMap::new(),
            kept,
            skipping: false,
            followed: false,
            rounds: 0,
            at_rest: true,
            resting: false,
        }
    }

    /// Answers messages until the connection ends.
    pub(crate) async fn run(&mut self) -> Ending {
        loop {
            if let Err(ending) = self.turn().await {
                // What runs ends here: before the farewell, not after it.
                self.portals.clear();
                return ending;
            }
        }
    }

    /// The last words to a client, and where to say them. What was gathered before is
    /// sent as well, unless it was cut off in the middle.
    pub(crate) fn farewell(&mut self, error: &Error) -> Option<(W, Vec<u8>)> {
        self.out.error(Severity::Fatal, error).ok()?;
        Some((self.writer.take()?, std::mem::take(&mut self.out.bytes)))
    }

    /// One message.
    async fn turn(&mut self) -> Step<()> {
        if self.stop.soft.is_cancelled() {
            return Err(shutting_down());
        }
        let inbound = self.next_message().await?;
        // The message and the command that ends the session may have come together.
        self.session.check_terminated().map_err(Ending::Fatal)?;
        let (kind, body) = match inbound {
            Inbound::Message(kind, body) => (kind, Ok(body)),
            Inbound::Refused(kind, error) => (kind, Err(error)),
            Inbound::Closed => return Err(Ending::Gone),
            Inbound::Broken(error) => return Err(Ending::Fatal(error)),
        };
        self.at_rest = false;
        if self.skipping && !matches!(kind, b'S' | b'X') {
            return Ok(());
        }
        let answered = match body {
            Ok(body) => self.answer(kind, body).await,
            // What a client still sends of a COPY that failed.
            Err(_) if matches!(kind, b'c' | b'f') => Ok(()),
            Err(error) => Err(Ending::Error(error)),
        };
        match answered {
            Err(Ending::Error(error)) => {
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
        // Clients may send any number of messages without reading what they get for them.
        self.flush_if_full().await
    }

    /// The next message; sends what is gathered before it waits.
    async fn next_message(&mut self) -> Step<Inbound> {
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
                error = self.session.terminated() => return Err(Ending::Fatal(error)),
                () = until(limit.map(|limit| began + limit)) => {
                    return Err(idle_for_too_long(self.session.transaction()));
                }
                () = until(quiet.map(|quiet| began + quiet)) => self.rest(),
            }
        }
    }

    /// Lets go of memory that the next message makes anew.
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
            // What a client still sends of a COPY that failed.
            Frontend::CopyData(_) | Frontend::CopyDone | Frontend::CopyFail(_) => Ok(()),
            Frontend::Terminate => Err(Ending::Gone),
            Frontend::FunctionCall => Err(Ending::Error(
                Error::new(
                    ErrorKind::FeatureNotSupported,
                    "function calls by message are not supported",
                )
                .with_hint("use SELECT function(...)"),
            )),
            Frontend::Password => Err(Ending::Fatal(Error::new(
                ErrorKind::ProtocolViolation,
                "a password was sent without being asked for",
            ))),
        }
    }

    /// Tells the client of an error, and an open transaction block as well.
    fn report(&mut self, error: &Error) -> Step<()> {
        self.session.check_terminated().map_err(Ending::Fatal)?;
        self.session.fail_transaction();
        self.tell()?;
        self.out.error(Severity::Error, error).map_err(Ending::Fatal)
    }

    /// The end of a command, behind what it had to say.
    fn complete(&mut self, tag: &str) -> Result<(), Error> {
        self.notify()?;
        self.out.complete(tag)
    }

    /// Notices since the last time.
    fn notify(&mut self) -> Result<(), Error> {
        self.session.take_notices().iter().try_for_each(|notice| self.out.notice(notice))
    }

    /// Notices and changed settings, since the last time.
    fn tell(&mut self) -> Step<()> {
        self.notify().map_err(Ending::Fatal)?;
        for (name, value) in self.session.take_parameter_changes() {
            self.out.parameter_status(&name, &value).map_err(Ending::Fatal)?;
        }
        Ok(())
    }

    /// The end of a round.
    fn ready(&mut self) -> Step<()> {
        self.tell()?;
        let state = self.session.transaction();
        if state == TransactionState::Idle {
            // Portals live no longer than their transaction.
            self.portals.clear();
        }
        self.out.ready(state).map_err(Ending::Fatal)?;
        self.at_rest = true;
        Ok(())
    }

    /// Sends what is gathered. Back-pressure: returns when the socket has taken it.
    async fn flush(&mut self) -> Step<()> {
        if self.out.bytes.is_empty() {
            return Ok(());
        }
        let Some(writer) = self.writer.as_mut() else { return Err(Ending::Gone) };
        let sent = tokio::select! {
            biased;
            sent = writer.write_all(&self.out.bytes) => sent,
            _ = self.session.terminated() => {
                self.writer = None;
                return Err(Ending::Gone);
            }
            () = self.stop.hard.cancelled() => {
                // Cut off within a message: nothing more can be said.
                self.writer = None;
                return Err(Ending::Gone);
            }
        };
        self.out.sent(self.settings.output_buffer_bytes);
        sent.map_err(|_| Ending::Gone)
    }

    async fn flush_if_full(&mut self) -> Step<()> {
        if self.out.bytes.len() >= self.settings.output_buffer_bytes {
            self.flush().await?;
        }
        Ok(())
    }
}

/// A moment; `None` never comes.
async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

fn idle_for_too_long(state: TransactionState) -> Ending {
    if state == TransactionState::Idle {
        return Ending::Fatal(Error::new(
            ErrorKind::IdleSession,
            "terminating connection due to idle-session timeout",
        ));
    }
    Ending::Fatal(
        Error::new(
            ErrorKind::IdleInTransaction,
            "terminating connection due to idle-in-transaction timeout",
        )
        .with_detail("what the transaction block had written is rolled back"),
    )
}

fn shutting_down() -> Ending {
    Ending::Fatal(Error::new(
        ErrorKind::Shutdown,
        "terminating connection due to administrator command",
    ))
}
