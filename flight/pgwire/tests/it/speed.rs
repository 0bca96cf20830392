//! Rates, printed; run in release with `--ignored --nocapture`.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::{SinkExt, future::join_all, pin_mut};

use crate::server::Server;

const CPU: &str = "CREATE TABLE cpu (time timestamptz NOT NULL, hostname text NOT NULL, region text, datacenter text, rack text, os text, arch text, team text, service text, service_version text, service_environment text, usage_user double precision, usage_system double precision, usage_idle double precision, usage_nice double precision, usage_iowait double precision, usage_irq double precision, usage_softirq double precision, usage_steal double precision, usage_guest double precision, usage_guest_nice double precision, PRIMARY KEY (hostname, time))";

#[ignore = "measures; says nothing in a debug build"]
#[tokio::test(flavor = "multi_thread")]
async fn rates() {
    let server = Server::start().await;
    let client = server.client().await;
    client.batch_execute(CPU).await.unwrap();
    let mut data = String::new();
    let rows = 1_000_000;
    for row in 0..rows {
        let (host, second) = (row % 1000, row / 1000 * 10);
        data.push_str(&format!("2016-01-{:02} {:02}:{:02}:{:02}+00,host_{host},eu-central-1,eu-central-1a,6,Ubuntu15.10,x86,SF,19,1,test", 1 + second / 86400, second / 3600 % 24, second / 60 % 60, second % 60));
        for metric in 0..10 {
            data.push_str(&format!(",{}", (row * 7 + metric * 13) % 100));
        }
        data.push('\n');
    }
    let pieces: Vec<Bytes> = data.as_bytes().chunks(64 << 10).map(Bytes::copy_from_slice).collect();
    let start = Instant::now();
    let sink = client.copy_in::<_, Bytes>("COPY cpu FROM STDIN WITH (FORMAT csv)").await.unwrap();
    pin_mut!(sink);
    for piece in pieces {
        sink.send(piece).await.unwrap();
    }
    let stored = sink.finish().await.unwrap();
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "COPY: {:.0} rows/s, {:.0} MB/s",
        stored as f64 / seconds,
        data.len() as f64 / seconds / 1e6
    );

    client.batch_execute("CREATE TABLE p (time timestamptz NOT NULL, host text NOT NULL, x double precision, PRIMARY KEY (host, time))").await.unwrap();
    let writers = join_all((0..64).map(|_| server.client())).await;
    let start = Instant::now();
    let inserted: u64 = join_all(writers.iter().enumerate().map(|(writer, client)| async move {
        let insert =
            client.prepare("INSERT INTO p VALUES (to_timestamp($1), $2, $3)").await.unwrap();
        let host = format!("h{writer}");
        let (mut count, start) = (0, Instant::now());
        while start.elapsed() < Duration::from_secs(3) {
            client.execute(&insert, &[&(count as f64), &host, &1.5]).await.unwrap();
            count += 1;
        }
        count
    }))
    .await
    .into_iter()
    .sum();
    println!("64 connections: {:.0} inserts/s", inserted as f64 / start.elapsed().as_secs_f64());

    let point =
        client.prepare("SELECT * FROM cpu WHERE hostname = $1 AND time = $2").await.unwrap();
    let mut times: Vec<Duration> = Vec::new();
    for at in 0..500_u64 {
        let time = std::time::UNIX_EPOCH + Duration::from_secs(1_451_606_400 + at * 10);
        let start = Instant::now();
        let rows = client.query(&point, &[&format!("host_{at}"), &time]).await.unwrap();
        times.push(start.elapsed());
        assert_eq!(rows.len(), 1);
    }
    times.sort();
    println!("point query: median {:?}, 99 % {:?}", times[250], times[495]);
}
