//! Events move all the time while clients write: the server has little memory, and a client
//! requests additional moves. The index of tablets is damaged between lives (CL-9).

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use stratalog_sim::Random;
use tokio_postgres::{Error, error::SqlState};

use super::{
    ledger::TABLES,
    writer::{Connection, connect},
};

/// Requests moves until the connection is lost; a loss before the announced end is an error.
pub async fn ask(connection: Connection, mut random: Random) -> Result<(), String> {
    match ask_on(&connection, &mut random).await {
        Err(error) if connection.is_ending() || error.is_closed() => Ok(()),
        Err(error) if error.as_db_error().is_none() => Ok(()),
        Err(error) => Err(format!("moving: {error:?}")),
        Ok(()) => Ok(()),
    }
}

async fn ask_on(connection: &Connection, random: &mut Random) -> Result<(), Error> {
    let client = connect(&connection.address).await?;
    loop {
        tokio::time::sleep(Duration::from_millis(random.below(60))).await;
        let name = match random.below(3) {
            0 => ["changing_a", "changing_b", "changing_c"][random.below(3) as usize],
            _ => TABLES[random.below(TABLES.len() as u64) as usize].name,
        };
        let procedure = if random.chance(30) { "compact" } else { "flush" };
        match client.batch_execute(&format!("CALL stratalog.{procedure}('{name}')")).await {
            // The table does not exist at the moment.
            Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => {}
            outcome => outcome?,
        }
        if !connection.counts() {
            return Ok(());
        }
    }
}

/// The progress of moves.
#[derive(Debug, Clone, Copy, Default)]
pub struct MoveCounts {
    /// Number of tablets.
    pub tablets: u64,
    /// Number of removed segments of the journal.
    pub released: u64,
}

impl MoveCounts {
    /// The progress shown by a data directory.
    pub fn of(data: &Path) -> Self {
        let names = |folder: &str| -> Vec<String> {
            let entries = fs::read_dir(data.join(folder)).into_iter().flatten().flatten();
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
        };
        let tablets = names("tablets").iter().filter(|name| name.ends_with(".tablet")).count();
        let segments = names("journal").into_iter();
        let numbers = segments.filter_map(|name| name.strip_suffix(".journal")?.parse().ok());
        let first = numbers.min().unwrap_or(1_u64);
        Self { tablets: tablets as u64, released: first.saturating_sub(1) }
    }

    /// The maximum of both.
    pub fn most(self, other: Self) -> Self {
        let tablets = self.tablets.max(other.tablets);
        Self { tablets, released: self.released.max(other.released) }
    }
}

/// Removes the index, cuts its files, or flips a bit in each file; or leaves the index unchanged.
pub fn spoil_index(data: &Path, random: &mut Random) -> Result<(), String> {
    let index = data.join("index");
    let choice = random.below(4);
    if choice == 0 {
        fs::remove_dir_all(&index).ok();
    }
    let mut files = Vec::new();
    list(&index, &mut files);
    for path in files {
        let mut bytes = fs::read(&path).map_err(|error| error.to_string())?;
        match choice {
            // The effect of a power cut on unsynced files.
            1 => bytes.truncate(random.below(bytes.len() as u64 + 1) as usize),
            2 => {
                let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
                if let Some(byte) = bytes.get_mut(random.below(used as u64) as usize) {
                    *byte ^= 1 << random.below(8);
                }
            }
            _ => continue,
        }
        fs::write(&path, bytes).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// The files below a folder.
fn list(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            list(&path, files);
        } else {
            files.push(path);
        }
    }
}
