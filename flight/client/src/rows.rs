//! The rows of a query, as a stream.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use arrow_flight::{
    CancelFlightInfoRequest, CancelFlightInfoResult, CancelStatus, FlightData, FlightEndpoint,
    FlightInfo, Ticket,
};
use futures::{Stream, StreamExt as _, stream::BoxStream};
use prost::Message as _;
use stratalog_model::ipc::{DecodedMessage, IpcDecoder};
use tonic::Streaming;

use crate::{
    connection::Connection,
    error::{Error, Result},
    pool::Lease,
};

/// The rows of a query: a stream of batches. The server sends no faster than the caller reads.
/// Dropping the stream cancels the query on the server.
pub struct Rows {
    schema: SchemaRef,
    batches: BoxStream<'static, Result<RecordBatch>>,
    cancel: Cancel,
}

impl std::fmt::Debug for Rows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rows").field("schema", &self.schema).finish_non_exhaustive()
    }
}

/// Cancels a query from another task.
#[derive(Debug, Clone)]
pub struct Cancel {
    connection: Connection,
    info: Arc<FlightInfo>,
}

impl Cancel {
    /// Cancels the query; returns true if the query was running. The stream of rows then ends with
    /// SQLSTATE 57014.
    ///
    /// # Errors
    /// Errors of reaching the server.
    pub async fn cancel(&self) -> Result<bool> {
        let info = Some(FlightInfo::clone(&self.info));
        let body = CancelFlightInfoRequest { info }.encode_to_vec();
        let answer = self.connection.act("CancelFlightInfo", body).await?;
        let answer = CancelFlightInfoResult::decode(answer)
            .map_err(|error| Error::protocol(format!("CancelFlightInfo: {error}")))?;
        Ok(answer.status == CancelStatus::Cancelled as i32)
    }
}

impl Rows {
    /// Reads the results of the tickets of `info`, one after the other. The first DoGet call begins
    /// immediately, so that this function reports errors of the query.
    ///
    /// # Errors
    /// Errors of reading, marked as possibly executed: GetFlightInfo may have run the statement
    /// before.
    pub(crate) async fn read(lease: Lease, info: FlightInfo) -> Result<Self> {
        Self::redeem(lease, info).await.map_err(Error::maybe_carried_out)
    }

    async fn redeem(lease: Lease, info: FlightInfo) -> Result<Self> {
        let info = Arc::new(info);
        let cancel = Cancel { connection: lease.connection.clone(), info: Arc::clone(&info) };
        let mut tickets: VecDeque<Ticket> = info.endpoint.iter().filter_map(ticket).collect();
        let first =
            tickets.pop_front().ok_or_else(|| Error::protocol("the answer has no ticket"))?;
        let part = Part::open(&lease.connection, first).await?;
        let schema = SchemaRef::clone(&part.schema);
        let state = Some((part, tickets, lease));
        let batches = futures::stream::unfold(state, |state| async move {
            let (mut part, mut tickets, lease) = state?;
            loop {
                match part.next(&lease.connection).await {
                    Some(Ok(batch)) => return Some((Ok(batch), Some((part, tickets, lease)))),
                    Some(Err(error)) => return Some((Err(error), None)),
                    None => {}
                }
                part = match Part::open(&lease.connection, tickets.pop_front()?).await {
                    Ok(part) => part,
                    Err(error) => return Some((Err(error), None)),
                };
            }
        });
        Ok(Self { schema, batches: batches.boxed(), cancel })
    }

    /// The columns of the result.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// A handle to cancel the query from another task while the rows are read.
    pub fn canceller(&self) -> Cancel {
        self.cancel.clone()
    }

    /// Collects the remaining rows in memory.
    ///
    /// # Errors
    /// Errors of reading.
    pub async fn collect(mut self) -> Result<Vec<RecordBatch>> {
        let mut all = Vec::new();
        while let Some(batch) = self.batches.next().await {
            all.push(batch?);
        }
        Ok(all)
    }
}

impl Stream for Rows {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.batches.poll_next_unpin(context)
    }
}

fn ticket(endpoint: &FlightEndpoint) -> Option<Ticket> {
    endpoint.ticket.clone()
}

/// The rows of one ticket: an open DoGet call.
struct Part {
    schema: SchemaRef,
    messages: Streaming<FlightData>,
    decoder: IpcDecoder,
}

impl Part {
    async fn open(connection: &Connection, ticket: Ticket) -> Result<Self> {
        let answer = connection.client().do_get(connection.request(ticket)).await;
        let mut messages = answer.map_err(|status| connection.failed(status))?.into_inner();
        let mut decoder = IpcDecoder::default();
        loop {
            match next(connection, &mut messages, &mut decoder).await? {
                Some(DecodedMessage::Schema(schema)) => {
                    return Ok(Self { schema, messages, decoder });
                }
                Some(DecodedMessage::Nothing) => {}
                Some(DecodedMessage::Rows(_)) | None => {
                    return Err(Error::protocol("the rows arrived without a schema"));
                }
            }
        }
    }

    async fn next(&mut self, connection: &Connection) -> Option<Result<RecordBatch>> {
        loop {
            match next(connection, &mut self.messages, &mut self.decoder).await.transpose()? {
                Ok(DecodedMessage::Rows(batch)) => return Some(Ok(batch)),
                Ok(_) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// Reads and decodes the next message of a DoGet call; `None` at the end.
async fn next(
    connection: &Connection,
    messages: &mut Streaming<FlightData>,
    decoder: &mut IpcDecoder,
) -> Result<Option<DecodedMessage>> {
    let message = messages.message().await.map_err(|status| connection.failed(status))?;
    let Some(FlightData { data_header, data_body, .. }) = message else { return Ok(None) };
    if data_header.is_empty() {
        return Ok(Some(DecodedMessage::Nothing));
    }
    let decoded = decoder.decode(&data_header, data_body);
    decoded.map(Some).map_err(|error| {
        Error::protocol(format!("the answer of the server cannot be read: {error}"))
    })
}
