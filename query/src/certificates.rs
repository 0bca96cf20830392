//! The interface through which CALL and the metrics reach the server's TLS certificate.

use std::fmt;

use stratalog_model::{BoxFuture, Result};

/// The TLS certificate of the server.
pub trait Certificates: Send + Sync + fmt::Debug {
    /// Reads the certificate files again. New connections use the new certificate; running
    /// connections go on. If a file is broken, the server keeps the old certificate.
    ///
    /// # Errors
    /// `ConfigFileError` that names the file and the problem; `ObjectNotInPrerequisiteState` for a
    /// server without a certificate.
    fn reload(&self) -> BoxFuture<'_, Result<()>>;

    /// The end of the certificate's validity, in nanoseconds since 1970; `None` for a server
    /// without a certificate.
    fn expires_ns(&self) -> Option<i64>;
}
