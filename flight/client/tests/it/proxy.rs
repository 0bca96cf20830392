//! A TCP proxy that simulates network failures.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};

use crate::support::Chance;

/// A proxy between a client and a server.
pub struct Proxy {
    pub address: SocketAddr,
    state: Arc<State>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct State {
    /// True if the server's answers are dropped.
    swallows: AtomicBool,
    /// A connection breaks after at most this many bytes, both directions together; 0 for never.
    cut_within: AtomicU64,
    chance: Mutex<Option<Chance>>,
    /// Number of accepted connections.
    accepted: AtomicU64,
    /// Each change breaks all connections.
    cuts: watch::Sender<u64>,
}

impl Proxy {
    pub async fn new(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::<State>::default();
        let task = tokio::spawn(accept(listener, server, Arc::clone(&state)));
        Self { address, state, task }
    }

    pub fn url(&self) -> String {
        format!("grpc://{}", self.address)
    }

    pub fn swallow(&self, swallows: bool) {
        self.state.swallows.store(swallows, Ordering::SeqCst);
    }

    /// Makes each new connection break after a random number of up to `bytes` bytes; 0 for never.
    pub fn cut_within(&self, bytes: u64) {
        self.state.chance.lock().unwrap().get_or_insert_with(Chance::new);
        self.state.cut_within.store(bytes, Ordering::SeqCst);
    }

    /// Breaks all connections.
    pub fn cut(&self) {
        self.state.cuts.send_modify(|cuts| *cuts += 1);
    }

    pub fn accepted(&self) -> u64 {
        self.state.accepted.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, server: SocketAddr, state: Arc<State>) {
    while let Ok((client, _)) = listener.accept().await {
        state.accepted.fetch_add(1, Ordering::SeqCst);
        let Ok(server) = TcpStream::connect(server).await else { continue };
        tokio::spawn(carry(client, server, Arc::clone(&state)));
    }
}

async fn carry(mut client: TcpStream, mut server: TcpStream, state: Arc<State>) {
    let mut cuts = state.cuts.subscribe();
    let mut left = match state.cut_within.load(Ordering::SeqCst) {
        0 => u64::MAX,
        most => 1 + state.chance.lock().unwrap().as_mut().unwrap().below(most),
    };
    let (mut up, mut down) = (vec![0; 16 << 10], vec![0; 16 << 10]);
    loop {
        let (from_client, count) = tokio::select! {
            _ = cuts.changed() => break,
            read = client.read(&mut up) => (true, read),
            read = server.read(&mut down) => (false, read),
        };
        let Ok(count @ 1..) = count else { break };
        // The bytes before the break still arrive.
        let count = count.min(usize::try_from(left).unwrap_or(usize::MAX));
        left -= count as u64;
        let written = match from_client {
            true => server.write_all(&up[..count]).await,
            false if state.swallows.load(Ordering::SeqCst) => Ok(()),
            false => client.write_all(&down[..count]).await,
        };
        if written.is_err() || left == 0 {
            break;
        }
    }
}
