//! Python exceptions for the errors of the client.

use pyo3::{create_exception, exceptions::PyException, prelude::*};
use stratalog_client::ErrorKind;

create_exception!(
    stratalog,
    Error,
    PyException,
    "A failure, with its place and a remedy.\n\n\
     Attributes: `sqlstate`, five characters if the server refused the request, else None; `hint`, a remedy\n\
     or None; `retryable`, whether the same request may succeed later; `needs_new_time`, whether the server refused\n\
     the tick of an event."
);
create_exception!(
    stratalog,
    ConnectionFailed,
    Error,
    "The server cannot be reached, refused the login, or took too long."
);
create_exception!(
    stratalog,
    Refused,
    Error,
    "The server refused a statement or an event: `sqlstate` has the reason."
);
create_exception!(stratalog, Closed, Error, "A released or expired acquisition cannot be used.");
create_exception!(stratalog, Invalid, Error, "An argument, an option or a URL is not valid.");

/// Adds the exception classes to the module.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let error = py.get_type::<Error>();
    // An error that does not come from the server has no SQLSTATE.
    error.setattr("sqlstate", py.None())?;
    error.setattr("hint", py.None())?;
    error.setattr("retryable", false)?;
    error.setattr("needs_new_time", false)?;
    module.add("Error", error)?;
    module.add("ConnectionFailed", py.get_type::<ConnectionFailed>())?;
    module.add("Refused", py.get_type::<Refused>())?;
    module.add("Closed", py.get_type::<Closed>())?;
    module.add("Invalid", py.get_type::<Invalid>())
}

/// Converts an error of the client to a Python exception.
pub fn raised(py: Python<'_>, error: stratalog_client::Error) -> PyErr {
    let text = error.to_string();
    let exception = match error.kind() {
        ErrorKind::Connection | ErrorKind::Timeout | ErrorKind::Login => {
            ConnectionFailed::new_err(text)
        }
        ErrorKind::Sql { .. } | ErrorKind::InvalidBatch => Refused::new_err(text),
        ErrorKind::Closed => Closed::new_err(text),
        ErrorKind::InvalidOption => Invalid::new_err(text),
        _ => Error::new_err(text),
    };
    let value = exception.value(py);
    let converted = value
        .setattr("sqlstate", error.sqlstate())
        .and_then(|()| value.setattr("hint", error.hint()))
        .and_then(|()| value.setattr("retryable", error.is_retryable()))
        .and_then(|()| value.setattr("needs_new_time", error.needs_new_time()));
    converted.err().unwrap_or(exception)
}
