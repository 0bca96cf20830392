use super::*;
use crate::ingest::outcome::OutcomeEnd;

#[test]
fn retries_are_recognized() {
    let mut producers = Producers::new(10);
    let producer = ProducerId(7);
    let first = Outcome::new(1);
    assert!(matches!(producers.enter(producer, 5, 5, &first), ProducerDecision::New));
    let second = Outcome::new(2);
    assert!(
        matches!(producers.enter(producer, 5, 5, &second), ProducerDecision::Wait(other) if other.id() == 1)
    );
    producers.committed(producer, 5);
    producers.leave(producer, &first);
    assert!(matches!(producers.enter(producer, 5, 5, &second), ProducerDecision::Duplicate));
    assert!(matches!(producers.enter(producer, 4, 4, &second), ProducerDecision::Duplicate));
    assert!(matches!(producers.enter(producer, 6, 6, &second), ProducerDecision::New));
    assert!(!producers.is_duplicate(ProducerId(8), 5));
    producers.leave(producer, &second);
    // Several numbers at once: all committed before, some committed before, none.
    assert!(matches!(producers.enter(producer, 3, 5, &second), ProducerDecision::Duplicate));
    assert!(matches!(producers.enter(producer, 5, 9, &second), ProducerDecision::Overlap));
    assert!(matches!(producers.enter(producer, 6, 9, &second), ProducerDecision::New));
}

#[test]
fn who_is_refused_waits_for_other_tries_of_the_same_numbers_alone() {
    let mut producers = Producers::new(10);
    let producer = ProducerId(7);
    let tries: Vec<_> = (1..=4).map(Outcome::new).collect();
    let [group, again, third, later] = tries.as_slice() else { unreachable!() };
    let waits_for = |earlier: EarlierAttempt| match earlier {
        EarlierAttempt::UnderWay(other) => Some(other.id()),
        EarlierAttempt::Nothing => None,
        other => panic!("{other:?}"),
    };
    producers.begin(producer, 5, 8, group);
    producers.begin(producer, 9, 9, later);
    producers.begin(ProducerId(8), 5, 5, third);
    producers.begin(producer, 5, 5, again);
    assert_eq!(waits_for(producers.refused(producer, 5, 5, again)), Some(1));
    assert_eq!(
        waits_for(producers.refused(producer, 9, 9, later)),
        None,
        "others are no tries of it"
    );
    assert_eq!(waits_for(producers.refused(ProducerId(8), 5, 5, third)), None);
    // Two refused attempts do not wait for each other.
    assert_eq!(waits_for(producers.refused(producer, 5, 8, group)), None);
    producers.begin(producer, 8, 8, third);
    assert_eq!(waits_for(producers.refused(producer, 5, 8, group)), Some(3));
    drop(OutcomeEnd(Arc::clone(third)));
    assert_eq!(waits_for(producers.refused(producer, 5, 8, group)), None, "it has ended");
    producers.committed(producer, 6);
    assert!(matches!(producers.refused(producer, 5, 5, again), EarlierAttempt::Committed));
    assert!(matches!(producers.refused(producer, 5, 8, group), EarlierAttempt::Overlap));
    for outcome in &tries {
        producers.leave(producer, outcome);
        producers.leave(ProducerId(8), outcome);
    }
    assert!(producers.tries.is_empty());
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
