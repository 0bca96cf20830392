//! The threads that connections and commands run on.

use std::io;

use stratalog_query::STACK_BYTES;
use tokio::runtime::{Builder, Runtime};

/// A runtime with a thread per core.
///
/// # Errors
/// When the system has no thread for us.
pub fn runtime() -> io::Result<Runtime> {
    Builder::new_multi_thread().enable_all().thread_stack_size(STACK_BYTES).build()
}

/// The same for a command; `None` after saying why there is none.
pub fn of_command() -> Option<Runtime> {
    runtime().inspect_err(|error| eprintln!("ERROR:  cannot start threads: {error}")).ok()
}
