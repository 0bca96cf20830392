use super::*;
use crate::block::BLOCK_BYTES;

const SHAPE: ReadShape = ReadShape {
    request_bytes: 4 * BLOCK_BYTES,
    gap_bytes_max: BLOCK_BYTES,
    at_once: 1,
    near: true,
};

fn blocks(count: u64) -> Blocks {
    Blocks::new(vec![0; count as usize], count * BLOCK_BYTES - 5).unwrap()
}

fn in_blocks(ranges: &[Range<u64>]) -> Vec<Range<u64>> {
    ranges.iter().map(|range| range.start * BLOCK_BYTES..range.end * BLOCK_BYTES).collect()
}

#[test]
fn neighbours_are_joined_and_distant_ranges_are_not() {
    let at = |block: u64| block * BLOCK_BYTES + 7..block * BLOCK_BYTES + 20;
    let requests = requests([at(6), at(0), at(2), at(0), 5..5], &blocks(20), SHAPE);
    assert_eq!(requests, in_blocks(&[0..3, 6..7]));
}

#[test]
fn long_runs_are_split_between_blocks() {
    let blocks = blocks(10);
    let requests = requests(Some(100..blocks.end() - 1), &blocks, SHAPE);
    assert_eq!(requests.first().unwrap().start, 0);
    assert_eq!(requests.last().unwrap().end, blocks.end());
    assert_eq!(requests.len(), 3);
    for pair in requests.windows(2) {
        assert_eq!(pair[0].end, pair[1].start);
        assert_eq!(pair[0].end % BLOCK_BYTES, 0);
    }
}

#[test]
fn nothing_is_asked_for_nothing() {
    assert!(requests([], &blocks(3), SHAPE).is_empty());
}
