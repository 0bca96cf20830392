//! The program `stratalog`; the library of this crate contains the code of the commands.

use std::{
    alloc::{GlobalAlloc, Layout},
    ffi::c_long,
    process::ExitCode,
    time::Duration,
};

use libmimalloc_sys::{mi_collect, mi_option_set_default, mi_option_t};
use mimalloc::MiMalloc;
use stratalog_query::count_allocated;

/// mimalloc, because threads often free memory of another thread; the system's allocator would
/// serialize these calls.
#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// mimalloc, plus a count of the bytes that each thread allocates and frees. With this count, the
/// memory watch finds the statement that uses the most memory.
struct CountingAllocator;

/// The size of an allocation as a signed number; larger sizes become `isize::MAX`.
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

/// The number of the option `mi_option_purge_delay`, for which the crate has no name.
const PURGE_DELAY: mi_option_t = 15;

/// Freed memory returns to the system after this number of milliseconds. The events of a second
/// pass through temporary memory of about the size of the events. If this memory returned to the
/// system after each second, the system would have to zero it again and again, which costs as much
/// as all other work of ingestion.
const PURGE_DELAY_MS: c_long = 20_000;

/// How often freed memory is returned to the system. The allocator itself returns memory only when
/// a thread allocates, and the threads of an idle server do not allocate.
const PURGE_INTERVAL: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    set_purge_delay();
    stratalog::memory::gives_back(collect);
    // If the thread cannot be started, the process only keeps more memory.
    let _unless_there_are_none_left = std::thread::Builder::new()
        .name("memory".to_string())
        .stack_size(64 << 10)
        .spawn(purge_forever);
    // Commands plan queries, which needs a large stack; the system has chosen the stack size of the
    // first thread.
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

/// Sets the delay [`PURGE_DELAY_MS`], unless the environment variable `MIMALLOC_PURGE_DELAY` sets one.
fn set_purge_delay() {
    #[expect(unsafe_code, reason = "a C function that sets a number, while there is one thread")]
    unsafe {
        mi_option_set_default(PURGE_DELAY, PURGE_DELAY_MS);
    }
}

/// Returns freed memory to the system at regular intervals; never ends.
fn purge_forever() {
    loop {
        std::thread::sleep(PURGE_INTERVAL);
        collect(false);
    }
}

/// Returns freed memory to the system. If `all` is true, the memory of all threads; otherwise the
/// memory of this thread, and memory whose delay is over.
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
        // The expected value is the default of mimalloc 3.
        assert_eq!(delay(), said.unwrap_or(1_000));
        set_purge_delay();
        assert_eq!(delay(), said.unwrap_or(PURGE_DELAY_MS));
    }
}
