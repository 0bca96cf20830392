//! `stratalog check`: checks all checksums and counts of a data directory, and that each event has
//! an owner, while no server has the directory open. A running server does the same check itself.
//!
//! ```text
//!   FORMAT, clock ─► catalog ─► manifest ─► journal ─► tablets, stories ─► index ─► other files
//!                       tables     event owners    └── compared with catalog, manifest ──┘
//! ```
//! Without --repair, the check changes nothing. With --repair, it repairs damage from second
//! copies.

mod offline;
mod online;
mod parts;
mod print;
mod repair;

use std::{path::PathBuf, process::ExitCode, sync::Arc};

use stratalog_engine::check::{Report, Severity};
use stratalog_journal::LocalDisk;
use stratalog_model::{Disk, Result};

pub(crate) use online::Online;

use crate::{
    StartError,
    directory::DataDirectory,
    settings::{Layers, Settings},
};

/// The exit status if something is damaged.
const DAMAGED: u8 = 1;
/// The exit status if the check was impossible, for a reason that has no exit status of its own.
const UNCHECKED: u8 = 7;

/// Looks at a data directory that no server holds.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Exit status: 0 without damage, 1 with damage. Other values mean that the check
was impossible: 2 wrong settings, 4 a server uses the directory, 5 the directory
contains no database, 6 a newer version created the directory, 7 another error.

While a server uses the directory, call the check of the server:
CALL stratalog.check()")]
pub struct CheckArguments {
    /// The data directory.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Place of the stories, if not in the data directory; as for serve.
    #[arg(long, value_name = "URL")]
    story_url: Option<String>,
    /// TOML file with settings, as for serve.
    #[arg(long, value_name = "FILE", env = "STRATALOG_CONFIG")]
    config: Option<PathBuf>,
    /// Repair damage from second copies, and report each repair. A damaged file is kept as
    /// NAME.damaged.
    #[arg(long)]
    repair: bool,
}

/// Runs `stratalog check`.
pub fn run(arguments: &CheckArguments) -> ExitCode {
    quiet_index();
    let Some(runtime) = crate::threads::of_command() else { return ExitCode::from(UNCHECKED) };
    // All connections to an object store must use the same runtime.
    let _entered = runtime.enter();
    match check(arguments) {
        Ok(Severity::Damaged) => ExitCode::from(DAMAGED),
        Ok(Severity::Unchecked) => ExitCode::from(UNCHECKED),
        Ok(Severity::Sound | Severity::Warning) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ERROR:  {error}");
            if matches!(error, StartError::DirectoryLocked { .. }) {
                eprintln!(
                    "  hint: the server that uses the directory can check the directory: stratalog sql -c \"CALL stratalog.check()\""
                );
            }
            ExitCode::from(match error.exit_status() {
                DAMAGED => UNCHECKED,
                other => other,
            })
        }
    }
}

/// Suppresses panic messages: sled may panic on damaged files, and the report has a separate line
/// for this damage.
fn quiet_index() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if panic.location().is_none_or(|place| !place.file().contains("/sled-")) {
            before(panic);
        }
    }));
}

fn settings(arguments: &CheckArguments) -> std::result::Result<Settings, StartError> {
    let mut flags = Vec::new();
    if let Some(directory) = &arguments.data_dir {
        flags.push(("data_dir".to_string(), directory.display().to_string()));
    }
    if let Some(url) = &arguments.story_url {
        flags.push(("story_url".to_string(), url.clone()));
    }
    let environment = std::env::vars().collect();
    let layers = Layers { file: arguments.config.clone(), environment, flags };
    Ok(layers.load()?.0)
}

fn check(arguments: &CheckArguments) -> std::result::Result<Severity, StartError> {
    let settings = settings(arguments)?;
    let disk: Arc<dyn Disk> = Arc::new(LocalDisk);
    let path = PathBuf::from(&settings.data_dir);
    let (directory, wrong) = DataDirectory::hold(&disk, &path)?;
    let look = || {
        let progress = print::CheckProgress::new(&path);
        let mut advance = |bytes: u64| {
            progress.advance(bytes);
            Ok(())
        };
        let wrong = wrong.as_ref();
        let found = offline::inspect(&disk, &directory, wrong, &settings.story_url, &mut advance);
        progress.finish();
        found
    };
    let found = look()?;
    print::report(&path, &found.report);
    if !arguments.repair || found.report.state() == Severity::Sound {
        return Ok(found.report.state());
    }
    let done = repair::repair(&disk, &directory, &found)?;
    println!();
    if done.is_empty() {
        println!("repair: no damage can be repaired from a second copy; nothing was changed");
        return Ok(found.report.state());
    }
    done.iter().for_each(|done| println!("repair: {done}"));
    drop(found);
    println!();
    let after: Report = look()?.report;
    print::report(&path, &after);
    Ok(after.state())
}

/// Blocks the thread until the future has completed. Only for threads that may block.
fn wait<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    stratalog_engine::BlockingPool::new()?.block_on(future)
}
