use super::*;

#[test]
fn retries_are_recognized() {
    let mut producers = Producers::new(10);
    let producer = ProducerId(7);
    let first = Outcome::new(1);
    assert!(matches!(producers.enter(producer, 5, 5, &first), Admission::New));
    let second = Outcome::new(2);
    assert!(
        matches!(producers.enter(producer, 5, 5, &second), Admission::Wait(other) if other.id() == 1)
    );
    producers.committed(producer, 5);
    producers.leave(producer, &first);
    assert!(matches!(producers.enter(producer, 5, 5, &second), Admission::Duplicate));
    assert!(matches!(producers.enter(producer, 4, 4, &second), Admission::Duplicate));
    assert!(matches!(producers.enter(producer, 6, 6, &second), Admission::New));
    assert!(!producers.is_duplicate(ProducerId(8), 5));
    producers.leave(producer, &second);
    // Several at once: all of them before, some of them, none.
    assert!(matches!(producers.enter(producer, 3, 5, &second), Admission::Duplicate));
    assert!(matches!(producers.enter(producer, 5, 9, &second), Admission::Overlap));
    assert!(matches!(producers.enter(producer, 6, 9, &second), Admission::New));
}

#[test]
fn the_longest_silent_is_forgotten_first() {
    let mut producers = Producers::new(3);
    for id in 1..=3 {
        producers.committed(ProducerId(id), 1);
    }
    producers.committed(ProducerId(1), 2);
    producers.committed(ProducerId(4), 1);
    assert!(!producers.is_duplicate(ProducerId(2), 1));
    for (id, number) in [(1, 2), (3, 1), (4, 1)] {
        assert!(producers.is_duplicate(ProducerId(id), number), "{id}");
    }
    assert_eq!(producers.by_age.len(), 3);
}
