//! `stratalog`: see the library of the same name.

use std::process::ExitCode;

/// Threads of queries and of the writer free what others allocated; the system's allocator
/// serializes that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    stratalog::cli::run()
}
