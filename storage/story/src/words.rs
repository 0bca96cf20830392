//! Inverted indexes of a story: for each word in the texts of a column, the rows that contain it
//! (F88).
//!
//! ```text
//!   group   words of column 7:  "error"    blocks 0, 3, 4      block: 2,048 rows of the group
//!                               "refused"  blocks 3
//!           words of column 9:  …
//! ```
//! The index is an annex (a Parquet file inside the story's file, after the rows), like
//! [cells](crate::cells). A query with a word reads only the blocks listed for the word, and
//! filters their rows. A damaged index excludes no rows.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, BinaryArray, Int32Array, RecordBatch, StringViewArray},
    datatypes::{DataType, Field, Int32Type, Schema, SchemaRef},
};
use stratalog_model::{
    ColumnId, Error, ErrorKind, IndexKind, Result,
    index::{self, WordPart},
    values::ValuePredicate,
};

use crate::{
    annex::Annex,
    decoded_columns::{CHUNK_ROWS, Finding, FindingKey},
    schema::{Source, StorySchema},
    select::Selection,
    story::Story,
    values::ColumnValues,
};

/// The columns of the index.
pub(crate) fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("column", DataType::Int32, false),
        Field::new("word", DataType::Utf8View, false),
        Field::new("blocks", DataType::Binary, false),
    ]))
}

/// The index of a row group, sorted by column and word. `None` if no column has an inverted index,
/// or no text has words.
///
/// # Errors
/// `Internal` for rows with unexpected columns.
pub(crate) fn words_of(schema: &StorySchema, rows: &RecordBatch) -> Result<Option<RecordBatch>> {
    let mut columns: Vec<i32> = Vec::new();
    let (mut words, mut blocks) = (Vec::new(), Vec::new());
    for column in schema.inverted() {
        let at = schema.position(Source::Column(column));
        let texts = at.and_then(|at| rows.columns().get(at)?.as_string_view_opt());
        let texts = texts.ok_or_else(|| Error::internal("an inverted index of no text"))?;
        let mut found: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        let mut last = "";
        for (row, text) in texts.iter().enumerate() {
            let block = (row / CHUNK_ROWS) as u32;
            // Neighboring texts are often equal: skip a repeated text within a block.
            let Some(text) = text.filter(|text| row % CHUNK_ROWS == 0 || *text != last) else {
                continue;
            };
            last = text;
            for word in index::words(text) {
                match found.get_mut(&word) {
                    Some(known) if known.last() == Some(&block) => {}
                    Some(known) => known.push(block),
                    None => drop(found.insert(word, vec![block])),
                }
            }
        }
        for (word, in_blocks) in found {
            columns.push(column.0.cast_signed());
            words.push(word);
            blocks.push(packed(&in_blocks));
        }
    }
    debug_assert_eq!(columns.len(), words.len(), "a word without a column");
    debug_assert_eq!(words.len(), blocks.len(), "a word without blocks");
    if columns.is_empty() {
        return Ok(None);
    }
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from(columns)),
        Arc::new(StringViewArray::from_iter_values(words)),
        Arc::new(BinaryArray::from_iter_values(blocks)),
    ];
    Ok(Some(RecordBatch::try_new(self::schema(), arrays)?))
}

/// Encodes ascending numbers: each difference to the previous number in groups of seven bits, one
/// per byte.
fn packed(numbers: &[u32]) -> Vec<u8> {
    debug_assert!(numbers.is_sorted_by(|a, b| a < b), "numbers out of order");
    let mut bytes = Vec::with_capacity(numbers.len());
    let mut before = 0;
    for number in numbers {
        let mut rest = number - before;
        before = *number;
        while rest >= 0x80 {
            bytes.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        bytes.push(rest as u8);
    }
    debug_assert!(bytes.len() >= numbers.len(), "a number without bytes");
    bytes
}

/// Decodes the numbers of [`packed`], and sets their elements of `set`. `None` for invalid bytes.
fn unpack(bytes: &[u8], set: &mut [bool]) -> Option<()> {
    let (mut number, mut rest, mut shift) = (0_u32, 0_u32, 0);
    for byte in bytes {
        rest |= u32::from(byte & 0x7f).checked_shl(shift)?;
        shift += 7;
        if byte & 0x80 == 0 {
            number = number.checked_add(rest)?;
            *set.get_mut(number as usize)? = true;
            (rest, shift) = (0, 0);
        }
    }
    (shift == 0).then_some(())
}

/// The index of one column in one row group.
#[derive(Debug)]
struct Words {
    /// The words, ascending.
    words: StringViewArray,
    blocks: BinaryArray,
}

impl Finding for Words {
    type Key = (u32, ColumnId);

    fn cache_key((group, column): Self::Key) -> FindingKey {
        FindingKey::Words { group, column }
    }
}

/// The open index file; `None` for a story without an index of words.
impl Finding for Option<Annex> {
    type Key = ();

    fn cache_key((): Self::Key) -> FindingKey {
        FindingKey::WordsAnnex
    }
}

impl Story {
    /// Whether the story has an index of this kind for the column. True if the story lacks the
    /// column.
    pub fn has_index(&self, column: ColumnId, kind: IndexKind) -> bool {
        let schema = self.schema();
        schema.position(Source::Column(column)).is_none() || schema.is_indexed(column, kind)
    }

    /// Restricts a selection to blocks whose rows may contain the wanted texts, by the inverted
    /// indexes. `None` if no rows remain.
    ///
    /// # Errors
    /// `Io`, `ConnectionFailure`; `Internal`.
    pub async fn within_words(
        self: &Arc<Self>,
        group: u32,
        selection: Selection,
        wanted: &[ColumnValues],
    ) -> Result<Option<Selection>> {
        let mut selection = selection;
        for values in wanted {
            let required_words = match &values.predicate {
                ValuePredicate::Among(texts) => among(texts),
                ValuePredicate::Words(parts) => Some(vec![parts.clone()]),
                ValuePredicate::Null | ValuePredicate::Between(..) => None,
            };
            let Some(required_words) = required_words else { continue };
            let Some(words) = self.words(group, values.column).await? else { continue };
            let head = self.group(group)?;
            debug_assert!(selection.is_of(head), "a selection of another group");
            let blocks = head.summary.rows.div_ceil(CHUNK_ROWS as u64) as usize;
            let Some(blocks) = words.blocks_of(&required_words, blocks) else { continue };
            let ranges = blocks.iter().enumerate().filter(|(_, may)| **may);
            let ranges = ranges.map(|(block, _)| block * CHUNK_ROWS..(block + 1) * CHUNK_ROWS);
            selection = selection.within(ranges.collect::<Vec<Range<usize>>>());
        }
        Ok((selection.rows() > 0).then_some(selection))
    }

    /// The index of a column in a row group; `None` if the column has no index, or a damaged one.
    async fn words(self: &Arc<Self>, group: u32, column: ColumnId) -> Result<Option<Arc<Words>>> {
        if !self.schema().is_indexed(column, IndexKind::Inverted) {
            return Ok(None);
        }
        if let Some(known) = self.finding::<Words>((group, column)) {
            return Ok(Some(known));
        }
        let read = async {
            match self.opened_words().await?.as_ref() {
                Some(annex) => annex.read(self, group, &[0, 1, 2]).await,
                None => Ok(None),
            }
        };
        let read = match read.await {
            Err(error) if error.kind() == ErrorKind::DataCorrupted => {
                tracing::error!(%error, "words of a story are damaged; queries read the rows");
                return Ok(None);
            }
            read => read?,
        };
        // A row group without words cannot match.
        let words = match &read {
            None => Words::default(),
            Some(arrays) => Words::of(arrays, column)
                .ok_or_else(|| Error::internal("words of a story have other columns"))?,
        };
        let bytes = words.words.get_array_memory_size() + words.blocks.get_array_memory_size();
        let words = Arc::new(words);
        self.note((group, column), &words, bytes);
        Ok(Some(words))
    }

    /// The index file of the story, opened once and cached; `None` for a story without an index of
    /// words.
    async fn opened_words(self: &Arc<Self>) -> Result<Arc<Option<Annex>>> {
        if let Some(known) = self.finding::<Option<Annex>>(()) {
            return Ok(known);
        }
        let opened = match self.words_place() {
            Some(place) => Some(Annex::open(self, place, schema()).await?),
            None => None,
        };
        let bytes = opened.as_ref().map_or(0, Annex::memory_bytes);
        let opened = Arc::new(opened);
        self.note((), &opened, bytes);
        Ok(opened)
    }
}

/// For each text of `texts`, its words. A row can equal a text only if it contains all words of the
/// text. `None` if a text has no words.
fn among(texts: &ArrayRef) -> Option<Vec<Vec<WordPart>>> {
    let texts = texts.as_string_view_opt()?;
    let each = texts.iter().flatten().map(|text| {
        let words = WordPart::all_of(text, true, true);
        (!words.is_empty()).then_some(words)
    });
    each.collect()
}

impl Default for Words {
    fn default() -> Self {
        let words = StringViewArray::from_iter_values(std::iter::empty::<&str>());
        let blocks = BinaryArray::from_iter_values(std::iter::empty::<&[u8]>());
        Self { words, blocks }
    }
}

impl Words {
    /// Extracts the index of one column.
    fn of(arrays: &[ArrayRef], column: ColumnId) -> Option<Self> {
        let [columns, words, blocks] = arrays else { return None };
        let columns = columns.as_primitive_opt::<Int32Type>()?.values();
        let number = column.0.cast_signed();
        let start = columns.iter().position(|known| *known == number).unwrap_or(columns.len());
        let len = columns.iter().skip(start).take_while(|known| **known == number).count();
        let words = words.as_string_view_opt()?.slice(start, len).gc();
        let blocks = blocks.as_binary_opt::<i32>()?.slice(start, len);
        debug_assert_eq!(words.len(), blocks.len(), "a word without blocks");
        Some(Self { words, blocks })
    }

    /// For each block, whether it may have matching rows. Each element of `required_words` is a
    /// list of words; a matching row contains all words of at least one list. `None` for a damaged
    /// index.
    fn blocks_of(&self, required_words: &[Vec<WordPart>], blocks: usize) -> Option<Vec<bool>> {
        debug_assert_eq!(self.words.len(), self.blocks.len(), "a word without blocks");
        let mut any = vec![false; blocks];
        for parts in required_words {
            let mut all = vec![true; blocks];
            for part in parts {
                let mut with = vec![false; blocks];
                match part.whole() {
                    Some(word) => {
                        let at = self.first_from(word);
                        if self.words.len() > at && self.words.value(at) == word {
                            unpack(self.blocks.value(at), &mut with)?;
                        }
                    }
                    None => {
                        for at in 0..self.words.len() {
                            if part.may_be_in(self.words.value(at)) {
                                unpack(self.blocks.value(at), &mut with)?;
                            }
                        }
                    }
                }
                all.iter_mut().zip(with).for_each(|(all, with)| *all &= with);
            }
            any.iter_mut().zip(all).for_each(|(any, all)| *any |= all);
        }
        Some(any)
    }

    /// Position of the first word that is at or after `word` in the sorted list.
    fn first_from(&self, word: &str) -> usize {
        let (mut low, mut high) = (0, self.words.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.words.value(middle) < word {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        let before = low.checked_sub(1);
        debug_assert!(before.is_none_or(|at| self.words.value(at) < word), "a word is skipped");
        debug_assert!(low == self.words.len() || self.words.value(low) >= word, "a lesser word");
        low
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_packed_and_come_back() {
        let numbers = [0, 1, 127, 128, 129, 300, 70_000];
        let mut set = vec![false; 70_001];
        unpack(&packed(&numbers), &mut set).unwrap();
        let found: Vec<u32> = (0..set.len()).filter(|at| set[*at]).map(|at| at as u32).collect();
        assert_eq!(found, numbers);
        assert_eq!(unpack(&[0x80], &mut set), None);
        assert_eq!(unpack(&packed(&[70_001]), &mut set), None);
        assert_eq!(unpack(&[0xff; 9], &mut set), None);
    }
}
