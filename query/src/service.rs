//! The service that protocols call.
