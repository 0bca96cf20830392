//! Commits that continue even if the client disconnects.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use stratalog_model::{BoxFuture, Result};
use stratalog_visor_core::acquisition::UseGuard;
use tokio::runtime::Handle;

use super::Session;

/// A future that commits rows. If the future is dropped, the commit continues as a task. Until the
/// end of the commit, `uses` keep other sessions from acquiring the written chronicles exclusively.
pub struct CommitTask<T: Send + 'static> {
    work: Option<BoxFuture<'static, T>>,
    began: bool,
    uses: Vec<UseGuard>,
}

impl Session {
    /// Commits the rows written to the chronicles in use.
    ///
    /// # Errors
    /// `LeaseLost` if a lease used for the writes has run out: then nothing is committed.
    pub(crate) fn commit_task<T: Send + 'static>(
        &self,
        mut uses: Vec<UseGuard>,
        work: BoxFuture<'static, T>,
    ) -> Result<CommitTask<T>> {
        for using in &mut uses {
            let chronicle = using.chronicle();
            using.commit().map_err(|refusal| self.refusal_error(chronicle, refusal))?;
        }
        Ok(CommitTask { work: Some(work), began: false, uses })
    }
}

impl<T: Send + 'static> Future for CommitTask<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        self.began = true;
        let Some(work) = self.work.as_mut() else { return Poll::Pending };
        let done = work.as_mut().poll(context);
        if done.is_ready() {
            self.work = None;
            self.uses.clear();
        }
        done
    }
}

impl<T: Send + 'static> Drop for CommitTask<T> {
    fn drop(&mut self) {
        let (Some(work), true) = (self.work.take(), self.began) else { return };
        let uses = std::mem::take(&mut self.uses);
        // Without a runtime the process is about to end, and no session acquires anything.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                work.await;
                drop(uses);
            });
        }
    }
}
