//! Checks and generators of the repository itself: `cargo run -p xtask -- tidy | docs`.
//!
//! *What it is*: `tidy` looks for problems undetected by the compiler: forbidden dependencies
//! between crates, oversized files, leftovers of unfinished work, and outdated documents. `docs`
//! writes the generated pages.
//!
//! *What it deliberately is not*: it compiles nothing, depends on no crate of the product, and
//! downloads nothing. Therefore a run before every commit is fast enough.
//!
//! *Data path*: list of files ─► one check after the other ─► findings ─► exit code.

mod documents;
mod generate;
mod tidy;
mod tree;

use std::process::ExitCode;

use tree::Tree;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next();
    let done = match command.as_deref() {
        Some("tidy") => Tree::open().and_then(|tree| tidy::run(&tree)),
        Some("docs") => Tree::open().and_then(|tree| generate::write_all(&tree)),
        _ => Err("usage: cargo run -p xtask -- tidy | docs".to_string()),
    };
    match done {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(report) => {
            eprintln!("{report}");
            ExitCode::FAILURE
        }
    }
}
