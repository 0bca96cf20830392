//! Checks and generators of the repository itself: `cargo run -p xtask -- tidy | docs | supply | sbom`.
//!
//! *What it is*: `tidy` looks for problems undetected by the compiler: forbidden dependencies
//! between crates, oversized files, leftovers of unfinished work, and outdated documents. `docs`
//! writes the generated pages. `supply` checks licences and advisories of all packages, `sbom` writes
//! the bill of materials, and `advisories` renews the snapshot of advisories.
//!
//! *What it deliberately is not*: it compiles nothing and depends on no crate of the product. Only
//! Cargo may download packages, for `supply` and `sbom`. Therefore a run before every commit is fast enough.
//!
//! *Data path*: list of files ─► one check after the other ─► findings ─► exit code.

mod documents;
mod generate;
mod supply;
mod tidy;
mod tree;

use std::process::ExitCode;

use tree::Tree;

const USAGE: &str =
    "usage: cargo run -p xtask -- tidy | docs | supply | sbom [FILE] | advisories CLONE";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next();
    let done = match command.as_deref() {
        Some("tidy") => Tree::open().and_then(|tree| tidy::run(&tree)),
        Some("docs") => Tree::open().and_then(|tree| generate::write_all(&tree)),
        Some("supply") => Tree::open().and_then(|tree| supply::check(&tree)),
        Some("sbom") => {
            Tree::open().and_then(|tree| supply::sbom(&tree, arguments.next().as_deref()))
        }
        Some("advisories") => match arguments.next() {
            Some(database) => Tree::open().and_then(|tree| supply::renew(&tree, &database)),
            None => Err(USAGE.to_string()),
        },
        _ => Err(USAGE.to_string()),
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
