//! The error for texts of clients that are not valid UTF-8, the only client encoding.

use stratalog_model::{Error, ErrorKind};

/// The error for bytes that are not UTF-8, or that contain a zero byte.
pub(crate) fn invalid_encoding(bytes: &[u8]) -> Error {
    let at = match std::str::from_utf8(bytes) {
        Ok(_) => 0,
        Err(error) => error.valid_up_to(),
    };
    let excerpt: Vec<String> =
        bytes.iter().skip(at).take(4).map(|byte| format!("0x{byte:02x}")).collect();
    Error::new(
        ErrorKind::InvalidEncoding,
        format!("invalid byte sequence for encoding \"UTF8\": {}", excerpt.join(" ")),
    )
}
