//! Errors as gRPC tells them.

use stratalog_model::{Error, ErrorKind};
use tonic::{Code, Status, metadata::MetadataValue};

/// The SQLSTATE goes with every error, under this name.
pub(crate) const SQLSTATE: &str = "sqlstate";

/// Longest text of a status, in bytes: it travels in a header.
const MESSAGE_BYTES_MAX: usize = 4096;

/// What the caller is told.
pub(crate) fn status(error: &Error) -> Status {
    if error.kind() == ErrorKind::Internal {
        tracing::error!(%error, "a call failed by a defect");
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

/// As [`status`], of an error that is not needed any more.
pub(crate) fn refused(error: Error) -> Status {
    status(&error)
}

/// A message that Flight does not allow.
pub(crate) fn malformed(what: impl Into<String>) -> Status {
    status(&Error::new(ErrorKind::ProtocolViolation, what))
}
