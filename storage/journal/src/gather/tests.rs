use super::*;

fn gather() -> Gather {
    Gather::new(Duration::from_millis(2))
}

/// Simulates one group: `waiting` frames are queued at its start; if the group waits, all of the
/// `all` appenders append. Returns the size of the group.
fn group(gather: &mut Gather, waiting: usize, all: usize) -> usize {
    let frames = match gather.wait(waiting, 512) {
        None => waiting,
        Some(wait) => {
            let came = all.min(wait.frames);
            gather.learn_wait(wait, came);
            came
        }
    };
    gather.done(frames, all - frames);
    frames
}

#[test]
fn one_appender_is_never_waited_for() {
    let mut gather = gather();
    for _ in 0..1000 {
        assert!(gather.wait(1, 512).is_none());
        gather.done(1, 0);
    }
}

#[test]
fn appenders_that_overlap_share_their_groups() {
    for all in [2, 8, 64] {
        let mut gather = gather();
        gather.done(1, 1);
        let frames: usize = (0..100).map(|_| group(&mut gather, 1, all)).sum();
        assert_eq!(frames, 100 * all, "{all} appenders");
    }
}

#[test]
fn appenders_that_left_are_forgotten() {
    let mut gather = gather();
    gather.done(1, 1);
    (0..100).for_each(|_| {
        group(&mut gather, 1, 64);
    });
    (0..40).for_each(|_| {
        group(&mut gather, 1, 2);
    });
    let wait = (0..2).find_map(|_| gather.wait(1, 512).filter(|wait| !wait.explores));
    assert_eq!(wait.map(|wait| wait.frames), Some(2));
    gather.done(1, 0);
    assert!(gather.wait(1, 512).is_none(), "one is left");
}

#[test]
fn large_groups_start_at_once() {
    let mut gather = gather();
    gather.done(10, 10);
    assert!(gather.wait(3, ENOUGH_BYTES).is_none());
    assert!(gather.wait(3, 512).is_some());
}

#[test]
fn waiting_can_be_off() {
    let mut gather = Gather::new(Duration::ZERO);
    gather.done(10, 10);
    assert!(gather.wait(3, 512).is_none());
}
