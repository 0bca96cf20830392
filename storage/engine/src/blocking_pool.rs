//! Waits on threads allowed to block. Connections to remote stores stay on one runtime, the
//! server's: on another runtime a connection would stand still whenever no thread waits.

use tokio::runtime::{Builder, Handle, Runtime};

use stratalog_model::{Error, Result};

/// The runtime for futures awaited by a thread.
#[derive(Debug)]
pub enum BlockingPool {
    /// The runtime of the creator.
    Ambient(Handle),
    /// A separate runtime.
    Separate(Runtime),
}

impl BlockingPool {
    /// The runtime around the caller, or a new runtime. The caller must be allowed to block.
    ///
    /// # Errors
    /// `Io` when the system lacks the resources for a runtime.
    pub fn new() -> Result<Self> {
        if let Ok(handle) = Handle::try_current() {
            return Ok(Self::Ambient(handle));
        }
        let runtime = Builder::new_current_thread().enable_all().build();
        runtime.map(Self::Separate).map_err(|error| Error::io("cannot wait for files", error))
    }

    /// Waits for a future. Only on a thread outside the runtime.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        match self {
            Self::Ambient(handle) => handle.block_on(future),
            Self::Separate(runtime) => runtime.block_on(future),
        }
    }
}
