//! Makes IPC messages, and changes their contents to wrong ones.

use std::sync::Arc;

use arrow::{
    array::{
        ArrayRef, DictionaryArray, Int32Array, RecordBatch, StringArray, TimestampNanosecondArray,
    },
    datatypes::{Int32Type, Schema},
    ipc::{root_as_message, writer::IpcWriteOptions},
};
use arrow_flight::{
    Action, FlightData, FlightDescriptor, PutResult,
    encode::{DictionaryHandling, FlightDataEncoderBuilder},
    flight_service_client::FlightServiceClient,
    sql::{
        ActionCreatePreparedStatementRequest, ActionCreatePreparedStatementResult, Any,
        CommandStatementQuery, ProstMessageExt as _, client::FlightSqlServiceClient,
    },
};
use bytes::Bytes;
use futures::{Stream, StreamExt as _, TryStreamExt as _, stream};
use prost::Message as _;
use tonic::{Code, Status, transport::Channel};

/// The time of the first row of each batch, in seconds since 1970.
const START: i64 = 1_700_000_000;

pub const TABLE: &str =
    "CREATE TABLE t (time timestamptz, host text, v int, PRIMARY KEY (host, time))";

/// Rows of one host, from `first` seconds after [`START`] on.
pub fn batch(host: &str, first: i64, rows: usize) -> RecordBatch {
    let times = (0..rows as i64).map(|row| (START + first + row) * 1_000_000_000);
    let times = TimestampNanosecondArray::from_iter_values(times).with_timezone("UTC");
    let columns: [(&str, ArrayRef); 3] = [
        ("time", Arc::new(times)),
        ("host", Arc::new(StringArray::from(vec![host; rows]))),
        ("v", Arc::new(Int32Array::from_iter_values(0..i32::try_from(rows).unwrap()))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

/// The same rows, with their hosts in a dictionary.
pub fn with_dictionary(rows: &RecordBatch) -> RecordBatch {
    let hosts = rows.column(1).as_any().downcast_ref::<StringArray>().unwrap();
    let hosts: DictionaryArray<Int32Type> = hosts.iter().collect();
    let columns: [(&str, ArrayRef); 3] = [
        ("time", rows.column(0).clone()),
        ("host", Arc::new(hosts)),
        ("v", rows.column(2).clone()),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

/// The messages of some batches: the first message is the schema.
pub async fn messages(batches: &[RecordBatch], options: IpcWriteOptions) -> Vec<FlightData> {
    let schema = batches.first().unwrap().schema();
    let batches = stream::iter(batches.to_vec()).map(Ok);
    FlightDataEncoderBuilder::new()
        .with_schema(schema)
        .with_options(options)
        .with_dictionary_handling(DictionaryHandling::Resend)
        .build(batches)
        .try_collect()
        .await
        .unwrap()
}

/// The message of a schema without batches.
pub async fn of_schema(schema: Schema) -> Vec<FlightData> {
    messages(&[RecordBatch::new_empty(Arc::new(schema))], IpcWriteOptions::default()).await[..1]
        .to_vec()
}

/// Adds a descriptor to the first message.
pub fn described(mut messages: Vec<FlightData>, descriptor: FlightDescriptor) -> Vec<FlightData> {
    messages[0].flight_descriptor = Some(descriptor);
    messages
}

pub fn path(table: &str) -> FlightDescriptor {
    FlightDescriptor::new_path(vec![table.to_string()])
}

pub fn command(command: &impl arrow_flight::sql::ProstMessageExt) -> FlightDescriptor {
    FlightDescriptor::new_cmd(command.as_any().encode_to_vec())
}

/// Changes the last message, to make its contents wrong.
pub fn bent(mut messages: Vec<FlightData>, bend: impl FnOnce(&mut FlightData)) -> Vec<FlightData> {
    bend(messages.last_mut().unwrap());
    messages
}

/// Overwrites the integer at `place` (0: offset or rows, 8: length or nulls) of a buffer.
pub fn set_buffer(data: &mut FlightData, buffer: usize, place: usize, value: i64) {
    let at = {
        let batch = root_as_message(&data.data_header).unwrap().header_as_record_batch().unwrap();
        let bytes = &batch.buffers().unwrap().get(buffer).0;
        bytes.as_ptr() as usize - data.data_header.as_ptr() as usize
    };
    set(&mut data.data_header, at + place, &value.to_le_bytes());
}

/// Overwrites the integer at `place` (0: rows, 8: nulls) of a node.
pub fn set_node(data: &mut FlightData, node: usize, place: usize, value: i64) {
    let at = {
        let batch = root_as_message(&data.data_header).unwrap().header_as_record_batch().unwrap();
        let bytes = &batch.nodes().unwrap().get(node).0;
        bytes.as_ptr() as usize - data.data_header.as_ptr() as usize
    };
    set(&mut data.data_header, at + place, &value.to_le_bytes());
}

/// Overwrites the body of a buffer from `at` on.
pub fn set_body(data: &mut FlightData, buffer: usize, at: usize, bytes: &[u8]) {
    let start = {
        let batch = root_as_message(&data.data_header).unwrap().header_as_record_batch().unwrap();
        usize::try_from(batch.buffers().unwrap().get(buffer).offset()).unwrap()
    };
    set(&mut data.data_body, start + at, bytes);
}

fn set(bytes: &mut bytes::Bytes, at: usize, new: &[u8]) {
    let mut changed = bytes.to_vec();
    changed[at..at + new.len()].copy_from_slice(new);
    *bytes = changed.into();
}

/// The answers to a DoPut, and its final status.
pub async fn put(
    client: &mut FlightServiceClient<Channel>,
    messages: impl Stream<Item = FlightData> + Send + 'static,
) -> (Vec<PutResult>, Option<Status>) {
    match client.do_put(messages).await {
        Err(status) => (Vec::new(), Some(status)),
        Ok(response) => collected(response.into_inner()).await,
    }
}

/// All items of a stream, and the error that ended it, if any.
pub async fn collected<T>(
    mut answers: impl Stream<Item = Result<T, Status>> + Unpin,
) -> (Vec<T>, Option<Status>) {
    let mut all = Vec::new();
    while let Some(answer) = answers.next().await {
        match answer {
            Ok(answer) => all.push(answer),
            Err(status) => return (all, Some(status)),
        }
    }
    (all, None)
}

/// The acknowledgements in these answers, decoded.
pub fn told(answers: &[PutResult]) -> Vec<serde_json::Value> {
    answers.iter().map(|answer| serde_json::from_slice(&answer.app_metadata).unwrap()).collect()
}

pub fn sqlstate(status: &Status) -> &str {
    status.metadata().get("sqlstate").map_or("", |value| value.to_str().unwrap())
}

/// Checks the code, the SQLSTATE and the text of an error.
#[track_caller]
pub fn says(status: &Status, code: Code, state: &str, words: &str) {
    assert_eq!((status.code(), sqlstate(status)), (code, state), "{status:?}");
    assert!(status.message().contains(words), "{:?} has no {words:?}", status.message());
}

/// The number of rows in a table.
pub async fn count(client: &mut FlightSqlServiceClient<Channel>, table: &str) -> i64 {
    let info = client.execute(format!("SELECT count(*) FROM {table}"), None).await.unwrap();
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    let rows: Vec<_> = client.do_get(ticket).await.unwrap().try_collect().await.unwrap();
    let counts = rows[0].column(0);
    counts.as_any().downcast_ref::<arrow::array::Int64Array>().unwrap().value(0)
}

/// The descriptor of a GetFlightInfo call for a statement.
pub fn query(sql: &str) -> FlightDescriptor {
    command(&CommandStatementQuery { query: sql.to_string(), transaction_id: None })
}

/// The handle of a prepared statement.
pub async fn prepare(client: &mut FlightServiceClient<Channel>, sql: &str) -> Bytes {
    let request =
        ActionCreatePreparedStatementRequest { query: sql.to_string(), transaction_id: None };
    let body = act(client, "CreatePreparedStatement", request.as_any().encode_to_vec()).await;
    let any = Any::decode(&*body.unwrap().unwrap()).unwrap();
    let made: ActionCreatePreparedStatementResult = any.unpack().unwrap().unwrap();
    made.prepared_statement_handle
}

/// The answer to an action, if any.
pub async fn act(
    client: &mut FlightServiceClient<Channel>,
    name: &str,
    body: Vec<u8>,
) -> Result<Option<Bytes>, Status> {
    let action = Action { r#type: name.to_string(), body: body.into() };
    let answers = client.do_action(action).await?.into_inner();
    let answers: Vec<_> = answers.try_collect().await?;
    Ok(answers.into_iter().next().map(|answer| answer.body))
}
