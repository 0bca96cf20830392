//! Threads for connections and commands.

use std::{io, time::Duration};

use stratalog_query::STACK_BYTES;
use tokio::runtime::{Builder, Runtime};

/// The time until an idle thread for blocking work ends. The allocator keeps freed memory by thread.
const IDLE_MAX: Duration = Duration::from_secs(2);

/// A runtime with a thread per core.
///
/// # Errors
/// When the system has no free thread.
pub fn runtime() -> io::Result<Runtime> {
    Builder::new_multi_thread()
        .enable_all()
        .thread_stack_size(STACK_BYTES)
        .thread_keep_alive(IDLE_MAX)
        .build()
}

/// The same runtime for a command; on failure, prints the reason and returns `None`.
pub fn of_command() -> Option<Runtime> {
    runtime().inspect_err(|error| eprintln!("ERROR:  cannot start threads: {error}")).ok()
}
