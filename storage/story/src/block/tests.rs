use super::*;

#[test]
fn blocks_around_a_range_stay_before_the_tail() {
    let end = 3 * BLOCK_BYTES + 10;
    let blocks = Blocks::new(vec![0; 4], end).unwrap();
    assert_eq!(blocks.around(&(0..1)), 0..BLOCK_BYTES);
    assert_eq!(blocks.around(&(BLOCK_BYTES - 1..BLOCK_BYTES + 1)), 0..2 * BLOCK_BYTES);
    assert_eq!(blocks.around(&(3 * BLOCK_BYTES + 1..end)), 3 * BLOCK_BYTES..end);
    assert_eq!(Blocks::new(vec![0; 3], end), None);
    assert_eq!(Blocks::new(vec![0; 5], end), None);
}

#[test]
fn each_block_is_told_from_what_is_not_it() {
    let bytes: Vec<u8> = (0..BLOCK_BYTES * 2 + 7).map(|at| (at % 251) as u8).collect();
    let checksums: Vec<u32> = bytes.chunks(BLOCK_BYTES as usize).map(crc32c::crc32c).collect();
    let end = bytes.len() as u64;
    let blocks = Blocks::decode(&Blocks::encode(&checksums), end).unwrap();
    assert_eq!(blocks.verify(0, &bytes), Ok(()));
    let second = BLOCK_BYTES as usize;
    assert_eq!(blocks.verify(BLOCK_BYTES, &bytes[second..]), Ok(()));
    let mut changed = bytes;
    changed[second + 3] ^= 1;
    assert_eq!(blocks.verify(0, &changed), Err(BLOCK_BYTES..2 * BLOCK_BYTES));
    assert_eq!(blocks.verify(2 * BLOCK_BYTES, &changed[2 * second..]), Ok(()));
    // Bytes after the last block have no checksum.
    assert!(blocks.verify(3 * BLOCK_BYTES, &[1]).is_err());
    assert_eq!(Blocks::decode("AAA", 1), None);
    assert_eq!(Blocks::decode("AAAA", 1), None);
}
