//! ListConfigResources: topics and brokers have settings, and nothing else has.

use net_wire::config_resource::{BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC};
use net_wire::messages::ListConfigResourcesRequest;
use net_wire::{ApiKey, ErrorCode};

use crate::client::Client;
use crate::node::{config, on_node};
use crate::versions;

const NEWEST: i16 = 1;

async fn list(client: &mut Client, version: i16, kinds: &[i8]) -> (ErrorCode, Vec<(i8, String)>) {
    let request = ListConfigResourcesRequest { resource_types: kinds.to_vec() };
    let answer = client.ask(version, &request).await;
    let response = answer.body();
    assert_eq!(response.throttle_time_ms, 0);
    let listed = response.config_resources.iter();
    let listed = listed.map(|listed| (listed.resource_type, listed.resource_name.to_owned()));
    (response.error_code, listed.collect())
}

fn named(kind: i8, names: &[&str]) -> Vec<(i8, String)> {
    names.iter().map(|name| (kind, (*name).to_owned())).collect()
}

#[test]
fn what_has_settings_is_listed_by_kind() {
    on_node(1, config(2), async |node| {
        node.topic("b", 1).await;
        node.topic("a", 2).await;
        let mut client = node.connect(1).await;
        let (brokers, topics) = (named(BROKER, &["1000", "1001"]), named(TOPIC, &["a", "b"]));
        let all = [brokers.clone(), topics.clone()].concat();
        let everything = [GROUP, TOPIC, BROKER_LOGGER, TOPIC, BROKER, CLIENT_METRICS];
        for (kinds, expected) in [
            (&[][..], all.clone()),
            (&everything, all),
            (&[TOPIC], topics),
            (&[BROKER, BROKER], brokers),
            (&[BROKER_LOGGER, CLIENT_METRICS, GROUP], Vec::new()),
        ] {
            assert_eq!(list(&mut client, NEWEST, kinds).await, (ErrorCode::NONE, expected), "{kinds:?}");
        }
        let none = (ErrorCode::NONE, Vec::new());
        assert_eq!(list(&mut client, 0, &[]).await, none, "there are no metrics of clients");
    });
}

#[test]
fn a_kind_that_kafka_does_not_know_is_refused_with_all_others() {
    on_node(2, config(1), async |node| {
        node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        for kinds in [&[0][..], &[TOPIC, 3], &[64, BROKER], &[-1], &[i8::MAX, i8::MIN]] {
            let refused = (ErrorCode::UNSUPPORTED_VERSION, Vec::new());
            assert_eq!(list(&mut client, NEWEST, kinds).await, refused, "{kinds:?}");
        }
        assert_eq!(versions(ApiKey::ListConfigResources), 0..=NEWEST);
    });
}
