//! Files of every released format stay readable.

use std::{fs, path::Path};

use stratalog_story::BuiltStory;

use crate::fixture::*;

#[test]
fn format_1_is_read() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats/1");
    let text = fs::read_to_string(kept.join("built.json")).unwrap();
    let built: BuiltStory = serde_json::from_str(&text).unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("stories/7")).unwrap();
    let name = folder.path().join("stories").join(built.name().to_string());
    fs::copy(kept.join("story.parquet"), name).unwrap();
    let stories = local(folder.path());
    check(&stories, &built).unwrap();
    wait(wait(stories.open_story(&built)).unwrap().check()).unwrap();
}
