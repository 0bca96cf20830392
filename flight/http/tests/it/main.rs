//! The service over real sockets.
