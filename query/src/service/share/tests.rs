use super::*;
use crate::service::memory::StatementPool;

#[test]
fn nobody_takes_more_than_half_of_what_others_leave() {
    let pool: Arc<dyn MemoryPool> = Arc::new(StatementPool::new(8000));
    let (first, second) = (Share::new("first", &pool), Share::new("second", &pool));
    let mut held = first.hold(4000).unwrap();
    assert_eq!(first.hold(1).unwrap_err().kind(), ErrorKind::OutOfMemory);
    let other = second.hold(2000).unwrap();
    assert!(second.hold(1).is_err());
    held.resize(3000).unwrap();
    drop((held, other));
    assert_eq!(pool.reserved(), 0);
    assert!(second.hold(4000).is_ok());
}

#[test]
fn literals_count_less_than_what_is_around_them() {
    assert!(statement_bytes("SELECT 1") > 8 * NODE_BYTES);
    assert!(statement_bytes(&format!("SELECT '{}'", "x".repeat(1000))) < 7000);
}
