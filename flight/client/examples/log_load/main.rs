//! Load test of a chronicle: figures of a workload, as JSON.
//!
//! ```text
//! cargo run --release -p stratalog-client --example log_load -- --server chronolog://127.0.0.1:50051
//!     --work append --size 4096 --clients 8 --window 128 --seconds 5 --durability disk
//! ```
//!
//! | work | what it does |
//! |---|---|
//! | `append` | makes a chronicle, appends to it for some seconds and follows it meanwhile |
//! | `fill` | makes the chronicle `--chronicle` with `--events` events |
//! | `playback` | asks for the `--count` newest of its events, again and again |
//! | `replay` | reads all of its events in the order of ticks |
//! | `catch-up` | reads all of its events in the order of commits, by a subscription |
//! | `echo` | sends events to a thread that writes them into a file of `--directory`, and answers: no log |
//! | `live` | makes a chronicle, records to it, and tells when each of `--subscribers` has each event |

mod append;
mod echo;
mod fill;
mod live;
mod options;
mod own;
mod reads;
mod record;
mod samples;

use options::{Failure, Options};
use tokio::runtime::Builder;

fn main() -> Result<(), Failure> {
    let options = Options::read(std::env::args().skip(1))?;
    // With a single event in flight, a second thread would only add wake-ups.
    let mut runtime = match options.get("threads", 0)? {
        1 => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    if let threads @ 2.. = options.get("threads", 0)? {
        runtime.worker_threads(threads);
    }
    runtime.enable_all().build()?.block_on(run(options))
}

async fn run(options: Options) -> Result<(), Failure> {
    let work = options.text("work", "append");
    let found = match work.as_str() {
        "append" => append::run(&options).await?,
        "echo" => echo::run(&options)?,
        "fill" => fill::run(&options).await?,
        "playback" => reads::playback(&options).await?,
        "replay" => reads::replay(&options).await?,
        "catch-up" => reads::catch_up(&options).await?,
        "live" => live::run(&options).await?,
        other => return Err(format!("--work {other} is not known").into()),
    };
    println!("{found}");
    Ok(())
}
