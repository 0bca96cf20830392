//! The metadata of a story, stored as key-value text in the footer of the Parquet file.

use std::collections::BTreeSet;

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::{Buf, BufMut, Bytes};
use parquet::file::metadata::KeyValue;
use stratalog_model::{ChronicleId, ColumnId, Granularity, SchemaVersion, TickScale};

use crate::{
    block::{BLOCK_BYTES, Blocks},
    description::{AnnexPlace, BuiltStory, CellsPlace, GroupSummary},
    schema::StorySchema,
    shelf::StoryId,
};

/// The format version of new files; also the newest version that can be read.
const FORMAT_VERSION: u32 = 1;

const FORMAT: &str = "stratalog.format_version";
const STORY: &str = "stratalog.story";
const CHRONICLE: &str = "stratalog.chronicle";
const CHRONICLE_NAME: &str = "stratalog.chronicle_name";
const SCHEMA_VERSION: &str = "stratalog.schema_version";
const COLUMNS: &str = "stratalog.columns";
const KEYS: &str = "stratalog.key_columns";
const TICK: &str = "stratalog.tick_column";
const BASE: &str = "stratalog.base_ns";
const GRANULARITY: &str = "stratalog.granularity_ns";
const ROWS: &str = "stratalog.rows";
const FIRST_TICK: &str = "stratalog.first_tick";
const LAST_TICK: &str = "stratalog.last_tick";
const FIRST_GSN: &str = "stratalog.first_gsn";
const LAST_GSN: &str = "stratalog.last_gsn";
const GROUPS: &str = "stratalog.groups";
const NAN: &str = "stratalog.nan_columns";
const INDEXES: &str = "stratalog.indexes";
const CELLS: &str = "stratalog.cells";
const WORDS: &str = "stratalog.words";
const BLOCK: &str = "stratalog.block_bytes";
const CHECKSUMS: &str = "stratalog.block_checksums";

/// The decoded metadata.
#[derive(Debug)]
pub(crate) struct Footer {
    pub(crate) schema: StorySchema,
    pub(crate) groups: Vec<GroupSummary>,
    /// Columns that contain NaN, which Parquet's statistics do not show; `None` if unknown.
    pub(crate) with_nan: Option<BTreeSet<ColumnId>>,
    pub(crate) blocks: Blocks,
    /// Where the cells are in the file; `None` without cells.
    pub(crate) cells: Option<CellsPlace>,
    /// Where the inverted indexes are in the file; `None` without inverted indexes.
    pub(crate) words: Option<AnnexPlace>,
    /// The description of the story; the reader supplies length and checksum of the tail.
    pub(crate) built: BuiltStory,
}

/// The data that the builder collects while it writes a story.
#[derive(Debug)]
pub(crate) struct Parts<'a> {
    pub(crate) groups: &'a [GroupSummary],
    pub(crate) with_nan: &'a BTreeSet<ColumnId>,
    pub(crate) checksums: &'a [u32],
    pub(crate) cells: Option<CellsPlace>,
    pub(crate) words: Option<AnnexPlace>,
}

/// Encodes the metadata of a story.
pub(crate) fn encode(
    schema: &StorySchema,
    built: &BuiltStory,
    parts: &Parts<'_>,
) -> serde_json::Result<Vec<KeyValue>> {
    debug_assert_eq!(built.groups as usize, parts.groups.len(), "another number of groups");
    debug_assert_eq!(
        built.rows,
        parts.groups.iter().map(|group| group.rows).sum::<u64>(),
        "the groups have other rows"
    );
    debug_assert_eq!(
        parts.checksums.len() as u64,
        built.tail_at.div_ceil(BLOCK_BYTES),
        "a block without a checksum"
    );
    debug_assert!(
        parts.cells.iter().all(|cells| cells.annex.is_before(built.tail_at)),
        "the cells reach into the tail"
    );
    debug_assert!(
        parts.words.iter().all(|words| words.is_before(built.tail_at)),
        "the words reach into the tail"
    );
    debug_assert!(built.schema_version == schema.version, "events of another schema version");
    let pair = |key: &str, value: String| KeyValue::new(key.to_string(), value);
    let mut pairs = vec![
        pair(FORMAT, FORMAT_VERSION.to_string()),
        pair(STORY, built.id.to_string()),
        pair(CHRONICLE, schema.chronicle.to_string()),
        pair(CHRONICLE_NAME, schema.chronicle_name.clone()),
        pair(SCHEMA_VERSION, schema.version.to_string()),
        pair(COLUMNS, serde_json::to_string(&schema.columns)?),
        pair(KEYS, serde_json::to_string(&schema.keys)?),
        pair(TICK, schema.tick.to_string()),
        pair(BASE, schema.scale.base_ns().to_string()),
        pair(GRANULARITY, schema.scale.granularity().ns().to_string()),
        pair(ROWS, built.rows.to_string()),
        pair(FIRST_TICK, built.ticks.0.to_string()),
        pair(LAST_TICK, built.ticks.1.to_string()),
        pair(FIRST_GSN, built.gsns.0.to_string()),
        pair(LAST_GSN, built.gsns.1.to_string()),
        pair(GROUPS, encode_groups(parts.groups)),
        pair(NAN, serde_json::to_string(parts.with_nan)?),
        pair(BLOCK, BLOCK_BYTES.to_string()),
        pair(CHECKSUMS, Blocks::encode(parts.checksums)),
    ];
    if !schema.indexes.is_empty() {
        pairs.push(pair(INDEXES, serde_json::to_string(&schema.indexes)?));
    }
    if let Some(cells) = &parts.cells {
        pairs.push(pair(CELLS, serde_json::to_string(cells)?));
    }
    if let Some(words) = &parts.words {
        pairs.push(pair(WORDS, serde_json::to_string(words)?));
    }
    Ok(pairs)
}

/// Decodes the metadata of a story's file. On failure, returns the reason.
///
/// `place` supplies the length of the file, and the beginning and checksum of the tail, because the
/// file cannot contain these values itself.
pub(crate) fn decode(pairs: &[KeyValue], place: &BuiltStory) -> Result<Footer, String> {
    let metadata = Metadata(pairs);
    let version: u32 = metadata.parse(FORMAT)?;
    if version != FORMAT_VERSION {
        return Err(format!(
            "the story has format version {version}; this version of Stratalog reads version {FORMAT_VERSION}"
        ));
    }
    if metadata.parse::<u64>(BLOCK)? != BLOCK_BYTES {
        return Err("the blocks have another size".to_string());
    }
    let granularity = Granularity::from_ns(metadata.parse(GRANULARITY)?);
    let granularity = granularity.map_err(|error| error.to_string())?;
    let schema = StorySchema {
        chronicle: ChronicleId(metadata.parse(CHRONICLE)?),
        chronicle_name: metadata.get(CHRONICLE_NAME)?.to_string(),
        version: SchemaVersion(metadata.parse(SCHEMA_VERSION)?),
        columns: metadata.json(COLUMNS)?,
        keys: metadata.json(KEYS)?,
        tick: metadata.json(TICK)?,
        scale: TickScale::starting_at(metadata.parse(BASE)?, granularity),
        indexes: metadata.optional_json(INDEXES)?.unwrap_or_default(),
    };
    schema.validate().map_err(|error| error.to_string())?;
    let groups = decode_groups(metadata.get(GROUPS)?).ok_or("the groups cannot be read")?;
    // Stories written by earlier versions lack this key.
    let with_nan = metadata.optional_json(NAN)?;
    let cells: Option<CellsPlace> = metadata.optional_json(CELLS)?;
    let words: Option<AnnexPlace> = metadata.optional_json(WORDS)?;
    let mut places = cells.iter().map(|cells| cells.annex).chain(words);
    if !places.all(|annex| annex.is_before(place.tail_at)) {
        return Err("the cells or words lie outside of the story".to_string());
    }
    let blocks = Blocks::decode(metadata.get(CHECKSUMS)?, place.tail_at);
    let blocks = blocks.ok_or("the checksums of the blocks cannot be read")?;
    let built = BuiltStory {
        id: StoryId(metadata.parse(STORY)?),
        chronicle: schema.chronicle,
        schema_version: schema.version,
        bytes: place.bytes,
        tail_at: place.tail_at,
        rows: metadata.parse(ROWS)?,
        groups: groups.len() as u32,
        ticks: (metadata.parse(FIRST_TICK)?, metadata.parse(LAST_TICK)?),
        gsns: (metadata.parse(FIRST_GSN)?, metadata.parse(LAST_GSN)?),
        checksum: place.checksum,
    };
    Ok(Footer { schema, groups, with_nan, blocks, cells, words, built })
}

struct Metadata<'a>(&'a [KeyValue]);

impl Metadata<'_> {
    fn get(&self, key: &str) -> Result<&str, String> {
        let pair = self.0.iter().find(|pair| pair.key == key);
        let value = pair.and_then(|pair| pair.value.as_deref());
        value.ok_or_else(|| format!("the metadata has no {key}"))
    }

    fn parse<T: std::str::FromStr>(&self, key: &str) -> Result<T, String> {
        self.get(key)?.parse().map_err(|_| format!("the metadata has a wrong {key}"))
    }

    fn json<T: serde::de::DeserializeOwned>(&self, key: &str) -> Result<T, String> {
        let value = serde_json::from_str(self.get(key)?);
        value.map_err(|error| format!("the metadata has a wrong {key}: {error}"))
    }

    /// The value of a key that may be missing.
    fn optional_json<T: serde::de::DeserializeOwned>(
        &self,
        key: &str,
    ) -> Result<Option<T>, String> {
        self.get(key).is_ok().then(|| self.json(key)).transpose()
    }
}

/// Encodes the summaries. For each row group, little-endian: rows, first and last tick, first and
/// last gsn (8 bytes each), lengths of first and last key (4 bytes each), the two keys.
fn encode_groups(groups: &[GroupSummary]) -> String {
    let mut out = Vec::new();
    for group in groups {
        debug_assert!(group.rows > 0, "a group without rows");
        debug_assert!(group.ticks.0 <= group.ticks.1, "the ticks of a group are reversed");
        debug_assert!(group.gsns.0 <= group.gsns.1, "the gsns of a group are reversed");
        debug_assert!(
            u32::try_from(group.keys.0.len().max(group.keys.1.len())).is_ok(),
            "the length of a key does not fit"
        );
        out.put_u64_le(group.rows);
        out.put_i64_le(group.ticks.0);
        out.put_i64_le(group.ticks.1);
        out.put_u64_le(group.gsns.0);
        out.put_u64_le(group.gsns.1);
        out.put_u32_le(group.keys.0.len() as u32);
        out.put_u32_le(group.keys.1.len() as u32);
        out.put_slice(&group.keys.0);
        out.put_slice(&group.keys.1);
    }
    let bytes = |group: &GroupSummary| 48 + group.keys.0.len() + group.keys.1.len();
    debug_assert_eq!(out.len(), groups.iter().map(bytes).sum::<usize>(), "another length");
    STANDARD.encode(out)
}

fn decode_groups(text: &str) -> Option<Vec<GroupSummary>> {
    let mut rest = Bytes::from(STANDARD.decode(text).ok()?);
    let mut groups = Vec::new();
    while rest.has_remaining() {
        let rows = rest.try_get_u64_le().ok()?;
        let ticks = (rest.try_get_i64_le().ok()?, rest.try_get_i64_le().ok()?);
        let gsns = (rest.try_get_u64_le().ok()?, rest.try_get_u64_le().ok()?);
        let lens = (rest.try_get_u32_le().ok()? as usize, rest.try_get_u32_le().ok()? as usize);
        if lens.0.checked_add(lens.1)? > rest.remaining() {
            return None;
        }
        let keys = (rest.split_to(lens.0), rest.split_to(lens.1));
        groups.push(GroupSummary { rows, ticks, gsns, keys });
    }
    Some(groups)
}
