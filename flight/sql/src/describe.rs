//! Encodes schemas, and the answers to GetFlightInfo.

use std::sync::Arc;

use arrow::{
    datatypes::{Schema, SchemaRef},
    ipc::writer::IpcWriteOptions,
};
use arrow_flight::{FlightDescriptor, FlightEndpoint, FlightInfo, IpcMessage, SchemaAsIpc, Ticket};
use bytes::Bytes;
use stratalog_flight_wire::{Seal, SealedTicket, TicketWork};
use stratalog_model::{Error, Result};

use crate::caller::Caller;

/// Encodes a schema as an IPC message.
///
/// # Errors
/// `Internal` for a type that IPC does not support.
pub(crate) fn schema_bytes(schema: &Schema) -> Result<Bytes> {
    let message: IpcMessage =
        SchemaAsIpc::new(schema, &IpcWriteOptions::default()).try_into().map_err(Error::from)?;
    Ok(message.0)
}

/// The answer to GetFlightInfo. Each element of `work` becomes a ticket. Only the same login can
/// redeem the ticket, and only within a limited time.
///
/// # Errors
/// The errors of [`schema_bytes`].
pub(crate) fn info(
    caller: &Arc<Caller>,
    seal: &Seal,
    schema: &SchemaRef,
    work_items: Vec<TicketWork>,
    ordered: bool,
    descriptor: FlightDescriptor,
) -> Result<FlightInfo> {
    let endpoints = work_items
        .into_iter()
        .map(|work| FlightEndpoint::new().with_ticket(ticket(caller, seal, work)));
    Ok(FlightInfo {
        schema: schema_bytes(schema)?,
        flight_descriptor: Some(descriptor),
        endpoint: endpoints.collect(),
        total_records: -1,
        total_bytes: -1,
        ordered,
        app_metadata: Bytes::new(),
    })
}

/// Creates a ticket for `work`, protected by `seal` against forgery.
pub(crate) fn ticket(caller: &Arc<Caller>, seal: &Seal, work: TicketWork) -> Ticket {
    let lasts_ns = i64::try_from(caller.settings.ticket_ms_max.saturating_mul(1_000_000));
    let sealed = SealedTicket {
        caller: caller.id().into_bytes().to_vec(),
        expires_ns: caller.now_ns().saturating_add(lasts_ns.unwrap_or(i64::MAX)),
        work: Some(work),
    };
    sealed.into_ticket(seal)
}
