use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicI64, Ordering},
};

use stratalog_model::{
    Collision, ColumnDefinition, ColumnId, ColumnType, Durability, Frame, Granularity, LatePolicy,
    Lsn, SchemaVersion, TickScale, TickSource,
    log::{Completion, LogStatus, Reservation},
};

use super::*;
use crate::version::{
    lost_positions::LostPositions, piece_set::PieceSet, published_versions::PublishedVersions,
};

/// A log without writers.
#[derive(Debug)]
struct Silence;

impl Log for Silence {
    fn reserve(&self, _: usize) -> BoxFuture<'_, Result<Reservation>> {
        Box::pin(async { Err(Error::internal("the test writes nothing")) })
    }

    fn submit(&self, _: Frame, _: Reservation, _: Durability, done: Completion) {
        done(Err(Error::internal("the test writes nothing")));
    }

    fn replay(&self, _: &mut dyn FnMut(Lsn, Frame) -> Result<()>) -> Result<()> {
        Ok(())
    }

    fn status(&self) -> LogStatus {
        LogStatus::default()
    }

    fn close(&self) -> Result<()> {
        Ok(())
    }
}

/// A clock set by hand.
#[derive(Debug)]
struct Hand(AtomicI64);

impl Clock for Hand {
    fn now_ns(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }

    fn monotonic_ns(&self) -> u64 {
        0
    }
}

/// A chronicle with clocked ticks of 1 µs.
fn clocked() -> ChronicleDefinition {
    let time = ColumnDefinition {
        id: ColumnId(1),
        name: "time".to_string(),
        column_type: ColumnType::TimestampTz { precision: 6 },
        nullable: false,
        default_sql: None,
        missing_value: None,
        comment: None,
    };
    ChronicleDefinition {
        id: ChronicleId(1),
        database: "stratalog".to_string(),
        schema: "public".to_string(),
        name: "cpu".to_string(),
        columns: vec![time],
        tick_column: ColumnId(1),
        key_columns: vec![],
        keys_added: 0,
        indexes: Vec::new(),
        indexes_made: 0,
        primary_key: false,
        scale: TickScale::starting_at(0, Granularity::from_ns(1_000).unwrap()),
        coarsened: None,
        collision: Collision::All,
        late: LatePolicy::Accept,
        time_source: TickSource::Client,
        acceptance_window_ms: Some(100),
        tiering: Default::default(),
        durability: Durability::Disk,
        schema_version: SchemaVersion(1),
        schema_versions: BTreeMap::from([(SchemaVersion(1), vec![ColumnId(1)])]),
        comment: None,
        created_ns: 0,
    }
}

#[test]
fn what_is_sealed_already_is_not_published_again() {
    const SECOND_NS: i64 = 1_000_000_000;
    let hand = Arc::new(Hand(AtomicI64::new(10 * SECOND_NS)));
    let clock = Arc::clone(&hand) as Arc<dyn Clock>;
    let settings = EngineSettings::default();
    let engine = Engine::open(Arc::new(Silence), clock, settings, &|_| None).unwrap();
    let cpu = clocked();
    let sealed = |published: &Arc<PublishedVersions>| {
        PinnedSnapshot::new(Arc::clone(published)).sealed(&cpu).map(|tick| tick.0)
    };
    // Before the first event, nothing is sealed: events of any time may arrive.
    assert_eq!(engine.seal(&cpu).unwrap(), None);
    assert_eq!(sealed(&engine.publisher.published()), None);
    let known = engine.publisher.chronicles.chronicle(&cpu).unwrap();
    known.adopt(PieceSet::default(), (Vec::new(), LostPositions::default()), 1, Some(Tick(0)));
    // No event from before the start can arrive: the first seal already includes this time.
    assert_eq!(engine.seal(&cpu).unwrap(), Some(Tick(9_999_999)));
    let held = engine.publisher.published();
    assert_eq!(sealed(&held), Some(9_999_999));
    assert_eq!(engine.seal(&cpu).unwrap(), Some(Tick(9_999_999)));
    assert!(Arc::ptr_eq(&held, &engine.publisher.published()));
    hand.0.fetch_add(SECOND_NS, Ordering::Relaxed);
    assert_eq!(engine.seal(&cpu).unwrap(), Some(Tick(10_899_999)));
    assert_eq!(sealed(&held), Some(9_999_999));
    assert_eq!(sealed(&engine.publisher.published()), Some(10_899_999));
}
