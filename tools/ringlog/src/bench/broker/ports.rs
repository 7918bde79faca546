//! Ports for a broker that goes away and comes back.

use std::net::{Ipv4Addr, TcpListener};

/// Below the ports that the system hands out: while the broker is away, a client that tries to reach it could be given
/// the very port it tries.
const FIRST: u16 = 10_000;
/// How many ports are looked through.
const COUNT: u16 = 20_000;

/// The first of `count` neighbouring ports of the loopback address that are free now.
pub(super) fn free_run(count: usize) -> Option<u16> {
    let count = u16::try_from(count).ok().filter(|&count| count <= COUNT)?;
    // Runs at the same time begin to look at different places.
    let start = u16::try_from(std::process::id() % u32::from(COUNT - count + 1)).ok()?;
    let candidates = (start..=COUNT - count).chain(0..start).map(|offset| FIRST + offset);
    candidates.into_iter().find(|&first| (first..first + count).all(is_free))
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ports_of_a_run_are_free_and_a_taken_one_is_left_out() {
        let first = free_run(3).unwrap();
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, first + 1)).unwrap();
        let other = free_run(3).unwrap();
        assert!(!(other..other + 3).contains(&(first + 1)));
        drop(taken);
        assert_eq!(free_run(70_000), None);
    }
}
