//! The cost of a socket alone, and of a socket with a plain file: a lower bound for any log behind
//! a socket.

use std::{
    fs::{File, OpenOptions},
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::unix::fs::FileExt as _,
    path::Path,
    thread,
};

use serde_json::{Map, Value};
use stratalog_client::Durability;

use crate::{
    options::{Failure, Options},
    samples::{Clock, Samples, nanoseconds},
};

/// Size of the preallocated file, in bytes.
const FILE_BYTES: u64 = 64 << 20;

/// Size of an answer, about the size of an acknowledgement.
const ANSWER_BYTES: usize = 128;

pub(crate) fn run(options: &Options) -> Result<Value, Failure> {
    let size = options.get("size", 4096_usize)?;
    let synced = options.durability()? >= Durability::Disk;
    let path = Path::new(&options.text("directory", ".")).join("echo");
    let file = synced.then(|| written(&path)).transpose()?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut socket = TcpStream::connect(listener.local_addr()?)?;
    socket.set_nodelay(true)?;
    let (accepted, _) = listener.accept()?;
    let answering = thread::spawn(move || answer(accepted, size, file.as_ref()));

    let (clock, mut times, mut found) = (Clock::start(), Samples::default(), Map::new());
    let measured = options.seconds("seconds", 2)?;
    let until = clock.now() + nanoseconds(measured);
    let (question, mut answer) = (vec![0x55; size], [0; ANSWER_BYTES]);
    loop {
        let began = clock.now();
        if began >= until {
            break;
        }
        socket.write_all(&question)?;
        socket.read_exact(&mut answer)?;
        times.add(clock.now() - began);
    }
    drop(socket);
    answering.join().map_err(|_| "who answers has panicked")??;
    if synced {
        std::fs::remove_file(path)?;
    }
    times.rate("echo", measured.as_secs_f64(), &mut found);
    Ok(found.into())
}

fn written(path: &Path) -> Result<File, Failure> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
    let zeros = vec![0; 1 << 20];
    for at in (0..FILE_BYTES).step_by(zeros.len()) {
        file.write_all_at(&zeros, at)?;
    }
    file.sync_all()?;
    Ok(file)
}

/// Answers each message, until the other end closes the connection.
fn answer(mut socket: TcpStream, size: usize, file: Option<&File>) -> std::io::Result<()> {
    socket.set_nodelay(true)?;
    let (mut question, mut at) = (vec![0; size], 0);
    while socket.read_exact(&mut question).is_ok() {
        if let Some(file) = file {
            file.write_all_at(&question, at)?;
            file.sync_data()?;
            at += size as u64;
            if at + size as u64 > FILE_BYTES {
                at = 0;
            }
        }
        socket.write_all(&[0; ANSWER_BYTES])?;
    }
    Ok(())
}
