//! Checks the files of a running server, for `CALL stratalog.check()`.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use futures::future::BoxFuture;
use stratalog_engine::{
    Engine,
    check::{Line, Report, Severity},
};
use stratalog_journal::Scope;
use stratalog_model::{Disk, Error, ErrorKind, Log, Lsn, Result};
use stratalog_query::{InspectionResult, Inspector};
use stratalog_visor_core::Catalog;

use super::parts::{Folders, Parts, definitions};
use crate::directory::DataDirectory;

/// The parts of the database that the check reads. Only one check runs at a time.
#[derive(Debug, Clone)]
pub(crate) struct Online {
    disk: Arc<dyn Disk>,
    folders: Folders,
    engine: Arc<Engine>,
    catalog: Arc<Catalog>,
    /// The journals of the catalog, the manifest and the events.
    logs: [Arc<dyn Log>; 3],
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl Online {
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        directory: &DataDirectory,
        engine: Arc<Engine>,
        catalog: Arc<Catalog>,
        logs: [Arc<dyn Log>; 3],
    ) -> Self {
        let folders = Folders::of(directory);
        Self { disk, folders, engine, catalog, logs, turn: Arc::default() }
    }

    fn report(&self, stopped: &AtomicBool) -> Result<Report> {
        let mut progress = |_: u64| match stopped.load(Ordering::Relaxed) {
            true => Err(Error::new(ErrorKind::QueryCanceled, "the check was cancelled")),
            false => Ok(()),
        };
        let mut parts = Parts {
            disk: Arc::clone(&self.disk),
            folders: self.folders.clone(),
            progress: &mut progress,
            report: Report::default(),
        };
        let [commands, edits, events] = &self.logs;
        let durable = |log: &Arc<dyn Log>, from: Lsn| Scope::Durable(from, log.status().durable);
        parts.format(None);
        parts.clock();
        parts.catalog(durable(commands, Lsn(1)))?;
        let from = edits.status().first;
        if let Some(manifest) = parts.manifest(durable(edits, from))? {
            manifest.finish()?;
        }
        // Read the visible state before the end of the journal is read, so that the journal
        // contains everything that the state contains.
        let subject = self.engine.subject(definitions(self.catalog.state()))?;
        parts.events(&subject, durable(events, subject.floor().max(Lsn(1))))?;
        Ok(parts.report)
    }
}

impl Inspector for Online {
    fn inspect(&self) -> BoxFuture<'static, Result<Vec<InspectionResult>>> {
        let online = self.clone();
        Box::pin(async move {
            let _turn = Arc::clone(&online.turn).lock_owned().await;
            let stopped = Arc::new(AtomicBool::new(false));
            let _stop = StopOnDrop(Arc::clone(&stopped));
            let looking = tokio::task::spawn_blocking(move || online.report(&stopped));
            let report = looking
                .await
                .map_err(|error| Error::internal(format!("the check failed: {error}")))??;
            let unlisted = report.unlisted;
            let mut rows: Vec<InspectionResult> = report.lines.into_iter().map(row).collect();
            if unlisted > 0 {
                rows.push(InspectionResult {
                    part: "files".to_string(),
                    state: Severity::Damaged.to_string(),
                    detail: format!("{unlisted} more findings are not listed"),
                    ..InspectionResult::default()
                });
            }
            Ok(rows)
        })
    }
}

/// Ends the check when dropped: the caller no longer waits for the result.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn row(line: Line) -> InspectionResult {
    let detail = match line.hint {
        Some(hint) => format!("{}; {hint}", line.detail),
        None => line.detail,
    };
    InspectionResult {
        part: line.part.to_string(),
        path: line.path,
        table_name: line.table,
        rows: line.rows,
        bytes: line.bytes,
        state: line.state.to_string(),
        detail,
    }
}
