//! Host names, without blocking a shard.
//!
//! The system's resolver blocks, so it may not be called on a shard. Names that are known at the start are looked up
//! there ([`Resolver::with_names`]); for those that brokers name later, a thread that may block answers lookups
//! ([`answer_lookups`]). IP addresses need neither.

use core::net::IpAddr;
use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use engine_io::{Receiver, ReplySlot, Sender, reply};

use crate::metadata::Endpoint;

/// A name to be looked up.
#[derive(Debug)]
pub struct Lookup {
    host: Box<str>,
    slot: ReplySlot<io::Result<Vec<IpAddr>>>,
}

/// Turns host names into addresses. Cloned for each shard.
#[derive(Clone, Debug, Default)]
pub struct Resolver {
    names: BTreeMap<Box<str>, Vec<IpAddr>>,
    lookups: Option<Sender<Lookup>>,
}

impl Resolver {
    /// Knows what the system says about these hosts now. Blocks: call it before shards start.
    ///
    /// # Errors
    /// What the system says about the first that can't be resolved.
    pub fn with_names<'a>(hosts: impl IntoIterator<Item = &'a str>) -> io::Result<Self> {
        let names = hosts.into_iter().map(|host| Ok((host.into(), look_up(host)?)));
        Ok(Self { names: names.collect::<io::Result<_>>()?, lookups: None })
    }

    /// Asks the other end of this mailbox about names it doesn't know.
    #[must_use]
    pub fn with_lookups(self, lookups: Sender<Lookup>) -> Self {
        Self { lookups: Some(lookups), ..self }
    }

    /// The addresses of an endpoint, at least one.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] where nothing is known about the host; else what the system says.
    pub async fn resolve(&self, endpoint: &Endpoint) -> io::Result<Vec<SocketAddr>> {
        let host = &*endpoint.host;
        let addresses = match (host.parse::<IpAddr>(), self.names.get(host)) {
            (Ok(address), _) => vec![address],
            (Err(_), Some(known)) => known.clone(),
            (Err(_), None) => self.ask(host).await?,
        };
        if addresses.is_empty() {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(addresses.into_iter().map(|address| SocketAddr::new(address, endpoint.port)).collect())
    }

    async fn ask(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let not_found = || io::Error::from(io::ErrorKind::NotFound);
        let lookups = self.lookups.as_ref().ok_or_else(not_found)?;
        let (slot, answer) = reply();
        lookups.send(Lookup { host: host.into(), slot }).await.map_err(|_| not_found())?;
        answer.wait().await.map_err(|_| not_found())?
    }
}

/// Answers lookups until all who may ask are gone. Blocks in between: run it on a thread of its own.
pub async fn answer_lookups(lookups: Receiver<Lookup>) {
    while let Ok(Lookup { host, slot }) = lookups.receive().await {
        slot.answer(look_up(&host));
    }
}

fn look_up(host: &str) -> io::Result<Vec<IpAddr>> {
    Ok((host, 0).to_socket_addrs()?.map(|address| address.ip()).collect())
}

#[cfg(test)]
mod tests {
    use engine_io::mailbox;
    use futures_lite::future::{block_on, zip};

    use super::*;

    fn endpoint(host: &str) -> Endpoint {
        Endpoint { host: host.into(), port: 7 }
    }

    #[test]
    fn addresses_need_no_resolver_and_unknown_names_are_not_found() {
        let resolver = Resolver::default();
        let found = block_on(resolver.resolve(&endpoint("::1"))).unwrap();
        assert_eq!(found, ["[::1]:7".parse::<SocketAddr>().unwrap()]);
        let error = block_on(resolver.resolve(&endpoint("broker.example"))).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn names_are_looked_up_at_the_start_or_by_who_may_block() {
        let at_start = Resolver::with_names(["localhost"]).unwrap();
        assert!(block_on(at_start.resolve(&endpoint("localhost"))).unwrap()[0].ip().is_loopback());
        let (lookups, receiver) = mailbox(1);
        let later = Resolver::default().with_lookups(lookups);
        let asking = async move { later.resolve(&endpoint("localhost")).await };
        let (found, ()) = block_on(zip(asking, answer_lookups(receiver)));
        assert!(found.unwrap()[0].ip().is_loopback());
    }
}
