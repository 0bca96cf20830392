use stratalog_model::Disk;
use stratalog_sim::Random;

use super::*;
use crate::LocalDisk;

#[test]
fn groups_of_any_length_lie_where_they_belong() {
    let folder = tempfile::tempdir().unwrap();
    let file = LocalDisk.create(&folder.path().join("segment")).unwrap();
    file.preallocate(16 << 20).unwrap();
    let mut staging = Staging::default();
    let mut random = Random::new(5);
    let mut expected = vec![0_u8; 16 << 20];
    let mut at = 0_u64;
    // Lengths that end within the first block, at the end of a block, and after a tail; and lengths
    // above the size of the staging buffer.
    let lengths = [1, 100, 3995, 4096, 8192, 10, 4086, 5 << 20, 4095, 1, 2 << 20, 300_001, 77];
    for length in lengths {
        let bytes: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
        let mut direct = Direct::begin(file.as_ref(), &mut staging, at);
        for part in bytes.chunks(1 + random.below(100_000) as usize) {
            direct.push(part).unwrap();
        }
        let (end, writes) = direct.finish().unwrap();
        assert_eq!(end, at + length as u64);
        assert!(writes >= 1);
        expected[at as usize..end as usize].copy_from_slice(&bytes);
        at = end;
    }
    file.sync_data().unwrap();
    let mut found = vec![1; expected.len()];
    assert_eq!(file.read_at(&mut found, 0).unwrap(), expected.len());
    assert!(found == expected, "the bytes of the groups are not those that were written");
}
