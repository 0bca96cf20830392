//! Batches with an acknowledgement each, and the errors of unsuitable batches.

use std::{ops::Range, sync::Arc};

use arrow::{
    array::{ArrayRef, Float64Array, RecordBatch, StringArray},
    datatypes::{DataType, Field, Schema, TimeUnit},
    ipc::writer::IpcWriteOptions,
};
use arrow_flight::{Criteria, FlightData, FlightInfo, sql::CommandStatementIngest};
use futures::{StreamExt as _, TryStreamExt as _, channel::mpsc, stream};
use tonic::Code;

use crate::{
    raw::{
        TABLE, batch, collected, command, count, described, messages, of_schema, path, prepare,
        put, says, told,
    },
    server::TestServer,
};

async fn with_table() -> TestServer {
    let server = TestServer::start().await;
    let mut client = server.client().await;
    client.execute_update(TABLE.to_string(), None).await.unwrap();
    server
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exchange_acknowledges_each_batch_before_the_next_is_sent() {
    let server = with_table().await;
    let mut raw = server.raw().await;
    let batches: Vec<_> = (0..4).map(|at| batch("a", at * 10, 3)).collect();
    let all = described(messages(&batches, IpcWriteOptions::default()).await, path("t"));
    let (mut sender, receiver) = mpsc::channel::<FlightData>(1);
    let mut all = all.into_iter();
    // The schema and the first batch: the call answers when it knows its table.
    sender.try_send(all.next().unwrap()).unwrap();
    let mut answers = raw.do_exchange(receiver).await.unwrap().into_inner();
    let mut last_gsn = 0;
    for (at, message) in all.enumerate() {
        sender.try_send(message).unwrap();
        let answer = answers.next().await.unwrap().unwrap();
        assert!(answer.data_header.is_empty() && answer.data_body.is_empty());
        let told: serde_json::Value = serde_json::from_slice(&answer.app_metadata).unwrap();
        assert_eq!(told["batch"], at as u64 + 1);
        assert_eq!(told["rows"], 3);
        assert_eq!(told["durability"], "disk");
        assert_eq!(told["duplicate"], false);
        assert_eq!(told["first_gsn"], last_gsn + 1);
        last_gsn = told["last_gsn"].as_u64().unwrap();
        // An acknowledged batch is visible, also to other clients.
        let mut other = server.client().await;
        assert_eq!(count(&mut other, "t").await, (at as i64 + 1) * 3);
    }
    drop(sender);
    assert!(answers.next().await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_that_does_not_fit_is_told_by_column() {
    let server = with_table().await;
    let mut sql = server.client().await;
    let mut raw = sql.inner().clone();
    let time = Field::new("time", DataType::Timestamp(TimeUnit::Nanosecond, None), false);
    let host = Field::new("host", DataType::Utf8, false);
    let texts = DataType::List(Arc::new(Field::new("item", DataType::Utf8, true)));
    let ingest = || {
        let table = "t".to_string();
        command(&CommandStatementIngest { table, ..CommandStatementIngest::default() })
    };
    let cases = [
        (Field::new("w", DataType::Int32, true), "42703", "column \"w\" of relation \"t\""),
        (Field::new("v", texts, true), "42804", "column \"v\" is of type integer but"),
        (Field::new("host", DataType::Utf8, true), "42701", "\"host\" specified more than once"),
    ];
    for (field, state, words) in cases {
        let schema = Schema::new(vec![time.clone(), host.clone(), field]);
        for descriptor in [path("t"), ingest()] {
            let messages = described(of_schema(schema.clone()).await, descriptor);
            let (answers, end) = put(&mut raw, stream::iter(messages.clone())).await;
            assert!(answers.is_empty());
            says(&end.unwrap(), Code::InvalidArgument, state, words);
        }
        let exchanged = described(of_schema(schema.clone()).await, path("t"));
        let refused = raw.do_exchange(stream::iter(exchanged)).await.unwrap_err();
        says(&refused, Code::InvalidArgument, state, words);
    }
    // Parameters: their number, and the position of an unreadable parameter.
    let statement = prepare(&mut raw, "INSERT INTO t VALUES ($1, $2, $3)").await;
    let update = || {
        command(&arrow_flight::sql::CommandPreparedStatementUpdate {
            prepared_statement_handle: statement.clone(),
        })
    };
    let two = batch("a", 0, 1).project(&[0, 1]).unwrap();
    let two = described(messages(&[two], IpcWriteOptions::default()).await, update());
    let (_, end) = put(&mut raw, stream::iter(two)).await;
    says(&end.unwrap(), Code::InvalidArgument, "08P01", "requires 3 parameters, 2 were supplied");
    let columns: [(&str, ArrayRef); 3] = [
        ("a", Arc::new(StringArray::from(vec!["yesterday or so"]))),
        ("b", Arc::new(StringArray::from(vec!["a"]))),
        ("c", Arc::new(Float64Array::from(vec![1.5]))),
    ];
    let wrong = RecordBatch::try_from_iter(columns).unwrap();
    let wrong = described(messages(&[wrong], IpcWriteOptions::default()).await, update());
    let (_, end) = put(&mut raw, stream::iter(wrong)).await;
    says(&end.unwrap(), Code::InvalidArgument, "22007", "yesterday or so");
    // A null in a NOT NULL column, and a missing table.
    let hosts: ArrayRef = Arc::new(StringArray::from(vec![None::<&str>]));
    let nulls = batch("a", 0, 1);
    let nulls = RecordBatch::try_from_iter([("time", nulls.column(0).clone()), ("host", hosts)]);
    let nulls = described(messages(&[nulls.unwrap()], IpcWriteOptions::default()).await, path("t"));
    let (_, end) = put(&mut raw, stream::iter(nulls)).await;
    says(&end.unwrap(), Code::InvalidArgument, "23502", "column \"host\"");
    let nowhere = messages(&[batch("a", 0, 1)], IpcWriteOptions::default()).await;
    let (_, end) = put(&mut raw, stream::iter(described(nowhere, path("nowhere")))).await;
    says(&end.unwrap(), Code::NotFound, "42P01", "\"nowhere\"");
    assert_eq!(count(&mut sql, "t").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_comes_behind_the_acknowledgements_of_what_was_stored() {
    let server = with_table().await;
    let mut sql = server.client().await;
    let mut raw = sql.inner().clone();
    // Five batches at once; the fourth has a key of the first.
    let batches: Vec<_> = [0, 10, 20, 0, 30].map(|first| batch("a", first, 3)).to_vec();
    let all = messages(&batches, IpcWriteOptions::default()).await;
    let (answers, end) = put(&mut raw, stream::iter(described(all, path("t")))).await;
    let acknowledged: Vec<_> = told(&answers).iter().map(|told| told["batch"].clone()).collect();
    assert_eq!(acknowledged, [1, 2, 3]);
    let end = end.unwrap();
    says(&end, Code::AlreadyExists, "23505", "duplicate key");
    says(&end, Code::AlreadyExists, "23505", "batch 4");
    assert_eq!(count(&mut sql, "t").await, 9, "the fifth is not stored");
    // An unreadable request in a batch also ends the call in order.
    let mut all =
        messages(&[40, 50].map(|first| batch("a", first, 3)), IpcWriteOptions::default()).await;
    all[2].app_metadata = "{\"durability\": \"paper\"}".into();
    let (answers, end) = put(&mut raw, stream::iter(described(all, path("t")))).await;
    assert_eq!(answers.len(), 1);
    let end = end.unwrap();
    assert_eq!(end.code(), Code::InvalidArgument, "{end:?}");
    assert!(end.message().contains("paper") && end.message().contains("batch 2"), "{end:?}");
    assert_eq!(count(&mut sql, "t").await, 12);
}

#[tokio::test(flavor = "multi_thread")]
async fn flights_are_the_tables_and_say_what_they_take() {
    let server = with_table().await;
    let mut raw = server.raw().await;
    let flights = raw.list_flights(Criteria::default()).await.unwrap().into_inner();
    let flights: Vec<FlightInfo> = flights.try_collect().await.unwrap();
    let paths: Vec<_> =
        flights.iter().map(|flight| flight.flight_descriptor.clone().unwrap().path).collect();
    assert_eq!(paths, [["public", "t"]]);
    let schema = Schema::try_from(flights[0].clone()).unwrap();
    let names: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, ["time", "host", "v"]);
    assert!(flights[0].endpoint.is_empty(), "a path is asked for by GetFlightInfo");
    // A listed flight can be read, and can be written with its listed schema.
    let descriptor = flights[0].flight_descriptor.clone().unwrap();
    let info = raw.get_flight_info(descriptor.clone()).await.unwrap().into_inner();
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    let (read, end) = collected(raw.do_get(ticket).await.unwrap().into_inner()).await;
    assert!(end.is_none() && !read.is_empty());
    let columns = batch("a", 0, 2).columns().to_vec();
    let columns = columns.iter().zip(schema.fields());
    let columns = columns.map(|(array, field)| arrow::compute::cast(array, field.data_type()));
    let columns = columns.collect::<Result<Vec<_>, _>>().unwrap();
    let rows = RecordBatch::try_new(Arc::new(schema), columns).unwrap();
    let rows = described(messages(&[rows], IpcWriteOptions::default()).await, descriptor);
    let (answers, end) = put(&mut raw, stream::iter(rows)).await;
    assert!(end.is_none(), "{end:?}");
    assert_eq!(told(&answers)[0]["rows"], 2);
    // No criteria are supported, and none are ignored.
    let criteria = Criteria { expression: "t".into() };
    let refused = raw.list_flights(criteria).await.unwrap_err();
    says(&refused, Code::Unimplemented, "0A000", "criteria");
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_that_come_together_share_a_sync_and_are_acknowledged_each() {
    const BATCHES: usize = 300;
    let server = with_table().await;
    let mut sql = server.client().await;
    let mut raw = sql.inner().clone();
    let batches: Vec<_> = (0..BATCHES as i64).map(|at| batch("a", at * 10, 2)).collect();
    let all = messages(&batches, IpcWriteOptions::default()).await;
    let syncs = || server.service.parts().store.status().log.syncs;
    let before = syncs();
    let (answers, end) = put(&mut raw, stream::iter(described(all, path("t")))).await;
    assert!(end.is_none(), "{end:?}");
    let told = told(&answers);
    assert_eq!(told.len(), BATCHES);
    let mut next_gsn = told[0]["first_gsn"].as_u64().unwrap();
    for (at, told) in told.iter().enumerate() {
        assert_eq!((&told["batch"], &told["rows"]), (&(at + 1).into(), &2.into()), "{told}");
        assert_eq!(told["durability"], "disk");
        assert_eq!(told["first_gsn"], next_gsn);
        assert_eq!(told["last_gsn"], next_gsn + 1);
        next_gsn += 2;
    }
    let syncs = syncs() - before;
    assert!(syncs < BATCHES as u64 / 2, "{syncs} syncs for {BATCHES} batches");
    // The acknowledged gsn's equal the gsn's of the rows.
    let at = "(extract(epoch FROM time)::bigint - v - 1700000000) / 10";
    let right = format!("t WHERE _gsn = 1 + v + 2 * ({at})");
    assert_eq!(count(&mut sql, &right).await, 2 * BATCHES as i64);
}

#[tokio::test(flavor = "multi_thread")]
async fn numbered_batches_are_stored_once_however_they_come() {
    let server = with_table().await;
    let mut sql = server.client().await;
    let keyless = "CREATE TABLE keyless (time timestamptz, host text, v int)";
    sql.execute_update(keyless.to_string(), None).await.unwrap();
    let mut raw = sql.inner().clone();
    // The batches again, some of them for the first time, without a pause.
    let calls = [(1..40, 0), (38..80, 2), (20..100, 60), (1..100, 99), (50..120, 50)];
    for (producer, table) in [(7, "t"), (8, "keyless")] {
        for (numbers, old) in calls.clone() {
            let sent = numbered(table, numbers.clone(), producer).await;
            let (answers, end) = put(&mut raw, stream::iter(sent)).await;
            assert!(end.is_none(), "{end:?}");
            let told = told(&answers);
            assert_eq!(told.len(), numbers.clone().count());
            for (at, (told, number)) in told.iter().zip(numbers.clone()).enumerate() {
                assert_eq!(told["sequence"], number);
                assert_eq!(told["duplicate"], at < old, "{number} of {numbers:?}: {told}");
                assert_eq!(told["rows"], if at < old { 0 } else { 3 });
                assert_eq!(told["first_gsn"].is_null(), at < old);
            }
        }
        assert_eq!(count(&mut sql, table).await, 119 * 3);
    }
    // Batches with a producer, without a producer, and with a lower durability: each keeps its own
    // options.
    let mut mixed = numbered("t", 200..206, 7).await;
    for (at, message) in mixed[1..].iter_mut().enumerate() {
        match at % 3 {
            0 => message.app_metadata = bytes::Bytes::new(),
            1 => message.app_metadata = "{\"durability\": \"relaxed\"}".into(),
            _ => {}
        }
    }
    let (answers, end) = put(&mut raw, stream::iter(mixed)).await;
    assert!(end.is_none(), "{end:?}");
    let durabilities: Vec<_> = told(&answers).iter().map(|t| t["durability"].clone()).collect();
    assert_eq!(durabilities, ["disk", "relaxed", "disk", "disk", "relaxed", "disk"]);
    assert_eq!(count(&mut sql, "t").await, 125 * 3);
}

/// A call cancelled by the client may still store its batches while the client sends all batches
/// again: a group in the second call may be partly stored by the first call.
#[tokio::test(flavor = "multi_thread")]
async fn two_calls_of_one_producer_store_each_batch_once() {
    const NUMBERS: Range<i64> = 1..400;
    let server = TestServer::start().await;
    let mut sql = server.client().await;
    let keyless = "CREATE TABLE keyless (time timestamptz, host text, v int)";
    sql.execute_update(keyless.to_string(), None).await.unwrap();
    let mut calls = Vec::new();
    for _ in 0..3 {
        let mut raw = server.raw().await;
        let sent = numbered("keyless", NUMBERS, 7).await;
        calls.push(tokio::spawn(async move { put(&mut raw, stream::iter(sent)).await }));
    }
    let mut stored = 0;
    for call in calls {
        let (answers, end) = call.await.unwrap();
        assert!(end.is_none(), "{end:?}");
        let told = told(&answers);
        assert_eq!(told.len(), NUMBERS.count());
        stored += told.iter().filter(|told| told["duplicate"] == false).count();
    }
    assert_eq!(stored, NUMBERS.count(), "each number is new to one call");
    assert_eq!(count(&mut sql, "keyless").await, NUMBERS.count() as i64 * 3);
}

/// Batches of three rows with the numbers of a producer.
async fn numbered(table: &str, numbers: Range<i64>, producer: u128) -> Vec<FlightData> {
    let batches: Vec<_> = numbers.clone().map(|at| batch("a", at * 10, 3)).collect();
    let mut all = messages(&batches, IpcWriteOptions::default()).await;
    for (message, number) in all[1..].iter_mut().zip(numbers) {
        let producer = uuid::Uuid::from_u128(producer);
        let batch_metadata = format!("{{\"producer\": \"{producer}\", \"sequence\": {number}}}");
        message.app_metadata = batch_metadata.into();
    }
    described(all, path(table))
}
