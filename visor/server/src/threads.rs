//! The threads that serve connections and commands.

use std::{io, time::Duration};

use stratalog_query::STACK_BYTES;
use tokio::runtime::{Builder, Runtime};

/// An idle thread for blocking work ends after this time, because the allocator keeps freed memory
/// for each thread.
const IDLE_MAX: Duration = Duration::from_secs(2);

/// Makes a tokio runtime with one thread per core.
///
/// # Errors
/// The system has no free thread.
pub fn runtime() -> io::Result<Runtime> {
    Builder::new_multi_thread()
        .enable_all()
        .thread_stack_size(STACK_BYTES)
        .thread_keep_alive(IDLE_MAX)
        .build()
}

/// Makes a runtime for a command. If this fails, prints the reason and returns `None`.
pub fn of_command() -> Option<Runtime> {
    runtime().inspect_err(|error| eprintln!("ERROR:  cannot start threads: {error}")).ok()
}
