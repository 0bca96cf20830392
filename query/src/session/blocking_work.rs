//! Long work that keeps a thread busy: parsing and planning.

use std::pin::pin;

use tokio::{
    runtime::{Handle, RuntimeFlavor},
    task::block_in_place,
};

use crate::service::resident_memory::give_back_of_thread;

/// A multi-threaded runtime: another thread can take over its other tasks, and sockets.
fn runtime() -> Option<Handle> {
    let runtime = Handle::try_current().ok()?;
    (runtime.runtime_flavor() == RuntimeFlavor::MultiThread).then_some(runtime)
}

/// Runs `work` without blocking other tasks, for any duration of `work`.
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

/// Runs `future` to its end, like [`busy`].
pub async fn block_on<T>(future: impl Future<Output = T>) -> T {
    match runtime() {
        Some(runtime) => {
            let future = pin!(future);
            busy(|| runtime.block_on(future))
        }
        None => future.await,
    }
}
