//! The commands `backup`, `backups` and `restore`.

use std::{io::IsTerminal as _, path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use indicatif::{HumanBytes, ProgressBar, ProgressStyle};
use stratalog_backup::{Place, Target, Watch, backups, keep, restore};
use stratalog_journal::LocalDisk;
use stratalog_model::{Disk, Error};
use stratalog_story::{RemoteSettings, RemoteShelf, Shelf, environment};

use crate::{
    Embedded, embedded, identity,
    settings::Settings,
    sql::{
        ConnectArguments,
        connection::{Connection, Receiver},
        error::SqlError,
        rows::{ResultColumn, TextRows},
    },
};

/// Copies a database to a folder or an object store.
///
/// Files that an earlier backup in the same place has are not stored again. With --data-dir no
/// server may have the directory open; otherwise the server makes the backup, and a path is one of
/// its machine.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct BackupArguments {
    /// Place for the backup: a path, file:///path, s3://bucket/prefix, gs://bucket/prefix or
    /// az://container/prefix, with credentials in the environment.
    #[arg(long, value_name = "URL")]
    to: String,
    /// With --data-dir: place of the stories, if in an object store.
    #[arg(long, value_name = "URL", requires = "data_dir", env = "STRATALOG_STORY_URL")]
    story_url: Option<String>,
    #[command(flatten)]
    connect: ConnectArguments,
}

/// Lists the backups of a place, or removes old ones.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct BackupsArguments {
    /// Place of the backups, as in `stratalog backup`.
    #[arg(long, value_name = "URL")]
    from: String,
    /// Remove all but the newest N backups, and the files that only removed backups used.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    keep: Option<u32>,
}

/// Makes a data directory of a backup.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct RestoreArguments {
    /// Place of the backup, as in `stratalog backup`.
    #[arg(long, value_name = "URL")]
    from: String,
    /// Name of the backup; by default the newest backup.
    #[arg(long, value_name = "NAME")]
    backup: Option<String>,
    /// The new data directory; must be empty, or not exist.
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// Put stories into this empty place of an object store, instead of the data directory.
    #[arg(long, value_name = "URL")]
    story_url: Option<String>,
}

/// Runs `stratalog backup`.
pub(crate) fn run_backup(arguments: &BackupArguments) -> ExitCode {
    run(make(arguments))
}

/// Runs `stratalog backups`.
pub(crate) fn run_backups(arguments: &BackupsArguments) -> ExitCode {
    run(list(arguments))
}

/// Runs `stratalog restore`.
pub(crate) fn run_restore(arguments: &RestoreArguments) -> ExitCode {
    run(restore_database(arguments))
}

fn run(command: impl Future<Output = Result<(), SqlError>> + Send) -> ExitCode {
    let Some(runtime) = crate::threads::of_command() else { return ExitCode::FAILURE };
    match runtime.block_on(command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}", error.render(""));
            ExitCode::FAILURE
        }
    }
}

async fn make(arguments: &BackupArguments) -> Result<(), SqlError> {
    let Some(directory) = &arguments.connect.data_dir else { return ask_server(arguments).await };
    let settings = Settings {
        data_dir: directory.display().to_string(),
        story_url: arguments.story_url.clone().unwrap_or_default(),
        object_store_metadata: true,
        ..Settings::default()
    };
    let opened = Embedded::open_existing(&settings).await;
    let embedded = opened.map_err(|error| SqlError::local(error.to_string()))?;
    let watch = Arc::new(Watch::default());
    let saved = with_progress_bar(&watch, embedded.backups().run(&arguments.to, &watch)).await;
    let closed = tokio::task::spawn_blocking(move || embedded.close()).await;
    let saved = saved?;
    match closed {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return Err(SqlError::local(error.to_string())),
        Err(error) => return Err(SqlError::local(format!("closing failed: {error}"))),
    }
    print_summary(&saved.name, [saved.files, saved.bytes, saved.stored_files, saved.stored_bytes]);
    Ok(())
}

async fn ask_server(arguments: &BackupArguments) -> Result<(), SqlError> {
    let mut connection = arguments.connect.connect("stratalog backup").await?;
    let statement = format!("CALL stratalog.backup('{}')", arguments.to.replace('\'', "''"));
    let mut row = RowReceiver::default();
    let canceller = connection.canceller();
    let bar = spinner("the server makes the backup");
    let made = {
        let mut running = std::pin::pin!(call(&mut connection, &statement, &mut row));
        tokio::select! {
            made = &mut running => made,
            () = interrupted() => {
                canceller.cancel().await;
                running.await
            }
        }
    };
    bar.finish_and_clear();
    made?;
    let number = |at: usize| row.0.get(at).and_then(|value| value.parse().ok()).unwrap_or(0);
    let name = row.0.first().cloned().unwrap_or_default();
    print_summary(&name, [number(1), number(2), number(3), number(4)]);
    Ok(())
}

async fn call(
    connection: &mut Connection,
    statement: &str,
    row: &mut RowReceiver,
) -> Result<String, SqlError> {
    connection.run(statement, row).await
}

fn print_summary(name: &str, [files, bytes, stored_files, stored_bytes]: [u64; 4]) {
    println!(
        "backup {name}: {files} files, {}; {stored_files} new files, {}",
        HumanBytes(bytes),
        HumanBytes(stored_bytes)
    );
}

/// The settings for object stores that commands use: credentials may also come from the metadata
/// service of the operator's machine.
pub(crate) fn operator_remote_settings() -> RemoteSettings {
    RemoteSettings { metadata_service: true, ..RemoteSettings::default() }
}

async fn list(arguments: &BackupsArguments) -> Result<(), SqlError> {
    let place = Place::of_url(&arguments.from, &disk(), operator_remote_settings())?;
    if let Some(newest) = arguments.keep {
        let kept = spawn_worker(async move { keep(&place, newest as usize).await }).await?;
        println!(
            "removed {} backups, and {} files, {}",
            kept.backups,
            kept.files,
            HumanBytes(kept.bytes)
        );
        return Ok(());
    }
    let found = spawn_worker(async move { backups(&place).await }).await?;
    println!("{:<24} {:>10} {:>12} {:>12}", "backup", "files", "bytes", "stored");
    let mut damaged = None;
    for backup in found {
        match backup.summary {
            Ok(summary) => println!(
                "{:<24} {:>10} {:>12} {:>12}",
                backup.name,
                summary.files,
                HumanBytes(summary.bytes).to_string(),
                HumanBytes(summary.stored_bytes).to_string()
            ),
            Err(error) => {
                println!("{:<24} cannot be read", backup.name);
                damaged = damaged.or(Some(error));
            }
        }
    }
    damaged.map_or(Ok(()), |error| Err(error.into()))
}

async fn restore_database(arguments: &RestoreArguments) -> Result<(), SqlError> {
    let disk = disk();
    let place = Place::of_url(&arguments.from, &disk, operator_remote_settings())?;
    // When the restored directory stores its first story, it claims this place in the object store
    // with this id.
    let id = identity::anew();
    let (stories, own_files): (Option<Arc<dyn Shelf>>, _) = match &arguments.story_url {
        Some(url) => {
            let shelf = RemoteShelf::from_url(url, environment(), operator_remote_settings())?
                .owned_by(&id);
            (Some(Arc::new(shelf)), vec![(identity::ID.to_string(), identity::text_of(&id).into())])
        }
        None => (None, Vec::new()),
    };
    let manifest = embedded::small_journal_settings(&Settings::default());
    let target =
        Target { disk, directory: arguments.data_dir.clone(), stories, own_files, manifest };
    let watch = Arc::new(Watch::default());
    let (seen, name) = (Arc::clone(&watch), arguments.backup.clone());
    let working =
        spawn_worker(async move { restore(&place, name.as_deref(), &target, &seen).await });
    let restored = with_progress_bar(&watch, working).await?;
    println!(
        "restored {} into {}: {} files, {}",
        restored.name,
        arguments.data_dir.display(),
        restored.files,
        HumanBytes(restored.bytes)
    );
    Ok(())
}

fn disk() -> Arc<dyn Disk> {
    Arc::new(LocalDisk)
}

/// Runs work that may block on a separate thread.
async fn spawn_worker<T: Send + 'static>(
    work: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<T, Error> {
    let runtime = tokio::runtime::Handle::current();
    let done = tokio::task::spawn_blocking(move || runtime.block_on(work)).await;
    done.unwrap_or_else(|error| Err(Error::internal(format!("the command failed: {error}"))))
}

/// Waits for the work. Shows a progress bar if the output is a terminal; Ctrl-C cancels the work.
async fn with_progress_bar<T>(
    watch: &Watch,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let bar = spinner("comparing files");
    let mut work = std::pin::pin!(work);
    let mut sized = false;
    loop {
        tokio::select! {
            done = &mut work => {
                bar.finish_and_clear();
                return done;
            }
            () = interrupted() => watch.cancel(),
            () = tokio::time::sleep(Duration::from_millis(200)) => {
                if watch.bytes() > 0 && !sized {
                    sized = true;
                    bar.set_length(watch.bytes());
                    bar.set_message("");
                    let style = ProgressStyle::with_template("{bar:30} {bytes}/{total_bytes}, {eta} left");
                    if let Ok(style) = style {
                        bar.set_style(style);
                    }
                }
                bar.set_position(watch.done());
            }
        }
    }
}

/// A moving sign that is shown while work runs; hidden if the output is not a terminal.
fn spinner(message: &'static str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner().with_message(message);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Returns on Ctrl-C.
async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Receives a result of one row, and stores the values.
#[derive(Debug, Default)]
struct RowReceiver(Vec<String>);

impl Receiver for RowReceiver {
    fn columns(&mut self, _: &[ResultColumn]) -> std::io::Result<()> {
        Ok(())
    }

    fn rows(&mut self, rows: &TextRows) -> std::io::Result<()> {
        for row in rows.iter() {
            self.0 = row.map(|value| value.unwrap_or_default().to_string()).collect();
        }
        Ok(())
    }

    fn bytes(&mut self, _: &[u8]) -> std::io::Result<()> {
        Ok(())
    }
}
