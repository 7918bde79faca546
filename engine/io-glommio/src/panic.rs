//! A panic anywhere stops the process.

use std::io::{self, Write};
use std::panic::{self, PanicHookInfo};
use std::process;
use std::thread;

/// Makes every panic of the process, on whatever thread, print itself and abort. Called once, by the binary, before
/// shards start.
///
/// A broker that stopped is a failover; a broker with one dead shard answers for partitions that nobody serves.
pub fn abort_on_panic() {
    panic::set_hook(Box::new(|panic| {
        // Where nobody can be told, stopping is all the same.
        let _untold = tell(&mut io::stderr().lock(), panic);
        process::abort();
    }));
}

fn tell(to: &mut impl Write, panic: &PanicHookInfo<'_>) -> io::Result<()> {
    let thread = thread::current();
    let name = thread.name().unwrap_or("unnamed");
    let message = panic.payload_as_str().unwrap_or("a panic without a message");
    match panic.location() {
        Some(place) => writeln!(to, "fatal: thread {name} panicked at {place}: {message}; the process stops"),
        None => writeln!(to, "fatal: thread {name} panicked: {message}; the process stops"),
    }
}
