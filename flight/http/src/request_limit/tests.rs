use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use axum::{BoxError, body::Body};
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use hyper::body::{Body as _, Frame};
use stratalog_model::{Error, ErrorKind};
use tokio::time::Instant;

use super::{RequestLimit, RequestPlace, STALLED, WatchedBody};

type Polled = Poll<Option<Result<Frame<Bytes>, BoxError>>>;

/// A body that delivers `pieces` chunks and then waits for ever.
fn body(pieces: usize, place: &Arc<RequestPlace>) -> WatchedBody<Body> {
    let pieces = vec![Ok::<_, Infallible>(Bytes::from_static(b"x")); pieces];
    let body = Body::from_stream(stream::iter(pieces).chain(stream::pending()));
    WatchedBody::new(body, Some(Arc::clone(place)))
}

fn poll(body: &mut WatchedBody<Body>) -> Polled {
    Pin::new(body).poll_frame(&mut Context::from_waker(Waker::noop()))
}

fn is_lost(polled: Polled) -> bool {
    let Poll::Ready(Some(Err(error))) = polled else { return false };
    error.downcast::<Error>().unwrap().kind() == ErrorKind::TooManyConnections
}

#[tokio::test]
async fn the_longest_wait_for_a_body_ends_for_a_new_request_and_work_stays() {
    let limit = RequestLimit::new(3);
    let (first, second, working) =
        (limit.try_enter().unwrap(), limit.try_enter().unwrap(), limit.try_enter().unwrap());
    let (mut first_body, mut second_body) = (body(0, &first), body(0, &second));
    assert!(poll(&mut second_body).is_pending() && poll(&mut first_body).is_pending());
    let now = Instant::now();
    assert!(limit.enter_at(now).is_none(), "no wait is long enough");
    // A repeated poll does not begin another wait.
    assert!(poll(&mut second_body).is_pending());
    let third = limit.enter_at(now + STALLED).unwrap();
    assert!(is_lost(poll(&mut second_body)) && poll(&mut first_body).is_pending());
    // The place of the replaced request now belongs to the third request, so this drop frees no
    // place.
    drop((second, second_body));
    let fourth = limit.enter_at(now + STALLED).unwrap();
    assert!(is_lost(poll(&mut first_body)) && is_lost(poll(&mut first_body)));
    drop((first, first_body));
    let hour = Duration::from_secs(3600);
    assert!(limit.enter_at(now + hour).is_none(), "no other request waits for a body");
    drop(working);
    let fifth = limit.enter_at(now + hour).unwrap();
    assert!(limit.enter_at(now + hour).is_none());
    drop((third, fourth, fifth));
    assert_eq!(limit.table.lock().count, 0);
    assert!(limit.table.lock().waits.is_empty());
}

#[tokio::test]
async fn progress_of_a_body_begins_a_new_wait() {
    let limit = RequestLimit::new(1);
    let place = limit.try_enter().unwrap();
    let mut body = body(2, &place);
    for _ in 0..2 {
        assert!(matches!(poll(&mut body), Poll::Ready(Some(Ok(_)))));
        assert!(limit.enter_at(Instant::now() + STALLED).is_none(), "the body makes progress");
    }
    assert!(poll(&mut body).is_pending());
    assert_eq!(limit.table.lock().waits.len(), 1);
    // The body shares the place, so the place is free only after both are dropped.
    drop(place);
    assert!(limit.enter_at(Instant::now()).is_none());
    drop(body);
    assert!(limit.try_enter().is_some());
}
