use std::sync::Arc;

use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
use stratalog_functions::governor::Governor;
use stratalog_model::ErrorKind;

use super::*;

static HAS: AtomicUsize = AtomicUsize::new(0);
static KEEPS: AtomicUsize = AtomicUsize::new(0);

fn process() -> Process {
    Process {
        resident: || Some(HAS.load(Ordering::SeqCst) + KEEPS.load(Ordering::SeqCst)),
        give_back: |_| KEEPS.store(0, Ordering::SeqCst),
    }
}

fn statement(bytes: isize) -> Arc<Work> {
    let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1 << 40));
    let work = Work::within(0, &pool);
    work.allocated(bytes);
    work
}

/// A single test, because the process has one limit.
#[test]
fn the_largest_statement_ends_and_large_requests_are_refused() {
    let (small, large) = (statement(5 << 20), statement(300 << 20));
    let allowance =
        Allowance { bytes_max: 1 << 30, hard_bytes_max: 2 << 30, statement_bytes: 100 << 20 };
    HAS.store(800 << 20, Ordering::SeqCst);
    let mut watch = Watch::new(process(), allowance);
    assert!(watch.look() >= Duration::from_millis(LOOK_MS_TURNS));
    assert!(has_memory(200 << 20), "there is room");
    assert!(!has_memory(100 << 20), "the room is promised");
    release_promise(200 << 20);
    for _ in 0..10_000 {
        assert!(has_memory(10 << 20), "short statements return what they requested");
        release_promise(10 << 20);
    }
    assert!(has_memory(200 << 20), "there is room again");
    PROMISED.store(0, Ordering::Relaxed);
    assert!(!has_memory(300 << 20));
    // The watch returns the allocator's memory to the system and does nothing else.
    KEEPS.store(500 << 20, Ordering::SeqCst);
    watch.look();
    assert_eq!(KEEPS.load(Ordering::SeqCst), 0);
    assert!(large.check().is_ok());
    // A large request returns the allocator's memory as well.
    KEEPS.store(500 << 20, Ordering::SeqCst);
    assert!(has_memory(200 << 20));
    PROMISED.store(0, Ordering::Relaxed);
    HAS.store(1100 << 20, Ordering::SeqCst);
    watch.look();
    assert_eq!(large.check().unwrap_err().kind(), ErrorKind::OutOfMemory);
    assert!(small.check().is_ok(), "one at a time");
    assert!(has_memory(64 << 10) && !has_memory(3 << 20));
    // Far past the limit, the next large statement ends together with the first; small statements
    // stay.
    let second = statement(200 << 20);
    HAS.store(1060 << 20, Ordering::SeqCst);
    watch.look();
    assert!(second.check().is_ok());
    HAS.store(1200 << 20, Ordering::SeqCst);
    watch.look();
    assert!(second.check().is_err() && small.check().is_ok());
    drop(second);
    HAS.store(1100 << 20, Ordering::SeqCst);
    // The large statement has ended. The remaining memory belongs to no statement, and statements
    // keep half of their budget.
    drop(large);
    std::thread::sleep(GIVE_BACK_MIN);
    watch.look();
    assert!(small.check().is_ok());
    assert!(has_memory(3 << 20));
    // The hard limit always applies.
    HAS.store(2100 << 20, Ordering::SeqCst);
    std::thread::sleep(LAST_MOMENTS_MIN);
    watch.look();
    assert_eq!(small.check().unwrap_err().kind(), ErrorKind::OutOfMemory);
    assert!(takes_turns() && !small.rests(), "it ends");
    drop(small);
    // Large statements take turns if memory is short.
    let (small, second, third) = (statement(5 << 20), statement(200 << 20), statement(100 << 20));
    HAS.store(800 << 20, Ordering::SeqCst);
    watch.look();
    assert_eq!((second.rests(), third.rests(), small.rests()), (false, true, false));
    std::thread::sleep(TURN);
    watch.look();
    assert_eq!((second.rests(), third.rests(), small.rests()), (true, false, false));
    third.stop(Stop::User);
    watch.look();
    assert_eq!((second.rests(), third.rests()), (false, false));
    HAS.store(100 << 20, Ordering::SeqCst);
    watch.look();
    assert!(!takes_turns());
    // Enough memory is left for the large statements to double their memory.
    drop(second);
    HAS.store(800 << 20, Ordering::SeqCst);
    watch.look();
    assert!(!takes_turns());
    LIMIT.store(0, Ordering::Relaxed);
}
