use bytes::Bytes;
use futures::{SinkExt, TryStreamExt, pin_mut};
use tokio_postgres::Client;

use crate::{
    raw::{Wire, error_field, framed, kinds, sqlstate},
    server::{Server, code, eventually},
};

const TABLE: &str = "CREATE TABLE t (time timestamptz NOT NULL, name text, x double precision)";

async fn copy_in(
    client: &Client,
    sql: &str,
    pieces: &[&str],
) -> Result<u64, tokio_postgres::Error> {
    let sink = client.copy_in::<_, Bytes>(sql).await?;
    pin_mut!(sink);
    for piece in pieces {
        sink.send(Bytes::copy_from_slice(piece.as_bytes())).await?;
    }
    sink.finish().await
}

async fn copy_out(client: &Client, sql: &str) -> String {
    let stream = client.copy_out(sql).await.unwrap();
    pin_mut!(stream);
    let mut data = Vec::new();
    while let Some(piece) = stream.try_next().await.unwrap() {
        assert_eq!(piece.iter().filter(|byte| **byte == b'\n').count(), 1, "a message is a row");
        data.extend_from_slice(&piece);
    }
    String::from_utf8(data).unwrap()
}

async fn count(client: &Client) -> i64 {
    client.query_one("SELECT count(*) FROM t", &[]).await.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn data_goes_in_and_out() {
    let server = Server::start().await;
    let client = server.client().await;
    client.batch_execute(TABLE).await.unwrap();
    let pieces = ["2020-01-01\ta\t1", ".5\n2020-01-02\t\\N\t\\N\n", "2020-01-03\tb\\tc\tNaN\n"];
    assert_eq!(copy_in(&client, "COPY t FROM STDIN", &pieces).await.unwrap(), 3);
    let csv = ["name,time\n", "\"x,y\",2020-01-04\n", ",2020-01-05"];
    let sql = "COPY t (name, time) FROM STDIN WITH (FORMAT csv, HEADER match)";
    assert_eq!(copy_in(&client, sql, &csv).await.unwrap(), 2);
    assert_eq!(
        copy_out(&client, "COPY (SELECT * FROM t ORDER BY time) TO STDOUT").await,
        "2020-01-01 00:00:00+00\ta\t1.5\n2020-01-02 00:00:00+00\t\\N\t\\N\n2020-01-03 00:00:00+00\tb\\tc\tNaN\n2020-01-04 00:00:00+00\tx,y\t\\N\n2020-01-05 00:00:00+00\t\\N\t\\N\n"
    );
    let sql = "COPY (SELECT name, x FROM t ORDER BY time) TO STDOUT (FORMAT csv, HEADER)";
    assert_eq!(copy_out(&client, sql).await, "name,x\na,1.5\n,\nb\tc,NaN\n\"x,y\",\n,\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_are_quoted_or_made_null_by_force() {
    let server = Server::start().await;
    let client = server.client().await;
    client.batch_execute(TABLE).await.unwrap();
    let sql = "COPY t FROM STDIN (FORMAT csv, NULL '-', FORCE_NULL (x), FORCE_NOT_NULL (name))";
    assert_eq!(copy_in(&client, sql, &["2020-01-01,-,\"-\"\n"]).await.unwrap(), 1);
    assert_eq!(copy_in(&client, "COPY t FROM STDIN CSV", &["2020-01-02,b,2\n"]).await.unwrap(), 1);
    let rows = "COPY (SELECT name, x FROM t ORDER BY time) TO STDOUT";
    for (options, expected) in [
        ("(FORMAT csv, FORCE_QUOTE *)", "\"-\",\n\"b\",\"2\"\n"),
        ("(FORMAT csv, FORCE_QUOTE (x), HEADER)", "name,x\n-,\nb,\"2\"\n"),
        ("CSV FORCE QUOTE *", "\"-\",\n\"b\",\"2\"\n"),
        ("CSV FORCE QUOTE name", "\"-\",\n\"b\",2\n"),
    ] {
        assert_eq!(copy_out(&client, &format!("{rows} {options}")).await, expected, "{options}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_data_stores_nothing_and_names_its_place() {
    let server = Server::start().await;
    let client = server.client().await;
    client.batch_execute(TABLE).await.unwrap();
    let good = "2020-01-01\ta\t1\n".repeat(30_000);
    for (bad, state, place) in [
        ("2020-01-01\ta\tabc\n", "22P02", "COPY t, line 30001, column x: \"abc\""),
        ("2020-01-01\ta\n", "22P04", "COPY t, line 30001: \"2020-01-01\ta\""),
        ("2020-01-01\ta\t1\t2\n", "22P04", "COPY t, line 30001: \"2020-01-01\ta\t1\t2\""),
        ("x\ta\t1\n", "22007", "COPY t, line 30001, column time: \"x\""),
    ] {
        let error = copy_in(&client, "COPY t FROM STDIN", &[&good, bad, &good]).await.unwrap_err();
        assert_eq!(code(&error), state, "{bad}");
        assert_eq!(error.as_db_error().unwrap().where_(), Some(place));
        assert_eq!(count(&client).await, 0);
    }
    let error = copy_in(&client, "COPY t FROM STDIN", &[&good, "\\N\ta\t1\n"]).await.unwrap_err();
    assert_eq!(code(&error), "23502");
    assert_eq!(count(&client).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_gives_up_stores_nothing() {
    let server = Server::start().await;
    let client = server.client().await;
    client.batch_execute(TABLE).await.unwrap();
    let data = framed(b'd', "2020-01-01\ta\t1\n".repeat(20_000).as_bytes());

    // The client sends CopyFail.
    let mut wire = Wire::ready(server.port).await;
    wire.send(&framed(b'Q', b"COPY t FROM STDIN\0")).await;
    wire.until('G').await;
    wire.send(&[data.clone(), framed(b'f', b"no more\0")].concat()).await;
    let replies = wire.until('Z').await;
    assert_eq!(sqlstate(&replies), "57014");
    assert_eq!(error_field(&replies, b'M').unwrap(), "COPY from stdin failed: no more");
    assert_eq!(kinds(&wire.query("SELECT 1").await), "TDCZ");

    // The client leaves, with and without a Terminate message.
    for goodbye in [framed(b'X', b""), Vec::new()] {
        let mut wire = Wire::ready(server.port).await;
        wire.send(&framed(b'Q', b"COPY t FROM STDIN\0")).await;
        wire.until('G').await;
        wire.send(&[data.clone(), goodbye].concat()).await;
    }

    // The client sends another message; later data is ignored.
    let mut wire = Wire::ready(server.port).await;
    wire.send(&framed(b'Q', b"COPY t FROM STDIN\0")).await;
    wire.until('G').await;
    wire.send(
        &[data.clone(), framed(b'Q', b"SELECT 1\0"), data.clone(), framed(b'c', b"")].concat(),
    )
    .await;
    assert_eq!(sqlstate(&wire.until('Z').await), "08P01");
    assert_eq!(kinds(&wire.query("SELECT 2").await), "TDCZ");
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    assert_eq!(count(&client).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_is_told_while_the_client_still_sends() {
    let server = Server::start().await;
    let client = server.client().await;
    client.batch_execute(TABLE).await.unwrap();
    let mut wire = Wire::ready(server.port).await;
    wire.send(&framed(b'Q', b"COPY t FROM STDIN\0")).await;
    wire.until('G').await;
    wire.send(&framed(b'd', b"nonsense\n")).await;
    assert_eq!(kinds(&wire.until('Z').await), "EZ");
    wire.send(&[framed(b'd', b"more\n"), framed(b'c', b"")].concat()).await;
    assert_eq!(kinds(&wire.query("SELECT 1").await), "TDCZ");
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_ends_a_copy_that_waits_for_data() {
    let server = Server::start().await;
    let client = server.client().await;
    client.batch_execute(TABLE).await.unwrap();
    let sink = client.copy_in::<_, Bytes>("COPY t FROM STDIN").await.unwrap();
    pin_mut!(sink);
    sink.send(Bytes::from_static(b"2020-01-01\ta\t1\n")).await.unwrap();
    sink.flush().await.unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    client.cancel_token().cancel_query(tokio_postgres::NoTls).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    let error = sink.finish().await.unwrap_err();
    assert_eq!(code(&error), "57014");
    assert_eq!(count(&client).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_are_bounded() {
    let settings =
        stratalog_pgwire::PgwireSettings { copy_line_bytes_max: 1000, ..Default::default() };
    let server = Server::with(settings).await;
    let client = server.client().await;
    client.batch_execute(TABLE).await.unwrap();
    let long = format!("2020-01-01\t{}\t1\n", "a".repeat(2000));
    let error = copy_in(&client, "COPY t FROM STDIN", &[&long]).await.unwrap_err();
    assert_eq!(code(&error), "54000");
}

#[tokio::test(flavor = "multi_thread")]
async fn copy_by_the_extended_protocol() {
    let server = Server::start().await;
    let mut wire = Wire::ready(server.port).await;
    wire.query(TABLE).await;
    let messages = [
        framed(b'P', b"\0COPY t FROM STDIN\0\0\0"),
        framed(b'B', b"\0\0\0\0\0\0\0\0"),
        framed(b'E', b"\0\0\0\0\0"),
    ];
    wire.send(&[messages.concat(), framed(b'S', b"")].concat()).await;
    wire.until('G').await;
    wire.send(
        &[framed(b'd', b"2020-01-01\ta\t1\n"), framed(b'c', b""), framed(b'S', b"")].concat(),
    )
    .await;
    let replies = wire.until('Z').await;
    assert_eq!(kinds(&replies), "CZ");
    assert_eq!(replies[0].1, b"COPY 1\0");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_cannot_be_read_are_left_out() {
    let server = Server::start().await;
    let mut wire = Wire::ready(server.port).await;
    wire.query(TABLE).await;
    let data = "2020-01-01\ta\t1\nnever\tb\t2\n2020-01-03\tc\tmuch\n2020-01-04\td\t4\n";
    let notices = |replies: &[crate::raw::Reply]| -> Vec<String> {
        let notices = replies.iter().filter(|(kind, _)| *kind == 'N');
        let message = |body: &Vec<u8>| {
            let mut fields = body.split(|byte| *byte == 0);
            let found = fields.find(|field| field.first() == Some(&b'M')).unwrap();
            String::from_utf8(found[1..].to_vec()).unwrap()
        };
        notices.map(|(_, body)| message(body)).collect()
    };
    for (options, told) in [
        ("ON_ERROR ignore", vec!["2 rows were skipped due to data type incompatibility"]),
        (
            "ON_ERROR ignore, LOG_VERBOSITY verbose",
            vec![
                "skipping row due to data type incompatibility at line 2 for column \"time\": \"never\"",
                "skipping row due to data type incompatibility at line 3 for column \"x\": \"much\"",
                "2 rows were skipped due to data type incompatibility",
            ],
        ),
    ] {
        let sql = format!("COPY t FROM STDIN ({options})");
        wire.send(&framed(b'Q', &[sql.as_bytes(), b"\0"].concat())).await;
        wire.until('G').await;
        wire.send(&[framed(b'd', data.as_bytes()), framed(b'c', b"")].concat()).await;
        let replies = wire.until('Z').await;
        assert_eq!(notices(&replies), told);
        let complete = replies.iter().find(|(kind, _)| *kind == 'C').unwrap();
        assert_eq!(complete.1, b"COPY 2\0");
    }
    // An error in the row itself still stops the COPY.
    for (data, state) in [
        ("2024-01-01\tb\n", "22P04"),
        ("never\tb\t1\t2\n", "22P04"),
        ("\\N\tb\t1\n", "23502"),
        ("never\tb\\xff\t1\n", "22021"),
    ] {
        wire.send(&framed(b'Q', b"COPY t FROM STDIN (ON_ERROR ignore)\0")).await;
        wire.until('G').await;
        wire.send(&[framed(b'd', data.as_bytes()), framed(b'c', b"")].concat()).await;
        assert_eq!(sqlstate(&wire.until('Z').await), state, "{data}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn others_see_how_far_a_copy_is() {
    let server = Server::start().await;
    let other = server.client().await;
    let mut wire = Wire::ready(server.port).await;
    wire.query(TABLE).await;
    wire.send(&framed(b'Q', b"COPY t FROM STDIN (ON_ERROR ignore)\0")).await;
    wire.until('G').await;
    let rows = 20_000_usize;
    let data: String = (0..rows)
        .map(|row| {
            format!("2020-01-01 00:00:00.{row:06}\tname\t{}\n", if row == 5 { "x" } else { "1" })
        })
        .collect();
    wire.send(&framed(b'd', data.as_bytes())).await;
    let sql = "SELECT command, type, relid = 't'::regclass, bytes_processed, bytes_total, tuples_processed, \
         tuples_excluded, datname::text FROM pg_stat_progress_copy WHERE pid <> pg_backend_pid()";
    eventually("all bytes are counted, and some rows", async || {
        let found = other.query(sql, &[]).await.unwrap();
        let Some(row) = found.first() else { return false };
        assert_eq!(row.get::<_, &str>(0), "COPY FROM");
        assert_eq!(row.get::<_, &str>(1), "PIPE");
        assert!(row.get::<_, bool>(2));
        assert_eq!(row.get::<_, i64>(4), 0);
        assert_eq!(row.get::<_, &str>(7), "stratalog");
        row.get::<_, i64>(3) == i64::try_from(data.len()).unwrap()
            && row.get::<_, i64>(5) > 8_000
            && row.get::<_, i64>(6) == 1
    })
    .await;
    wire.send(&framed(b'c', b"")).await;
    assert_eq!(kinds(&wire.until('Z').await), "NCZ");
    assert!(other.query(sql, &[]).await.unwrap().is_empty());
    // An outgoing COPY without a reading client.
    wire.send(&framed(
        b'Q',
        b"COPY (SELECT x, repeat('y', 1000) FROM generate_series(1, 100000000) AS g(x)) TO STDOUT\0",
    ))
    .await;
    eventually("a COPY goes out", async || {
        let found = other.query(sql, &[]).await.unwrap();
        found.first().is_some_and(|row| {
            row.get::<_, &str>(0) == "COPY TO"
                && row.get::<_, Option<bool>>(2) == Some(false)
                && row.get::<_, i64>(3) > 1000
                && row.get::<_, i64>(5) > 0
        })
    })
    .await;
    drop(wire);
    eventually("it ends with its client", async || other.query(sql, &[]).await.unwrap().is_empty())
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_that_was_added_may_be_left_out() {
    let server = Server::start().await;
    let client = server.client().await;
    client.batch_execute("CREATE TABLE u (id int, name text)").await.unwrap();
    assert_eq!(copy_in(&client, "COPY u FROM STDIN", &["1\ta\n2", "\tb\n"]).await.unwrap(), 2);
    let whole = ["3\tc\t2020-01-01\n"];
    assert_eq!(copy_in(&client, "COPY u FROM STDIN", &whole).await.unwrap(), 1);
    let mixed = copy_in(&client, "COPY u FROM STDIN", &["4\td\n5\te\t2020-01-01\n"]).await;
    assert_eq!(code(&mixed.unwrap_err()), "22P04");
    let null = copy_in(&client, "COPY u FROM STDIN", &["4\td\t\\N\n"]).await;
    assert_eq!(code(&null.unwrap_err()), "23502");
    assert_eq!(
        copy_out(
            &client,
            "COPY (SELECT id, name, time > '2024-01-01' FROM u ORDER BY id) TO STDOUT"
        )
        .await,
        "1\ta\tt\n2\tb\tt\n3\tc\tf\n"
    );
    // A table with a time from its statement has no column to omit.
    client.batch_execute(TABLE).await.unwrap();
    let short = copy_in(&client, "COPY t FROM STDIN", &["2020-01-01\ta\n"]).await;
    assert_eq!(code(&short.unwrap_err()), "22P04");
}
