//! `stratalog`: see the library of the same name.

use std::{
    alloc::{GlobalAlloc, Layout},
    ffi::c_long,
    process::ExitCode,
    time::Duration,
};

use libmimalloc_sys::{mi_collect, mi_option_set_default, mi_option_t};
use mimalloc::MiMalloc;
use stratalog_query::count_allocated;

/// Threads of queries and of the writer free memory allocated by other threads; the system's
/// allocator serializes such calls.
#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// mimalloc, with a count of the bytes allocated and freed by each thread: the memory watch looks
/// for the statement with the most bytes.
struct CountingAllocator;

/// The size of an allocation, at most `isize::MAX`, as a signed number.
const fn signed(bytes: usize) -> isize {
    bytes.cast_signed()
}

#[expect(unsafe_code, reason = "an allocator is unsafe; each call goes to mimalloc as it came")]
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count_allocated(signed(layout.size()));
        // SAFETY: the caller makes the same promises.
        unsafe { MiMalloc.alloc(layout) }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        count_allocated(-signed(layout.size()));
        // SAFETY: the caller makes the same promises.
        unsafe { MiMalloc.dealloc(address, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count_allocated(signed(layout.size()));
        // SAFETY: the caller makes the same promises.
        unsafe { MiMalloc.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, address: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count_allocated(signed(bytes) - signed(layout.size()));
        // SAFETY: the caller makes the same promises.
        unsafe { MiMalloc.realloc(address, layout, bytes) }
    }
}

/// `mi_option_purge_delay`; the crate has no name for the option.
const PURGE_DELAY: mi_option_t = 15;

/// Maximum time in milliseconds before freed memory is returned to the system. During ingestion,
/// the events of each second pass through as much memory as their own size. A return after each
/// second would cost as much as all other work on the events, because new memory must be zeroed
/// again.
const KEPT_MS: c_long = 20_000;

/// Interval of the checks for expired freed memory. The allocator itself checks only at an
/// allocation, and an idle server does not allocate.
const LOOKED_AT_EVERY: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    keep_freed_memory();
    stratalog::memory::gives_back(collect);
    // Without the thread, the process continues with more memory.
    let _unless_there_are_none_left = std::thread::Builder::new()
        .name("memory".to_string())
        .stack_size(64 << 10)
        .spawn(give_back_memory);
    // The system chose the stack size of the first thread, and commands plan queries on the stack.
    let command = std::thread::Builder::new()
        .name("main".to_string())
        .stack_size(stratalog_query::STACK_BYTES)
        .spawn(stratalog::cli::run);
    match command {
        Ok(command) => command.join().unwrap_or(ExitCode::FAILURE),
        Err(error) => {
            eprintln!("ERROR:  cannot start a thread: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The environment variable `MIMALLOC_PURGE_DELAY` has the same meaning, and takes precedence.
fn keep_freed_memory() {
    #[expect(unsafe_code, reason = "a C function that sets a number, while there is one thread")]
    unsafe {
        mi_option_set_default(PURGE_DELAY, KEPT_MS);
    }
}

/// Returns expired freed memory to the system, in an endless loop.
fn give_back_memory() {
    loop {
        std::thread::sleep(LOOKED_AT_EVERY);
        collect(false);
    }
}

/// Returns freed memory of all threads to the system, or only the thread's own memory and expired
/// memory.
fn collect(all: bool) {
    #[expect(unsafe_code, reason = "a C function of the allocator, for any thread at any time")]
    unsafe {
        mi_collect(all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_is_that_of_the_delay() {
        #[expect(unsafe_code, reason = "a C function that reads a number")]
        let delay = || unsafe { libmimalloc_sys::mi_option_get(PURGE_DELAY) };
        let said = std::env::var("MIMALLOC_PURGE_DELAY").ok().and_then(|text| text.parse().ok());
        // Before: the default of mimalloc 3.
        assert_eq!(delay(), said.unwrap_or(1_000));
        keep_freed_memory();
        assert_eq!(delay(), said.unwrap_or(KEPT_MS));
    }
}
