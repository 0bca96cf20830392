//! The calls of Flight SQL that run and prepare statements, and begin and end transactions.

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use arrow_flight::{
    FlightData, FlightDescriptor, FlightInfo, IpcMessage,
    sql::{
        ActionBeginTransactionRequest, ActionBeginTransactionResult,
        ActionCreatePreparedStatementRequest, ActionCreatePreparedStatementResult,
        ActionEndTransactionRequest, Any, CommandPreparedStatementQuery,
        CommandPreparedStatementUpdate, CommandStatementQuery, CommandStatementUpdate,
        DoPutUpdateResult, EndTransaction, ProstMessageExt,
    },
};
use bytes::Bytes;
use futures::stream;
use prost::Message;

use crate::{
    connection::Connection,
    encode::Encoder,
    error::{Error, Result},
};

/// The server's handle of a prepared statement, with its columns and parameters.
#[derive(Debug, Clone)]
pub(crate) struct Handle {
    pub(crate) id: Bytes,
    pub(crate) schema: SchemaRef,
    pub(crate) parameters: SchemaRef,
}

impl Connection {
    /// Sends a statement with GetFlightInfo. The server plans a query, and runs any other statement
    /// immediately.
    pub(crate) async fn plan(&self, sql: &str, transaction: Option<&Bytes>) -> Result<FlightInfo> {
        let command =
            CommandStatementQuery { query: sql.to_string(), transaction_id: transaction.cloned() };
        self.info(command.as_any()).await
    }

    /// Sends a prepared statement with GetFlightInfo. The server plans a query with its bound
    /// parameters.
    pub(crate) async fn plan_prepared(&self, handle: &Handle) -> Result<FlightInfo> {
        let prepared_statement_handle = handle.id.clone();
        self.info(CommandPreparedStatementQuery { prepared_statement_handle }.as_any()).await
    }

    async fn info(&self, command: Any) -> Result<FlightInfo> {
        let descriptor = FlightDescriptor::new_cmd(command.encode_to_vec());
        let info = self.client().get_flight_info(self.request(descriptor)).await;
        info.map(tonic::Response::into_inner).map_err(|status| self.failed(status))
    }

    /// Runs a statement and returns the number of changed rows.
    pub(crate) async fn update(&self, sql: &str, transaction: Option<&Bytes>) -> Result<u64> {
        let command =
            CommandStatementUpdate { query: sql.to_string(), transaction_id: transaction.cloned() };
        let descriptor = FlightDescriptor::new_cmd(command.as_any().encode_to_vec());
        count(&self.put(vec![FlightData::new().with_descriptor(descriptor)]).await?)
    }

    /// Runs a prepared statement once per row of `parameters`, and returns the number of changed
    /// rows.
    pub(crate) async fn update_prepared(
        &self,
        handle: &Handle,
        parameters: &RecordBatch,
    ) -> Result<u64> {
        let prepared_statement_handle = handle.id.clone();
        let command = CommandPreparedStatementUpdate { prepared_statement_handle };
        count(&self.put(with_rows(command.as_any(), parameters)?).await?)
    }

    /// Binds parameters to a prepared statement, for a later [`Self::plan_prepared`].
    pub(crate) async fn bind(&self, handle: &Handle, parameters: &RecordBatch) -> Result<()> {
        let prepared_statement_handle = handle.id.clone();
        let command = CommandPreparedStatementQuery { prepared_statement_handle };
        self.put(with_rows(command.as_any(), parameters)?).await.map(|_| ())
    }

    /// Runs a DoPut call and returns the metadata of its only answer.
    async fn put(&self, messages: Vec<FlightData>) -> Result<Bytes> {
        let put = async {
            let request = self.request(stream::iter(messages));
            self.client().do_put(request).await?.into_inner().message().await
        };
        let answer = put.await.map_err(|status| self.failed(status))?;
        let answer = answer.ok_or_else(|| Error::protocol("DoPut ended without an answer"))?;
        Ok(answer.app_metadata)
    }

    /// Prepares a statement.
    pub(crate) async fn prepare(&self, sql: &str, transaction: Option<&Bytes>) -> Result<Handle> {
        let request = ActionCreatePreparedStatementRequest {
            query: sql.to_string(),
            transaction_id: transaction.cloned(),
        };
        let answer = self.act("CreatePreparedStatement", packed(&request)).await?;
        let made: ActionCreatePreparedStatementResult = unpacked(&answer)?;
        Ok(Handle {
            id: made.prepared_statement_handle,
            schema: schema(made.dataset_schema)?,
            parameters: schema(made.parameter_schema)?,
        })
    }

    /// Begins a transaction and returns the id.
    pub(crate) async fn begin(&self) -> Result<Bytes> {
        let answer =
            self.act("BeginTransaction", packed(&ActionBeginTransactionRequest {})).await?;
        let begun: ActionBeginTransactionResult = unpacked(&answer)?;
        Ok(begun.transaction_id)
    }

    /// Commits a transaction or rolls it back.
    pub(crate) async fn end(&self, transaction_id: Bytes, how: EndTransaction) -> Result<()> {
        let request = ActionEndTransactionRequest { transaction_id, action: how as i32 };
        self.act("EndTransaction", packed(&request)).await.map(|_| ())
    }

    /// Asks the server for the columns of the table `path`: the table's name, or schema and name.
    pub(crate) async fn table_schema(&self, path: &[String]) -> Result<SchemaRef> {
        let descriptor = FlightDescriptor::new_path(path.to_vec());
        let answer = self.client().get_schema(self.request(descriptor)).await;
        schema(answer.map_err(|status| self.failed(status))?.into_inner().schema)
    }
}

fn packed(request: &impl ProstMessageExt) -> Vec<u8> {
    request.as_any().encode_to_vec()
}

fn unpacked<T: ProstMessageExt + Default>(body: &[u8]) -> Result<T> {
    let any = Any::decode(body)
        .map_err(|error| Error::protocol(format!("an answer cannot be read: {error}")))?;
    let unpacked = any
        .unpack::<T>()
        .map_err(|error| Error::protocol(format!("an answer cannot be read: {error}")))?;
    unpacked.ok_or_else(|| Error::protocol(format!("the answer is {}", any.type_url)))
}

fn schema(bytes: Bytes) -> Result<SchemaRef> {
    if bytes.is_empty() {
        return Ok(SchemaRef::new(arrow::datatypes::Schema::empty()));
    }
    let schema = arrow::datatypes::Schema::try_from(IpcMessage(bytes))
        .map_err(|error| Error::protocol(format!("a schema cannot be read: {error}")))?;
    Ok(SchemaRef::new(schema))
}

fn with_rows(command: Any, rows: &RecordBatch) -> Result<Vec<FlightData>> {
    let descriptor = FlightDescriptor::new_cmd(command.encode_to_vec());
    let (mut encoder, first) = Encoder::begin(descriptor, &rows.schema());
    let mut messages = vec![first];
    messages.extend(encoder.batch(rows, Bytes::new())?);
    Ok(messages)
}

fn count(answer: &[u8]) -> Result<u64> {
    let result = DoPutUpdateResult::decode(answer)
        .map_err(|error| Error::protocol(format!("the number of rows cannot be read: {error}")))?;
    Ok(u64::try_from(result.record_count).unwrap_or(0))
}
