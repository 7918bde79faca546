//! ApiVersions: the first exchange, which must work whatever the client is.

use net_wire::messages::ApiVersionsRequest;
use net_wire::messages::api_versions::ApiVersion;
use net_wire::{ApiKey, ErrorCode};

use crate::client::{Answer, Client};
use crate::node::{config, on_node};
use crate::versions;

fn request() -> ApiVersionsRequest<'static> {
    ApiVersionsRequest { client_software_name: "test", client_software_version: "1.0" }
}

async fn ask_as(client: &mut Client, version: i16, name: &str, software_version: &str) -> ErrorCode {
    let request =
        ApiVersionsRequest { client_software_name: name, client_software_version: software_version };
    client.ask(version, &request).await.body().error_code
}

#[test]
fn every_version_lists_what_is_advertised() {
    on_node(1, config(1), async |node| {
        let mut client = node.connect(0).await;
        for version in versions(ApiKey::ApiVersions) {
            let answer = client.ask(version, &request()).await;
            let response = answer.body();
            assert_eq!(response.error_code, ErrorCode::NONE);
            let expected: Vec<_> = ApiKey::ALL.iter().copied().map(ApiVersion::advertised).collect();
            assert_eq!(response.api_keys, expected, "v{version}");
        }
    });
}

#[test]
fn produce_is_advertised_from_0_for_clients_that_take_its_absence_for_missing_compression() {
    on_node(2, config(1), async |node| {
        let mut client = node.connect(0).await;
        let answer = client.ask(0, &request()).await;
        let row = answer.body().api_keys.into_iter().find(|row| row.api_key == 0).unwrap();
        assert_eq!((row.min_version, row.max_version), (0, 13));
    });
}

#[test]
fn no_feature_is_advertised_that_would_switch_clients_to_what_is_not_served() {
    on_node(3, config(1), async |node| {
        let mut client = node.connect(0).await;
        let answer = client.ask(4, &request()).await;
        let response = answer.body();
        assert!(response.finalized_features.is_empty() && response.supported_features.is_empty());
        assert_eq!(response.finalized_features_epoch, -1);
    });
}

#[test]
fn a_version_that_is_not_served_is_answered_in_version_0_whatever_its_body() {
    on_node(4, config(1), async |node| {
        let mut client = node.connect(0).await;
        for version in [5, 99, i16::MAX, -1, i16::MIN] {
            let frame = client.odd_frame(18, version, &[0, 0xff, 0xff, 0xff, 0xff, 0xff, 7]);
            client.send_bytes(frame).await;
            let answer: Answer<ApiVersionsRequest<'_>> = client.answer(0).await;
            let response = answer.body();
            assert_eq!(response.error_code, ErrorCode::UNSUPPORTED_VERSION, "v{version}");
            assert_eq!(response.api_keys, [ApiVersion { api_key: 18, min_version: 0, max_version: 4 }]);
        }
        assert_eq!(client.ask(0, &request()).await.body().error_code, ErrorCode::NONE, "the client goes on");
    });
}

#[test]
fn a_client_that_names_itself_oddly_is_refused_and_may_go_on() {
    on_node(5, config(1), async |node| {
        let mut client = node.connect(0).await;
        for version in 3..=4 {
            for (name, software_version) in [("", "1"), ("a b", "1"), ("-a", "1"), ("a", ""), ("a", "1_0")] {
                let error = ask_as(&mut client, version, name, software_version).await;
                assert_eq!(error, ErrorCode::INVALID_REQUEST, "`{name}` `{software_version}` v{version}");
            }
            assert_eq!(ask_as(&mut client, version, "librdkafka", "2.15.0").await, ErrorCode::NONE);
        }
    });
}
