use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use arrow::array::{Array, ArrayRef, AsArray, StringViewArray};

use super::*;

#[derive(Debug)]
struct Budget {
    bytes_max: usize,
    used: AtomicUsize,
    stopped: AtomicBool,
}

impl Budget {
    fn of(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { bytes_max, used: AtomicUsize::new(0), stopped: AtomicBool::new(false) })
    }

    fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

impl Governor for Budget {
    fn check(&self) -> Result<()> {
        match self.stopped.load(Ordering::Relaxed) {
            true => Err(Error::new(ErrorKind::QueryCanceled, "stopped")),
            false => Ok(()),
        }
    }

    fn grow(&self, bytes: usize) -> Result<()> {
        if self.used() + bytes > self.bytes_max {
            return Err(Error::new(ErrorKind::OutOfMemory, "too much"));
        }
        self.used.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    fn shrink(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

#[test]
fn the_last_user_of_an_array_gives_its_memory_back() {
    let budget = Budget::of(1 << 20);
    let governor: Arc<dyn Governor> = budget.clone();
    let text = "x".repeat(100_000);
    let array: ArrayRef = Arc::new(StringViewArray::from(vec![text.as_str(), "short"]));
    let tied = within(&governor, || {
        let charge = charge(100_000).unwrap();
        with_charge(&array, charge, &[]).unwrap()
    });
    assert_eq!(tied.as_string_view().value(0), text);
    assert_eq!(tied.as_string_view().value(1), "short");
    assert_eq!(budget.used(), 100_000);
    let slice = tied.slice(0, 1);
    drop(tied);
    assert_eq!(budget.used(), 100_000);
    drop(slice);
    assert_eq!(budget.used(), 0);
}

#[test]
fn a_charge_past_the_budget_takes_nothing() {
    let budget = Budget::of(1000);
    let governor: Arc<dyn Governor> = budget.clone();
    within(&governor, || {
        let mut first = charge(600).unwrap();
        assert_eq!(charge(600).unwrap_err().kind(), ErrorKind::OutOfMemory);
        assert!(first.resize(1001).is_err());
        assert_eq!(budget.used(), 600);
        first.resize(10).unwrap();
        assert_eq!(budget.used(), 10);
    });
    assert_eq!(budget.used(), 0);
    assert!(current().is_none());
}

#[test]
fn charges_for_constants_end_with_the_evaluation() {
    let budget = Budget::of(1000);
    let governor: Arc<dyn Governor> = budget.clone();
    within(&governor, || {
        evaluating(Evaluation::Splittable, || {
            keep_constant(1, charge(100).unwrap());
            keep_constant(2, charge(200).unwrap());
            assert!(take_constant(1).is_some());
            assert_eq!(budget.used(), 200);
        });
        assert_eq!((budget.used(), evaluation()), (0, Evaluation::Whole));
    });
}

#[tokio::test]
async fn tasks_of_a_plan_inherit_the_governor() {
    install();
    let governor: Arc<dyn Governor> = Budget::of(1000);
    let inherited = governed(governor, async {
        let task = datafusion::common::runtime::SpawnedTask::spawn(async { current().is_some() });
        let block =
            datafusion::common::runtime::SpawnedTask::spawn_blocking(|| current().is_some());
        (task.await.unwrap(), block.await.unwrap())
    });
    assert_eq!(inherited.await, (true, true));
    assert!(current().is_none());
}

#[test]
fn a_loop_notices_that_its_statement_must_stop() {
    let budget = Budget::of(0);
    let governor: Arc<dyn Governor> = budget.clone();
    within(&governor, || {
        let mut pace = Pace::default();
        assert!((0..10_000).all(|_| pace.step().is_ok()));
        budget.stopped.store(true, Ordering::Relaxed);
        assert!((0..10_000).any(|_| pace.step().is_err()));
    });
}
