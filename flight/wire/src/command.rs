//! Decodes the commands of descriptors and tickets, and the bodies of actions.

use arrow_flight::sql::{Any, Command, ProstMessageExt};
use prost::Message;
use stratalog_model::{Error, ErrorKind, Result};

/// Decodes the command of a descriptor.
///
/// # Errors
/// `ProtocolViolation` for bytes that are not a command of Flight SQL.
pub fn command_of(command: &[u8]) -> Result<Command> {
    let any = Any::decode(command).map_err(|error| {
        violation(format!("the command is not a command of Flight SQL: {error}"))
    })?;
    Command::try_from(any).map_err(|error| violation(format!("the command is damaged: {error}")))
}

/// Decodes the body of an action that Flight SQL packs into an `Any` message.
///
/// # Errors
/// `ProtocolViolation` for bytes that are not a message of type `T`.
pub fn packed<T: ProstMessageExt>(body: &[u8]) -> Result<T> {
    let any = Any::decode(body).map_err(|error| damaged(T::type_url(), &error.to_string()))?;
    let unpacked = any.unpack::<T>().map_err(|error| damaged(T::type_url(), &error.to_string()))?;
    unpacked
        .ok_or_else(|| violation(format!("the body is {}, not {}", any.type_url, T::type_url())))
}

/// Decodes the body of an action that is not packed into an `Any` message.
///
/// # Errors
/// `ProtocolViolation` for bytes that are not a message of type `T`.
pub fn plain<T: Message + Default>(body: &[u8]) -> Result<T> {
    T::decode(body).map_err(|error| damaged("body", &error.to_string()))
}

fn damaged(what: &str, error: &str) -> Error {
    violation(format!("the {what} of the action cannot be read: {error}"))
}

fn violation(what: String) -> Error {
    Error::new(ErrorKind::ProtocolViolation, what)
}
