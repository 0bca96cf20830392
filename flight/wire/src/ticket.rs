//! Sealed tickets: Flight tickets that clients cannot forge. A ticket is bound to a login, and is
//! valid for a limited time.

use arrow_flight::{
    Ticket,
    sql::{Any, Command, ProstMessageExt as _, TicketStatementQuery},
};
use prost::Message;
use stratalog_model::{Error, ErrorKind, Result};

use crate::seal::Seal;

/// The purpose that is passed to [`Seal::seal`] for tickets.
pub const TICKET: &str = "ticket";

/// The content of a ticket: the work that DoGet does for a client with the ticket.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SealedTicket {
    /// The id of the login that may redeem the ticket.
    #[prost(bytes = "vec", tag = "1")]
    pub caller: Vec<u8>,
    /// Expiry time in nanoseconds since 1970.
    #[prost(sfixed64, tag = "2")]
    pub expires_ns: i64,
    /// The work to do.
    #[prost(oneof = "TicketWork", tags = "3, 4, 5, 6")]
    pub work: Option<TicketWork>,
}

/// The work that DoGet does for a ticket.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum TicketWork {
    /// Run a statement.
    #[prost(message, tag = "3")]
    Statement(StatementWork),
    /// Run a prepared statement with its bound parameters.
    #[prost(message, tag = "4")]
    Prepared(PreparedWork),
    /// Return a part of a result that several tickets share. The number identifies the ticket.
    #[prost(uint64, tag = "5")]
    Part(u64),
    /// Answer a metadata command of Flight SQL, which is encoded in the bytes.
    #[prost(bytes, tag = "6")]
    Metadata(Vec<u8>),
}

/// A statement to run.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StatementWork {
    /// The SQL text.
    #[prost(string, tag = "1")]
    pub sql: String,
    /// The id of the transaction; `None` outside of transactions.
    #[prost(bytes = "vec", optional, tag = "2")]
    pub transaction: Option<Vec<u8>>,
    /// The number by which a client can cancel the work.
    #[prost(uint64, tag = "3")]
    pub number: u64,
}

/// A prepared statement to run.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PreparedWork {
    /// The handle of the prepared statement.
    #[prost(bytes = "vec", tag = "1")]
    pub handle: Vec<u8>,
    /// The number by which a client can cancel the work.
    #[prost(uint64, tag = "2")]
    pub number: u64,
}

impl SealedTicket {
    /// Encodes and seals the ticket.
    pub fn into_ticket(self, seal: &Seal) -> Ticket {
        let sealed = seal.seal(TICKET, self.encode_to_vec());
        let query = TicketStatementQuery { statement_handle: sealed.into() };
        Ticket { ticket: query.as_any().encode_to_vec().into() }
    }

    /// Checks and decodes a ticket that this process has sealed for the login `caller`.
    ///
    /// # Errors
    /// `ProtocolViolation` for a ticket that does not come from GetFlightInfo;
    /// `InvalidAuthorization` for a ticket that is forged, expired, or of another caller.
    pub fn open(ticket: &[u8], seal: &Seal, caller: &[u8], now_ns: i64) -> Result<TicketWork> {
        let command = Any::decode(ticket).ok().and_then(|any| Command::try_from(any).ok());
        let handle = match command {
            Some(Command::TicketStatementQuery(query)) => query.statement_handle,
            Some(other) => {
                return Err(Error::new(
                    ErrorKind::ProtocolViolation,
                    format!("{} is not a ticket: GetFlightInfo returns tickets", other.type_url()),
                ));
            }
            None => {
                return Err(Error::new(
                    ErrorKind::ProtocolViolation,
                    "the ticket is neither from GetFlightInfo nor a query in JSON",
                ));
            }
        };
        let refused = |message: &str| {
            Error::new(ErrorKind::InvalidAuthorization, message)
                .with_hint("call GetFlightInfo again, and use its tickets in the same session")
        };
        let text = seal.open(TICKET, &handle).ok_or_else(|| {
            refused("the ticket is not from this server: forged, or issued before the last start")
        })?;
        let sealed = Self::decode(text).map_err(|_| refused("the ticket cannot be read"))?;
        if sealed.caller != caller {
            return Err(refused("the ticket was given to another session"));
        }
        if now_ns >= sealed.expires_ns {
            return Err(refused("the ticket has expired"));
        }
        sealed.work.ok_or_else(|| refused("the ticket is empty"))
    }
}

#[cfg(test)]
mod tests;
