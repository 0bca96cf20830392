//! Every disk call of a short scenario fails once: the first call, the second call, … until the
//! scenario ends without a failure.
//!
//! ```text
//!   EIO, ENOSPC ─► the step says so ─► done again ─► goes on ─► restart
//!   kill, power cut ─► restart                                    │
//!     the acknowledged rows, exactly; no file without a record  ◄─┘ and everything works
//! ```

use stratalog_model::{Durability, ErrorKind};
use stratalog_sim::{Crash, Failure, Operation};

use crate::{life::*, scenario::*};

/// Runs the scenario again and again; in each run, one disk call fails. Returns the number of
/// calls.
async fn fail_each(failure: Failure, durability: Durability) -> u64 {
    let told: &[ErrorKind] = match failure {
        Failure::Full => &[ErrorKind::Io, ErrorKind::DiskFull],
        _ => &[ErrorKind::Io],
    };
    for nth in 1.. {
        let _at = At(format!("call {nth} fails with {failure:?}, {durability}"));
        let mut world = World::new(nth, durability);
        world.disk.fail_any(nth, failure);
        for step in SCENARIO {
            world.step(step, told).await;
        }
        let unmet = world.disk.is_failing();
        let crash = if nth % 2 == 0 { Crash::Kill } else { Crash::PowerCut };
        world.restart(crash).await;
        world.goes_on().await;
        if unmet {
            return nth - 1;
        }
    }
    unreachable!()
}

/// Runs the scenario until its disk halts at call `nth`, or to its end.
async fn halted_at(nth: u64, seed: u64, durability: Durability) -> World {
    let mut world = World::new(seed, durability);
    world.disk.halt_after(nth);
    for step in SCENARIO {
        world.value += 1.0;
        if world.act(step).await.is_err() || world.disk.is_halted() {
            world.possible.push(world.after(step));
            break;
        }
    }
    world
}

/// Runs the scenario again and again; each run crashes at another disk call. Returns the number of
/// calls.
async fn die_at_each(crash: Crash, durability: Durability, salt: u64) -> u64 {
    for nth in 1.. {
        let _at = At(format!("{crash:?} at call {nth}, {durability}, salt {salt}"));
        let mut world = halted_at(nth, nth ^ salt, durability).await;
        let unmet = !world.disk.is_halted();
        world.restart(crash).await;
        world.goes_on().await;
        if unmet {
            return nth - 1;
        }
    }
    unreachable!()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_call_that_fails_costs_nothing_that_was_acknowledged() {
    let calls = fail_each(Failure::Device, Durability::Disk).await;
    println!("{calls} calls failed");
    assert!(calls > 200, "{calls}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_call_that_fails_costs_nothing_that_was_durable() {
    let calls = fail_each(Failure::Device, Durability::Relaxed).await;
    println!("{calls} calls failed");
    assert!(calls > 200, "{calls}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_call_that_finds_no_room_is_done_again() {
    let calls = fail_each(Failure::Full, Durability::Disk).await;
    println!("{calls} calls found no room");
    assert!(calls > 80, "{calls}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_at_every_call_loses_nothing() {
    let calls = die_at_each(Crash::Kill, Durability::Disk, 0).await;
    println!("killed at {calls} calls");
    assert!(calls > 80, "{calls}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_power_cut_at_every_call_loses_nothing_that_is_durable() {
    let mut calls = 0;
    for salt in [0, 1 << 20, 1 << 21] {
        calls += die_at_each(Crash::PowerCut, Durability::Disk, salt).await;
    }
    println!("the power was cut at {calls} calls");
    assert!(calls > 300, "{calls}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_power_cut_at_every_call_leaves_what_was_made_durable_of_relaxed_events() {
    let calls = die_at_each(Crash::PowerCut, Durability::Relaxed, 1 << 22).await;
    println!("the power was cut at {calls} calls");
    assert!(calls > 80, "{calls}");
}

/// Starts the server on the disk of a crashed scenario. In each start, another disk call fails or
/// crashes the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_that_fails_or_dies_at_any_call_is_repeated() {
    let mut starts = 0;
    for died_at in (10..160).step_by(10) {
        for dies in [None, Some(Crash::Kill), Some(Crash::PowerCut)] {
            let mut world = halted_at(died_at, died_at, Durability::Disk).await;
            world.disk = world.disk.crash(Crash::PowerCut);
            if let Some(life) = world.life.take() {
                life.close();
            }
            for nth in 1.. {
                let _at = At(format!("died at {died_at}, start fails at {nth}, {dies:?}"));
                match dies {
                    None => world.disk.fail_any(nth, Failure::Device),
                    Some(_) => world.disk.halt_after(nth),
                }
                let started = world.try_start();
                starts += 1;
                match started.map(Life::close) {
                    Ok(()) if world.disk.is_failing() => break,
                    Ok(()) if dies.is_some() && !world.disk.is_halted() => break,
                    Ok(()) => {}
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Io, "{error}"),
                }
                world.disk = world.disk.crash(dies.unwrap_or(Crash::Kill));
            }
            world.restart(Crash::PowerCut).await;
            world.goes_on().await;
        }
    }
    println!("{starts} starts");
    assert!(starts > 500, "{starts}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_is_full_at_any_step_costs_nothing_and_goes_on_when_there_is_room() {
    let (mut appends, mut moves) = (0, 0);
    for room in (0..).step_by(300) {
        let _at = At(format!("room for {room} bytes"));
        let mut world = World::new(room, Durability::Disk);
        world.disk.set_capacity(world.disk.used_bytes() + room);
        let mut refused = 0;
        for step in SCENARIO {
            world.value += 1.0;
            while let Err(error) = world.act(step).await {
                assert_eq!(error.kind(), ErrorKind::DiskFull, "{step:?}: {error}");
                assert_eq!(world.poisoned(), [false; 2], "{step:?}: {error}");
                world.check().await;
                if world.pinned.is_none() {
                    assert_eq!(files(&world.disk), world.life().named(), "{step:?} left files");
                }
                *(if step.moves() { &mut moves } else { &mut appends }) += 1;
                refused += 1;
                assert!(refused < 3, "{step:?}, with room: {error}");
                if refused == 2 {
                    world.disk.set_capacity(u64::MAX);
                }
            }
            world.check().await;
        }
        world.disk.set_capacity(u64::MAX);
        world.restart(if room % 2 == 0 { Crash::Kill } else { Crash::PowerCut }).await;
        world.goes_on().await;
        if refused == 0 {
            break;
        }
    }
    println!("full at {appends} appends and {moves} moves");
    assert!(appends > 20 && moves > 20, "{appends}, {moves}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_becomes_read_only_is_read_and_told() {
    let mut refused = 0;
    for from in 0..SCENARIO.len() {
        let _at = At(format!("read-only from step {from} on"));
        let mut world = World::new(from as u64, Durability::Disk);
        for step in &SCENARIO[..from] {
            world.value += 1.0;
            world.act(*step).await.unwrap();
        }
        world.disk.set_read_only(true);
        for step in &SCENARIO[from..] {
            world.value += 1.0;
            if let Err(error) = world.act(*step).await {
                assert_eq!(error.kind(), ErrorKind::Io, "{step:?}: {error}");
                refused += 1;
                if !step.moves() {
                    // The write failed, and its undo failed, too.
                    world.possible.push(world.after(*step));
                }
            }
            world.check().await;
        }
        world.disk.set_read_only(false);
        world.restart(Crash::Kill).await;
        world.goes_on().await;
    }
    assert!(refused > 50, "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tablet_that_reads_back_wrongly_is_not_counted_on() {
    let mut refused = 0;
    for nth in 1.. {
        let _at = At(format!("write {nth} to a tablet flips a bit"));
        let mut world = World::new(nth, Durability::Disk);
        world.disk.flip_write(".building", nth);
        for step in SCENARIO {
            world.value += 1.0;
            if let Err(error) = world.act(step).await {
                assert!(step.moves(), "{step:?}: {error}");
                assert_eq!(error.kind(), ErrorKind::DataCorrupted, "{step:?}: {error}");
                refused += 1;
                world.check().await;
                world.act(step).await.unwrap();
            }
            world.check().await;
        }
        let unmet = world.disk.is_flipping();
        world.restart(Crash::Kill).await;
        world.goes_on().await;
        if unmet {
            assert!(refused * 10 >= (nth - 1) * 7, "{refused} of {} were noticed", nth - 1);
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_sync_poisons_only_whose_it_is() {
    let (mut files, mut edits) = (0, 0);
    for (operation, nth) in
        (1..8).flat_map(|n| [(Operation::Sync, n), (Operation::SyncDirectory, n)])
    {
        let _at = At(format!("{operation:?} {nth} of a flush fails"));
        let mut world = World::new(nth, Durability::Disk);
        world.act(SCENARIO[0]).await.unwrap();
        world.disk.fail(operation, nth, Failure::Device);
        let Err(error) = world.act(Step::Flush(0)).await else { continue };
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        world.check().await;
        assert!(!world.poisoned()[0], "the journal has nothing to do with it");
        match world.poisoned()[1] {
            // A tablet that is not durable is built again, under another number.
            false => {
                files += 1;
                world.act(Step::Flush(0)).await.unwrap();
            }
            true => {
                edits += 1;
                let again = world.act(Step::Flush(0)).await.unwrap_err();
                assert!(again.message().contains("has stopped for good"), "{again}");
            }
        }
        // Appends still work.
        world.act(Step::Append(0, "b", 100, 103)).await.unwrap();
        world.check().await;
        world.restart(Crash::PowerCut).await;
        world.goes_on().await;
    }
    assert!(files >= 6 && edits == 1, "{files} of files, {edits} of edits");
}
