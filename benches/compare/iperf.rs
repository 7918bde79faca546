//! iperf3 as the measure of what one connection over loopback can carry.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::error::CompareError;
use crate::processors::Processors;

/// A server for one test. Dropping it ends it.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // Where it has ended by itself, as it does after its test, there is nothing to kill.
        let _ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// Bytes a second that arrive over one connection when `send_bytes` are sent at a time, by a process in the shard's
/// place to one in the client's.
pub(crate) fn send(processors: Processors, send_bytes: usize, seconds: u32) -> Result<f64, CompareError> {
    let port = free_port()?.to_string();
    let _server = serve(&port, processors.client)?;
    let output = Command::new("iperf3")
        .args(["--client", "127.0.0.1", "--port", &port, "--json"])
        .args(["--length", &send_bytes.to_string(), "--time", &seconds.to_string()])
        .args(["--affinity", &processors.server.to_string()])
        .output()
        .map_err(cannot_run)?;
    let figures: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    if let Some(words) = figures["error"].as_str() {
        return Err(CompareError::Failed { program: "iperf3", words: words.to_owned() });
    }
    let bits = figures["end"]["sum_received"]["bits_per_second"].as_f64();
    bits.map(|bits| bits / 8.0)
        .ok_or(CompareError::Unexpected { program: "iperf3", what: "how many bits arrived" })
}

/// Starts a server and waits until it listens.
fn serve(port: &str, cpu: usize) -> Result<Server, CompareError> {
    let mut child = Command::new("iperf3")
        .args(["--server", "--one-off", "--forceflush", "--port", port, "--affinity", &cpu.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .map_err(cannot_run)?;
    let said = child.stdout.take().expect("its output is piped");
    let server = Server(child);
    let listens = BufReader::new(said).lines().map_while(Result::ok).any(|line| line.contains("listening"));
    let unexpected = CompareError::Unexpected { program: "iperf3", what: "that it listens" };
    if listens { Ok(server) } else { Err(unexpected) }
}

fn cannot_run(source: std::io::Error) -> CompareError {
    CompareError::Program { program: "iperf3", source }
}

/// A port that was free a moment ago.
fn free_port() -> Result<u16, CompareError> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}
