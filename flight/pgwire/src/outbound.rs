//! The output buffer of a connection.

use std::sync::Arc;

use arrow::datatypes::{Field, Schema};
use bytes::{Bytes, BytesMut};
use pgwire::messages::{
    Message,
    copy::{CopyInResponse, CopyOutResponse},
    data::{FieldDescription, NoData, ParameterDescription, RowDescription},
    extendedquery::{BindComplete, CloseComplete, ParseComplete, PortalSuspended},
    response::{
        CommandComplete, EmptyQueryResponse, ErrorResponse, NoticeResponse, ReadyForQuery,
        TransactionStatus,
    },
    startup::{
        Authentication, BackendKeyData, NegotiateProtocolVersion, ParameterStatus, SecretKey,
    },
};
use stratalog_model::{Error, Result, types::ORIGIN_METADATA};
use stratalog_query::{
    CACHED_PLAN_CHANGED, CancelKey, Notice, Share, ShareReservation, TransactionState,
};

use crate::types::field_type;

/// The overhead of a row is 1/64 of the bytes of its values.
const ROW_OVERHEAD_PARTS: usize = 64;

/// The effect of an error on the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Severity {
    /// The statement failed; the connection continues.
    Error,
    /// The connection ends.
    Fatal,
}

/// The output to a client that is not yet sent.
#[derive(Debug, Default)]
pub(crate) struct OutboundBuffer {
    /// Encoded messages. Rows are encoded directly into this buffer.
    pub(crate) bytes: Vec<u8>,
    scratch: BytesMut,
    /// The memory reservation for long rows, until the rows are sent.
    charge: Option<ShareReservation>,
}

impl OutboundBuffer {
    fn put(&mut self, message: &impl Message) -> Result<()> {
        self.scratch.clear();
        message
            .encode(&mut self.scratch)
            .map_err(|error| Error::internal(format!("a message cannot be encoded: {error}")))?;
        self.bytes.extend_from_slice(&self.scratch);
        Ok(())
    }

    /// Clears the buffer after its bytes were sent. Shrinks it to about `bytes` bytes, so that the
    /// memory of one large message does not stay allocated.
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.charge = None;
        self.bytes.clear();
        self.bytes.shrink_to(bytes.saturating_mul(4));
        if self.scratch.capacity() > bytes {
            self.scratch = BytesMut::new();
        }
    }

    /// Reserves memory for a row whose long values have `bytes` bytes. For 0 bytes, does nothing.
    pub(crate) fn make_room(&mut self, bytes: usize, share: &Arc<Share>) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let bytes = bytes.saturating_add(bytes / ROW_OVERHEAD_PARTS);
        let whole = self.bytes.len().saturating_add(bytes);
        match &mut self.charge {
            Some(charge) => charge.resize(whole)?,
            None => self.charge = Some(share.hold(whole)?),
        }
        // Reserves the exact size, because a growing buffer doubles its capacity.
        self.bytes.reserve_exact(bytes);
        Ok(())
    }

    /// Frees all buffers. The caller has sent all output before.
    pub(crate) fn rest(&mut self) {
        *self = Self::default();
    }

    /// Begins a message of type `kind`. The caller then appends the body to `bytes`, and passes the
    /// returned position to [`Self::end`].
    pub(crate) fn begin(&mut self, kind: u8) -> usize {
        self.bytes.push(kind);
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        start
    }

    /// Ends the message that [`Self::begin`] began at `start`: writes its length.
    pub(crate) fn end(&mut self, start: usize) -> Result<()> {
        let length =
            i32::try_from(self.bytes.len().saturating_sub(start)).map_err(|_| row_too_large())?;
        patch(&mut self.bytes, start, length);
        Ok(())
    }

    /// Removes the message that [`Self::begin`] began at `start`, and all later bytes.
    pub(crate) fn remove_message(&mut self, start: usize) {
        self.bytes.truncate(start.saturating_sub(1));
    }

    pub(crate) fn authentication_ok(&mut self) -> Result<()> {
        self.put(&Authentication::Ok)
    }

    pub(crate) fn authentication_sasl(&mut self, mechanisms: Vec<String>) -> Result<()> {
        self.put(&Authentication::SASL(mechanisms))
    }

    pub(crate) fn authentication_continue(&mut self, message: Bytes) -> Result<()> {
        self.put(&Authentication::SASLContinue(message))
    }

    pub(crate) fn authentication_final(&mut self, message: Bytes) -> Result<()> {
        self.put(&Authentication::SASLFinal(message))
    }

    pub(crate) fn parameter_status(&mut self, name: &str, value: &str) -> Result<()> {
        self.put(&ParameterStatus::new(without_nul(name), without_nul(value)))
    }

    pub(crate) fn backend_key(&mut self, key: &CancelKey) -> Result<()> {
        let secret = SecretKey::Bytes(Bytes::copy_from_slice(&key.secret));
        self.put(&BackendKeyData::new(key.process_id, secret))
    }

    pub(crate) fn negotiate(&mut self, newest_minor: i32, unknown: Vec<String>) -> Result<()> {
        self.put(&NegotiateProtocolVersion::new(newest_minor, unknown))
    }

    pub(crate) fn ready(&mut self, state: TransactionState) -> Result<()> {
        self.put(&ReadyForQuery::new(match state {
            TransactionState::Idle => TransactionStatus::Idle,
            TransactionState::Block => TransactionStatus::Transaction,
            TransactionState::Failed => TransactionStatus::Error,
        }))
    }

    pub(crate) fn complete(&mut self, tag: &str) -> Result<()> {
        self.put(&CommandComplete::new(without_nul(tag)))
    }

    pub(crate) fn empty_query(&mut self) -> Result<()> {
        self.put(&EmptyQueryResponse::new())
    }

    pub(crate) fn parse_complete(&mut self) -> Result<()> {
        self.put(&ParseComplete::new())
    }

    pub(crate) fn bind_complete(&mut self) -> Result<()> {
        self.put(&BindComplete::new())
    }

    pub(crate) fn close_complete(&mut self) -> Result<()> {
        self.put(&CloseComplete::new())
    }

    pub(crate) fn no_data(&mut self) -> Result<()> {
        self.put(&NoData::new())
    }

    pub(crate) fn suspended(&mut self) -> Result<()> {
        self.put(&PortalSuspended::new())
    }

    pub(crate) fn parameter_description(&mut self, types: Vec<u32>) -> Result<()> {
        self.put(&ParameterDescription::new(types))
    }

    /// Writes RowDescription. `format_of` returns the format code for the index of a column.
    pub(crate) fn row_description(
        &mut self,
        schema: &Schema,
        format_of: impl Fn(usize) -> i16,
    ) -> Result<()> {
        let fields = schema.fields().iter().enumerate().map(|(at, field)| {
            let wire = field_type(field);
            let (table, column) = origin(field);
            FieldDescription::new(
                without_nul(field.name()),
                table,
                column,
                wire.oid,
                wire.size,
                wire.modifier,
                format_of(at),
            )
        });
        self.put(&RowDescription::new(fields.collect()))
    }

    pub(crate) fn copy_in(&mut self, columns: usize, binary: bool) -> Result<()> {
        let format = i16::from(binary);
        let count = i16::try_from(columns).unwrap_or(i16::MAX);
        let formats = vec![format; columns];
        self.put(&CopyInResponse::new(i8::from(binary), count, formats))
    }

    pub(crate) fn copy_out(&mut self, columns: usize, binary: bool) -> Result<()> {
        let format = i16::from(binary);
        let count = i16::try_from(columns).unwrap_or(i16::MAX);
        let formats = vec![format; columns];
        self.put(&CopyOutResponse::new(i8::from(binary), count, formats))
    }

    pub(crate) fn copy_data(&mut self, data: &[u8]) -> Result<()> {
        let start = self.begin(b'd');
        self.bytes.extend_from_slice(data);
        self.end(start)
    }

    pub(crate) fn copy_done(&mut self) {
        self.bytes.extend_from_slice(&[b'c', 0, 0, 0, 4]);
    }

    pub(crate) fn error(&mut self, severity: Severity, error: &Error) -> Result<()> {
        let severity = match severity {
            Severity::Error => "ERROR",
            Severity::Fatal => "FATAL",
        };
        let mut fields = vec![
            (b'S', severity.to_string()),
            (b'V', severity.to_string()),
            (b'C', error.kind().sqlstate().to_string()),
            (b'M', without_nul(error.message())),
        ];
        let mut add = |kind: u8, text: Option<&str>| {
            if let Some(text) = text {
                fields.push((kind, without_nul(text)));
            }
        };
        add(b'D', error.detail());
        add(b'H', error.hint());
        add(b'W', error.context());
        let subject = error.subject();
        add(b's', subject.schema.as_deref());
        add(b't', subject.table.as_deref());
        add(b'c', subject.column.as_deref());
        add(b'n', subject.constraint.as_deref());
        add(b'P', error.position().map(|at| at.to_string()).as_deref());
        // Drivers such as pgjdbc with autosave recognize the error by this field, and prepare the
        // statement again.
        if error.message() == CACHED_PLAN_CHANGED {
            add(b'R', Some("RevalidateCachedQuery"));
        }
        self.put(&ErrorResponse::new(fields))
    }

    pub(crate) fn notice(&mut self, notice: &Notice) -> Result<()> {
        let mut fields = vec![
            (b'S', notice.severity.to_string()),
            (b'V', notice.severity.to_string()),
            (b'C', notice.sqlstate.to_string()),
            (b'M', without_nul(&notice.message)),
        ];
        for (kind, text) in [(b'D', &notice.detail), (b'H', &notice.hint)] {
            if let Some(text) = text {
                fields.push((kind, without_nul(text)));
            }
        }
        self.put(&NoticeResponse::new(fields))
    }
}

/// The object id of the table, and the number of the column, from which a result field comes. Both
/// are 0 for a computed field.
fn origin(field: &Field) -> (i32, i16) {
    let origin = field.metadata().get(ORIGIN_METADATA).and_then(|origin| origin.split_once('.'));
    let parsed = origin.and_then(|(table, column)| {
        // An object id is unsigned, and the protocol's field is signed: the bits stay the same.
        let table: u32 = table.parse().ok()?;
        Some((table.cast_signed(), column.parse().ok()?))
    });
    parsed.unwrap_or_default()
}

/// Overwrites the four bytes at `start` with `length`.
pub(crate) fn patch(bytes: &mut [u8], start: usize, length: i32) {
    if let Some(place) = bytes.get_mut(start..start + 4) {
        place.copy_from_slice(&length.to_be_bytes());
    }
}

pub(crate) fn row_too_large() -> Error {
    Error::new(
        stratalog_model::ErrorKind::LimitExceeded,
        "a row is larger than 2 GB, the maximum of one message",
    )
}

/// Replaces zero bytes by spaces, because a zero byte ends a string of the protocol.
fn without_nul(text: &str) -> String {
    text.replace('\0', " ")
}
