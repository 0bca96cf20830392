//! Measures the duration of calls up to the last byte of their answers.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use stratalog_metrics::{DoorMetrics, RequestClass, RequestTimer};

use crate::status::SQLSTATE;

/// The body of an answer. Dropping the body ends the measurement. An error status in the trailers
/// counts as an error of the call.
#[derive(Debug)]
pub(crate) struct MeasuredBody<B> {
    body: B,
    door: DoorMetrics,
    _timer: Option<RequestTimer>,
}

impl<B> MeasuredBody<B> {
    pub(crate) fn new(body: B, door: DoorMetrics, timer: Option<RequestTimer>) -> Self {
        Self { body, door, _timer: timer }
    }
}

/// The request class of a call in the metrics. `path` is the path of the request; `None` for
/// unknown calls.
pub(crate) fn class_of(path: &str) -> Option<RequestClass> {
    Some(match path.rsplit('/').next()? {
        "GetFlightInfo" | "PollFlightInfo" | "GetSchema" | "ListFlights" => {
            RequestClass::FlightInfo
        }
        "DoGet" => RequestClass::FlightGet,
        "DoPut" | "DoExchange" => RequestClass::FlightPut,
        "Handshake" | "DoAction" | "ListActions" => RequestClass::FlightAction,
        _ => return None,
    })
}

impl<B: Body<Data = Bytes> + Unpin> Body for MeasuredBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(sqlstate) = frame.trailers_ref().and_then(|all| all.get(SQLSTATE))
            && let Ok(sqlstate) = sqlstate.to_str()
        {
            self.door.failed_with(sqlstate);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
