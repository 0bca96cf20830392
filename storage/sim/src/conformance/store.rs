//! Tests the promises of the trait [`EventStore`].
//!
//! ```text
//!   every_store:       commits, rollbacks, retries, snapshots, deletes, subscriptions
//!   store_with_tiers:  + moves change nothing but the tier; every tier keeps its promises
//! ```

use std::sync::Arc;

use futures::StreamExt;
use stratalog_model::{
    ChronicleDefinition, Collision, Durability, ErrorKind, EventStore, Gsn, ProducerId, Result,
    Snapshot, Tick, TickRange, TickRanges,
    store::{AppendOptions, CommittedAppend, OnConflict},
    subscribe::{SubscribeFrom, SubscribeRequest, Update},
    tier::ScanOrder,
};

use super::sample::{ReadEvent, SampleRow, batch, chronicle, events_of, request, shuffled};

/// Makes an empty store that has a chronicle with the given definition.
pub type FreshStore<'a> = &'a dyn Fn(&Arc<ChronicleDefinition>) -> Arc<dyn EventStore>;

/// Tests the promises of every store.
pub async fn every_store(fresh: FreshStore<'_>) {
    let definition = chronicle(1, Collision::First);
    let store = || Subject { store: fresh(&definition), definition: Arc::clone(&definition) };
    a_commit_is_whole_and_dense(&store()).await;
    nothing_is_visible_without_a_commit(&store()).await;
    a_savepoint_takes_back_later_pushes(&store()).await;
    a_snapshot_never_changes(&store()).await;
    scans_are_ordered_both_ways(&store()).await;
    a_statement_sent_again_is_stored_once(&store()).await;
    a_refused_statement_leaves_no_trace(&store()).await;
    a_delete_hides_committed_events_only(&store()).await;
    a_subscription_follows_the_order_of_commits(&store()).await;
}

/// Tests the promises of a store that keeps events in files.
pub async fn store_with_tiers(fresh: FreshStore<'_>) {
    let definition = chronicle(1, Collision::First);
    let store = || Subject { store: fresh(&definition), definition: Arc::clone(&definition) };
    moves_change_nothing_but_the_tier(&store()).await;
    watermarks_never_go_back(&store()).await;
}

/// A store under test, and its chronicle.
struct Subject {
    store: Arc<dyn EventStore>,
    definition: Arc<ChronicleDefinition>,
}

impl Subject {
    async fn append_as(
        &self,
        options: AppendOptions,
        rows: &[SampleRow],
    ) -> Result<CommittedAppend> {
        let mut append = self.store.begin(options)?;
        let rows = batch(&self.definition, rows);
        append.push(&self.definition, rows, OnConflict::Error).await?;
        append.commit().await
    }

    async fn append(&self, rows: &[SampleRow]) -> CommittedAppend {
        self.append_as(AppendOptions::default(), rows).await.unwrap()
    }

    /// The events that a new snapshot sees, by (tick, seq).
    async fn read(&self) -> Vec<ReadEvent> {
        self.read_of(&*self.store.snapshot(), ScanOrder::Ascending).await
    }

    async fn read_of(&self, snapshot: &dyn Snapshot, order: ScanOrder) -> Vec<ReadEvent> {
        let streams = snapshot.scan(request(&self.definition, order)).unwrap();
        assert!(order == ScanOrder::Any || streams.len() == 1, "one stream when ordered");
        let mut events = Vec::new();
        for mut stream in streams {
            while let Some(batch) = stream.next().await {
                events.extend(events_of(&batch.unwrap()));
            }
        }
        events
    }
}

/// The events with an empty tier, for comparisons before and after a move.
fn without_tiers(events: Vec<ReadEvent>) -> Vec<ReadEvent> {
    events.into_iter().map(|event| ReadEvent { tier: String::new(), ..event }).collect()
}

async fn a_commit_is_whole_and_dense(subject: &Subject) {
    let mut next = 1;
    for round in 0..5 {
        let rows = shuffled(round * 100, 40);
        let committed = subject.append(&rows).await;
        assert_eq!((committed.rows, committed.duplicate), (40, false));
        assert_eq!(committed.durability, Durability::Disk);
        let (first, last) = (committed.first_gsn.unwrap(), committed.last_gsn.unwrap());
        assert!(first.0 >= next && last.0 - first.0 == 39, "{first} to {last}, after {next}");
        next = last.0 + 1;
        subject.store.reached(last).await.unwrap();
        assert!(subject.store.snapshot().gsn() >= last, "acknowledged before it is visible");
        let mut own = subject.read().await;
        own.retain(|event| (first.0..=last.0).contains(&(event.gsn as u64)));
        own.sort_by_key(|event| event.gsn);
        let stored = own.iter().map(|event| (event.tick, event.host.as_str(), event.value));
        assert!(stored.eq(rows.iter().copied()), "gsn's follow the order of the rows");
    }
    let empty = subject.store.begin(AppendOptions::default()).unwrap().commit().await.unwrap();
    assert_eq!((empty.rows, empty.first_gsn), (0, None));
}

async fn nothing_is_visible_without_a_commit(subject: &Subject) {
    let before = subject.store.snapshot().gsn();
    let mut append = subject.store.begin(AppendOptions::default()).unwrap();
    let rows = batch(&subject.definition, &shuffled(0, 30));
    append.push(&subject.definition, rows, OnConflict::Error).await.unwrap();
    assert_eq!(subject.read().await, Vec::new());
    assert_eq!(subject.store.snapshot().gsn(), before);
    drop(append);
    assert_eq!(subject.read().await, Vec::new());
    // The keys of the rolled-back events can be used again.
    assert_eq!(subject.append(&shuffled(0, 30)).await.rows, 30);
}

async fn a_savepoint_takes_back_later_pushes(subject: &Subject) {
    let mut append = subject.store.begin(AppendOptions::default()).unwrap();
    let push = |first| batch(&subject.definition, &shuffled(first, 10));
    append.push(&subject.definition, push(0), OnConflict::Error).await.unwrap();
    let savepoint = append.savepoint().unwrap();
    append.push(&subject.definition, push(100), OnConflict::Error).await.unwrap();
    append.roll_back_to(savepoint);
    append.push(&subject.definition, push(200), OnConflict::Error).await.unwrap();
    assert_eq!(append.commit().await.unwrap().rows, 20);
    let ticks: Vec<i64> = subject.read().await.iter().map(|event| event.tick).collect();
    assert_eq!(ticks, (0..10).chain(200..210).collect::<Vec<i64>>());
}

async fn a_snapshot_never_changes(subject: &Subject) {
    subject.append(&shuffled(0, 50)).await;
    let pinned = subject.store.snapshot();
    let (gsn, before) = (pinned.gsn(), subject.read_of(&*pinned, ScanOrder::Ascending).await);
    subject.append(&shuffled(1_000, 50)).await;
    let prefix = TickRange::new(Tick::MIN, Tick(25));
    assert_eq!(subject.store.delete(&subject.definition, prefix).await.unwrap(), 25);
    assert_eq!(subject.read_of(&*pinned, ScanOrder::Ascending).await, before);
    assert_eq!(pinned.gsn(), gsn);
    let extent = pinned.extent(&subject.definition, &TickRanges::all());
    assert!(extent.is_none_or(|extent| extent.rows == 50), "{extent:?}");
    assert_eq!(subject.read().await.len(), 75);
}

async fn scans_are_ordered_both_ways(subject: &Subject) {
    for round in 0..4 {
        subject.append(&shuffled(round * 7, 7)).await;
    }
    let snapshot = subject.store.snapshot();
    let place = |event: &ReadEvent| (event.tick, event.seq);
    let ascending = subject.read_of(&*snapshot, ScanOrder::Ascending).await;
    assert!(ascending.is_sorted_by(|a, b| place(a) < place(b)));
    let mut descending = subject.read_of(&*snapshot, ScanOrder::Descending).await;
    assert!(descending.is_sorted_by(|a, b| place(a) > place(b)));
    descending.reverse();
    assert_eq!(descending, ascending);
    let mut any = subject.read_of(&*snapshot, ScanOrder::Any).await;
    any.sort_by_key(place);
    assert_eq!(any, ascending);
}

async fn a_statement_sent_again_is_stored_once(subject: &Subject) {
    let as_producer = |number| AppendOptions {
        producer: Some((ProducerId(77), number)),
        ..AppendOptions::default()
    };
    let first = subject.append_as(as_producer(1), &shuffled(0, 20)).await.unwrap();
    assert!(!first.duplicate);
    let again = subject.append_as(as_producer(1), &shuffled(0, 20)).await.unwrap();
    assert!(again.duplicate, "{again:?}");
    assert!(!subject.append_as(as_producer(2), &shuffled(100, 20)).await.unwrap().duplicate);
    assert_eq!(subject.read().await.len(), 40);
    assert_eq!(subject.store.producers(), [(ProducerId(77), 2)]);
}

async fn a_refused_statement_leaves_no_trace(subject: &Subject) {
    subject.append(&[(5, "a", 1.0)]).await;
    let before = subject.read().await;
    let twice = [(4, "a", 2.0), (5, "a", 3.0), (6, "a", 4.0)];
    let refused = subject.append_as(AppendOptions::default(), &twice).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::UniqueViolation);
    assert_eq!(subject.read().await, before);
    assert_eq!(subject.append(&[(4, "a", 5.0)]).await.rows, 1);
}

async fn a_delete_hides_committed_events_only(subject: &Subject) {
    subject.append(&shuffled(0, 30)).await;
    let prefix = TickRange::new(Tick::MIN, Tick(10));
    assert_eq!(subject.store.delete(&subject.definition, prefix).await.unwrap(), 10);
    let ticks: Vec<i64> = subject.read().await.iter().map(|event| event.tick).collect();
    assert_eq!(ticks, (10..30).collect::<Vec<i64>>());
    // The keys of the deleted events can be used again, and later events stay.
    subject.append(&[(3, "a", 1.0)]).await;
    assert_eq!(subject.read().await.len(), 21);
    let middle = TickRange::new(Tick(12), Tick(15));
    let refused = subject.store.delete(&subject.definition, middle).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::FeatureNotSupported);
    assert_eq!(subject.read().await.len(), 21);
}

async fn a_subscription_follows_the_order_of_commits(subject: &Subject) {
    subject.append(&shuffled(0, 30)).await;
    let user = subject.definition.columns.len();
    let mut updates = subject
        .store
        .subscribe(SubscribeRequest {
            chronicle: Arc::clone(&subject.definition),
            from: SubscribeFrom::Gsn(Gsn(0)),
            projection: vec![user, user + 1, user + 2, 1, 2, user + 5],
            batch_rows_max: 16,
        })
        .unwrap();
    // After the stored events, the subscriber receives new events, without a gap.
    subject.append(&shuffled(100, 30)).await;
    let mut events: Vec<ReadEvent> = Vec::new();
    while events.len() < 60 {
        match updates.next().await.unwrap().unwrap() {
            Update::Events(batch) => events.extend(events_of(&batch)),
            Update::Gap(gap) => assert!(events.is_empty(), "nothing was deleted: {gap}"),
        }
    }
    assert!(events.is_sorted_by(|a, b| a.gsn < b.gsn), "not in the order of commits");
    let mut expected = subject.read().await;
    expected.sort_by_key(|event| event.gsn);
    assert_eq!(without_tiers(events), without_tiers(expected));
}

async fn moves_change_nothing_but_the_tier(subject: &Subject) {
    for round in 0..6 {
        subject.append(&shuffled(round * 50, 50)).await;
        let pinned = subject.store.snapshot();
        let before = without_tiers(subject.read().await);
        match round % 3 {
            0 => subject.store.flush(subject.definition.id).await.unwrap(),
            1 => subject.store.compact(subject.definition.id).await.unwrap(),
            _ => continue,
        };
        let pieces = subject.store.pieces();
        let owned: u64 = pieces.iter().map(|piece| piece.rows).sum();
        assert_eq!(owned, before.len() as u64, "an event has no owner, or several");
        assert!(pieces.iter().all(|piece| piece.tier.has_pieces()), "the journal keeps events");
        let now = subject.read().await;
        assert!(now.iter().all(|event| event.tier != "journal"));
        assert_eq!(without_tiers(now), before);
        let pinned = subject.read_of(&*pinned, ScanOrder::Ascending).await;
        assert_eq!(without_tiers(pinned), before);
    }
}

async fn watermarks_never_go_back(subject: &Subject) {
    let (mut through, mut last_move) = (Gsn(0), 0);
    for round in 0..4 {
        // The ticks of new events go backwards; the watermarks must not.
        let committed = subject.append(&shuffled(-round * 100, 40)).await;
        subject.store.compact(subject.definition.id).await.unwrap();
        let marks = subject.store.watermarks();
        let own = marks.iter().find(|marks| marks.chronicle == subject.definition.id).unwrap();
        assert!(own.through >= through && own.through >= committed.last_gsn.unwrap());
        assert_eq!((own.tablets, own.stories), (Some(Tick(39)), Some(Tick(39))));
        through = own.through;
        let moves = subject.store.moves();
        let newest = moves.iter().map(|status| status.number).max().unwrap_or(0);
        assert!(newest >= last_move, "the numbers of moves go back");
        last_move = newest;
    }
}
