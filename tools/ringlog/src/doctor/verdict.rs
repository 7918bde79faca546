//! What came of a try to reach a broker where it says it is, in words: why it fails, and what to change.

use std::io::{self, ErrorKind};

use net_client::ClientError;
use net_client::connection::ConnectError;
use serde_json::{Value, json};

/// A broker as a cluster names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) broker: i32,
    /// `HOST:PORT`.
    pub(super) address: String,
}

/// What came of a try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The broker named answers there.
    Works,
    /// The host's name leads to no address.
    Unresolved(String),
    /// Nobody listens there.
    Refused,
    /// Nothing comes back.
    TimedOut,
    /// There is no way there.
    Unreachable(String),
    /// What answers doesn't speak as a broker does.
    NoBroker(String),
    /// A broker of another cluster answers.
    OtherCluster(String),
    /// Another broker of the same cluster answers.
    OtherBroker,
}

impl Verdict {
    /// Of a try that failed.
    pub(super) fn of(error: &ClientError) -> Self {
        match error {
            ClientError::Unresolved { cause, .. } => Self::Unresolved(cause.to_string()),
            ClientError::Connect { cause, .. } => Self::of_connect(cause),
            ClientError::NoneReached(errors) => {
                errors.last().map_or_else(|| Self::NoBroker(error.to_string()), Self::of)
            }
            ClientError::NoBroker
            | ClientError::UnknownBroker(_)
            | ClientError::NoAnswer(_)
            | ClientError::Version(_)
            | ClientError::Decode(_)
            | ClientError::Encode(_)
            | ClientError::Refused(_) => Self::NoBroker(error.to_string()),
        }
    }

    fn of_connect(error: &ConnectError) -> Self {
        match error {
            ConnectError::Socket(error) => Self::of_system(error),
            ConnectError::TimedOut => Self::TimedOut,
            ConnectError::Silent
            | ConnectError::NoAnswer
            | ConnectError::Other(_)
            | ConnectError::Versions(_)
            | ConnectError::Refused(_)
            | ConnectError::Encode(_) => Self::NoBroker(error.to_string()),
        }
    }

    fn of_system(error: &io::Error) -> Self {
        let known = [(ErrorKind::ConnectionRefused, Self::Refused), (ErrorKind::TimedOut, Self::TimedOut)];
        let known = known.into_iter().find(|(kind, _)| *kind == error.kind());
        known.map_or_else(|| Self::Unreachable(error.to_string()), |(_, verdict)| verdict)
    }

    /// Why it fails, and what to change; `None` where it works.
    pub(super) fn complaint(&self, named: &Named) -> Option<(String, &'static str)> {
        let address = &named.address;
        let complaint = match self {
            Self::Works => return None,
            Self::Unresolved(why) => (
                format!("the name leads nowhere from here: {why}"),
                "advertise a name that clients can look up, or an address (`advertised.listeners`)",
            ),
            Self::Refused => (
                format!("nobody listens at {address}"),
                "start that broker, let its port through the translation of addresses, or advertise where it is reached",
            ),
            Self::TimedOut => (
                "nothing comes back".to_owned(),
                "open the port in the firewalls on the way, or advertise an address that clients have a way to",
            ),
            Self::Unreachable(why) => {
                (format!("there is no way there: {why}"), "advertise an address that clients have a way to")
            }
            Self::NoBroker(why) => (
                format!("what answers there is no broker: {why}"),
                "advertise the port of the broker; if it is, see that this listener is plain text",
            ),
            Self::OtherCluster(cluster) => (
                format!("a broker of another cluster answers there ({cluster})"),
                "advertise the address of this one; a name or a port leads to the other",
            ),
            Self::OtherBroker => (
                format!(
                    "another broker of the cluster answers there: it doesn't lead what broker {} leads",
                    named.broker
                ),
                "forward each port to its own shard: shard i is at the port i above, or name each in `advertised.listeners`",
            ),
        };
        Some(complaint)
    }

    /// For people.
    pub(super) fn line(&self, named: &Named) -> String {
        let Named { broker, address } = named;
        match self.complaint(named) {
            None => format!("broker {broker} at {address}: works"),
            Some((why, change)) => format!("broker {broker} at {address}: FAILS, {why}; to do: {change}"),
        }
    }

    /// For programs.
    pub(super) fn json(&self, named: &Named) -> Value {
        let complaint = self.complaint(named);
        let (why, change) = complaint.map_or((None, None), |(why, change)| (Some(why), Some(change)));
        json!({
            "broker_id": named.broker,
            "address": named.address,
            "works": why.is_none(),
            "why": why,
            "to_do": change,
        })
    }
}

#[cfg(test)]
mod tests {
    use net_client::Endpoint;

    use super::*;

    fn connect(cause: ConnectError) -> ClientError {
        ClientError::Connect { endpoint: Endpoint { host: "h".into(), port: 7 }, cause }
    }

    fn named() -> Named {
        Named { broker: 1001, address: "h:7".to_owned() }
    }

    #[test]
    fn each_way_to_fail_is_told_apart() {
        let socket = |kind: ErrorKind| Verdict::of(&connect(ConnectError::Socket(kind.into())));
        assert_eq!(socket(ErrorKind::ConnectionRefused), Verdict::Refused);
        assert_eq!(socket(ErrorKind::TimedOut), Verdict::TimedOut);
        assert_eq!(Verdict::of(&connect(ConnectError::TimedOut)), Verdict::TimedOut);
        assert!(matches!(socket(ErrorKind::NetworkUnreachable), Verdict::Unreachable(_)));
        for answered in [ConnectError::Silent, ConnectError::NoAnswer] {
            assert!(matches!(Verdict::of(&connect(answered)), Verdict::NoBroker(_)));
        }
        let nowhere = ClientError::Unresolved {
            endpoint: Endpoint { host: "h".into(), port: 7 },
            cause: ErrorKind::NotFound.into(),
        };
        assert!(matches!(Verdict::of(&nowhere), Verdict::Unresolved(_)));
        let of_many = ClientError::NoneReached(vec![nowhere, connect(ConnectError::TimedOut)]);
        assert_eq!(Verdict::of(&of_many), Verdict::TimedOut);
    }

    #[test]
    fn what_fails_is_told_with_what_to_change() {
        let why = || "why".to_owned();
        for verdict in [
            Verdict::Unresolved(why()),
            Verdict::Refused,
            Verdict::TimedOut,
            Verdict::Unreachable(why()),
            Verdict::NoBroker(why()),
            Verdict::OtherCluster(why()),
            Verdict::OtherBroker,
        ] {
            let line = verdict.line(&named());
            assert!(line.starts_with("broker 1001 at h:7: FAILS, ") && line.contains("; to do: "), "{line}");
            let told = verdict.json(&named());
            assert_eq!(told["works"], false);
            assert!(told["why"].is_string() && told["to_do"].is_string(), "{told}");
        }
        assert_eq!(Verdict::Works.line(&named()), "broker 1001 at h:7: works");
        assert_eq!(Verdict::Works.json(&named())["works"], true);
    }
}
