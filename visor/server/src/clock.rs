//! `stratalog clock`: shows or corrects the clock of a data directory that no server has open.

use std::{path::PathBuf, process::ExitCode, sync::Arc};

use stratalog_journal::LocalDisk;
use stratalog_model::Disk;
use stratalog_visor_core::clock::{self, Correction, LeaseFound, MasterClock, SystemTimeSource};

use crate::{StartError, directory::DataDirectory};

/// Shows the clock of a data directory, confirms it, or corrects the time of the database.
///
/// No server may have the directory open. While one runs, stratalog.clock shows its clock, and CALL
/// stratalog.accept_clock_jump() confirms it.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ClockArguments {
    /// The data directory.
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// Confirm a machine's clock ahead of the last run. The next start follows the machine's clock,
    /// and retention deletes events by this clock.
    #[arg(long)]
    accept: bool,
    /// Let time continue at the machine's clock, behind times issued under a wrong clock. Stored
    /// events stay unchanged.
    #[arg(long, conflicts_with = "accept")]
    correct: bool,
}

/// Runs `stratalog clock`.
pub(crate) fn run(arguments: &ClockArguments) -> ExitCode {
    match clock(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ERROR:  {error}");
            ExitCode::from(error.exit_status())
        }
    }
}

fn clock(arguments: &ClockArguments) -> Result<(), StartError> {
    let disk: Arc<dyn Disk> = Arc::new(LocalDisk);
    DataDirectory::check_made(&disk, &arguments.data_dir)?;
    let (directory, wrong) = DataDirectory::hold(&disk, &arguments.data_dir)?;
    if let Some(wrong) = wrong {
        return Err(wrong);
    }
    let (folder, source) = (directory.clock(), SystemTimeSource::default());
    if arguments.correct {
        print_correction(clock::correct(disk.as_ref(), &folder, &source)?);
    } else if arguments.accept {
        match clock::accept(disk.as_ref(), &folder, &source)? {
            Some(ns) => {
                println!("the machine's clock is confirmed, {} s ahead", ns / 1_000_000_000)
            }
            None => {
                println!("the machine's clock is not ahead of the last run: nothing to confirm")
            }
        }
    } else {
        print(&MasterClock::look(disk.as_ref(), &folder)?);
    }
    Ok(())
}

fn print(found: &LeaseFound) {
    match found.lease_ns {
        Some(lease_ns) => println!("times were issued up to   {}", text_of(lease_ns)),
        None => println!("time starts at the machine's clock"),
    }
    println!("held                      {} s", found.held_ns / 1_000_000_000);
    println!("ahead of confirmed time   {} s", found.unconfirmed_ns / 1_000_000_000);
}

fn print_correction(correction: Correction) {
    let (from, to) = (text_of(correction.from_ns), text_of(correction.to_ns));
    println!("times were issued up to {from}; time continues at {to}");
    println!(
        "events with later times stay unchanged, and count as the newest events of their tables:"
    );
    println!(
        "  tables with such events:  SELECT schema, name, last_time FROM stratalog.chronicles WHERE last_time > now()"
    );
    println!("  to remove the events:     DELETE FROM table WHERE time > '{to}'");
    println!("ticks sealed between the two times can change again");
}

/// A time as text that SQL can read.
fn text_of(ns: i64) -> String {
    chrono::DateTime::from_timestamp_nanos(ns).format("%Y-%m-%d %H:%M:%S%.6f+00").to_string()
}
