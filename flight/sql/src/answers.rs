//! Gives every error of a call a SQLSTATE.
//!
//! The gRPC library reads the message of a call before any handler of this crate runs. If the
//! message is too large or invalid, the library answers with a status without SQLSTATE, and with a
//! gRPC code that means a defect of the server. All statuses of this crate have a SQLSTATE.
//! Therefore a status without SQLSTATE comes from the library, and this module replaces it.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use stratalog_flight_wire::broken_off;
use stratalog_metrics::DoorMetrics;
use stratalog_model::{Error, ErrorKind};
use stratalog_query::QueryService;
use tonic::{
    Code, Status,
    codegen::{Service, http},
    server::NamedService,
};

use crate::{
    connection::Peer,
    counted_body::CountedBody,
    measured_body::{MeasuredBody, class_of},
    status::{SQLSTATE, refused},
};

/// A wrapper of the Flight service that replaces the errors of the gRPC library, counts incoming
/// messages in the memory budget, and measures calls.
#[derive(Debug, Clone)]
pub(crate) struct Answers<S> {
    pub(crate) calls: S,
    /// The query service, which has the memory budget.
    pub(crate) service: Arc<QueryService>,
    pub(crate) door: DoorMetrics,
}

impl<S: NamedService> NamedService for Answers<S> {
    const NAME: &'static str = S::NAME;
}

impl<S, Q, B> Service<http::Request<Q>> for Answers<S>
where
    S: Service<http::Request<CountedBody<Q>>, Response = http::Response<B>>,
    S::Future: Send + 'static,
    B: Default,
{
    type Response = http::Response<MeasuredBody<B>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.calls.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Q>) -> Self::Future {
        if let Some(peer) = request.extensions().get::<Arc<Peer>>() {
            peer.called();
        }
        let door = self.door.clone();
        let timer = class_of(request.uri().path()).map(|class| door.begin(class));
        let share = self.service.client_share();
        let answered = self.calls.call(request.map(|body| CountedBody::new(body, share)));
        Box::pin(async move {
            let response = answered.await?;
            let response = match response.extensions().get::<Status>().and_then(replacement_of) {
                Some(status) => status.into_http(),
                None => response,
            };
            let status = response.extensions().get::<Status>();
            if let Some(sqlstate) = status.and_then(|status| status.metadata().get(SQLSTATE))
                && let Ok(sqlstate) = sqlstate.to_str()
            {
                door.failed_with(sqlstate);
            }
            Ok(response.map(|body| MeasuredBody::new(body, door, timer)))
        })
    }
}

/// The status that replaces a status of the gRPC library; `None` if the status stays.
fn replacement_of(status: &Status) -> Option<Status> {
    if status.metadata().contains_key(SQLSTATE) {
        return None;
    }
    let unread = || {
        Error::new(
            ErrorKind::ProtocolViolation,
            format!("the request cannot be read: {}", status.message()),
        )
    };
    match status.code() {
        Code::OutOfRange => Some(refused(broken_off(status))),
        Code::Internal | Code::InvalidArgument => Some(refused(unread())),
        Code::Unimplemented => {
            Some(refused(Error::new(ErrorKind::FeatureNotSupported, status.message()).with_hint(
                "Flight has no call of this name, or the request uses the compression of gRPC",
            )))
        }
        _ => None,
    }
}
