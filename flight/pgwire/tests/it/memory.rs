//! The memory that a single client can make the server use.

use stratalog_pgwire::PgwireSettings;

use crate::{
    raw::{
        Wire, bind, close, describe, error_field, execute, framed, kinds, parse, sqlstate, sync,
    },
    server::{FOREVER, Server},
};

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_sent_when_there_are_enough_of_them() {
    let settings = PgwireSettings { output_buffer_bytes: 200, ..Default::default() };
    let server = Server::with(settings).await;
    let many = 300;
    let forever = [parse("", FOREVER, &[]), bind("", "", &[]), execute("", 0)].concat();
    for (message, answer) in [
        (parse("", "SELECT 1", &[]), '1'),
        (bind("", "s", &[]), '2'),
        (close(b'S', "none"), '3'),
        (describe(b'S', "s"), 't'),
        (describe(b'P', "p"), 'T'),
        (execute("p", 0), 'C'),
        (framed(b'Q', b";\0"), 'I'),
    ] {
        let mut wire = Wire::ready(server.port).await;
        wire.send(&[parse("s", "SELECT 1", &[]), sync()].concat()).await;
        wire.until('Z').await;
        wire.query("BEGIN").await;
        let portal = bind("p", "s", &[]);
        wire.send(&[portal, message.repeat(many), forever.clone()].concat()).await;
        // The last statement never ends: all these answers come before its end.
        for _ in 0..many - 200 / 5 {
            while wire.reply().await.unwrap().0 != answer {}
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_of_one_string_are_sent_when_there_are_enough_of_them() {
    let settings = PgwireSettings { output_buffer_bytes: 200, ..Default::default() };
    let server = Server::with(settings).await;
    let mut wire = Wire::ready(server.port).await;
    let sql = format!("{}{FOREVER}", "SELECT 1 AS one WHERE false;".repeat(20));
    wire.send(&framed(b'Q', &[sql.as_bytes(), b"\0"].concat())).await;
    let mut replies = Vec::new();
    while kinds(&replies).matches("TC").count() < 15 {
        replies.push(wire.reply().await.unwrap());
    }
}

/// Bytes for two statements with a quoted text of `TEXT_BYTES`; each byte counts four times.
const KEPT_BYTES: usize = 1 << 20;
const TEXT_BYTES: usize = 100_000;

async fn small_room() -> Server {
    Server::with(PgwireSettings { kept_bytes_max: KEPT_BYTES, ..Default::default() }).await
}

/// The SQLSTATE with which the server answers these messages and a Sync.
async fn state(wire: &mut Wire, messages: &[Vec<u8>]) -> String {
    wire.send(&[&messages.concat()[..], &sync()].concat()).await;
    sqlstate(&wire.until('Z').await)
}

fn large_parse(name: &str) -> Vec<u8> {
    parse(name, &format!("SELECT '{}'", "x".repeat(TEXT_BYTES)), &[])
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_of_statements_are_bounded() {
    let server = small_room().await;
    let mut wire = Wire::ready(server.port).await;
    assert_eq!(state(&mut wire, &[large_parse("a"), large_parse("b")]).await, "");
    wire.send(&[large_parse("c"), bind("", "a", &[]), sync()].concat()).await;
    let replies = wire.until('Z').await;
    assert_eq!(kinds(&replies), "EZ", "what follows is skipped");
    assert_eq!(sqlstate(&replies), "54000");
    let message = error_field(&replies, b'M').unwrap();
    assert!(message.contains("prepared statement of about 4"), "{message}");
    assert!(message.contains(" of 1048576 bytes"), "{message}");
    assert!(error_field(&replies, b'H').unwrap().contains("DEALLOCATE"));
    // Existing statements work, and small and unnamed statements work too.
    assert_eq!(state(&mut wire, &[bind("", "b", &[]), execute("", 0)]).await, "");
    assert_eq!(state(&mut wire, &[parse("small", "SELECT 1", &[])]).await, "");
    for _ in 0..5 {
        let unnamed = [large_parse(""), bind("", "", &[]), execute("", 0)];
        assert_eq!(state(&mut wire, &unnamed).await, "");
    }
    // After any kind of close, another statement has room.
    assert_eq!(state(&mut wire, &[large_parse("c")]).await, "54000");
    assert_eq!(state(&mut wire, &[close(b'S', "a"), large_parse("c")]).await, "");
    assert_eq!(state(&mut wire, &[large_parse("d")]).await, "54000");
    wire.query("DEALLOCATE b").await;
    assert_eq!(state(&mut wire, &[large_parse("d")]).await, "");
    assert_eq!(state(&mut wire, &[large_parse("e")]).await, "54000");
    wire.query("DISCARD ALL").await;
    assert_eq!(state(&mut wire, &[large_parse("e"), large_parse("f")]).await, "");
    // A statement larger than the room is allowed alone.
    let largest = parse("g", &format!("SELECT '{}'", "x".repeat(KEPT_BYTES)), &[]);
    assert_eq!(state(&mut wire, std::slice::from_ref(&largest)).await, "54000");
    wire.query("DEALLOCATE ALL").await;
    assert_eq!(state(&mut wire, &[largest]).await, "");
    assert_eq!(state(&mut wire, &[parse("h", "SELECT 1", &[])]).await, "54000");
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_that_are_large_of_few_bytes_are_bounded() {
    let server = small_room().await;
    let columns: Vec<String> = (0..700).map(|n| format!("c{n} int")).collect();
    let mut wire = Wire::ready(server.port).await;
    wire.query(&format!("CREATE TABLE wide ({})", columns.join(","))).await;
    for sql in
        ["SELECT $10000", "SELECT * FROM wide", &format!("SELECT 1 IN ({}1)", "1,".repeat(1000))]
    {
        let mut wire = Wire::ready(server.port).await;
        let named: Vec<_> = (0..6).map(|n| parse(&format!("s{n}"), sql, &[])).collect();
        assert_eq!(state(&mut wire, &named[..2]).await, "", "{sql}");
        assert_eq!(state(&mut wire, &named[2..]).await, "54000", "{sql}");
    }
    let mut wire = Wire::ready(server.port).await;
    let names: Vec<_> = (0..3).map(|n| parse(&n.to_string().repeat(400_000), "", &[])).collect();
    assert_eq!(state(&mut wire, &names[..2]).await, "");
    assert_eq!(state(&mut wire, &names[2..]).await, "54000");
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_portals_are_bounded() {
    let server = small_room().await;
    let mut wire = Wire::ready(server.port).await;
    assert_eq!(state(&mut wire, &[parse("s", "SELECT $1::text", &[])]).await, "");
    let value = "x".repeat(400_000);
    let large = |portal: &str| bind(portal, "s", &[Some(&value)]);
    for _ in 0..3 {
        // Sync ends the transaction, and the portals with it.
        wire.send(&[large("a"), large("b"), large("c"), large("d"), sync()].concat()).await;
        let replies = wire.until('Z').await;
        assert_eq!(kinds(&replies), "22EZ");
        assert_eq!(sqlstate(&replies), "54000");
        let message = error_field(&replies, b'M').unwrap();
        assert!(message.contains("portal of about 401"), "{message}");
        assert!(error_field(&replies, b'H').unwrap().contains("end the transaction"));
    }
    let unnamed = vec![large(""); 5];
    assert_eq!(state(&mut wire, &unnamed).await, "");
    // In a transaction block, portals stay.
    wire.query("BEGIN").await;
    assert_eq!(state(&mut wire, &[large("a"), large("b")]).await, "");
    assert_eq!(state(&mut wire, &[close(b'P', "a"), large("c"), execute("c", 0)]).await, "");
    assert_eq!(state(&mut wire, &[large("d")]).await, "54000");
    wire.query("ROLLBACK").await;
    assert_eq!(state(&mut wire, &[large("a"), large("b")]).await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_portal_runs_counts_when_its_name_is_gone() {
    let server = small_room().await;
    for name in ["", "s"] {
        let mut wire = Wire::ready(server.port).await;
        wire.query("BEGIN").await;
        let keep = |portal: &str| [large_parse(name), bind(portal, name, &[]), close(b'S', name)];
        assert_eq!(state(&mut wire, &keep("a")).await, "");
        // Two portals of a statement count the statement once.
        let twice = [large_parse(name), bind("b", name, &[]), bind("c", name, &[])];
        assert_eq!(state(&mut wire, &twice).await, "");
        assert_eq!(state(&mut wire, &[close(b'S', name)]).await, "");
        assert_eq!(state(&mut wire, &keep("d")).await, "54000");
        wire.query("ROLLBACK").await;
        assert_eq!(state(&mut wire, &keep("d")).await, "");
    }
}
