//! Runs long computations that block a thread: parsing and planning.

use std::pin::pin;

use tokio::{
    runtime::{Handle, RuntimeFlavor},
    task::block_in_place,
};

use crate::service::resident_memory::give_back_of_thread;

/// The current runtime, if multi-threaded: another thread can then take over the other tasks and
/// the sockets of this thread.
fn runtime() -> Option<Handle> {
    let runtime = Handle::try_current().ok()?;
    (runtime.runtime_flavor() == RuntimeFlavor::MultiThread).then_some(runtime)
}

/// Runs `work`, which may take long, without blocking other tasks.
pub fn busy<T>(work: impl FnOnce() -> T) -> T {
    match runtime() {
        Some(_) => block_in_place(|| {
            let result = work();
            give_back_of_thread();
            result
        }),
        None => work(),
    }
}

/// Runs `future` to its end on this thread, like [`busy`], without blocking other tasks.
pub async fn block_on<T>(future: impl Future<Output = T>) -> T {
    match runtime() {
        Some(runtime) => {
            let future = pin!(future);
            busy(|| runtime.block_on(future))
        }
        None => future.await,
    }
}
