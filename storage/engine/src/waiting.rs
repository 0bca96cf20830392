//! Waiting on threads that may block. What keeps connections open to far places does so on one
//! runtime, that of the server: on another they would stand still while nobody waits there.

use tokio::runtime::{Builder, Handle, Runtime};

use stratalog_model::{Error, Result};

/// Where futures run that a thread waits for.
#[derive(Debug)]
pub enum Waiting {
    /// On the runtime of whoever made this.
    Theirs(Handle),
    /// On one of its own.
    Own(Runtime),
}

impl Waiting {
    /// The runtime around the caller, or a new one. The caller must be allowed to block.
    ///
    /// # Errors
    /// `Io` when the system has nothing for a runtime.
    pub fn new() -> Result<Self> {
        if let Ok(handle) = Handle::try_current() {
            return Ok(Self::Theirs(handle));
        }
        let runtime = Builder::new_current_thread().enable_all().build();
        runtime.map(Self::Own).map_err(|error| Error::io("cannot wait for files", error))
    }

    /// Waits. Only on a thread that is not one of the runtime's own.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        match self {
            Self::Theirs(handle) => handle.block_on(future),
            Self::Own(runtime) => runtime.block_on(future),
        }
    }
}
