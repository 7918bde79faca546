//! `ringlog doctor listeners`: the two steps in which every client connects. It asks one address who the brokers are, and
//! connects to each of them where it says it is. The second step is the one that fails where an address is advertised that
//! clients can't reach.

use core::cell::RefCell;
use core::time::Duration;

use clap::Args;
use engine_io::together;
use engine_io_glommio::GlommioIo;
use net_client::connection::ConnectError;
use net_client::{Client, ClientError, ClientSettings, ConnectionSettings, Endpoint, OtherProtocol};
use net_wire::ErrorCode;
use net_wire::messages::list_offsets::{
    LATEST, ListOffsetsPartition, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopic,
};
use net_wire::messages::{MetadataRequest, MetadataResponse};
use serde_json::json;

use super::verdict::{Named, Verdict};
use crate::client::{Cluster, Found, MissingTopics, failed_client, on_shard};
use crate::failure::Failure;
use crate::output::{Counted, print};

/// How long a step to one address may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long an answer in another protocol is waited for.
const GREETING_PATIENCE: Duration = Duration::from_secs(2);
/// The flag that names the first address.
const FROM: &str = "--from";
/// So many addresses are tried at a time.
const AT_ONCE: usize = 32;

/// What `ringlog doctor listeners` is told.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  ringlog doctor listeners --from broker1.example:9092")]
pub(crate) struct Arguments {
    /// Begin with this address, as clients do with theirs; run it where they run.
    #[arg(long, value_name = "HOST:PORT")]
    from: String,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What the first address tells.
struct Told {
    cluster: String,
    brokers: Vec<Broker>,
}

/// A broker as the first address names it.
struct Broker {
    named: Named,
    endpoint: Endpoint,
    /// A partition that it leads, by topic and number.
    leads: Option<(String, i32)>,
}

/// What came of all, in the order in which they were named.
struct Findings {
    cluster: String,
    brokers: Vec<(Named, Verdict)>,
}

/// Tries each address.
///
/// # Errors
/// One doesn't work, or the first doesn't answer.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let from = Cluster { bootstrap: arguments.from.clone() };
    let found = from.find_by(FROM)?;
    let findings = on_shard("doctor", move |io| look(io, found))??;
    let brokers = findings.brokers.iter();
    let failing = brokers.clone().filter(|(_, verdict)| *verdict != Verdict::Works).count();
    if arguments.json {
        let addresses: Vec<_> = brokers.map(|(named, verdict)| verdict.json(named)).collect();
        print(json!({ "from": arguments.from, "cluster_id": findings.cluster, "addresses": addresses }))?;
    } else {
        let count = Counted(findings.brokers.len(), "broker");
        print(format_args!("{} answers: cluster {}, {count}", arguments.from, findings.cluster))?;
        for (named, verdict) in brokers {
            print(verdict.line(named))?;
        }
    }
    match (failing, findings.brokers.len()) {
        (0, 0) => Err(Failure::failed(format!(
            "{} names no broker; if one was just started, try again, else look at its log",
            arguments.from
        ))),
        (0, _) => Ok(()),
        (failing, count) => {
            Err(Failure::failed(format!("{failing} of {count} advertised addresses don't work from here")))
        }
    }
}

async fn look(io: GlommioIo, found: Found) -> Result<Findings, Failure> {
    let Told { cluster, brokers } = match ask_first(&io, &found).await {
        Ok(told) => told,
        Err(error) => return Err(failed_client(&explained(&io, &found, error).await, FROM)),
    };
    let verdicts = RefCell::new(vec![Verdict::TimedOut; brokers.len()]);
    let tries = brokers.iter().enumerate().map(|(at, broker)| {
        let (io, found, cluster, verdicts) = (&io, &found, &cluster, &verdicts);
        async move {
            let verdict = try_broker(io, found, broker, cluster).await;
            verdicts.borrow_mut()[at] = verdict;
        }
    });
    together(AT_ONCE, tries).await;
    let named = brokers.into_iter().map(|broker| broker.named);
    Ok(Findings { cluster, brokers: named.zip(verdicts.into_inner()).collect() })
}

/// A client that has no time to lose, of the endpoints in `settings`.
fn client(io: &GlommioIo, settings: ClientSettings) -> Client<GlommioIo> {
    let connections = ConnectionSettings { connect_timeout: PATIENCE, ..settings.connections };
    Client::new(io.clone(), ClientSettings { connections, request_timeout: PATIENCE, ..settings })
}

async fn ask_first(io: &GlommioIo, found: &Found) -> Result<Told, ClientError> {
    let client = client(io, found.settings(MissingTopics::AreErrors));
    let connection = client.any().await?;
    let all =
        MetadataRequest { topics: None, allow_auto_topic_creation: false, ..MetadataRequest::default() };
    let answer = client.ask(&connection, &all).await?;
    let told = told(&answer.decode()?);
    client.close();
    Ok(told)
}

fn told(metadata: &MetadataResponse<'_>) -> Told {
    let brokers = metadata.brokers.iter().filter_map(|broker| {
        let endpoint = Endpoint { host: broker.host.into(), port: u16::try_from(broker.port).ok()? };
        let named = Named { broker: broker.node_id, address: endpoint.to_string() };
        Some(Broker { named, endpoint, leads: led_by(metadata, broker.node_id) })
    });
    Told { cluster: cluster_of(metadata), brokers: brokers.collect() }
}

fn cluster_of(metadata: &MetadataResponse<'_>) -> String {
    metadata.cluster_id.unwrap_or("without an id").to_owned()
}

/// The first partition that the broker leads.
fn led_by(metadata: &MetadataResponse<'_>, broker: i32) -> Option<(String, i32)> {
    metadata.topics.iter().find_map(|topic| {
        let led = topic.partitions.iter().find(|partition| partition.leader_id == broker)?;
        Some((topic.name?.to_owned(), led.partition_index))
    })
}

/// Connects to a broker where it says that it is, and sees that it is the one.
async fn try_broker(io: &GlommioIo, found: &Found, broker: &Broker, cluster: &str) -> Verdict {
    let settings = found.settings(MissingTopics::AreErrors);
    let client = client(io, ClientSettings { bootstrap: vec![broker.endpoint.clone()], ..settings });
    let verdict = verdict(&client, broker, cluster).await;
    client.close();
    match verdict {
        Ok(verdict) => verdict,
        Err(error) => Verdict::of(&explained(io, found, error).await),
    }
}

/// The error, with what is spoken where somebody takes connections and says nothing that an answer begins with.
async fn explained(io: &GlommioIo, found: &Found, error: ClientError) -> ClientError {
    let Some(endpoint) = taken_without_answer(&error) else { return error };
    for address in found.resolver().resolve(&endpoint).await.unwrap_or_default() {
        if let Some(other) = OtherProtocol::ask(io, address, GREETING_PATIENCE).await {
            return ClientError::Connect { endpoint, cause: ConnectError::Other(other) };
        }
    }
    error
}

fn taken_without_answer(error: &ClientError) -> Option<Endpoint> {
    if let ClientError::NoneReached(errors) = error {
        return errors.last().and_then(taken_without_answer);
    }
    let ClientError::Connect { endpoint, cause } = error else { return None };
    matches!(cause, ConnectError::Silent | ConnectError::NoAnswer).then(|| endpoint.clone())
}

async fn verdict(client: &Client<GlommioIo>, broker: &Broker, cluster: &str) -> Result<Verdict, ClientError> {
    let connection = client.any().await?;
    let none = MetadataRequest { topics: Some(Vec::new()), ..MetadataRequest::default() };
    let answer = client.ask(&connection, &none).await?;
    let theirs = cluster_of(&answer.decode()?);
    if theirs != cluster {
        return Ok(Verdict::OtherCluster(theirs));
    }
    let Some((topic, partition)) = &broker.leads else { return Ok(Verdict::Works) };
    // No answer says who gives it. But who doesn't lead a partition says so.
    let asked = ListOffsetsPartition {
        partition_index: *partition,
        timestamp: LATEST,
        ..ListOffsetsPartition::default()
    };
    let request = ListOffsetsRequest {
        replica_id: -1,
        topics: vec![ListOffsetsTopic { name: topic, partitions: vec![asked] }],
        ..ListOffsetsRequest::default()
    };
    let answer = client.ask(&connection, &request).await?;
    let offsets: ListOffsetsResponse<'_> = answer.decode()?;
    let mut partitions = offsets.topics.iter().flat_map(|topic| &topic.partitions);
    let leads = partitions.all(|partition| partition.error_code != ErrorCode::NOT_LEADER_OR_FOLLOWER);
    Ok(if leads { Verdict::Works } else { Verdict::OtherBroker })
}

#[cfg(test)]
mod tests {
    use net_wire::messages::metadata::{
        MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
    };

    use super::*;

    #[test]
    fn of_each_broker_a_partition_that_it_leads_is_known() {
        let broker = |node_id, host| MetadataResponseBroker { node_id, host, port: 7, rack: None };
        let partition = |partition_index, leader_id| MetadataResponsePartition {
            partition_index,
            leader_id,
            ..MetadataResponsePartition::default()
        };
        let metadata = MetadataResponse {
            brokers: vec![broker(1000, "::1"), broker(1001, "h"), broker(1002, "h")],
            cluster_id: Some("c"),
            topics: vec![MetadataResponseTopic {
                name: Some("t"),
                partitions: vec![partition(0, 1000), partition(1, 1001), partition(2, 1001)],
                ..MetadataResponseTopic::default()
            }],
            ..MetadataResponse::default()
        };
        let told = told(&metadata);
        assert_eq!((&*told.cluster, &*told.brokers[0].named.address), ("c", "[::1]:7"));
        let led: Vec<_> = told.brokers.into_iter().map(|broker| broker.leads).collect();
        assert_eq!(led, [Some(("t".to_owned(), 0)), Some(("t".to_owned(), 1)), None]);
    }
}
