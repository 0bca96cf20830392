//! Limits the memory of the process: starts the thread that watches the memory use.

use std::{fs::File, os::unix::fs::FileExt as _, sync::OnceLock};

use stratalog_query::{Allowance, Process, Watch};

use crate::settings::{Settings, available_memory_bytes};

/// Assumed memory of a process without data, in bytes: its code, threads and tables.
const BASE_BYTES: u64 = 256 << 20;

/// The key of the page size in the auxiliary vector.
const AT_PAGESZ: usize = 6;

static GIVE_BACK: OnceLock<fn(bool)> = OnceLock::new();

/// Registers the function of the allocator that returns freed memory to the system
/// ([`Process::give_back`]). If no function is registered, no thread watches the memory.
pub fn gives_back(give_back: fn(bool)) {
    let _first = GIVE_BACK.set(give_back);
}

/// Starts the thread that watches the memory of the process. Only the first call in a process has
/// an effect.
pub(crate) fn watch(settings: &Settings) {
    static WATCHED: OnceLock<()> = OnceLock::new();
    let Some(give_back) = GIVE_BACK.get() else { return };
    if WATCHED.set(()).is_err() {
        return;
    }
    let process = Process { resident: resident_bytes, give_back: *give_back };
    let mut watch = Watch::new(process, allowance(settings, available_memory_bytes()));
    let thread = std::thread::Builder::new().name("memory-limit".to_string());
    let watching = thread.stack_size(256 << 10).spawn(move || {
        loop {
            std::thread::sleep(watch.look());
        }
    });
    if let Err(error) = watching {
        tracing::warn!(%error, "cannot start the thread of the memory watch");
    }
}

/// Computes the memory limits from the settings, for a machine with `available` bytes.
fn allowance(settings: &Settings, available: u64) -> Allowance {
    let statements = settings.query_memory_bytes_max.bytes(available);
    let budgets = settings
        .memory_bytes_max
        .bytes(available)
        .saturating_add(statements)
        .saturating_add(settings.story_cache_bytes_max.bytes(available))
        .saturating_add(settings.backlog_bytes_max.0);
    let most = budgets.saturating_add(budgets / 10).saturating_add(BASE_BYTES);
    let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    Allowance {
        bytes_max: bytes(most),
        hard_bytes_max: bytes(available - available / 6),
        statement_bytes: bytes(statements),
    }
}

/// The resident memory of the process in bytes; `None` if the system does not provide it.
fn resident_bytes() -> Option<usize> {
    static STATM: OnceLock<Option<File>> = OnceLock::new();
    static PAGE: OnceLock<Option<usize>> = OnceLock::new();
    let statm = STATM.get_or_init(|| File::open("/proc/self/statm").ok()).as_ref()?;
    let mut text = [0; 128];
    let length = statm.read_at(&mut text, 0).ok()?;
    let text = str::from_utf8(text.get(..length)?).ok()?;
    let pages: usize = text.split_ascii_whitespace().nth(1)?.parse().ok()?;
    let page = *PAGE.get_or_init(|| page_bytes(&std::fs::read("/proc/self/auxv").ok()?));
    pages.checked_mul(page?)
}

/// The page size in bytes, from the auxiliary vector of a process.
fn page_bytes(vector: &[u8]) -> Option<usize> {
    let mut words = vector.as_chunks::<{ size_of::<usize>() }>().0.iter();
    while let (Some(kind), Some(value)) = (words.next(), words.next()) {
        if usize::from_ne_bytes(*kind) == AT_PAGESZ {
            return Some(usize::from_ne_bytes(*value));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_has_memory() {
        let before = resident_bytes().unwrap();
        assert!(before > 1 << 20, "{before}");
        let filled = vec![1_u8; 64 << 20];
        assert!(resident_bytes().unwrap() > before + (48 << 20), "{}", filled.len());
    }

    #[test]
    fn the_limit_is_what_the_budgets_come_to() {
        let settings = Settings::default();
        let small = allowance(&settings, 2 << 30);
        assert_eq!(small.hard_bytes_max >> 20, 1_706);
        assert!(small.bytes_max > small.hard_bytes_max);
        let large = allowance(&settings, 64 << 30);
        assert!(large.bytes_max > 54 << 30 && large.hard_bytes_max >> 30 == 53);
        assert_eq!(page_bytes(&[]), None);
    }
}
