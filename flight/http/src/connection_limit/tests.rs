use std::time::Duration;

use super::ConnectionLimit;

#[tokio::test]
async fn silent_sockets_leave_before_idle_ones_and_running_ones_stay() {
    let connection_limit = ConnectionLimit::new(3);
    let (silent, idle, busy) = (
        connection_limit.enter().await,
        connection_limit.enter().await,
        connection_limit.enter().await,
    );
    drop(idle.begin());
    let running = busy.begin();
    let fourth = connection_limit.enter().await;
    assert!(silent.leave.is_cancelled() && !idle.leave.is_cancelled());
    let _fourth_running = fourth.begin();
    let fifth = connection_limit.enter().await;
    assert!(idle.leave.is_cancelled() && !busy.leave.is_cancelled());
    let _fifth_running = fifth.begin();
    // All sockets are busy: a new socket waits until a request ends.
    let waiting = tokio::time::timeout(Duration::from_millis(50), connection_limit.enter());
    assert!(waiting.await.is_err());
    drop(running);
    let sixth = connection_limit.enter().await;
    assert!(busy.leave.is_cancelled() && !sixth.leave.is_cancelled());
    drop((silent, idle, busy, fourth));
    assert!(connection_limit.shared.table.lock().count <= 3);
}

#[tokio::test]
async fn a_socket_that_sends_nothing_is_closed() {
    let connection_limit = ConnectionLimit::new(1);
    let permit = connection_limit.enter().await;
    permit.stays_silent(Duration::from_millis(10)).await;
    let running = permit.begin();
    let silent = permit.stays_silent(Duration::from_millis(10));
    assert!(tokio::time::timeout(Duration::from_millis(100), silent).await.is_err());
    drop(running);
}
