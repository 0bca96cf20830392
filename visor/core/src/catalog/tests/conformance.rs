use std::sync::Arc;

use stratalog_model::Log;
use stratalog_sim::conformance::log::{self, LogStorage};

use super::memory_log::MemoryLog;

#[test]
fn the_log_in_memory_keeps_the_promises_of_a_log() {
    log::every_log(&|| -> Box<dyn LogStorage> {
        let storage = MemoryLog::default();
        Box::new(move || -> Arc<dyn Log> { Arc::new(storage.reopened()) })
    });
}
