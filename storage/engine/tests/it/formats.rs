//! Data directories of every recorded format stay readable forever: journal, manifest, tablets and
//! stories together.
//!
//! `STRATALOG_TEST_BLESS=1` records a directory in the current format.

use std::{fs, path::PathBuf};

use bytes::{Buf, BufMut, Bytes};
use stratalog_model::EventStore;

use crate::{flips::*, life::*, scenario::Step};

/// The file that contains a recorded directory. For each file of the directory: the lengths of its
/// path, of its content, and of its content without trailing zeros; then the path and the content.
fn kept() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/formats/directory-1")
}

fn encode(image: &Image) -> Vec<u8> {
    let mut out = Vec::new();
    for (path, bytes) in image {
        let path = path.to_str().unwrap();
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        out.put_u32_le(path.len() as u32);
        out.put_u32_le(bytes.len() as u32);
        out.put_u32_le(used as u32);
        out.put_slice(path.as_bytes());
        out.put_slice(&bytes[..used]);
    }
    out
}

fn decode(mut bytes: Bytes) -> Image {
    let mut image = Image::new();
    while bytes.has_remaining() {
        let (path, len, used) = (bytes.get_u32_le(), bytes.get_u32_le(), bytes.get_u32_le());
        let path = String::from_utf8(bytes.split_to(path as usize).to_vec()).unwrap();
        let mut file = bytes.split_to(used as usize).to_vec();
        file.resize(len as usize, 0);
        image.insert(path.into(), file);
    }
    image
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_of_format_1_is_read() {
    let last = [Step::Append(0, "a", 25, 50), Step::Flush(0), Step::Append(0, "b", 50, 55)];
    let (image, known) = image(false, &last).await;
    if std::env::var_os("STRATALOG_TEST_BLESS").is_some() {
        fs::create_dir_all(kept().parent().unwrap()).unwrap();
        fs::write(kept(), encode(&image)).unwrap();
    }
    let kept = decode(fs::read(kept()).unwrap().into());
    let has = |folder: &str| kept.keys().any(|path| path.starts_with(format!("/data/{folder}")));
    assert!(["journal", "manifest", "tablets", "stories"].into_iter().all(has));
    let life = Life::open(&disk_of(&kept), true, &known.definitions);
    let (definition, expected) = (&known.definitions[0], &known.state()[0]);
    assert_eq!(life.rows(definition).await, *expected);
    life.engine.compact(definition.id).await.unwrap();
    assert_eq!(life.rows(definition).await, *expected);
    life.close();
}
