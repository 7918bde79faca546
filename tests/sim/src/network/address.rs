//! Which address is which machine's.

use std::net::{IpAddr, Ipv4Addr};

/// The address of a machine: the first is 10.0.0.1.
pub(crate) fn address_of(machine: usize) -> IpAddr {
    let number = u16::try_from(machine + 1).expect("a world has fewer than 65,536 machines");
    let [high, low] = number.to_be_bytes();
    IpAddr::V4(Ipv4Addr::new(10, 0, high, low))
}

/// The machine that `from` reaches at the address, be there one or not.
pub(crate) fn machine_at(from: usize, address: IpAddr) -> Option<usize> {
    if address.is_loopback() || address.is_unspecified() {
        return Some(from);
    }
    match address {
        IpAddr::V4(address) => match address.octets() {
            [10, 0, high, low] => usize::from(u16::from_be_bytes([high, low])).checked_sub(1),
            _ => None,
        },
        IpAddr::V6(_) => None,
    }
}

/// Whether a machine may listen on the address.
pub(crate) fn is_own(machine: usize, address: IpAddr) -> bool {
    address.is_unspecified() || address.is_loopback() || address == address_of(machine)
}

/// Whether two listening addresses would both get a connection.
pub(crate) fn overlap(one: IpAddr, other: IpAddr) -> bool {
    one == other || one.is_unspecified() || other.is_unspecified()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_found_at_its_address() {
        assert_eq!(address_of(0).to_string(), "10.0.0.1");
        for machine in [0, 1, 254, 255, 300] {
            assert_eq!(machine_at(7, address_of(machine)), Some(machine));
        }
        assert_eq!(machine_at(7, IpAddr::V4(Ipv4Addr::LOCALHOST)), Some(7));
        assert_eq!(machine_at(7, IpAddr::V4(Ipv4Addr::new(10, 0, 0, 0))), None);
        assert_eq!(machine_at(7, IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1))), None);
    }
}
