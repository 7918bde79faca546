//! A broker of a test's own.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

/// Ends with the test, however that ends.
pub(crate) struct Broker {
    pub(crate) process: Child,
    pub(crate) address: String,
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ended_already = self.process.kill();
        let _ended_already = self.process.wait();
    }
}

pub(crate) fn ringlog(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringlog"));
    command.current_dir(folder).stdin(Stdio::null());
    command
}

pub(crate) fn serve(folder: &Path) -> Broker {
    let cpu = tuning::usable_cores(Path::new("/")).unwrap().cpus[0].id.to_string();
    let mut command = ringlog(folder);
    command.args(["serve", "--json", "--listen", "127.0.0.1:0", "--cpus", &cpu]);
    let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut ready = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    let ready: Value = serde_json::from_str(&ready).unwrap();
    let address = ready["endpoints"][0]["address"].as_str().unwrap().to_owned();
    Broker { process, address }
}
