//! The background task of a writer. The task makes Flight DoPut calls while there are rows to send.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use arrow_flight::{FlightData, FlightDescriptor, PutResult};
use bytes::Bytes;
use futures::stream;
use tokio::sync::mpsc;
use tonic::Streaming;

use super::{
    WriterState,
    acknowledgement::{Answer, BatchMetadata},
};
use crate::{
    connection::within,
    encode::Encoder,
    error::{Error, ErrorKind, Result},
    pool::Lease,
    retry::{Backoff, chance},
};

/// The writer ends a call that was idle for this time, because the server waits for open calls when
/// the server shuts down.
const IDLE: Duration = Duration::from_secs(2);

/// The reason for the end of a call.
#[derive(Debug)]
enum CallEnd {
    /// The writer has no more rows for this call.
    Done,
    /// The connection or the server failed. The task makes a new call.
    Broken(Error),
    /// The server refused the oldest parcel, and did not process the later parcels.
    Refused(Error),
    /// The writer ends, because another attempt would fail in the same way.
    Fatal(Error),
}

/// Sends rows until the writer is closed or a fatal error occurs.
pub(super) async fn run(shared: Arc<WriterState>) {
    let error = write(&shared).await.err();
    if let Some(error) = &error {
        tracing::debug!(%error, table = %shared.settings.table, "a writer has ended");
    }
    shared.end(error);
}

async fn write(shared: &WriterState) -> Result<()> {
    let mut backoff = Backoff::new(shared.settings.retry.clone());
    while let Some(schema) = shared.work().await {
        let ended = match PutCall::open(shared, &schema).await {
            Ok(call) => call.run(&mut backoff).await,
            Err(CallEnd::Refused(error)) => {
                // The server refused the call before any parcel was sent, so the refusal concerns
                // the first parcel.
                shared.core.lock().ledger.send()?;
                CallEnd::Refused(error)
            }
            Err(ended) => ended,
        };
        let ended = match ended {
            CallEnd::Fatal(error) if shared.pool.regains(&error) => CallEnd::Broken(error),
            ended => ended,
        };
        match ended {
            CallEnd::Done => {}
            CallEnd::Refused(error) => {
                shared.core.lock().ledger.refused(&error);
                shared.report_progress();
                backoff.reset();
            }
            CallEnd::Fatal(error) => return Err(error),
            CallEnd::Broken(error) => {
                shared.core.lock().ledger.broken();
                let now = Instant::now();
                let Some(wait) = backoff.failed(now, chance()) else {
                    let what =
                        format!("writing to {}: {}", shared.settings.table, backoff.summary(now));
                    return Err(error.during(what));
                };
                tracing::debug!(%error, ?wait, "batches are sent again");
                tokio::time::sleep(wait).await;
            }
        }
    }
    Ok(())
}

impl WriterState {
    /// Waits for rows to send and returns their columns; `None` if the writer is closed.
    async fn work(&self) -> Option<SchemaRef> {
        loop {
            let due = {
                let core = self.core.lock();
                if let Some(schema) = core.ledger.ready(Instant::now()) {
                    return Some(schema);
                }
                if core.closing && core.ledger.is_empty() {
                    return None;
                }
                core.ledger.due_at()
            };
            tokio::select! {
                () = self.wake.notified() => {}
                () = until(due) => {}
            }
        }
    }
}

/// The reason for which a waiting call continues.
enum CallEvent {
    /// The server has sent an answer, or the call has ended.
    Answer(Result<Option<PutResult>, tonic::Status>),
    /// The ledger may have rows to send.
    Woken,
    /// The server has acknowledged nothing for `acknowledge_timeout`.
    Late,
    /// The call was idle for [`IDLE`].
    Idle,
}

/// A DoPut call, in which the writer sends parcels and receives acknowledgements.
struct PutCall<'a> {
    shared: &'a WriterState,
    lease: Lease,
    schema: &'a SchemaRef,
    encoder: Encoder,
    outbound: mpsc::Sender<FlightData>,
    answers: Streaming<PutResult>,
    /// Messages of the current parcel that are still to be sent.
    outgoing: VecDeque<FlightData>,
    /// The server accepts no more messages; the call only awaits its answers.
    deaf: bool,
    /// The error that prevents the encoding of the next parcel. The call reports this error after
    /// all earlier parcels have their outcome.
    stuck: Option<Error>,
    waiting_since: Instant,
    busy_at: Instant,
}

impl<'a> PutCall<'a> {
    async fn open(shared: &'a WriterState, schema: &'a SchemaRef) -> Result<Self, CallEnd> {
        let lease = shared.pool.take().await.map_err(|error| match error.is_retryable() {
            true => CallEnd::Broken(error),
            false => CallEnd::Fatal(error),
        })?;
        let descriptor = FlightDescriptor::new_path(shared.settings.path.clone());
        let (encoder, first) = Encoder::begin(descriptor, schema);
        let (outbound, mut messages) = mpsc::channel(2);
        let request = lease.connection.request(stream::poll_fn(move |cx| messages.poll_recv(cx)));
        let opening = async {
            // The channel is empty, so the send does not wait.
            let _ = outbound.send(first).await;
            let answers = lease.connection.client().do_put(request).await;
            answers.map_err(|status| lease.connection.failed(status))
        };
        let answers = within(Some(shared.acknowledge_timeout()), opening).await;
        let answers =
            answers.inspect_err(|error| lease.connection.learn(error)).map_err(call_end_of)?;
        let now = Instant::now();
        Ok(Self {
            shared,
            lease,
            schema,
            encoder,
            outbound,
            answers: answers.into_inner(),
            outgoing: VecDeque::new(),
            deaf: false,
            stuck: None,
            waiting_since: now,
            busy_at: now,
        })
    }

    async fn run(mut self, backoff: &mut Backoff) -> CallEnd {
        loop {
            let now = Instant::now();
            match self.load(now) {
                Ok(false) => {}
                Ok(true) => {
                    self.finish().await;
                    return CallEnd::Done;
                }
                Err(error) => return CallEnd::Fatal(error),
            }
            let (in_flight, due) = {
                let ledger = &self.shared.core.lock().ledger;
                (ledger.in_flight(), ledger.due_at())
            };
            if in_flight == 0
                && let Some(error) = self.stuck.take()
            {
                return match self.shared.core.lock().ledger.send() {
                    Ok(_) => CallEnd::Refused(error),
                    Err(error) => CallEnd::Fatal(error),
                };
            }
            let patience = self.waiting_since + self.shared.acknowledge_timeout();
            let sends = !self.outgoing.is_empty() && !self.deaf;
            let event = tokio::select! {
                biased;
                answer = self.answers.message() => CallEvent::Answer(answer),
                place = self.outbound.reserve(), if sends => {
                    match (place, self.outgoing.pop_front()) {
                        (Ok(place), Some(message)) => place.send(message),
                        _ => self.deaf = true,
                    }
                    CallEvent::Woken
                }
                () = self.shared.wake.notified() => CallEvent::Woken,
                () = until(due.filter(|due| *due > now)) => CallEvent::Woken,
                () = until(Some(patience)), if in_flight > 0 => CallEvent::Late,
                () = until(Some(self.busy_at + IDLE)), if in_flight == 0 && !sends => CallEvent::Idle,
            };
            match event {
                CallEvent::Woken => {}
                CallEvent::Answer(Ok(Some(answer))) => {
                    if let Err(error) = self.acknowledged(&answer.app_metadata) {
                        return CallEnd::Fatal(error);
                    }
                    backoff.reset();
                }
                CallEvent::Answer(Ok(None)) if in_flight == 0 => return CallEnd::Done,
                CallEvent::Answer(Ok(None)) => {
                    return CallEnd::Broken(Error::new(
                        ErrorKind::Connection,
                        "the server ended the call before the acknowledgement of all rows",
                    ));
                }
                CallEvent::Answer(Err(status)) => {
                    return call_end_of(self.lease.connection.failed(status));
                }
                CallEvent::Late => {
                    let seconds = self.shared.acknowledge_timeout().as_secs_f64();
                    let error = Error::new(
                        ErrorKind::Timeout,
                        format!("nothing was acknowledged for {seconds} s"),
                    );
                    self.lease.connection.learn(&error);
                    return CallEnd::Broken(error);
                }
                CallEvent::Idle => {
                    self.finish().await;
                    return CallEnd::Done;
                }
            }
        }
    }

    /// Encodes the next parcel after all messages of the current parcel are sent. Returns true if
    /// the call must end: the writer is closed, or the next parcel has other columns than this
    /// call.
    ///
    /// # Errors
    /// The errors of [`Ledger::send`](super::ledger::Ledger::send).
    fn load(&mut self, now: Instant) -> Result<bool> {
        if !self.outgoing.is_empty() || self.deaf || self.stuck.is_some() {
            return Ok(false);
        }
        let (batch, number) = {
            let mut core = self.shared.core.lock();
            let in_flight = core.ledger.in_flight();
            match core.ledger.ready(now) {
                Some(schema) if schema == *self.schema => {}
                Some(_) => return Ok(in_flight == 0),
                None => return Ok(core.closing && core.ledger.is_empty()),
            }
            let Some(parcel) = core.ledger.send()? else { return Ok(false) };
            let next = (parcel.batch.clone(), parcel.number);
            if in_flight == 0 {
                self.waiting_since = Instant::now();
            }
            next
        };
        self.busy_at = Instant::now();
        match self.encode(&batch, number) {
            Ok(messages) => self.outgoing.extend(messages),
            Err(error) => {
                self.shared.core.lock().ledger.unsend();
                self.stuck = Some(error);
            }
        }
        Ok(false)
    }

    fn encode(&mut self, batch: &RecordBatch, sequence: u64) -> Result<Vec<FlightData>> {
        let settings = &self.shared.settings;
        let metadata = BatchMetadata {
            producer: settings.producer.to_string(),
            sequence,
            durability: settings.durability.map(|durability| durability.to_string()),
        };
        let metadata = serde_json::to_vec(&metadata)
            .map_err(|error| Error::protocol(format!("the metadata of a batch: {error}")))?;
        self.encoder.batch(batch, metadata.into())
    }

    fn acknowledged(&mut self, json: &Bytes) -> Result<()> {
        let answer: Answer = serde_json::from_slice(json)
            .map_err(|error| Error::protocol(format!("an acknowledgement: {error}")))?;
        self.shared.core.lock().ledger.acknowledged(&answer)?;
        self.shared.report_progress();
        self.waiting_since = Instant::now();
        self.busy_at = self.waiting_since;
        Ok(())
    }

    /// Ends the call after all sent parcels are acknowledged.
    async fn finish(self) {
        let Self { outbound, mut answers, .. } = self;
        drop(outbound);
        // The end of the stream is not essential: every parcel has its acknowledgement.
        let _ = tokio::time::timeout(IDLE, answers.message()).await;
    }
}

/// Classifies the error of a call: the writer makes a new call, refuses the oldest parcel, or ends.
fn call_end_of(error: Error) -> CallEnd {
    match error.kind() {
        ErrorKind::InvalidBatch | ErrorKind::TooLarge => return CallEnd::Refused(error),
        // The session has ended: the next call logs in again, and reports an error if the login
        // fails.
        ErrorKind::Login => return CallEnd::Broken(error),
        // The server would refuse the same rows again.
        _ if error.needs_new_time() => return CallEnd::Refused(error),
        _ if error.is_retryable() => return CallEnd::Broken(error),
        _ => {}
    }
    let Some(sqlstate) = error.sqlstate() else { return CallEnd::Fatal(error) };
    match (sqlstate, sqlstate.get(..2).unwrap_or_default()) {
        // The table, schema or database does not exist, or the user lacks the privilege.
        ("42P01" | "3F000" | "3D000" | "42501", _) => CallEnd::Fatal(error),
        // An error in the rows, in their columns, or in their target table.
        (_, "0A" | "21" | "22" | "23" | "42" | "44" | "54") => CallEnd::Refused(error),
        // A failure of the server, possibly transient; a cancellation.
        (_, "57" | "58" | "XX") => CallEnd::Broken(error),
        _ => CallEnd::Fatal(error),
    }
}

/// Waits until `time`, or for ever if `time` is `None`.
async fn until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time.into()).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use tonic::{Code, Status};

    use super::*;

    #[test]
    fn errors_are_about_the_batch_the_connection_or_everything() {
        let end_of = |sqlstate: &str| {
            let mut status = Status::new(Code::Internal, "x");
            status.metadata_mut().insert("sqlstate", sqlstate.parse().unwrap());
            call_end_of(status.into())
        };
        for refused in ["22003", "23505", "23502", "42703", "42804", "44000", "54000", "0A000"] {
            assert!(matches!(end_of(refused), CallEnd::Refused(_)), "{refused}");
        }
        for broken in ["08006", "53100", "57P01", "57P03", "58030", "XX000", "40P01"] {
            assert!(matches!(end_of(broken), CallEnd::Broken(_)), "{broken}");
        }
        for fatal in ["42P01", "42501", "25006", "3F000"] {
            assert!(matches!(end_of(fatal), CallEnd::Fatal(_)), "{fatal}");
        }
        assert!(matches!(call_end_of(Status::unauthenticated("x").into()), CallEnd::Broken(_)));
        assert!(matches!(call_end_of(Status::unavailable("x").into()), CallEnd::Broken(_)));
    }
}
