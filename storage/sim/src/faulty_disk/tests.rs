use std::path::Path;

use super::*;

fn with_file() -> (FaultyDisk, Box<dyn DiskFile>) {
    let disk = FaultyDisk::new(1);
    disk.create_dir_all(Path::new("/d")).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    let file = disk.create(Path::new("/d/f")).unwrap();
    (disk, file)
}

#[test]
fn a_kill_keeps_the_page_cache() {
    let (disk, file) = with_file();
    file.write_all_at(b"hello", 3).unwrap();
    let after = disk.crash(Crash::Kill);
    assert_eq!(after.contents(Path::new("/d/f")).unwrap(), b"\0\0\0hello");
    assert!(file.write_all_at(b"x", 0).is_err() && disk.exists(Path::new("/d")).is_err());
}

#[test]
fn a_power_cut_keeps_what_was_synced() {
    let (disk, file) = with_file();
    file.write_all_at(&[1; 2000], 0).unwrap();
    file.sync_data().unwrap();
    disk.sync_dir(Path::new("/d")).unwrap();
    file.write_all_at(&[2; 2000], 1000).unwrap();
    let after = disk.crash(Crash::PowerCut);
    let bytes = after.contents(Path::new("/d/f")).unwrap();
    assert!(bytes.len() >= 2000);
    assert_eq!(&bytes[..1000], &[1; 1000]);
    assert!(bytes[1024..2000].iter().all(|byte| [1, 2].contains(byte)));
}

#[test]
fn an_unsynced_name_may_be_lost_and_a_synced_one_is_not() {
    let mut lost = 0;
    for seed in 0..20 {
        let disk = FaultyDisk::new(seed);
        disk.create_dir_all(Path::new("/d")).unwrap();
        disk.sync_dir(Path::new("/")).unwrap();
        disk.create(Path::new("/d/kept")).unwrap().sync_all().unwrap();
        disk.sync_dir(Path::new("/d")).unwrap();
        disk.create(Path::new("/d/new")).unwrap().sync_all().unwrap();
        let after = disk.crash(Crash::PowerCut);
        assert!(after.exists(Path::new("/d/kept")).unwrap());
        lost += u32::from(!after.exists(Path::new("/d/new")).unwrap());
    }
    assert!((1..20).contains(&lost), "{lost}");
}

#[test]
fn a_failed_sync_leaves_clean_pages_that_are_lost() {
    let (disk, file) = with_file();
    disk.sync_dir(Path::new("/d")).unwrap();
    file.preallocate(512).unwrap();
    file.sync_all().unwrap();
    file.write_all_at(&[7; 512], 0).unwrap();
    disk.fail(Operation::Sync, 1, Failure::Device);
    assert!(file.sync_data().is_err());
    assert!(file.sync_data().is_ok());
    let after = disk.crash(Crash::PowerCut);
    assert_eq!(after.contents(Path::new("/d/f")).unwrap(), [0; 512]);
}

#[test]
fn room_runs_out() {
    let (disk, file) = with_file();
    disk.set_capacity(1000);
    assert_eq!(file.preallocate(1001).unwrap_err().kind(), io::ErrorKind::StorageFull);
    file.preallocate(900).unwrap();
    assert_eq!(disk.free_bytes(Path::new("/d")).unwrap(), 100);
    assert!(file.write_all_at(&[1; 101], 900).is_err());
    assert!(file.write_all_at(&[1; 100], 900).is_ok());
}

#[test]
fn a_lock_is_held_until_dropped_or_the_holder_dies() {
    let (disk, _file) = with_file();
    let lock = disk.lock(Path::new("/d/lock")).unwrap();
    assert_eq!(disk.lock(Path::new("/d/lock")).err().unwrap().kind(), io::ErrorKind::WouldBlock);
    drop(lock);
    let lock = disk.lock(Path::new("/d/lock")).unwrap();
    let after = disk.crash(Crash::Kill);
    let second = after.lock(Path::new("/d/lock")).unwrap();
    drop(lock);
    assert!(after.lock(Path::new("/d/lock")).is_err());
    drop(second);
}

#[test]
fn a_halt_ends_everything() {
    let (disk, file) = with_file();
    disk.halt_after(2);
    file.write_all_at(&[1; 4096], 0).unwrap();
    assert!(file.write_all_at(&[2; 4096], 0).is_err());
    assert!(disk.is_halted() && file.sync_data().is_err());
    let after = disk.crash(Crash::Kill);
    assert!(after.open(Path::new("/d/f")).is_ok());
}

#[test]
fn the_nth_call_fails_once_if_it_can_fail_in_that_way() {
    let (disk, file) = with_file();
    disk.fail_any(2, Failure::Full);
    file.write_all_at(&[1; 100], 0).unwrap();
    assert_eq!(file.read_at(&mut [0; 10], 0).unwrap(), 10);
    disk.remove_file(Path::new("/d/f")).unwrap();
    assert!(disk.is_failing());
    assert_eq!(file.sync_data().unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert!(!disk.is_failing());
    disk.fail_any(1, Failure::Device);
    assert!(file.read_at(&mut [0; 10], 0).is_err());
    assert!(file.write_all_at(&[1; 100], 0).is_ok());
}

#[test]
fn what_is_read_only_can_be_read() {
    let (disk, file) = with_file();
    file.write_all_at(b"kept", 0).unwrap();
    disk.set_read_only(true);
    assert!(file.write_all_at(&[9; 2000], 0).is_err() && file.sync_all().is_err());
    assert!(disk.create(Path::new("/d/g")).is_err());
    assert!(disk.remove_file(Path::new("/d/f")).is_err());
    assert_eq!(disk.contents(Path::new("/d/f")).unwrap(), b"kept");
    assert!(disk.open(Path::new("/d/f")).is_ok());
    disk.set_read_only(false);
    file.write_all_at(b"more", 4).unwrap();
    assert_eq!(disk.contents(Path::new("/d/f")).unwrap(), b"keptmore");
}

#[test]
fn a_bit_flips_on_its_way_to_the_file() {
    let (disk, file) = with_file();
    let other = disk.create(Path::new("/d/g.end")).unwrap();
    disk.flip_write(".end", 2);
    file.write_all_at(&[0; 8], 0).unwrap();
    other.write_all_at(&[0; 8], 0).unwrap();
    other.write_all_at(&[0; 8], 8).unwrap();
    other.write_all_at(&[0; 8], 16).unwrap();
    assert_eq!(disk.contents(Path::new("/d/f")).unwrap(), [0; 8]);
    let bytes = disk.contents(Path::new("/d/g.end")).unwrap();
    assert_eq!(bytes[..8], [0; 8]);
    assert_eq!(bytes[16..], [0; 8]);
    assert_eq!(bytes.iter().map(|byte| byte.count_ones()).sum::<u32>(), 1);
}
