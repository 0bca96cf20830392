//! The Flight service: dispatches each gRPC call to its handler.

mod actions;

use std::sync::Arc;

use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo,
    HandshakeRequest, HandshakeResponse, PollInfo, PutResult, SchemaResult, Ticket,
    flight_descriptor::DescriptorType,
    flight_service_server::FlightService,
    sql::{Command, CommandStatementQuery},
};
use bytes::Bytes;
use futures::{StreamExt as _, stream, stream::BoxStream};
use prost::Message as _;
use stratalog_flight_wire::{Seal, SealedTicket, TextTicket, TicketWork, broken_off, command};
use stratalog_model::{Error, ErrorKind, Result};
use stratalog_query::{QueryService, quoted};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming, metadata::MetadataMap};

use crate::{
    FlightSettings,
    caller::{Caller, Callers},
    connection::Peer,
    describe::{info, schema_bytes},
    encode::{Messages, whole},
    metadata, prepared, put,
    sql_info::Facts,
    statement,
    status::{malformed, refused},
};

/// The answer of a call, as a stream.
type Pieces<T> = BoxStream<'static, Result<T, Status>>;

/// The implementation of the gRPC service of Flight.
#[derive(Debug)]
pub(crate) struct Flight {
    callers: Arc<Callers>,
    seal: Seal,
    facts: Facts,
    shutdown: CancellationToken,
}

impl Flight {
    /// Creates a Flight service whose sessions belong to `service`.
    ///
    /// # Errors
    /// `Internal` if the answers to GetSqlInfo cannot be encoded as columns.
    pub(crate) fn new(
        service: Arc<QueryService>,
        settings: Arc<FlightSettings>,
        callers: Arc<Callers>,
        seal: Seal,
        shutdown: CancellationToken,
    ) -> Result<Self> {
        let statement = service.parts().settings.statement_bytes_max;
        let facts = Facts::new(statement, settings.connections_max)?;
        Ok(Self { callers, seal, facts, shutdown })
    }

    async fn caller<T: Sync>(&self, request: &Request<T>) -> Result<Arc<Caller>, Status> {
        self.callers.of(request.metadata(), None, peer(request)).await.map_err(refused)
    }

    /// The caller of a call with a stream of messages. The stream cannot be shared by threads, so
    /// the function takes copies.
    async fn stream_caller(
        &self,
        (headers, peer): (MetadataMap, Option<Arc<Peer>>),
    ) -> Result<Arc<Caller>, Status> {
        self.callers.of(&headers, None, peer.as_ref()).await.map_err(refused)
    }

    async fn info_of(
        &self,
        caller: &Arc<Caller>,
        descriptor: FlightDescriptor,
    ) -> Result<FlightInfo, Status> {
        let command = match descriptor.r#type() {
            DescriptorType::Path => Command::CommandStatementQuery(whole_table(&descriptor)?),
            DescriptorType::Cmd | DescriptorType::Unknown => command_of(&descriptor)?,
        };
        let answered = match command {
            Command::CommandStatementQuery(query) => {
                statement::plan(caller, &self.seal, query, descriptor).await
            }
            Command::CommandPreparedStatementQuery(query) => {
                let handle = query.prepared_statement_handle.to_vec();
                prepared::plan(caller, &self.seal, handle, descriptor).await
            }
            Command::CommandStatementSubstraitPlan(_) => Err(put::no_substrait()),
            question if metadata::asks_for_metadata(&question) => {
                let schema = metadata::schema_of(&question, &self.facts).map_err(refused)?;
                let command_bytes = question.into_any().encode_to_vec();
                let work_items = vec![TicketWork::Metadata(command_bytes)];
                info(caller, &self.seal, &schema, work_items, true, descriptor)
            }
            other => {
                return Err(malformed(format!("{} is not for GetFlightInfo", other.type_url())));
            }
        };
        answered.map_err(refused)
    }

    async fn schema_of(
        &self,
        caller: &Arc<Caller>,
        descriptor: &FlightDescriptor,
    ) -> Result<SchemaResult, Status> {
        let command = match descriptor.r#type() {
            DescriptorType::Path => Command::CommandStatementQuery(whole_table(descriptor)?),
            DescriptorType::Cmd | DescriptorType::Unknown => command_of(descriptor)?,
        };
        let found = match command {
            Command::CommandStatementQuery(query) => {
                async {
                    let session = caller.session_of(query.transaction_id.as_deref())?;
                    let prepared = statement::prepare(&session, &query.query, &[]).await?;
                    Ok(statement::shape(&prepared))
                }
                .await
            }
            Command::CommandPreparedStatementQuery(query) => {
                prepared::schema_of(caller, &query.prepared_statement_handle)
            }
            question => metadata::schema_of(&question, &self.facts),
        };
        let schema = schema_bytes(&*found.map_err(refused)?).map_err(refused)?;
        Ok(SchemaResult { schema })
    }

    async fn redeem(&self, caller: &Arc<Caller>, ticket: &Bytes) -> Result<Messages, Status> {
        let id = caller.id();
        let work = SealedTicket::open(ticket, &self.seal, id.as_bytes(), caller.now_ns());
        match work.map_err(refused)? {
            TicketWork::Statement(work) => statement::run(caller, work).await,
            TicketWork::Prepared(work) => prepared::run(caller, work).await,
            TicketWork::Part(number) => statement::run_part(caller, number),
            TicketWork::Metadata(command_bytes) => {
                let command = command::command_of(&command_bytes).map_err(refused)?;
                match metadata::answer(caller, command, &self.facts).await {
                    Ok(batch) => whole(batch),
                    Err(error) => Err(error),
                }
            }
        }
        .map_err(refused)
    }
}

/// Builds the query `SELECT *` for the table that the path of a descriptor names.
fn whole_table(descriptor: &FlightDescriptor) -> Result<CommandStatementQuery, Status> {
    if !(1..=2).contains(&descriptor.path.len()) {
        return Err(malformed("the path of a table is [table] or [schema, table]"));
    }
    let names = descriptor.path.iter().map(|name| quoted(name));
    let query = format!("SELECT * FROM {}", names.collect::<Vec<_>>().join("."));
    Ok(CommandStatementQuery { query, transaction_id: None })
}

fn command_of(descriptor: &FlightDescriptor) -> Result<Command, Status> {
    command::command_of(&descriptor.cmd).map_err(refused)
}

fn peer<T>(request: &Request<T>) -> Option<&Arc<Peer>> {
    request.extensions().get::<Arc<Peer>>()
}

#[tonic::async_trait]
impl FlightService for Flight {
    type HandshakeStream = Pieces<HandshakeResponse>;
    type ListFlightsStream = Pieces<FlightInfo>;
    type DoGetStream = Pieces<FlightData>;
    type DoPutStream = Pieces<PutResult>;
    type DoActionStream = Pieces<arrow_flight::Result>;
    type ListActionsStream = Pieces<ActionType>;
    type DoExchangeStream = Pieces<FlightData>;

    async fn handshake(
        &self,
        request: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        let peer = peer(&request).cloned();
        let headers: MetadataMap = request.metadata().clone();
        // Older clients send name and password in the first message; other clients send an empty
        // message and a header.
        let first = match headers.contains_key("authorization") {
            true => None,
            false => {
                let first = request.into_inner().message().await;
                first.map_err(|status| refused(broken_off(&status)))?
            }
        };
        let named = first.and_then(|first| arrow_flight::BasicAuth::decode(first.payload).ok());
        let pair = named.map(|named| (named.username, named.password));
        let logged_in = self.callers.log_in(&headers, pair, peer.as_ref()).await;
        let token = logged_in.map_err(refused)?;
        let payload = Bytes::from(token.clone().into_bytes());
        let answer = HandshakeResponse { protocol_version: 0, payload };
        let mut response = Response::new(stream::iter([Ok(answer)]).boxed());
        let bearer = format!("Bearer {token}").parse();
        let bearer =
            bearer.map_err(|_| refused(Error::internal("a token is not a valid header")))?;
        response.metadata_mut().insert("authorization", bearer);
        Ok(response)
    }

    async fn list_flights(
        &self,
        request: Request<Criteria>,
    ) -> Result<Response<Self::ListFlightsStream>, Status> {
        let caller = self.caller(&request).await?;
        if !request.get_ref().expression.is_empty() {
            return Err(refused(
                Error::new(
                    ErrorKind::FeatureNotSupported,
                    "criteria of ListFlights are not offered",
                )
                .with_hint("use CommandGetTables with patterns"),
            ));
        }
        let session = caller.session();
        let catalog = session.visible_tables();
        let mut flights = Vec::with_capacity(catalog.len());
        for (schema, name) in catalog {
            let columns = metadata::columns(session, &schema, &name).await.map_err(refused)?;
            flights.push(Ok(FlightInfo {
                schema: schema_bytes(&columns).map_err(refused)?,
                flight_descriptor: Some(FlightDescriptor::new_path(vec![schema, name])),
                total_records: -1,
                total_bytes: -1,
                ..FlightInfo::default()
            }));
        }
        Ok(Response::new(stream::iter(flights).boxed()))
    }

    async fn get_flight_info(
        &self,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let caller = self.caller(&request).await?;
        self.info_of(&caller, request.into_inner()).await.map(Response::new)
    }

    async fn poll_flight_info(
        &self,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<PollInfo>, Status> {
        let caller = self.caller(&request).await?;
        // A result is available at once, so the client never needs to poll again.
        let info = self.info_of(&caller, request.into_inner()).await?;
        let done = PollInfo {
            info: Some(info),
            flight_descriptor: None,
            progress: Some(1.0),
            expiration_time: None,
        };
        Ok(Response::new(done))
    }

    async fn get_schema(
        &self,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<SchemaResult>, Status> {
        let caller = self.caller(&request).await?;
        self.schema_of(&caller, request.get_ref()).await.map(Response::new)
    }

    async fn do_get(
        &self,
        request: Request<Ticket>,
    ) -> Result<Response<Self::DoGetStream>, Status> {
        let ticket = &request.get_ref().ticket;
        if let Some(text) = TextTicket::read(ticket) {
            let TextTicket { sql_query, database, .. } = text.map_err(refused)?;
            let caller = self.callers.of(request.metadata(), database.as_deref(), peer(&request));
            let caller = caller.await.map_err(refused)?;
            let answered = statement::run_text(&caller, sql_query).await;
            return answered.map(Response::new).map_err(refused);
        }
        let caller = self.caller(&request).await?;
        self.redeem(&caller, ticket).await.map(Response::new)
    }

    async fn do_put(
        &self,
        request: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoPutStream>, Status> {
        let caller =
            self.stream_caller((request.metadata().clone(), peer(&request).cloned())).await?;
        let messages = put::until_shutdown(request.into_inner().boxed(), &self.shutdown);
        put::put(&caller, messages).await.map(Response::new)
    }

    async fn do_exchange(
        &self,
        request: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoExchangeStream>, Status> {
        let caller =
            self.stream_caller((request.metadata().clone(), peer(&request).cloned())).await?;
        let messages = put::until_shutdown(request.into_inner().boxed(), &self.shutdown);
        put::exchange(&caller, messages).await.map(Response::new)
    }

    async fn list_actions(
        &self,
        request: Request<Empty>,
    ) -> Result<Response<Self::ListActionsStream>, Status> {
        self.caller(&request).await?;
        Ok(Response::new(stream::iter(actions::list().into_iter().map(Ok)).boxed()))
    }

    async fn do_action(
        &self,
        request: Request<Action>,
    ) -> Result<Response<Self::DoActionStream>, Status> {
        let caller = self.caller(&request).await?;
        let peer = peer(&request).cloned();
        let call = actions::ActionContext {
            callers: &self.callers,
            seal: &self.seal,
            peer: peer.as_ref(),
        };
        let body = actions::act(&call, &caller, request.into_inner()).await?;
        let results = body.map(|body| Ok(arrow_flight::Result { body: body.into() }));
        Ok(Response::new(stream::iter(results).boxed()))
    }
}
