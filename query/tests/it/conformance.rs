//! The promises of the trait `Log`, kept by the log that answers late.

use std::sync::Arc;

use stratalog_journal::{Journal, JournalSettings};
use stratalog_model::Log;
use stratalog_sim::{
    FaultyDisk,
    conformance::log::{self, LogStorage},
};

use crate::slow_log::SlowLog;

#[test]
fn a_late_log_keeps_the_promises_of_a_log() {
    let fresh = || -> Box<dyn LogStorage> {
        let disk = FaultyDisk::new(1);
        Box::new(move || -> Arc<dyn Log> {
            let settings = JournalSettings {
                segment_bytes_max: 256 << 10,
                frame_bytes_max: 64 << 10,
                group_bytes_max: 64 << 10,
                free_bytes_min: 0,
                ..JournalSettings::default()
            };
            let inner = Journal::open(Arc::new(disk.clone()), "/data/journal".into(), settings);
            Arc::new(SlowLog { inner: Arc::new(inner.unwrap()), late_ms: Arc::default() })
        })
    };
    log::every_log(&fresh);
    log::log_of_files(&fresh);
}
