//! What the commands share that talk to a cluster: how it is named, and the shard on which its client lives.

use std::fmt::Display;
use std::future::Future;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex};

use clap::Args;
use engine_io::{Io, mailbox};
use engine_io_glommio::{GlommioIo, Running, ShardSpec, StartError};
use futures_lite::future::block_on;
use net_client::resolver::answer_lookups;
use net_client::{AdminError, Client, ClientError, ClientSettings, Endpoint, Resolver};

use crate::failure::Failure;

/// Memory for the direct I/O of an executor that does none, in bytes.
const IO_MEMORY: usize = 256 << 10;
/// Host names waiting to be looked up, at most.
const LOOKUPS_MAX: usize = 16;
/// The flag that names a cluster.
const BOOTSTRAP: &str = "--bootstrap";

/// How a cluster is reached.
#[derive(Args, Clone, Debug)]
pub(crate) struct Cluster {
    /// Begin with this broker; several may be named, divided by commas.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9092")]
    pub(crate) bootstrap: String,
}

/// What may happen to a topic that isn't there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MissingTopics {
    /// The broker may create it.
    MayBeCreated,
    /// It is missed.
    AreErrors,
}

/// A cluster that was found: can be handed to shards, which each make a client of it.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    endpoints: Vec<(Box<str>, u16)>,
    resolver: Resolver,
}

impl Cluster {
    /// Reads the addresses and looks up the names in them. Blocks.
    pub(crate) fn find(&self) -> Result<Found, Failure> {
        self.find_by(BOOTSTRAP)
    }

    /// The same where this flag names them.
    pub(crate) fn find_by(&self, flag: &str) -> Result<Found, Failure> {
        let parsed = self.bootstrap.split(',').map(|part| Endpoint::parse(part.trim()));
        let endpoints = parsed.collect::<Result<Vec<_>, _>>();
        let endpoints = endpoints.map_err(|error| Failure::usage(format!("{flag}: {error}")))?;
        let unknown = |error| {
            Failure::failed(format!(
                "{flag} {}: {error}; name a host that is known here, or an address",
                self.bootstrap
            ))
        };
        let resolver = Resolver::with_names(endpoints.iter().map(|endpoint| &*endpoint.host));
        let resolver = resolver.map_err(unknown)?.with_lookups(look_up_aside()?);
        let endpoints = endpoints.into_iter().map(|endpoint| ((&*endpoint.host).into(), endpoint.port));
        Ok(Found { endpoints: endpoints.collect(), resolver })
    }
}

/// A thread that may block, for the names that brokers call themselves by. It ends with the last who may ask.
fn look_up_aside() -> Result<engine_io::Sender<net_client::resolver::Lookup>, Failure> {
    let (lookups, receiver) = mailbox(LOOKUPS_MAX);
    spawn_thread("names", move || block_on(answer_lookups(receiver)))?;
    Ok(lookups)
}

/// Starts a thread beside the shards, for what blocks.
pub(crate) fn spawn_thread(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work).map(drop).map_err(Failure::machine)
}

impl Found {
    /// Turns host names into addresses.
    pub(crate) const fn resolver(&self) -> &Resolver {
        &self.resolver
    }

    /// The addresses, as `host:port`.
    pub(crate) fn bootstrap(&self) -> Vec<String> {
        let endpoints = self.endpoints.iter();
        endpoints.map(|(host, port)| Endpoint { host: (&**host).into(), port: *port }.to_string()).collect()
    }

    /// What a client needs to know.
    pub(crate) fn settings(&self, missing_topics: MissingTopics) -> ClientSettings {
        let endpoint = |(host, port): &(Box<str>, u16)| Endpoint { host: (&**host).into(), port: *port };
        ClientSettings {
            bootstrap: self.endpoints.iter().map(endpoint).collect(),
            resolver: self.resolver.clone(),
            creates_topics: missing_topics == MissingTopics::MayBeCreated,
            ..ClientSettings::default()
        }
    }
}

/// Runs `work` with a client of the cluster, on a shard that holds nothing else.
///
/// # Errors
/// Those of `work`, and a machine on which no shard runs.
pub(crate) fn run<T, F>(
    cluster: &Cluster,
    missing_topics: MissingTopics,
    work: impl FnOnce(Client<GlommioIo>) -> F + Send + 'static,
) -> Result<T, Failure>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Failure>> + 'static,
{
    let found = cluster.find()?;
    on_shard("client", move |io| async move {
        let client = Client::new(io, found.settings(missing_topics));
        let outcome = work(client.clone()).await;
        client.close();
        outcome
    })?
}

/// Runs `work` on a shard of its own that the system places, and waits for it.
pub(crate) fn on_shard<T, F>(
    name: &str,
    work: impl FnOnce(GlommioIo) -> F + Send + 'static,
) -> Result<T, Failure>
where
    T: Send + 'static,
    F: Future<Output = T> + 'static,
{
    tuning::raise_locked_memory().map_err(Failure::machine)?;
    let spec = ShardSpec { name: name.to_owned(), cpu: None, dedicated: false };
    let work = Arc::new(Mutex::new(Some(work)));
    let running: Result<Running<T>, StartError> =
        engine_io_glommio::run_without_folder(vec![spec], IO_MEMORY, move |_, io| {
            let work = work.lock().expect("nobody panics while holding the work").take();
            work.expect("one shard was started")(io)
        });
    match running.map_err(Failure::machine)?.join().pop() {
        Some(Ok(outcome)) => Ok(outcome),
        Some(Err(panic)) => resume_unwind(panic),
        None => unreachable!("one shard was started"),
    }
}

/// A failure of this client, as it leaves the shard: with what to do where no broker is there. `flag` names the first.
pub(crate) fn failed_client(error: &ClientError, flag: &str) -> Failure {
    match error {
        ClientError::Connect { .. } | ClientError::NoneReached(_) => Failure::failed(format!(
            "no broker answers at {error}; start one with `ringlog serve`, or name another with {flag}"
        )),
        ClientError::NoBroker
        | ClientError::UnknownBroker(_)
        | ClientError::Unresolved { .. }
        | ClientError::NoAnswer(_)
        | ClientError::Version(_)
        | ClientError::Decode(_)
        | ClientError::Encode(_)
        | ClientError::Refused(_) => failed(error),
    }
}

/// A failed order, as it leaves the shard.
pub(crate) fn failed_admin(error: &AdminError) -> Failure {
    match error {
        AdminError::Client(error) => failed_client(error, BOOTSTRAP),
        AdminError::Refused(_) | AdminError::UnknownPartition { .. } => failed(error),
    }
}

/// Any other failure, as it leaves the shard.
pub(crate) fn failed(error: &impl Display) -> Failure {
    Failure::failed(error.to_string())
}

/// Fails early where no broker can be reached, instead of trying for as long as a delivery may take.
pub(crate) async fn reach<I: Io>(client: &Client<I>) -> Result<(), Failure> {
    client.any().await.map(drop).map_err(|error| failed_client(&error, BOOTSTRAP))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(bootstrap: &str) -> Cluster {
        Cluster { bootstrap: bootstrap.to_owned() }
    }

    #[test]
    fn several_brokers_may_be_named_and_names_are_looked_up() {
        let found = cluster("localhost:1, [::1]:2").find().unwrap();
        let settings = found.settings(MissingTopics::AreErrors);
        let named: Vec<_> = settings.bootstrap.iter().map(ToString::to_string).collect();
        assert_eq!(named, ["localhost:1", "[::1]:2"]);
        assert!(!settings.creates_topics);
        let resolved = block_on(settings.resolver.resolve(&settings.bootstrap[0])).unwrap();
        assert!(resolved[0].ip().is_loopback());
    }

    #[test]
    fn an_address_without_a_port_is_wrong_usage() {
        let failure = cluster("127.0.0.1").find().unwrap_err();
        assert_eq!(failure.code(), 2);
        assert!(failure.to_string().contains("--bootstrap"), "{failure}");
    }

    #[test]
    fn each_broker_that_does_not_answer_is_named() {
        let failure = run(&cluster("127.0.0.1:1,127.0.0.1:2"), MissingTopics::AreErrors, async |client| {
            reach(&client).await
        })
        .unwrap_err();
        let text = failure.to_string();
        assert!(text.contains("127.0.0.1:1: ") && text.contains("127.0.0.1:2: "), "{text}");
    }

    #[test]
    fn where_no_broker_is_the_address_and_the_remedy_are_named() {
        // Port 1 of the loopback: privileged, and nothing of ours.
        let failure =
            run(
                &cluster("127.0.0.1:1"),
                MissingTopics::AreErrors,
                |client| async move { reach(&client).await },
            )
            .unwrap_err();
        let text = failure.to_string();
        assert_eq!(failure.code(), 1);
        assert!(text.contains("127.0.0.1:1") && text.contains("ringlog serve"), "{text}");
    }
}
