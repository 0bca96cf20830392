//! The promises of the traits `Log`, `Tier` and `EventStore`.

use std::sync::Arc;

use stratalog_engine::Engine;
use stratalog_model::{ChronicleDefinition, Collision, EventStore, Log, store::OnConflict};
use stratalog_sim::{
    FaultyDisk,
    conformance::{
        log::{self, LogStorage},
        sample::{self, ReadEvent},
        store,
        tier::{self, TierSubject},
    },
};

use crate::{fixture::*, journal::journal, memory_log::MemoryLog};

#[test]
fn the_log_in_memory_keeps_the_promises_of_a_log() {
    let fresh = || -> Box<dyn LogStorage> {
        let storage = MemoryLog::default();
        Box::new(move || -> Arc<dyn Log> { Arc::new(storage.clone()) })
    };
    log::every_log(&fresh);
    log::shared_log(&fresh);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_over_a_log_in_memory_keeps_the_promises_of_a_store() {
    store::every_store(&|definition| open(&MemoryLog::default(), std::slice::from_ref(definition)))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_over_a_journal_keeps_the_promises_of_a_store() {
    store::every_store(&|definition| {
        let disk = Arc::new(FaultyDisk::new(1));
        let log = journal(disk, "/data/journal".into()).unwrap();
        let find = |id| (id == definition.id).then(|| Arc::clone(definition));
        Engine::open(log, Arc::new(StillClock), small(), &find).unwrap()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_with_files_keeps_the_promises_of_a_store() {
    let fresh = |definition: &Arc<ChronicleDefinition>| -> Arc<dyn EventStore> {
        Stored::new(1).open(&MemoryLog::default(), definition)
    };
    store::every_store(&fresh).await;
    store::store_with_tiers(&fresh).await;
}

/// Checks each tier of an engine whose events are in the tiers with the names `filled`.
async fn check_tiers(engine: &Engine, definition: &Arc<ChronicleDefinition>, filled: &[&str]) {
    let streams = engine.snapshot().scan(sample::request(definition, Default::default())).unwrap();
    let mut all: Vec<ReadEvent> = Vec::new();
    for mut stream in streams {
        while let Some(batch) = futures::StreamExt::next(&mut stream).await {
            all.extend(sample::events_of(&batch.unwrap()));
        }
    }
    let (tiers, visible) = engine.tiers(definition);
    assert_eq!(tiers.len(), 3);
    let mut owned = 0;
    for tier in &tiers {
        let name = tier.name().to_string();
        let own = all.iter().filter(|event| event.tier == name);
        let events: Vec<ReadEvent> = own.cloned().collect();
        assert_eq!(!events.is_empty(), filled.contains(&name.as_str()), "{name}");
        owned += events.len();
        tier::every_tier(&TierSubject { tier: tier.as_ref(), definition, visible, events }).await;
    }
    assert_eq!(owned, all.len(), "an event is in no tier");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_tier_keeps_the_promises_of_a_tier() {
    let definition = sample::chronicle(1, Collision::All);
    let (stored, log) = (Stored::new(2), MemoryLog::default());
    let engine = stored.open(&log, &definition);
    let append = async |first_tick, rows| {
        let mut append = engine.begin(Default::default()).unwrap();
        for part in sample::shuffled(first_tick, rows).chunks(30) {
            let part = sample::batch(&definition, part);
            append.push(&definition, part, OnConflict::Error).await.unwrap();
        }
        append.commit().await.unwrap();
    };
    append(0, 200).await;
    check_tiers(&engine, &definition, &["journal"]).await;
    engine.flush(definition.id).await.unwrap();
    check_tiers(&engine, &definition, &["tablet"]).await;
    engine.compact(definition.id).await.unwrap();
    check_tiers(&engine, &definition, &["story"]).await;
    append(150, 100).await;
    engine.flush(definition.id).await.unwrap();
    append(100, 100).await;
    check_tiers(&engine, &definition, &["journal", "tablet", "story"]).await;
}
