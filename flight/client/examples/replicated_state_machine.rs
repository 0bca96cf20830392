//! State machine replication: replicas run the commands of a chronicle in the order of commits, and
//! therefore always reach the same state.
//!
//! ```text
//!   clients ─► record "alice bob 30" ─► chronicle ─┬─► replica 0: accounts
//!                                                  ├─► replica 1: accounts
//!                                                  └─► replica 2: accounts
//! ```
//! The replicas share only the log: there is no leader, and no replica waits for another.
//!
//! `cargo run -p stratalog-client --example replicated_state_machine [chronolog://host:port]`

use std::{collections::BTreeMap, error::Error};

use stratalog_client::{Acquire, Chronolog, Granularity, Start, Tags, Update};

/// The number of clients that write transfers.
const CLIENTS: u64 = 4;
const TRANSFERS: u64 = 50;
const REPLICAS: usize = 3;
const NAMES: [&str; 3] = ["alice", "bob", "carol"];

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1);
    run(&url.unwrap_or_else(|| "chronolog://127.0.0.1:50051".to_string())).await
}

/// Runs clients that write transfers, and replicas that apply them.
///
/// # Errors
/// Errors of the server.
pub async fn run(url: &str) -> Result<(), Box<dyn Error>> {
    let log = Chronolog::connect(url).await?;
    let name = format!("transfers_{}", stratalog_client::Uuid::new_v4().simple());
    log.create(&name, Granularity::NANOSECOND, &Tags::new()).await?;
    let replicas: Vec<_> =
        (0..REPLICAS).map(|_| tokio::spawn(replica(log.clone(), name.clone()))).collect();
    let clients: Vec<_> =
        (0..CLIENTS).map(|client| tokio::spawn(write(log.clone(), name.clone(), client))).collect();
    for client in clients {
        client.await??;
    }
    let mut states = Vec::new();
    for replica in replicas {
        states.push(replica.await??);
    }
    for (number, accounts) in states.iter().enumerate() {
        println!("replica {number}: {accounts:?}");
    }
    let agree = states.windows(2).all(|pair| pair.first() == pair.last());
    let total: i64 = states.iter().flat_map(|accounts| accounts.balances.values()).sum();
    if !agree || total != 0 {
        return Err("the replicas differ".into());
    }
    log.disconnect().await;
    Ok(())
}

/// The state of a replica.
#[derive(Debug, Default, PartialEq, Eq)]
struct Accounts {
    balances: BTreeMap<String, i64>,
    refused: u64,
    done: u64,
}

impl Accounts {
    /// Applies a command. All replicas get the same result.
    fn apply(&mut self, command: &str) {
        let mut words = command.split(' ');
        let (from, to) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let amount: i64 = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
        self.done += 1;
        // An account may have a debt of at most 100, so the result depends on all earlier commands.
        if self.balances.get(from).copied().unwrap_or(0) - amount < -100 {
            self.refused += 1;
            return;
        }
        *self.balances.entry(from.to_string()).or_default() -= amount;
        *self.balances.entry(to.to_string()).or_default() += amount;
    }
}

async fn replica(log: Chronolog, name: String) -> stratalog_client::Result<Accounts> {
    let chronicle = log.acquire(&name, Acquire::shared()).await?;
    let mut commands = chronicle.subscribe(Start::Beginning, None).await?;
    let mut accounts = Accounts::default();
    while accounts.done < CLIENTS * TRANSFERS {
        match commands.next().await.transpose()? {
            Some(Update::Event(event)) => accounts.apply(&String::from_utf8_lossy(&event.payload)),
            Some(Update::Gap { .. }) => {}
            None => break,
        }
    }
    Ok(accounts)
}

/// Records the transfers of one client, without waiting for each acknowledgement.
async fn write(log: Chronolog, name: String, client: u64) -> stratalog_client::Result<()> {
    let chronicle = log.acquire(&name, Acquire::shared()).await?;
    let who = |number: u64| NAMES.iter().cycle().nth((number % 3) as usize).copied().unwrap_or("");
    let mut pending = Vec::new();
    for number in 0..TRANSFERS {
        let (from, to) = (who(client + number), who(client + 2 * number + 1));
        pending.push(chronicle.append(format!("{from} {to} {}", (number * 7) % 50)).await?);
    }
    for event in pending {
        event.await?;
    }
    chronicle.release().await
}
