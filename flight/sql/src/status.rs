//! Converts errors to gRPC statuses.

use stratalog_model::{Error, ErrorKind};
use tonic::{Code, Status, metadata::MetadataValue};

/// The metadata key of the SQLSTATE; every status of this crate has this key.
pub(crate) const SQLSTATE: &str = "sqlstate";

/// Maximum bytes of a status message, because gRPC sends it in a header.
const MESSAGE_BYTES_MAX: usize = 4096;

/// Converts an error to the gRPC status for the client.
pub(crate) fn status(error: &Error) -> Status {
    if error.kind() == ErrorKind::Internal {
        tracing::error!(%error, "a call failed because of a defect of the server");
    }
    let mut text = error.to_string();
    if text.len() > MESSAGE_BYTES_MAX {
        text.truncate(text.floor_char_boundary(MESSAGE_BYTES_MAX));
        text.push('…');
    }
    let mut status = Status::new(Code::from(error.kind().status().grpc()), text);
    if let Ok(sqlstate) = MetadataValue::try_from(error.kind().sqlstate()) {
        status.metadata_mut().insert(SQLSTATE, sqlstate);
    }
    status
}

/// Converts an error as [`status`] does, but takes the error by value, for use with `map_err`.
pub(crate) fn refused(error: Error) -> Status {
    status(&error)
}

/// The status for a message that violates Flight's protocol.
pub(crate) fn malformed(what: impl Into<String>) -> Status {
    status(&Error::new(ErrorKind::ProtocolViolation, what))
}
