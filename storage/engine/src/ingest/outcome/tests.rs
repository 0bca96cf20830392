use super::*;

#[tokio::test]
async fn waiting_ends_with_the_statement() {
    let waits = Arc::new(WaitGraph::default());
    let outcome = Outcome::new(1);
    let ending = OutcomeEnd(Arc::clone(&outcome));
    let waiter = tokio::spawn({
        let (waits, outcome) = (Arc::clone(&waits), Arc::clone(&outcome));
        async move { waits.wait(2, &outcome).await }
    });
    tokio::task::yield_now().await;
    drop(ending);
    waiter.await.unwrap().unwrap();
    assert!(waits.edges.lock().is_empty());
    // A wait after the end returns at once.
    waits.wait(3, &outcome).await.unwrap();
}

#[tokio::test]
async fn circles_are_refused() {
    let waits = WaitGraph::default();
    let _first = waits.edge(1, 2).unwrap();
    let second = waits.edge(2, 3).unwrap();
    let refused = waits.edge(3, 1).err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::DeadlockDetected);
    assert!(refused.kind().is_retryable());
    drop(second);
    waits.edge(3, 1).unwrap();
}
