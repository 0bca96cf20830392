//! Flips one bit of one closed file. A later read returns the right data, or an error that names
//! the file and the place (CL-6).
//!
//! `STRATALOG_FLIPS` sets the number of flips, `STRATALOG_SEEDS=FIRST..END` the seeds.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use stratalog_model::{Disk, Durability, Error, ErrorKind, EventStore};
use stratalog_sim::{Crash, FaultyDisk, Random};

use crate::{life::*, scenario::*};

/// Files and their contents.
pub type Image = BTreeMap<PathBuf, Vec<u8>>;

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.split("..").next()?.parse().ok()
}

/// The files that the scenario leaves after the server was closed or killed, and the scenario's
/// events.
pub async fn image(killed: bool, last: &[Step]) -> (Image, World) {
    let mut world = World::new(1, Durability::Disk);
    for step in SCENARIO.into_iter().chain(last.iter().copied()) {
        world.value += 1.0;
        world.act(step).await.unwrap();
    }
    let life = world.life.take();
    if killed {
        world.disk = world.disk.crash(Crash::Kill);
    }
    life.map(Life::close).unwrap();
    let contents = |path: PathBuf| Some((path.clone(), world.disk.contents(&path)?));
    (world.disk.paths().into_iter().filter_map(contents).collect(), world)
}

pub fn disk_of(image: &Image) -> FaultyDisk {
    let disk = FaultyDisk::new(1);
    for (path, bytes) in image {
        disk.create_dir_all(path.parent().unwrap()).unwrap();
        disk.create(path).unwrap().write_all_at(bytes, 0).unwrap();
    }
    disk.create_dir_all(Path::new("/data/tablets")).unwrap();
    disk
}

/// Checks an error about damage: it names the file and, except at the beginning of a file, the
/// offset.
fn assert_told(error: &Error, path: &Path) {
    assert_eq!(error.kind(), ErrorKind::DataCorrupted, "{error}");
    let (message, name) = (error.message(), path.file_name().unwrap().to_string_lossy());
    assert!(message.contains(name.as_ref()), "{error}");
    assert!(message.contains("offset") || message.contains("header"), "{error}");
}

/// Folders of the files with flipped bits.
const KINDS: [&str; 4] = ["journal", "manifest", "tablets", "stories"];

/// The effect of a flip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Harmless,
    NotOpened,
    NotRead,
}

/// Number of each outcome, by kind of file.
type Outcomes = BTreeMap<(&'static str, Outcome), u64>;

/// The place of a flip: a file, an offset and a bit.
#[derive(Debug)]
struct Flip {
    path: PathBuf,
    at: usize,
    bit: u8,
}

impl Flip {
    /// A random place in a folder.
    fn somewhere(image: &Image, folder: &str, random: &mut Random) -> Self {
        let folder = Path::new("/data").join(folder);
        let used = |(path, bytes): (&PathBuf, &Vec<u8>)| {
            let last = bytes.iter().rposition(|byte| *byte != 0)?;
            path.starts_with(&folder).then(|| (path.clone(), last as u64 + 1))
        };
        let files: Vec<(PathBuf, u64)> = image.iter().filter_map(used).collect();
        let (path, used) = files[random.below(files.len() as u64) as usize].clone();
        Self { path, at: random.below(used) as usize, bit: random.below(8) as u8 }
    }

    fn disk(&self, image: &Image) -> FaultyDisk {
        let mut image = image.clone();
        image.get_mut(&self.path).unwrap()[self.at] ^= 1 << self.bit;
        disk_of(&image)
    }
}

/// Flips bits, equally often in each kind of file.
async fn flip_each(
    killed: bool,
    check: impl AsyncFn(&Flip, &FaultyDisk, &World) -> Outcome,
) -> (u64, Outcomes) {
    // After these steps, all tiers have events.
    let last = [Step::Append(0, "a", 25, 50), Step::Flush(0), Step::Append(0, "b", 50, 55)];
    let (image, known) = image(killed, &last).await;
    let flips = setting("STRATALOG_FLIPS").unwrap_or(900);
    let seed = setting("STRATALOG_SEEDS").unwrap_or_else(|| u64::from(std::process::id()));
    let mut random = Random::new(seed);
    let mut outcomes = Outcomes::new();
    for number in 0..flips {
        let kind = KINDS[number as usize % KINDS.len()];
        let flip = Flip::somewhere(&image, kind, &mut random);
        let _at = At(format!("seed {seed}, number {number}: {flip:?}"));
        let outcome = check(&flip, &flip.disk(&image), &known).await;
        *outcomes.entry((kind, outcome)).or_default() += 1;
    }
    println!("{flips} flips: {outcomes:?}");
    (flips, outcomes)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flipped_bit_of_any_file_never_becomes_a_wrong_row() {
    let (flips, outcomes) = flip_each(false, async |Flip { path, .. }, disk, known| {
        let life = match Life::try_open(disk, true, &known.definitions, &Sizes::tiny()) {
            Ok(life) => life,
            Err(error) => {
                assert_told(&error, path);
                return Outcome::NotOpened;
            }
        };
        let (definition, expected) = (&known.definitions[0], &known.state()[0]);
        match life.try_rows(definition).await {
            Ok(found) => {
                assert_eq!(found, *expected);
                life.engine.compact(definition.id).await.unwrap();
                assert_eq!(life.rows(definition).await, *expected);
                life.close();
                Outcome::Harmless
            }
            Err(error) => {
                assert_told(&error, path);
                // A compaction does not turn a damaged file into a new piece: the file stays.
                if let Err(error) = life.engine.compact(definition.id).await {
                    assert_told(&error, path);
                }
                assert!(life.named().iter().any(|name| path.ends_with(name)));
                life.close();
                Outcome::NotRead
            }
        }
    })
    .await;
    let enough = |kind, outcome| outcomes.get(&(kind, outcome)).is_some_and(|n| n * 30 > flips);
    assert!(enough("journal", Outcome::NotOpened), "{outcomes:?}");
    assert!(enough("manifest", Outcome::NotOpened), "{outcomes:?}");
    assert!(enough("tablets", Outcome::NotRead), "{outcomes:?}");
    assert!(enough("stories", Outcome::NotRead), "{outcomes:?}");
}

/// After a kill, a flip in the last write may look like a torn tail.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flipped_bit_after_a_kill_costs_at_most_what_nothing_attests() {
    let (flips, outcomes) = flip_each(true, async |_, disk, known| {
        let before = files(disk);
        let life = match Life::try_open(disk, true, &known.definitions, &Sizes::tiny()) {
            Ok(life) => life,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::DataCorrupted, "{error}");
                // A directory that does not open keeps all files for a repair by hand.
                assert_eq!(files(disk), before, "{error}");
                return Outcome::NotOpened;
            }
        };
        let definition = &known.definitions[0];
        let read = life.try_rows(definition).await;
        life.close();
        match read {
            Ok(found) => {
                let late = known.history.iter().rev().take(2);
                assert!(late.into_iter().any(|state| state[0] == found), "{found:?}");
                Outcome::Harmless
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::DataCorrupted, "{error}");
                Outcome::NotRead
            }
        }
    })
    .await;
    let enough = |kind, outcome| outcomes.get(&(kind, outcome)).is_some_and(|n| n * 100 > flips);
    assert!(enough("journal", Outcome::NotOpened), "{outcomes:?}");
    assert!(enough("manifest", Outcome::NotOpened), "{outcomes:?}");
    assert!(enough("tablets", Outcome::NotRead), "{outcomes:?}");
    assert!(enough("stories", Outcome::NotRead), "{outcomes:?}");
}

/// The disk has lost the last sector of the manifest's log. According to the remaining edits,
/// tablets that were merged and removed should exist, and the result of their merge is not named.
/// The result stays on the disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_that_misses_tablets_removes_none() {
    let (mut image, known) = image(true, &[Step::Compact(0)]).await;
    let edits = |path: &Path| path.starts_with("/data/manifest") && path.extension().is_some();
    let (_, bytes) = image.iter_mut().rfind(|(path, _)| edits(path)).unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    bytes[used / 512 * 512..].fill(0);
    let disk = disk_of(&image);
    let before = files(&disk);
    let started = Life::try_open(&disk, true, &known.definitions, &Sizes::tiny());
    let error = started.map(Life::close).unwrap_err();
    assert!(error.message().ends_with(" is missing"), "{error}");
    assert_eq!(files(&disk), before);
}
