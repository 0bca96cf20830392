//! Many concurrent operations.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use stratalog_client::Client;

use crate::support::{KEYED, Server, assert_once, number, rows, tally};

const WRITERS: i64 = 8;
const ROWS: i64 = 20_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_and_readers_share_a_client() {
    let server = Server::start();
    let client = Client::builder().url(server.url()).connections(3).connect().await.unwrap();
    client.execute(KEYED).await.unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..4)
        .map(|_| {
            let (client, done) = (client.clone(), Arc::clone(&done));
            tokio::spawn(async move {
                let mut last = 0;
                let mut reads = 0_u32;
                while !done.load(Ordering::SeqCst) {
                    let count = number(&client, "SELECT count(*) FROM log").await;
                    assert!(count >= last, "{count} after {last}");
                    (last, reads) = (count, reads + 1);
                }
                reads
            })
        })
        .collect();
    let writers: Vec<_> = (0..WRITERS)
        .map(|at| {
            let client = client.clone();
            tokio::spawn(async move {
                let writer = client.writer("log").batch_rows_max(1000).open().await.unwrap();
                let name = format!("w{at}");
                for start in (0..ROWS).step_by(250) {
                    writer.write(rows(&name, start..start + 250)).await.unwrap();
                }
                let stored = writer.close().await.unwrap();
                assert_eq!(stored.rows, ROWS as u64);
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    done.store(true, Ordering::SeqCst);
    for reader in readers {
        assert!(reader.await.unwrap() > 0);
    }
    assert_eq!(number(&client, "SELECT count(*) FROM log").await, WRITERS * ROWS);
    for at in 0..WRITERS {
        assert_once(tally(&client, &format!("w{at}")).await, ROWS);
    }
}
