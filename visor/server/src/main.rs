//! `stratalog`: see the library of the same name.

use std::{ffi::c_long, process::ExitCode};

use libmimalloc_sys::{mi_option_set_default, mi_option_t};

/// Threads of queries and of the writer free what others allocated; the system's allocator
/// serializes that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_purge_delay`, which the crate has no name for.
const PURGE_DELAY: mi_option_t = 15;

/// Memory that was freed is kept for so long at most, in milliseconds, unless it is used again; longer where
/// nobody needs any memory. What events pass
/// through on their way is as much as they are, each second; given back to the system sooner, it costs as
/// much to have it again, zeroed, as all else that is done to them.
const KEPT_MS: c_long = 60_000;

fn main() -> ExitCode {
    keep_freed_memory();
    stratalog::cli::run()
}

/// `MIMALLOC_PURGE_DELAY` in the environment says it as well, and goes before.
fn keep_freed_memory() {
    #[expect(unsafe_code, reason = "a C function that sets a number, while there is one thread")]
    unsafe {
        mi_option_set_default(PURGE_DELAY, KEPT_MS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_is_that_of_the_delay() {
        #[expect(unsafe_code, reason = "a C function that reads a number")]
        let delay = || unsafe { libmimalloc_sys::mi_option_get(PURGE_DELAY) };
        let given = std::env::var("MIMALLOC_PURGE_DELAY").ok().and_then(|ms| ms.parse().ok());
        // That of mimalloc 3.
        assert_eq!(delay(), given.unwrap_or(1_000));
        keep_freed_memory();
        assert_eq!(delay(), given.unwrap_or(KEPT_MS));
    }
}
