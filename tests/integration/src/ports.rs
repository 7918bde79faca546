//! Ports for a broker that has to come back where it was.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::process;

/// Where to look: below what the system itself gives to outgoing connections (from 32768 up by default), so that no
/// client takes a port while the broker is down.
const FIRST: u16 = 20_000;
const END: u16 = 30_000;

/// The first of `count` neighbouring ports that are free on the loopback address now.
///
/// # Panics
/// When there are no such ports.
#[must_use]
pub fn free_range(count: u16) -> u16 {
    assert!(outgoing_start() >= u32::from(END), "the system gives ports below {END} to outgoing connections");
    let candidates = (END - FIRST) / count;
    // Tests of different processes start looking at different places.
    let start = u16::try_from(process::id() % u32::from(candidates)).expect("below a number of 16 bits");
    (0..candidates)
        .map(|turn| FIRST + (start + turn) % candidates * count)
        .find(|base| (*base..base + count).all(is_free))
        .unwrap_or_else(|| panic!("no {count} free ports in a row between {FIRST} and {END}"))
}

/// Binding as the broker does (with SO_REUSEADDR) finds a port free although old connections of it linger.
fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// The first port that the system itself may give to an outgoing connection.
fn outgoing_start() -> u32 {
    let range =
        fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").expect("Linux tells its port range");
    let first = range.split_whitespace().next().expect("the range has a start");
    first.parse().expect("the start is a number")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ports_are_neighbours_and_free() {
        let base = free_range(3);
        assert!((FIRST..END).contains(&base));
        let listeners: Vec<_> =
            (base..base + 3).map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap()).collect();
        assert_eq!(listeners.len(), 3);
        assert!(!is_free(base));
    }
}
