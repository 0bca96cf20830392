//! ChronoLog's own API against the program: the operations of the paper's Figure 2.

use std::time::Duration;

use stratalog_client::{
    Acquire, Chronicle, Chronolog, Client, Collision, Destroy, Durability, ErrorKind, Granularity,
    Range, Start, Tags, Update,
};

use crate::support::{Server, number, until};

const NS: Granularity = Granularity::NANOSECOND;

pub fn url(server: &Server) -> String {
    format!("chronolog://{}", server.address)
}

pub async fn connect(server: &Server) -> Chronolog {
    Chronolog::connect(url(server)).await.unwrap()
}

/// Creates a chronicle of this name and acquires it as shared.
pub async fn acquired(log: &Chronolog, name: &str, tags: &Tags) -> Chronicle {
    log.create(name, NS, tags).await.unwrap();
    log.acquire(name, Acquire::shared()).await.unwrap()
}

async fn payloads(
    chronicle: &Chronicle,
    ranges: &[Range],
    constraint: Option<&str>,
) -> Vec<String> {
    let events = chronicle.replay(ranges, constraint).await.unwrap().collect().await.unwrap();
    let text = |payload: &[u8]| String::from_utf8(payload.to_vec()).unwrap();
    events.iter().map(|event| text(&event.payload)).collect()
}

/// F1–F3: a URL, a comparison of clocks, and a disconnect that releases everything.
#[tokio::test]
async fn f1_f2_f3_connect_sync_clock_disconnect() {
    let server = Server::start();
    let watcher = server.client().await;
    let named = Client::builder().url(url(&server)).application_name("native");
    let log = Chronolog::with(named).await.unwrap();
    let first = log.time().unwrap();
    let synchronized = log.sync_clock().await.unwrap();
    assert!(synchronized.estimate.time_ns > first.time_ns);
    assert!((synchronized.drift - 1.0).abs() < 0.01, "{synchronized:?}");
    let events = acquired(&log, "events", &Tags::new()).await;
    events.record("one").await.unwrap();
    let sessions = "SELECT count(*) FROM stratalog.sessions WHERE application_name = 'native'";
    assert!(number(&watcher, sessions).await >= 2);
    log.disconnect().await;
    until("the sessions have ended", || async { number(&watcher, sessions).await == 0 }).await;
    assert_eq!(events.playback(1).await.unwrap_err().kind(), ErrorKind::Closed);
    let error = Chronolog::connect("gopher://127.0.0.1").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOption);
}

/// F4–F7: create, edit, destroy.
#[tokio::test]
async fn f4_f5_f6_f7_create_edit_destroy() {
    let server = Server::start();
    let log = connect(&server).await;
    let tags = Tags::new().collision(Collision::First).set("retention", "90d");
    log.create("events", "1us".parse().unwrap(), &tags).await.unwrap();
    let told = "SELECT count(*) FROM stratalog.chronicles WHERE name = 'events' AND \
                granularity = '1us' AND collision = 'first' AND time_source = 'client'";
    assert_eq!(number(log.client(), told).await, 1);
    let twice = log.create("events", NS, &Tags::new()).await.unwrap_err();
    assert_eq!(twice.sqlstate(), Some("42P07"));
    let unknown = log.create("other", NS, &Tags::new().set("colour", "red")).await.unwrap_err();
    assert_eq!(unknown.sqlstate(), Some("22023"), "{unknown}");

    let edited = Tags::new().durability(Durability::Relaxed);
    log.edit("events", Some("\"Old Events\""), None, &edited).await.unwrap();
    let told = "SELECT count(*) FROM stratalog.chronicles \
                WHERE name = 'Old Events' AND durability = 'relaxed'";
    assert_eq!(number(log.client(), told).await, 1);
    let index = async |unit: &str| {
        log.edit("\"Old Events\"", None, Some(unit.parse().unwrap()), &Tags::new()).await
    };
    index("1s").await.unwrap();
    for (unit, sqlstate) in [("1us", "55P02"), ("1500ms", "22023")] {
        assert_eq!(index(unit).await.unwrap_err().sqlstate(), Some(sqlstate), "{unit}");
    }
    let told = "SELECT count(*) FROM stratalog.chronicles \
                WHERE name = 'Old Events' AND granularity = '1s' AND native_granularity = '1us'";
    assert_eq!(number(log.client(), told).await, 1);

    let events = log.acquire("\"Old Events\"", Acquire::shared()).await.unwrap();
    assert_eq!(events.granularity().to_string(), "1us");
    let receipt = events.record("in a second").await.unwrap();
    let second = |ns: i64| ns.div_euclid(1_000_000_000);
    let group = second(receipt.time_ns.unwrap()) - second(events.base_ns());
    let constraint = format!("_group = {group}");
    assert_eq!(payloads(&events, &[Range::all()], Some(&constraint)).await, ["in a second"]);
    let in_use = log.destroy("\"Old Events\"", Destroy::Sync).await.unwrap_err();
    assert_eq!(in_use.sqlstate(), Some("55006"), "{in_use}");
    events.release().await.unwrap();
    log.destroy("\"Old Events\"", Destroy::Sync).await.unwrap();
    let gone = log.destroy("\"Old Events\"", Destroy::Sync).await.unwrap_err();
    assert_eq!(gone.sqlstate(), Some("42P01"));
}

/// F7: an acquired chronicle is destroyed after its release, or immediately.
#[tokio::test]
async fn f7_destroy_when_it_is_released() {
    let server = Server::start();
    let log = connect(&server).await;
    let count = "SELECT count(*) FROM stratalog.chronicles";
    let events = acquired(&log, "events", &Tags::new()).await;
    log.destroy("events", Destroy::Async).await.unwrap();
    assert_eq!(number(log.client(), count).await, 1);
    events.release().await.unwrap();
    until("it is gone", || async { number(log.client(), count).await == 0 }).await;
    let events = acquired(&log, "events", &Tags::new()).await;
    log.destroy("events", Destroy::Force).await.unwrap();
    assert_eq!(number(log.client(), count).await, 0);
    assert!(events.record("nowhere").await.is_err());
}

/// F8, F11: exclusive or shared, until the release.
#[tokio::test]
async fn f8_f11_exclusive_and_shared() {
    let server = Server::start();
    let (log, other) = (connect(&server).await, connect(&server).await);
    log.create("events", NS, &Tags::new()).await.unwrap();
    let alone = log.acquire("events", Acquire::exclusive()).await.unwrap();
    alone.record("mine").await.unwrap();
    let refused = other.acquire("events", Acquire::shared().no_wait()).await.unwrap_err();
    assert_eq!(refused.sqlstate(), Some("55P03"), "{refused}");
    let briefly = Acquire::shared().wait_at_most(Duration::from_millis(50));
    let refused = other.acquire("events", briefly).await.unwrap_err();
    assert_eq!(refused.sqlstate(), Some("55P03"), "{refused}");
    // Waits in the queue.
    let waiting = tokio::spawn(async move { other.acquire("events", Acquire::shared()).await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!waiting.is_finished());
    alone.release().await.unwrap();
    let shared = waiting.await.unwrap().unwrap();
    let second = log.acquire("events", Acquire::shared().no_wait()).await.unwrap();
    shared.record("ours").await.unwrap();
    second.record("ours, too").await.unwrap();
    assert_eq!(payloads(&second, &[Range::all()], None).await.len(), 3);
    // A dropped handle is released as well.
    drop((shared, second));
    until("it is free", || async {
        log.acquire("events", Acquire::exclusive().no_wait()).await.is_ok()
    })
    .await;
}

/// F9: a part of a chronicle.
#[tokio::test]
async fn f9_a_partial_acquisition_is_a_projection() {
    let server = Server::start();
    let log = connect(&server).await;
    let all = acquired(&log, "events", &Tags::new()).await;
    let names: Vec<String> = (0..10).map(|n| n.to_string()).collect();
    let receipts = all.record_batch(&names).await.unwrap();
    let (third, seventh) = (receipts[3].tick.unwrap(), receipts[7].tick.unwrap());
    let part = Acquire::shared().range(Range::ticks(third..seventh));
    let part = log.acquire("events", part).await.unwrap();
    assert_eq!(payloads(&part, &[Range::all()], None).await, ["3", "4", "5", "6"]);
    let newest = part.playback(1).await.unwrap();
    assert_eq!(newest[0].payload.as_ref(), b"6");
    let outside = part.record("outside").await.unwrap_err();
    assert_eq!(outside.sqlstate(), Some("44000"), "{outside}");
    assert_eq!(outside.kind(), ErrorKind::InvalidBatch);
    let since = Range::times(receipts[8].time_ns.unwrap()..);
    let since = log.acquire("events", Acquire::shared().range(since)).await.unwrap();
    since.record("10").await.unwrap();
    assert_eq!(payloads(&since, &[Range::all()], None).await, ["8", "9", "10"]);
    // Only the refused event fails: other events are recorded.
    let soon = Duration::from_secs(2);
    let from = log.time().unwrap().time_ns + i64::try_from(soon.as_nanos()).unwrap();
    let part = Acquire::shared().range(Range::times(from..));
    let part = log.acquire("events", part).await.unwrap();
    assert_eq!(part.record("early").await.unwrap_err().sqlstate(), Some("44000"));
    tokio::time::sleep(soon).await;
    part.record("11").await.unwrap();
    assert_eq!(payloads(&part, &[Range::all()], None).await, ["11"]);
    let error = log.acquire("events", Acquire::shared().range(Range::gsns(1..))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOption);
}

/// F10: a timed acquisition ends; a lease is renewed until the release.
#[tokio::test]
async fn f10_a_timed_acquisition_ends_and_a_lease_is_renewed() {
    let server = Server::start();
    let log = connect(&server).await;
    log.create("events", NS, &Tags::new()).await.unwrap();
    let timed = Acquire::exclusive().timed(Duration::from_millis(400));
    let timed = log.acquire("events", timed).await.unwrap();
    timed.record("in time").await.unwrap();
    let next = log.acquire("events", Acquire::exclusive()).await.unwrap();
    assert!(timed.record("too late").await.is_err());
    assert_eq!(timed.playback(1).await.unwrap_err().kind(), ErrorKind::Closed);
    next.release_in(Duration::from_millis(200)).await.unwrap();
    let leased = Acquire::exclusive().lease(Duration::from_secs(1));
    let leased = log.acquire("events", leased).await.unwrap();
    assert!(next.playback(1).await.is_err());
    tokio::time::sleep(Duration::from_millis(2500)).await;
    let refused = log.acquire("events", Acquire::shared().no_wait()).await.unwrap_err();
    assert_eq!(refused.sqlstate(), Some("55P03"), "it was renewed");
    leased.record("still alone").await.unwrap();
    assert_eq!(leased.lapses(), 0);
}

/// F14, F21, F23: a single event, several events, a pipeline; each event has its own tick and
/// position.
#[tokio::test]
async fn f14_record_gives_each_event_its_tick_and_position() {
    let server = Server::start();
    let log = connect(&server).await;
    let events = acquired(&log, "events", &Tags::new()).await;
    let mut receipts = vec![events.record(b"0").await.unwrap()];
    let names: Vec<String> = (1..5).map(|n| n.to_string()).collect();
    receipts.extend(events.record_batch(&names).await.unwrap());
    let mut pending = Vec::new();
    for n in 5..200 {
        pending.push(events.append(n.to_string()).await.unwrap());
    }
    for event in pending {
        receipts.push(event.await.unwrap());
    }
    assert!(receipts.iter().all(|receipt| receipt.durability == Some(Durability::Disk)));
    assert!(receipts.windows(2).all(|pair| pair[0].tick < pair[1].tick));
    let gsns: Vec<u64> = receipts.iter().map(|receipt| receipt.gsn.unwrap()).collect();
    assert_eq!(gsns, (gsns[0]..gsns[0] + 200).collect::<Vec<_>>());
    for at in [0, 3, 42, 199] {
        let event = events.read_record(gsns[at]).await.unwrap().unwrap();
        assert_eq!(event.payload.as_ref(), at.to_string().as_bytes());
        assert_eq!(
            (Some(event.tick), Some(event.time_ns)),
            (receipts[at].tick, receipts[at].time_ns)
        );
    }
    // The base is where tick 0 is.
    assert_eq!(receipts[0].time_ns, receipts[0].tick.map(|tick| events.base_ns() + tick));
    assert!(events.record_batch::<&[u8]>(&[]).await.unwrap().is_empty());
    assert_eq!(events.flush().await.unwrap().rows, 200);
    let large = vec![7_u8; 1 << 20];
    events.record(&large).await.unwrap();
    assert_eq!(events.playback(1).await.unwrap()[0].payload.as_ref(), large);
}

/// F17, F18: the newest, and ranges with a constraint.
#[tokio::test]
async fn f17_f18_playback_and_replay() {
    let server = Server::start();
    let log = connect(&server).await;
    let events = acquired(&log, "public.events", &Tags::new()).await;
    assert!(events.playback(3).await.unwrap().is_empty());
    let names: Vec<String> = (0..10).map(|n| format!("event {n}")).collect();
    let receipts = events.record_batch(&names).await.unwrap();
    let newest = events.playback(3).await.unwrap();
    let newest: Vec<_> = newest.iter().map(|event| event.payload.as_ref()).collect();
    assert_eq!(newest, [b"event 9", b"event 8", b"event 7"]);
    let (tick, time) =
        (|at: usize| receipts[at].tick.unwrap(), |at: usize| receipts[at].time_ns.unwrap());
    let first = receipts[0].gsn.unwrap();
    let ranges =
        [Range::ticks(tick(1)..tick(3)), Range::times(time(2)..=time(2)), Range::gsns(first + 8..)];
    assert_eq!(
        payloads(&events, &ranges, None).await,
        ["event 1", "event 2", "event 8", "event 9"]
    );
    let constraint = Some("convert_from(payload, 'UTF8') IN ('event 2', 'event 9') OR _gsn < 0");
    assert_eq!(payloads(&events, &ranges, constraint).await, ["event 2", "event 9"]);
    assert!(payloads(&events, &[], None).await.is_empty());
    let wrong = events.replay(&[Range::all()], Some("payload >")).await.unwrap_err();
    assert_eq!(wrong.sqlstate(), Some("42601"), "{wrong}");
    let two = events.replay(&[Range::all()], Some("false) OR (true")).await.unwrap_err();
    assert_eq!(two.sqlstate(), Some("42601"), "{two}");
    let commented = Some("length(payload) = 7 -- all of them");
    assert_eq!(payloads(&events, &[Range::all()], commented).await.len(), 10);
    // Single events.
    let mut replay = events.replay(&[Range::gsns(..first + 2)], None).await.unwrap();
    assert_eq!(replay.next().await.unwrap().unwrap().payload.as_ref(), b"event 0");
    assert_eq!(replay.next().await.unwrap().unwrap().gsn, first + 1);
    assert!(replay.next().await.is_none() && replay.next().await.is_none());
}

/// F24: an event that arrives too late gets a new tick, unless new ticks are disabled.
#[tokio::test]
async fn f24_an_event_that_is_too_old_gets_another_tick() {
    let server = Server::start();
    let log = connect(&server).await;
    let tags = Tags::new().set("acceptance_window", "20ms");
    let events = acquired(&log, "events", &tags).await;
    let strict = log.acquire("events", Acquire::shared().new_ticks(0)).await.unwrap();
    let first = events.record("on time").await.unwrap();
    strict.record("on time").await.unwrap();
    server.signal("STOP");
    // All threads of a busy machine take a while to stop.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let late = events.append("late").await.unwrap();
    let lost = strict.append("lost").await.unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    server.signal("CONT");
    let late = late.await.unwrap();
    assert!(late.new_ticks > 0 && late.tick > first.tick, "{late:?}");
    let refused = lost.await.unwrap_err();
    assert_eq!(refused.sqlstate(), Some("SL001"), "{refused}");
    assert_eq!(payloads(&events, &[Range::all()], None).await, ["on time", "on time", "late"]);
}

/// Waits for the beginning of a second of the server's clock.
async fn a_second_begins(log: &Chronolog) {
    let passed = log.time().unwrap().time_ns.rem_euclid(1_000_000_000);
    let left = u64::try_from(1_000_000_000 - passed).unwrap();
    tokio::time::sleep(Duration::from_nanos(left) + Duration::from_millis(5)).await;
}

/// F25: a tick in use, under each collision rule.
#[tokio::test]
async fn f25_collisions() {
    let server = Server::start();
    let log = connect(&server).await;
    let second: Granularity = "1s".parse().unwrap();
    let rules =
        [Collision::All, Collision::First, Collision::Last, Collision::Merge, Collision::Next];
    for rule in rules {
        let name = format!("by_{rule}");
        let tags = Tags::new().collision(rule).set("acceptance_window", "30s");
        log.create(&name, second, &tags).await.unwrap();
        let events = log.acquire(&name, Acquire::shared()).await.unwrap();
        // Three events within a second; repeated if a second ends between them.
        let outcome = loop {
            a_second_begins(&log).await;
            let began = log.time().unwrap().time_ns;
            let mut told = Vec::new();
            for n in 0..3 {
                told.push(events.record(format!("{n}")).await);
            }
            let ended = log.time().unwrap().time_ns;
            if began.div_euclid(1_000_000_000) == ended.div_euclid(1_000_000_000) {
                break told;
            }
        };
        let stored = outcome.iter().filter(|told| told.is_ok()).count();
        let newest = events.playback(10).await.unwrap();
        let tick = newest[0].tick;
        let there = newest.iter().filter(|event| event.tick == tick).count();
        match rule {
            Collision::All => assert_eq!((stored, there), (3, 3)),
            Collision::Last | Collision::Merge => {
                assert_eq!((stored, there), (3, 1));
                assert_eq!(newest[0].payload.as_ref(), b"2");
            }
            Collision::First => {
                assert_eq!((stored, there), (1, 1));
                let refused = outcome[2].as_ref().unwrap_err();
                assert_eq!(refused.sqlstate(), Some("SL002"), "{refused}");
            }
            Collision::Next => {
                let told = outcome[1].as_ref().unwrap();
                assert_eq!((stored, told.tick), (3, None));
                let one = events.read_record(told.gsn.unwrap()).await.unwrap().unwrap();
                assert_eq!(one.payload.as_ref(), b"1");
                // The newest two events are dated after the call.
                assert_eq!(
                    payloads(&events, &[Range::ticks(one.tick..=one.tick)], None).await,
                    ["1"]
                );
            }
        }
    }
    let patient = Acquire::shared().retry_collisions();
    let events = log.acquire("by_first", patient).await.unwrap();
    a_second_begins(&log).await;
    let before = events.record("a").await.unwrap();
    let after = events.record("b").await.unwrap();
    assert!(after.tick > before.tick && after.new_ticks > 0, "{after:?}");
}

/// F104, F105: history, then new events; a constraint; gaps.
#[tokio::test]
async fn f104_f105_subscribe() {
    let server = Server::start();
    let log = connect(&server).await;
    let events = acquired(&log, "events", &Tags::new()).await;
    let mut receipts = events.record_batch(&["a", "b"]).await.unwrap();
    receipts.push(events.record("c").await.unwrap());
    let second = receipts[1].gsn.unwrap();
    let mut all = events.subscribe(Start::Beginning, None).await.unwrap();
    let mut from = events
        .subscribe(Start::Gsn(second), Some("get_byte(payload, 0) <> 99 -- c"))
        .await
        .unwrap();
    let since = Start::Time(receipts[2].time_ns.unwrap());
    let mut since = events.subscribe(since, None).await.unwrap();
    let mut live = events.subscribe(Start::Live, None).await.unwrap();
    events.record("d").await.unwrap();
    for (subscription, expected) in
        [(&mut all, "abcd"), (&mut from, "bd"), (&mut since, "cd"), (&mut live, "d")]
    {
        let mut seen = String::new();
        while seen.len() < expected.len() {
            let Update::Event(event) = subscription.next().await.unwrap().unwrap() else {
                panic!("a gap");
            };
            seen.push(char::from(event.payload[0]));
        }
        assert_eq!(seen, expected);
    }
    // Without new events the wait continues, and the wait can be cancelled.
    let soon = Duration::from_millis(100);
    assert!(tokio::time::timeout(soon, live.next()).await.is_err());
    events.record_batch(&["e", "f"]).await.unwrap();
    let mut batch = live.next_batch().await.unwrap().unwrap();
    if batch.len() < 2 {
        batch.extend(live.next_batch().await.unwrap().unwrap());
    }
    assert_eq!(batch.len(), 2);
    let trimmed = format!("TRIM events BEFORE GSN {second}");
    log.client().execute(&trimmed).await.unwrap();
    let mut rest = events.subscribe(Start::Beginning, None).await.unwrap();
    let gap = rest.next().await.unwrap().unwrap();
    assert!(matches!(&gap, Update::Gap { gsn: 1, what } if what.contains("deleted")), "{gap:?}");
    let next = rest.next().await.unwrap().unwrap();
    assert!(matches!(&next, Update::Event(event) if event.gsn == second), "{next:?}");
    drop(rest);
    log.client().execute("DROP TABLE events").await.unwrap_err();
    events.release().await.unwrap();
    // The handle is gone; the earlier events still arrive.
    let ended = loop {
        match all.next().await {
            Some(Ok(_)) => {}
            other => break other,
        }
    };
    assert!(ended.unwrap().is_err() && all.next().await.is_none());
}

/// Any table can be acquired, but only a chronicle of raw events can record raw events.
#[tokio::test]
async fn a_table_of_other_columns_is_acquired_and_not_recorded_to() {
    let server = Server::start();
    let log = connect(&server).await;
    let table = "CREATE TABLE cpu (at timestamptz, v double precision)";
    log.client().execute(table).await.unwrap();
    let cpu = log.acquire("cpu", Acquire::exclusive()).await.unwrap();
    let error = cpu.record("x").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOption);
    assert!(error.to_string().contains("Chronicle::client"), "{error}");
    assert!(cpu.subscribe(Start::Live, None).await.is_err() && cpu.playback(1).await.is_err());
    cpu.client().execute("INSERT INTO cpu VALUES (now(), 1)").await.unwrap();
    assert_eq!(number(cpu.client(), "SELECT count(*) FROM cpu").await, 1);
    let theirs = log.client().execute("INSERT INTO cpu VALUES (now(), 1)").await.unwrap_err();
    assert_eq!(theirs.sqlstate(), Some("55P03"));
    // Any other wrong state is reported immediately, without retries.
    let began = std::time::Instant::now();
    let sealed = cpu.client().query("SELECT v FROM cpu AS OF SEALED").await;
    assert_eq!(sealed.err().unwrap().sqlstate(), Some("55000"));
    assert!(began.elapsed() < Duration::from_secs(10));
    assert_eq!(number(cpu.client(), "SELECT count(*) FROM cpu").await, 1);
    // The client refuses statements for a single session.
    let acquire = log.client().execute("ACQUIRE CHRONICLE cpu").await.unwrap_err();
    assert!(acquire.hint().unwrap().contains("Chronolog::acquire"), "{acquire}");
    let nobody = log.acquire("nobody", Acquire::shared()).await.unwrap_err();
    assert_eq!(nobody.sqlstate(), Some("42P01"));
}
