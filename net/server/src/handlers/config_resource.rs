//! What may have settings, as requests name it: by a number for its kind and a name.

use engine_io::Io;
use net_wire::ErrorCode;
use net_wire::config_resource::{BROKER, BROKER_LOGGER, TOPIC};
use replication::metadata::image::{broker_id, broker_id_parts, check_topic_name};
use replication::metadata::reply::TopicNameError;

use crate::dispatch::Request;
use crate::hooks::{self, Decision, Operation, authorize};
use crate::shard::Shard;

/// What a request names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ConfigResource<'a> {
    /// The protocol's number for its kind.
    pub(crate) kind: i8,
    pub(crate) name: &'a str,
}

/// What that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named<'a> {
    /// A topic that may be called so; whether there is one isn't said.
    Topic(&'a str),
    /// A broker of this node.
    Broker,
    /// What brokers have that don't say otherwise: nothing here.
    EveryBroker,
}

/// Why it is nothing whose settings can be told or changed here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotNamed {
    #[error("{0}")]
    TopicName(#[from] TopicNameError),
    #[error("`{0}` is not a broker's id")]
    BrokerId(String),
    #[error("broker {asked} is not of this node, whose first is {first}: each node tells its own settings")]
    OtherBroker { asked: i32, first: i32 },
    #[error("what a broker logs is said at its start, not by requests")]
    BrokerLogger,
    #[error("nothing of type {0} has settings here; topics ({TOPIC}) and brokers ({BROKER}) have")]
    Kind(i8),
}

impl NotNamed {
    pub(crate) fn code(&self) -> ErrorCode {
        match self {
            Self::TopicName(_) => ErrorCode::INVALID_TOPIC_EXCEPTION,
            Self::BrokerId(_) | Self::OtherBroker { .. } | Self::BrokerLogger | Self::Kind(_) => {
                ErrorCode::INVALID_REQUEST
            }
        }
    }
}

impl<'a> ConfigResource<'a> {
    /// What it names, for a client that wants to do `operation` with its settings.
    pub(crate) fn resolve<I: Io>(
        self,
        shard: &Shard<I>,
        request: &Request<I>,
        operation: Operation,
    ) -> Result<Named<'a>, NotNamed> {
        let name = self.name;
        let asked = match self.kind {
            TOPIC => hooks::Resource::Topic(name),
            _ => hooks::Resource::Cluster,
        };
        let Decision::Allowed = authorize(&request.connection.principal, operation, asked);
        match self.kind {
            TOPIC => {
                check_topic_name(name)?;
                Ok(Named::Topic(name))
            }
            BROKER if name.is_empty() => Ok(Named::EveryBroker),
            BROKER => broker(shard, name),
            BROKER_LOGGER => Err(NotNamed::BrokerLogger),
            kind => Err(NotNamed::Kind(kind)),
        }
    }
}

/// Every broker id of this node has the node's settings.
fn broker<I: Io>(shard: &Shard<I>, name: &str) -> Result<Named<'static>, NotNamed> {
    let asked: i32 = name.parse().map_err(|_| NotNamed::BrokerId(name.to_owned()))?;
    let config = shard.config();
    match broker_id_parts(asked) {
        Some((node, of_node)) if node == config.node && of_node.0 < config.routing.ports(config.shards) => {
            Ok(Named::Broker)
        }
        Some(_) | None => {
            let first = broker_id(config.node, engine_record::ShardId(0));
            Err(NotNamed::OtherBroker { asked, first })
        }
    }
}
