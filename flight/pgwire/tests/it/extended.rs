use std::time::Duration;

use bytes::BytesMut;
use futures::{TryStreamExt, pin_mut};
use tokio_postgres::types::{IsNull, ToSql, Type};

use crate::{
    raw::{
        Wire, bind, close, describe, error_field, execute, framed, kinds, parse, sqlstate, sync,
    },
    server::{FOREVER, Server, code, eventually},
};

/// A value as the bytes of its binary format.
#[derive(Debug)]
struct Binary(Vec<u8>);

impl ToSql for Binary {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        out.extend_from_slice(&self.0);
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    tokio_postgres::types::to_sql_checked!();
}

#[tokio::test(flavor = "multi_thread")]
async fn prepared_statements_with_typed_parameters() {
    let server = Server::start().await;
    let client = server.client().await;
    client
        .batch_execute(
            "CREATE TABLE t (time timestamptz NOT NULL, host text NOT NULL, n bigint, x double precision, PRIMARY KEY (host, time))",
        )
        .await
        .unwrap();
    let insert = client
        .prepare_typed(
            "INSERT INTO t VALUES ($1::text::timestamptz, $2, $3, $4)",
            &[Type::TEXT, Type::TEXT, Type::INT8, Type::FLOAT8],
        )
        .await
        .unwrap();
    for n in 0..10_i64 {
        let rows = client
            .execute(&insert, &[&format!("2020-01-01 00:00:0{n}+00"), &"h", &n, &(n as f64 / 2.0)])
            .await
            .unwrap();
        assert_eq!(rows, 1);
    }
    let select = client
        .prepare("SELECT n, x, host FROM t WHERE n >= $1 AND host = $2 ORDER BY n")
        .await
        .unwrap();
    assert_eq!(select.params(), [Type::INT8, Type::TEXT]);
    let types: Vec<_> = select.columns().iter().map(|column| column.type_().clone()).collect();
    assert_eq!(types, [Type::INT8, Type::FLOAT8, Type::TEXT]);
    let rows = client.query(&select, &[&7_i64, &"h"]).await.unwrap();
    let values: Vec<(i64, f64)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(values, [(7, 3.5), (8, 4.0), (9, 4.5)]);
    let none = client.query(&select, &[&None::<i64>, &"h"]).await.unwrap();
    assert!(none.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn binary_parameters_and_results_of_every_type() {
    let server = Server::start().await;
    let client = server.client().await;
    client
        .batch_execute(
            "CREATE TABLE every (time timestamptz NOT NULL, b boolean, i2 smallint, i4 integer, i8 bigint,
             f4 real, f8 double precision, num numeric(10,3), txt text, by bytea, ts timestamp, d date,
             t time, iv interval, id uuid, j jsonb, li int[], lt text[])",
        )
        .await
        .unwrap();
    let insert = client
        .prepare(
            "INSERT INTO every VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16,$17,$18)",
        )
        .await
        .unwrap();
    let uuid: Vec<u8> = (0..16).collect();
    let micros = 631_152_000_000_000_i64 + 123_456; // 2020-01-01 in microseconds since 2000
    let values: Vec<Binary> = [
        micros.to_be_bytes().to_vec(),
        vec![1],
        (-2_i16).to_be_bytes().to_vec(),
        3_i32.to_be_bytes().to_vec(),
        4_i64.to_be_bytes().to_vec(),
        1.5_f32.to_be_bytes().to_vec(),
        2.25_f64.to_be_bytes().to_vec(),
        vec![0, 2, 0, 0, 0x40, 0, 0, 3, 0, 12, 0x0d, 0x7a], // -12.345
        "é".as_bytes().to_vec(),
        vec![0, 255],
        micros.to_be_bytes().to_vec(),
        7_305_i32.to_be_bytes().to_vec(),
        3_600_000_001_i64.to_be_bytes().to_vec(),
        [&1_000_000_i64.to_be_bytes()[..], &2_i32.to_be_bytes(), &3_i32.to_be_bytes()].concat(),
        uuid.clone(),
        b"\x01{\"b\":1, \"a\":[]}".to_vec(),
        [1, 0, 23, 2, 1, 4, 7]
            .iter()
            .flat_map(|word: &i32| word.to_be_bytes())
            .chain((-1_i32).to_be_bytes())
            .collect(),
        vec![0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 25],
    ]
    .into_iter()
    .map(Binary)
    .collect();
    let parameters: Vec<&(dyn ToSql + Sync)> = values.iter().map(|value| value as _).collect();
    assert_eq!(client.execute(&insert, &parameters).await.unwrap(), 1);

    let shown = client.simple_query("SELECT * FROM every").await.unwrap();
    let row = shown
        .iter()
        .find_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        })
        .unwrap();
    let texts: Vec<&str> = (0..row.len()).map(|at| row.get(at).unwrap()).collect();
    assert_eq!(
        texts,
        [
            "2020-01-01 00:00:00.123456+00",
            "t",
            "-2",
            "3",
            "4",
            "1.5",
            "2.25",
            "-12.345",
            "é",
            "\\x00ff",
            "2020-01-01 00:00:00.123456",
            "2020-01-01",
            "01:00:00.000001",
            "3 mons 2 days 00:00:01",
            "00010203-0405-0607-0809-0a0b0c0d0e0f",
            "{\"a\": [], \"b\": 1}",
            "{7,NULL}",
            "{}",
        ]
    );

    let rows = client
        .query("SELECT b, i2, i4, i8, f4, f8, txt, by, li, lt FROM every", &[])
        .await
        .unwrap();
    let row = &rows[0];
    assert!(row.get::<_, bool>(0));
    assert_eq!(row.get::<_, i16>(1), -2);
    assert_eq!(row.get::<_, i32>(2), 3);
    assert_eq!(row.get::<_, i64>(3), 4);
    assert_eq!(row.get::<_, f32>(4), 1.5);
    assert_eq!(row.get::<_, f64>(5), 2.25);
    assert_eq!(row.get::<_, &str>(6), "é");
    assert_eq!(row.get::<_, Vec<u8>>(7), [0, 255]);
    assert_eq!(row.get::<_, Vec<Option<i32>>>(8), [Some(7), None]);
    assert!(row.get::<_, Vec<String>>(9).is_empty());
    let rows =
        client.query("SELECT time FROM every WHERE id = $1", &[&Binary(uuid)]).await.unwrap();
    assert!(rows[0].get::<_, std::time::SystemTime>(0).elapsed().is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn portals_suspend_and_resume() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let transaction = client.transaction().await.unwrap();
    let portal =
        transaction.bind("SELECT x FROM generate_series(1, 10) AS t(x)", &[]).await.unwrap();
    let mut seen = Vec::new();
    loop {
        let rows = transaction.query_portal(&portal, 4).await.unwrap();
        if rows.is_empty() {
            break;
        }
        seen.push(rows.len());
    }
    assert_eq!(seen, [4, 4, 2]);
    transaction.commit().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_a_pipeline() {
    let server = Server::start().await;
    let mut wire = Wire::ready(server.port).await;
    let mut ask = async |messages: &[Vec<u8>]| {
        wire.send(&[messages.concat(), sync()].concat()).await;
        wire.until('Z').await
    };
    let replies = ask(&[
        parse("s", "SELECT $1::int + 1", &[]),
        describe(b'S', "s"),
        bind("p", "s", &[Some("41")]),
        describe(b'P', "p"),
        execute("p", 0),
        close(b'P', "p"),
    ])
    .await;
    assert_eq!(kinds(&replies), "1tT2TDC3Z");
    assert_eq!(replies[1].1, [0, 1, 0, 0, 0, 23]);
    assert_eq!(&replies[5].1[6..], b"42");
    // Named statements survive Sync, portals do not.
    assert_eq!(kinds(&ask(&[bind("", "s", &[None]), execute("", 0)]).await), "2DCZ");
    assert_eq!(sqlstate(&ask(&[execute("", 0)]).await), "34000");
    assert_eq!(kinds(&ask(&[close(b'S', "s"), close(b'S', "never")]).await), "33Z");
    assert_eq!(sqlstate(&ask(&[bind("", "s", &[None])]).await), "26000");
    // Empty statements.
    let empty = [parse("", "", &[]), bind("", "", &[]), describe(b'P', ""), execute("", 0)];
    assert_eq!(kinds(&ask(&empty).await), "12nIZ");
    // A portal is read to its end, and then gives no more rows.
    let again = [
        parse("", "SELECT 1", &[]),
        bind("", "", &[]),
        execute("", 1),
        execute("", 1),
        execute("", 1),
    ];
    assert_eq!(kinds(&ask(&again).await), "12DsCCZ");
    // A statement without rows runs once.
    let once =
        [parse("", "SET TimeZone = 'UTC'", &[]), bind("", "", &[]), execute("", 0), execute("", 0)];
    let replies = ask(&once).await;
    assert_eq!(sqlstate(&replies), "55000");
}

/// PostgreSQL's locks would delay such an ALTER; here the statement keeps its described form.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_altered_between_parse_and_execute() {
    let server = Server::start().await;
    let mut other = Wire::ready(server.port).await;
    other
        .query("CREATE TABLE t (time timestamptz, v int); INSERT INTO t VALUES ('2026-01-01', 1)")
        .await;
    let mut wire = Wire::ready(server.port).await;
    let ahead = [
        parse("", "SELECT * FROM t ORDER BY time", &[]),
        bind("", "", &[]),
        describe(b'P', ""),
        parse("write", "INSERT INTO t VALUES ('2026-01-03', $1) RETURNING *", &[]),
        bind("write", "write", &[Some("3")]),
        describe(b'P', "write"),
        framed(b'H', &[]),
    ];
    wire.send(&ahead.concat()).await;
    for _ in 0..2 {
        wire.until('T').await;
    }
    other.query("ALTER TABLE t ADD COLUMN w text").await;
    other.query("INSERT INTO t VALUES ('2026-01-02', 2, 'two')").await;
    wire.send(&[execute("", 0), execute("write", 0), sync()].concat()).await;
    let replies = wire.until('Z').await;
    assert_eq!(kinds(&replies), "DDCDCZ", "{:?}", error_field(&replies, b'M'));
    let columns = |at: usize| replies[at].1[..2].to_vec();
    assert_eq!([columns(0), columns(1), columns(3)], [[0, 2], [0, 2], [0, 2]]);
    // The description from an earlier round is outdated.
    wire.send(&[bind("", "write", &[Some("4")]), execute("", 0), sync()].concat()).await;
    assert_eq!(sqlstate(&wire.until('Z').await), "0A000");
    wire.send(
        &[parse("", "SELECT * FROM t", &[]), bind("", "", &[]), execute("", 0), sync()].concat(),
    )
    .await;
    let replies = wire.until('Z').await;
    assert_eq!(kinds(&replies), "12DDDCZ");
    assert_eq!(replies[2].1[..2], [0, 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pipeline_is_one_transaction() {
    let server = Server::start().await;
    let mut wire = Wire::ready(server.port).await;
    let mut other = Wire::ready(server.port).await;
    wire.query("CREATE TABLE t (time timestamptz NOT NULL, n int)").await;
    let mut seen = async || {
        let replies = other.query("SELECT n FROM t").await;
        replies.iter().filter(|reply| reply.0 == 'D').count()
    };
    let statement = |sql: &str| [parse("", sql, &[]), bind("", "", &[]), execute("", 0)].concat();
    let insert = statement("INSERT INTO t VALUES ('2024-01-01', 1)");
    let flush = framed(b'H', b"");
    // Not before Sync.
    wire.send(&[insert.clone(), flush.clone(), insert.clone(), flush].concat()).await;
    for _ in 0..2 {
        assert_eq!(kinds(&wire.until('C').await), "12C");
    }
    assert_eq!(seen().await, 0);
    wire.send(&sync()).await;
    assert_eq!(kinds(&wire.until('Z').await), "Z");
    assert_eq!(seen().await, 2);
    // All or nothing.
    let wrong = statement("SELECT nothing");
    wire.send(&[insert.clone(), insert.clone(), wrong, insert.clone(), sync()].concat()).await;
    let replies = wire.until('Z').await;
    assert_eq!(kinds(&replies), "12C12CEZ");
    assert_eq!(replies.last().unwrap().1[0], b'I');
    assert_eq!(seen().await, 2);
    // A single statement is committed before its completion is reported.
    let returning = statement("INSERT INTO t VALUES ('2024-01-01', 1) RETURNING _gsn");
    wire.send(&[returning, close(b'P', ""), framed(b'H', b""), sync()].concat()).await;
    assert_eq!(kinds(&wire.until('Z').await), "12DC3Z");
    assert_eq!(seen().await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_an_error_messages_are_skipped_until_sync() {
    let server = Server::start().await;
    let mut wire = Wire::ready(server.port).await;
    let messages = [
        parse("", "SELECT nothing", &[]),
        bind("", "", &[]),
        execute("", 0),
        framed(b'Q', b"SELECT 1\0"),
        sync(),
        parse("", "SELECT 1", &[]),
        bind("", "", &[]),
        execute("", 0),
        sync(),
    ];
    wire.send(&messages.concat()).await;
    assert_eq!(kinds(&wire.until('Z').await), "EZ");
    assert_eq!(kinds(&wire.until('Z').await), "12DCZ");
}

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_of_the_extended_protocol() {
    let server = Server::start().await;
    let mut wire = Wire::ready(server.port).await;
    let mut state = async |messages: &[Vec<u8>]| {
        wire.send(&[messages.concat(), sync()].concat()).await;
        sqlstate(&wire.until('Z').await)
    };
    assert_eq!(state(&[parse("", "SELECT 1; SELECT 2", &[])]).await, "42601");
    assert_eq!(state(&[parse("a", "SELECT 1", &[]), parse("a", "SELECT 1", &[])]).await, "42P05");
    assert_eq!(state(&[bind("p", "a", &[]), bind("p", "a", &[])]).await, "42P03");
    assert_eq!(state(&[bind("", "a", &[Some("1")])]).await, "08P01");
    assert_eq!(state(&[describe(b'X', "a")]).await, "08P01");
    assert_eq!(state(&[describe(b'P', "nowhere")]).await, "34000");
    let bad = [parse("", "SELECT $1::int", &[]), bind("", "", &[Some("x")])];
    assert_eq!(state(&bad).await, "22P02");
    assert_eq!(state(&[bind("", "a", &[]), execute("", 0)]).await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn deallocate_knows_the_protocols_statements() {
    let server = Server::start().await;
    let mut wire = Wire::ready(server.port).await;
    wire.send(&[parse("_pg3_0", "SELECT 1", &[]), sync()].concat()).await;
    wire.until('Z').await;
    assert_eq!(kinds(&wire.query("DEALLOCATE \"_pg3_0\"").await), "CZ");
    wire.send(&[bind("", "_pg3_0", &[]), sync()].concat()).await;
    assert_eq!(sqlstate(&wire.until('Z').await), "26000");
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_stops_a_statement_at_once() {
    let server = Server::start().await;
    let client = server.client().await;
    let token = client.cancel_token();
    let running = tokio::spawn(async move {
        let error = client.query(FOREVER, &[]).await.unwrap_err();
        assert_eq!(code(&error), "57014");
        // The connection goes on.
        client.query("SELECT 1", &[]).await.unwrap();
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    let start = std::time::Instant::now();
    token.cancel_query(tokio_postgres::NoTls).await.unwrap();
    running.await.unwrap();
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_ends_its_statement() {
    let server = Server::start().await;
    let mut wire = Wire::ready(server.port).await;
    wire.send(&framed(b'Q', &[FOREVER.as_bytes(), b"\0"].concat())).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let client = server.client().await;
    let sessions = async || {
        let row = client.query_one("SELECT count(*) FROM pg_stat_activity", &[]).await.unwrap();
        row.get::<_, i64>(0)
    };
    assert_eq!(sessions().await, 2);
    drop(wire);
    eventually("the session ends", async || sessions().await == 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_read_as_they_are_wanted() {
    let server = Server::start().await;
    let client = server.client().await;
    let parameters: [&str; 0] = [];
    let stream = client
        .query_raw("SELECT x FROM generate_series(1, 1000000000) AS t(x)", parameters)
        .await
        .unwrap();
    pin_mut!(stream);
    for expected in 1..=100_000_i32 {
        let row = stream.try_next().await.unwrap().unwrap();
        assert_eq!(row.get::<_, i32>(0), expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fetch_is_prepared_before_its_cursor_exists() {
    let server = Server::start().await;
    let mut wire = Wire::ready(server.port).await;
    let prepared = [
        parse("f", "FETCH ALL FROM c", &[]),
        describe(b'S', "f"),
        parse("e", "EXECUTE later", &[]),
        describe(b'S', "e"),
        sync(),
    ];
    wire.send(&prepared.concat()).await;
    assert_eq!(kinds(&wire.until('Z').await), "1tn1tnZ");
    wire.send(&[bind("", "f", &[]), execute("", 0), sync()].concat()).await;
    let replies = wire.until('Z').await;
    assert_eq!((kinds(&replies).as_str(), sqlstate(&replies).as_str()), ("2EZ", "34000"));
    wire.send(&[bind("", "e", &[]), execute("", 0), sync()].concat()).await;
    let replies = wire.until('Z').await;
    assert_eq!((kinds(&replies).as_str(), sqlstate(&replies).as_str()), ("2EZ", "26000"));
    wire.query("BEGIN; DECLARE c CURSOR FOR SELECT generate_series(1, 2)").await;
    wire.send(&[describe(b'S', "f"), bind("", "f", &[]), execute("", 0), sync()].concat()).await;
    assert_eq!(kinds(&wire.until('Z').await), "tT2DDCZ");
}
