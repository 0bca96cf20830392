use std::sync::Arc;

use super::*;

#[test]
fn operators_that_spill_leave_room_for_others() {
    let pool: Arc<dyn MemoryPool> = Arc::new(StatementPool::new(8000));
    let sort = MemoryConsumer::new("sort").with_can_spill(true).register(&pool);
    sort.try_grow(6900).unwrap();
    assert!(sort.try_grow(200).is_err(), "it spills");
    let values = MemoryConsumer::new("values").register(&pool);
    values.try_grow(1100).unwrap();
    assert!(values.try_grow(1).is_err());
    sort.free();
    values.try_grow(6000).unwrap();
    // A consumer without spillable memory starts with the remaining memory.
    let other = MemoryConsumer::new("sort").with_can_spill(true).register(&pool);
    other.try_grow(400).unwrap();
    assert!(other.try_grow(10).is_err());
}
