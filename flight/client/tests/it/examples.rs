//! The examples run correctly.

use crate::{chronicle::url, support::Server};

#[path = "../../examples/key_value_store.rs"]
#[expect(dead_code, reason = "its main function is for the command line")]
mod key_value_store;
#[path = "../../examples/replicated_state_machine.rs"]
#[expect(dead_code, reason = "its main function is for the command line")]
mod replicated_state_machine;
#[path = "../../../../examples/rooms.rs"]
#[expect(dead_code, reason = "its main function is for the command line")]
mod rooms;
#[path = "../../examples/steering.rs"]
#[expect(dead_code, reason = "its main function is for the command line")]
mod steering;

/// F45.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f45_a_key_value_store_on_a_chronicle() {
    let server = Server::start();
    key_value_store::run(&url(&server)).await.unwrap();
    // Another process finds the values of the first process.
    key_value_store::run(&url(&server)).await.unwrap();
}

/// F45.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f45_replicas_of_a_state_machine_agree() {
    let server = Server::start();
    replicated_state_machine::run(&url(&server)).await.unwrap();
}

/// F81.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f81_telemetry_is_steered_while_it_runs() {
    let server = Server::start();
    steering::run(&url(&server)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rooms_are_written_and_read_back() {
    let server = Server::start();
    rooms::run(&url(&server)).await.unwrap();
    rooms::run(&url(&server)).await.unwrap();
}
