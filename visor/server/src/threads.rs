//! The threads that connections and commands run on.

use std::io;

use tokio::runtime::{Builder, Runtime};

/// Bytes of a thread's stack: planning goes down an expression level by level, and the
/// longest chain of ORs that the parser lets through takes a quarter of it.
const STACK_BYTES: usize = 8 << 20;

/// A runtime with a thread per core.
///
/// # Errors
/// When the system has no thread for us.
pub fn runtime() -> io::Result<Runtime> {
    Builder::new_multi_thread().enable_all().thread_stack_size(STACK_BYTES).build()
}
