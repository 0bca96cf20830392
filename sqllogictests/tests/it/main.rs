//! Runs `cases/*.slt` in every mode, and DataFusion's files in process.
//!
//!     cargo test -p stratalog-sqllogictests -- [in-process | wire | tablet | mixed | upstream]
//!         [seed=NUMBER] [part of a file name …]
//!
//! The seed determines the moved tables in mode `mixed`; each failure reports the seed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs,
    reason = "helpers of tests and benches fail as tests do, and use real files and clocks"
)]

use std::{
    hash::{BuildHasher, RandomState},
    path::{Path, PathBuf},
    process::ExitCode,
};

use stratalog_sqllogictests::{Mode, Report, run_file, upstream};

fn main() -> ExitCode {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(run(&arguments))
}

async fn run(arguments: &[String]) -> ExitCode {
    let (seeds, words): (Vec<&str>, Vec<&str>) =
        arguments.iter().map(String::as_str).partition(|word| word.starts_with("seed="));
    let seed = match seeds.last() {
        Some(word) => word["seed=".len()..].parse().expect("seed=NUMBER"),
        None => RandomState::new().hash_one("seed"),
    };
    let modes = Mode::all(seed);
    let is_section =
        |word: &str| word == "upstream" || modes.iter().any(|mode| mode.label() == word);
    let (sections, filters): (Vec<&str>, Vec<&str>) =
        words.into_iter().partition(|word| is_section(word));
    let chosen = |name: &str| sections.is_empty() || sections.contains(&name);
    let wanted = |path: &Path| {
        let name = path.to_string_lossy();
        filters.is_empty() || filters.iter().any(|filter| name.contains(filter))
    };

    let mut failed = false;
    for mode in modes.into_iter().filter(|mode| chosen(mode.label())) {
        let mut total = Report::default();
        for path in cases().into_iter().filter(|path| wanted(path)) {
            match run_file(&path, mode).await {
                Ok(report) => total.absorb(report),
                Err(failure) => total.failures.push(format!("{}: {failure}", path.display())),
            }
        }
        failed |= conclude(mode.label(), &total);
    }
    if chosen("upstream") {
        match upstream::run(wanted).await {
            Ok(total) => failed |= conclude("upstream", &total),
            Err(failure) => {
                println!("upstream: {failure}");
                failed = true;
            }
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn cases() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "slt"))
        .collect();
    paths.sort();
    paths
}

/// Prints the failures and the summary line; returns true if there were failures.
fn conclude(section: &str, total: &Report) -> bool {
    for failure in &total.failures {
        println!("{failure}\n");
    }
    println!("sqllogictests {section}: {total}");
    let word = if total.failures.is_empty() { "ok" } else { "FAILED" };
    println!(
        "test result: {word}. {} passed; {} failed; {} ignored",
        total.passed,
        total.failures.len(),
        total.skipped
    );
    !total.failures.is_empty()
}
