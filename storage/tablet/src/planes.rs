//! Splits fixed-length words (such as 8-byte integers) into byte planes, and joins byte planes into
//! words. The first plane has the first bytes of all words, the second plane the second bytes, and
//! so on. Bytes left over at the end stay unchanged.

/// Valid word lengths in bytes.
pub(crate) const WIDTHS: [u8; 4] = [2, 4, 8, 16];

/// Converts words to planes.
pub(crate) fn split(bytes: &[u8], word_bytes: u8) -> Vec<u8> {
    debug_assert!(WIDTHS.contains(&word_bytes), "words have no such length");
    match word_bytes {
        2 => split_by::<2>(bytes),
        4 => split_by::<4>(bytes),
        8 => split_longs(bytes),
        16 => split_by::<16>(bytes),
        _ => bytes.to_vec(),
    }
}

/// Converts planes back to words.
pub(crate) fn join(planes: &[u8], word_bytes: u8) -> Vec<u8> {
    debug_assert!(WIDTHS.contains(&word_bytes), "words have no such length");
    match word_bytes {
        2 => join_by::<2>(planes),
        4 => join_by::<4>(planes),
        8 => join_longs(planes),
        16 => join_by::<16>(planes),
        _ => planes.to_vec(),
    }
}

fn split_by<const W: usize>(bytes: &[u8]) -> Vec<u8> {
    let (words, rest) = bytes.as_chunks::<W>();
    let mut out = Vec::with_capacity(bytes.len());
    for plane in 0..W {
        out.extend(words.iter().filter_map(|word| word.get(plane)));
    }
    out.extend_from_slice(rest);
    debug_assert_eq!(out.len(), bytes.len());
    out
}

fn join_by<const W: usize>(planes: &[u8]) -> Vec<u8> {
    let words = planes.len() / W;
    let (split, rest) = planes.split_at(words * W);
    debug_assert!(rest.len() < W, "a complete word is left over");
    let mut out = vec![0; planes.len()];
    let (joined, rest_of_out) = out.split_at_mut(words * W);
    rest_of_out.copy_from_slice(rest);
    if words > 0 {
        let (joined, _) = joined.as_chunks_mut::<W>();
        for (at, plane) in split.chunks_exact(words).enumerate() {
            for (word, byte) in joined.iter_mut().zip(plane) {
                if let Some(slot) = word.get_mut(at) {
                    *slot = *byte;
                }
            }
        }
    }
    out
}

/// Transposes a square of 8 × 8 bytes, one word per row.
fn turn(mut rows: [u64; 8]) -> [u64; 8] {
    const STEPS: [(usize, u32, u64); 3] = [
        (4, 32, 0x0000_0000_ffff_ffff),
        (2, 16, 0x0000_ffff_0000_ffff),
        (1, 8, 0x00ff_00ff_00ff_00ff),
    ];
    for (distance, shift, mask) in STEPS {
        for at in 0..8_usize {
            if at & distance == 0
                && let (Some(upper), Some(lower)) =
                    (rows.get(at).copied(), rows.get(at + distance).copied())
            {
                let swapped = ((upper >> shift) ^ lower) & mask;
                if let Some(slot) = rows.get_mut(at) {
                    *slot = upper ^ (swapped << shift);
                }
                if let Some(slot) = rows.get_mut(at + distance) {
                    *slot = lower ^ swapped;
                }
            }
        }
    }
    rows
}

/// Like [`split_by`] for words of 8 bytes, but processes eight words at a time where possible.
fn split_longs(bytes: &[u8]) -> Vec<u8> {
    let (words, rest) = bytes.as_chunks::<8>();
    let (squares, odd) = words.as_chunks::<8>();
    let mut out = vec![0; bytes.len()];
    let (body, tail) = out.split_at_mut(words.len() * 8);
    tail.copy_from_slice(rest);
    if words.is_empty() {
        return out;
    }
    let mut planes: Vec<&mut [u8]> = body.chunks_exact_mut(words.len()).collect();
    debug_assert_eq!(planes.len(), 8, "a word has eight bytes");
    for (at, square) in squares.iter().enumerate() {
        for (plane, row) in planes.iter_mut().zip(turn(square.map(u64::from_le_bytes))) {
            if let Some(slot) = plane.get_mut(at * 8..at * 8 + 8) {
                slot.copy_from_slice(&row.to_le_bytes());
            }
        }
    }
    for (at, word) in odd.iter().enumerate() {
        for (plane, byte) in planes.iter_mut().zip(word) {
            if let Some(slot) = plane.get_mut(squares.len() * 8 + at) {
                *slot = *byte;
            }
        }
    }
    out
}

/// Like [`join_by`] for words of 8 bytes, but processes eight words at a time where possible.
fn join_longs(planes: &[u8]) -> Vec<u8> {
    let words = planes.len() / 8;
    let (split, rest) = planes.split_at(words * 8);
    let mut out = vec![0; planes.len()];
    let (joined, tail) = out.split_at_mut(words * 8);
    tail.copy_from_slice(rest);
    if words == 0 {
        return out;
    }
    let planes: Vec<&[u8]> = split.chunks_exact(words).collect();
    debug_assert_eq!(planes.len(), 8, "a word has eight bytes");
    let (joined, _) = joined.as_chunks_mut::<8>();
    let (squares, odd) = joined.as_chunks_mut::<8>();
    let whole = squares.len() * 8;
    for (at, square) in squares.iter_mut().enumerate() {
        let mut rows = [0; 8];
        for (row, plane) in rows.iter_mut().zip(&planes) {
            let bytes = plane.get(at * 8..).and_then(<[u8]>::first_chunk::<8>);
            *row = bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes));
        }
        *square = turn(rows).map(u64::to_le_bytes);
    }
    for (at, word) in odd.iter_mut().enumerate() {
        for (byte, plane) in word.iter_mut().zip(&planes) {
            *byte = plane.get(whole + at).copied().unwrap_or_default();
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_split_is_joined(bytes in prop::collection::vec(any::<u8>(), 0..700)) {
            for word_bytes in WIDTHS {
                let planes = split(&bytes, word_bytes);
                prop_assert_eq!(join(&planes, word_bytes), bytes.clone());
            }
            prop_assert_eq!(split_longs(&bytes), split_by::<8>(&bytes));
            prop_assert_eq!(join_longs(&bytes), join_by::<8>(&bytes));
        }
    }

    #[test]
    fn planes_are_the_bytes_of_a_place() {
        assert_eq!(split(&[1, 2, 3, 4, 5, 6, 7, 8, 9], 4), [1, 5, 2, 6, 3, 7, 4, 8, 9]);
    }
}
