//! Waits for futures on threads that may block. All connections to remote stores stay on one
//! runtime, which is the server's: on a runtime that runs only while a thread waits, connections
//! would stall between two waits.

use tokio::runtime::{Builder, Handle, Runtime};

use stratalog_model::{Error, Result};

/// The runtime that runs futures while a thread waits for them.
#[derive(Debug)]
pub enum BlockingPool {
    /// The Tokio runtime in which this value was created.
    Ambient(Handle),
    /// A separate runtime, owned by this value.
    Separate(Runtime),
}

impl BlockingPool {
    /// Uses the runtime of the caller, or else creates a runtime. The caller must be allowed to
    /// block.
    ///
    /// # Errors
    /// `Io` if the operating system lacks the resources for a runtime.
    pub fn new() -> Result<Self> {
        if let Ok(handle) = Handle::try_current() {
            return Ok(Self::Ambient(handle));
        }
        let runtime = Builder::new_current_thread().enable_all().build();
        runtime.map(Self::Separate).map_err(|error| Error::io("cannot wait for files", error))
    }

    /// Blocks the thread until a future completes. Call only on a thread that does not belong to
    /// the runtime.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        match self {
            Self::Ambient(handle) => handle.block_on(future),
            Self::Separate(runtime) => runtime.block_on(future),
        }
    }
}
