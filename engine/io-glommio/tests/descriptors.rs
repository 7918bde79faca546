//! What executors leave behind. Alone in its program: it counts the process's descriptors.

#![expect(clippy::unwrap_used, reason = "a test may fail anywhere")]

#[cfg(test)]
mod harness;

use std::rc::Rc;

use engine_io::{Io, ListenMode, Listener, OpenMode, SendPiece, Stream, StreamWriter};
use harness::on_shard_in;

const EXECUTORS: usize = 50;

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn live_once(folder: &std::path::Path) {
    on_shard_in(folder, |io, folder| async move {
        let path = folder.join("log");
        let file = io.open(&path, OpenMode::New).await.unwrap();
        let send_file = io.open_send_file(&path).await.unwrap();
        let listener = io.listen("127.0.0.1:0".parse().unwrap(), ListenMode::Exclusive).await.unwrap();
        let client = io.connect(listener.local_address()).await.unwrap();
        let server = Rc::new(listener.accept().await.unwrap());
        let waiting = io.spawn(async move {
            let _nobody_comes = listener.accept().await;
        });
        let (_reader, mut writer) = client.split();
        writer.send(vec![SendPiece::Owned(vec![1])]).await.unwrap();
        io.remove_file(&path).await.unwrap();
        // The file and the streams are dropped, not closed; the task is cancelled.
        drop((file, send_file, server, waiting));
    });
}

#[test]
fn an_executor_leaves_one_eventfd_and_nothing_else() {
    let folder = harness::folder();
    live_once(folder.path());
    let before = descriptors();
    for _ in 0..EXECUTORS {
        live_once(folder.path());
    }
    let left = descriptors() - before;
    assert!(left <= EXECUTORS, "{left} descriptors left by {EXECUTORS} executors");
}
