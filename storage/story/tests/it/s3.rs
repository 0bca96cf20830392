//! Stories on a real S3 server. `tests/s3-server` installs the server, and needs Go and a network:
//! `cargo test -p stratalog-story -- --ignored`.

use std::{
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use stratalog_journal::LocalDisk;
use stratalog_model::ErrorKind;
use stratalog_story::{RemoteSettings, RemoteShelf, Source, Stories, StoryId};

use crate::fixture::*;

struct Server {
    process: Child,
    address: String,
}

impl Server {
    fn start(folder: &Path, port: u16) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/s3-server");
        let program = Command::new(script).output().unwrap();
        assert!(program.status.success(), "the server cannot be installed");
        let program = String::from_utf8(program.stdout).unwrap();
        let address = format!("127.0.0.1:{port}");
        let process = Command::new(program.trim())
            .args(["--access", "story", "--secret", "teller", "--port", &address, "--quiet"])
            .arg("posix")
            .arg(folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = Self { process, address };
        let start = Instant::now();
        while TcpStream::connect(&server.address).is_err() {
            assert!(start.elapsed() < Duration::from_secs(20), "the server does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }

    fn shelf(&self, bucket: &str) -> RemoteShelf {
        let options = [
            ("AWS_ENDPOINT", format!("http://{}", self.address)),
            ("AWS_ALLOW_HTTP", "true".to_string()),
            ("AWS_REGION", "us-east-1".to_string()),
            ("AWS_ACCESS_KEY_ID", "story".to_string()),
            ("AWS_SECRET_ACCESS_KEY", "teller".to_string()),
        ];
        let options = options.map(|(key, value)| (key.to_string(), value));
        let settings = RemoteSettings {
            request_timeout_ms: 2_000,
            connect_timeout_ms: 500,
            retries_max: 2,
            retry_timeout_ms: 5_000,
            ..RemoteSettings::default()
        };
        RemoteShelf::from_url(&format!("s3://{bucket}/some/where"), options, settings).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
#[ignore = "installs a server: needs Go and a network"]
fn stories_live_on_s3() {
    let folder = tempfile::tempdir().unwrap();
    let buckets = folder.path().join("buckets");
    std::fs::create_dir_all(buckets.join("lake")).unwrap();
    let port = free_port();
    let server = Server::start(&buckets, port);
    let stories = |server: &Server, bucket: &str| -> Stories {
        let shelf = Arc::new(server.shelf(bucket));
        on_shelf(shelf, Arc::new(LocalDisk), folder.path()).unwrap()
    };
    let lake = stories(&server, "lake");
    let small = build(&lake, 1, 3).unwrap();
    check(&lake, &small).unwrap();
    assert!(buckets.join("lake/some/where/7/00000000000000000001.parquet").exists());

    let mut builder = lake.build(StoryId(2), &noise_schema(), settings()).unwrap();
    for group in 0..5 {
        let (batch, summary) = noise(group);
        builder.push(&batch, summary).unwrap();
    }
    let large = wait(builder.finish()).unwrap();
    assert!(large.bytes > 16 << 20, "it goes in parts");
    let names = [small.name(), large.name()];
    assert_eq!(
        wait(lake.files()).unwrap(),
        [(names[0], small.bytes), (names[1], large.bytes)].into()
    );
    let story = wait(lake.open_story(&large)).unwrap();
    wait(story.check()).unwrap();
    let value = Source::Column(stratalog_model::ColumnId(9));
    let read = wait(story.read(3, &[value], None)).unwrap();
    assert_eq!(read.column(0), noise(3).0.column(1));

    let taken = build(&lake, 1, 1).unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::Internal, "{taken}");
    let nowhere = stories(&server, "nowhere");
    assert!(build(&nowhere, 9, 1).is_err());

    // The server stops, and starts again.
    drop(server);
    let start = Instant::now();
    let away = build(&lake, 3, 1).unwrap_err();
    assert_eq!(away.kind(), ErrorKind::ConnectionFailure, "{away}");
    let away = wait(story.read(0, &[value], None)).unwrap_err();
    assert_eq!(away.kind(), ErrorKind::ConnectionFailure, "{away}");
    assert!(start.elapsed() < Duration::from_secs(30));
    let server = Server::start(&buckets, port);
    check(&lake, &small).unwrap();
    let third = build(&lake, 4, 1).unwrap();
    check(&stories(&server, "lake"), &third).unwrap();

    // Damage on the server is found here.
    let path = buckets.join("lake/some/where/7/00000000000000000004.parquet");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[100] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let damaged = check(&stories(&server, "lake"), &third).unwrap_err();
    assert_eq!(damaged.kind(), ErrorKind::DataCorrupted, "{damaged}");
    assert_eq!(keep_only(&lake, &[names[1]].into()), 2);
    assert_eq!(wait(lake.files()).unwrap().len(), 1);
}
