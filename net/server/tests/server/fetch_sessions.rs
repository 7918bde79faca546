//! Fetch sessions (KIP-227).

use core::time::Duration;

use net_server::config::{Config, Limits};
use net_wire::messages::fetch::ForgottenTopic;
use net_wire::{ApiKey, ErrorCode};

use crate::batches::{batch, large, read};
use crate::calls::{Fetch, Fetched, Topic, produce};
use crate::client::Client;
use crate::node::{config, config_with, on_node};

/// The first version with sessions.
const SESSIONS_FROM: i16 = 7;
/// The first version that names topics by id.
const BY_ID: i16 = 13;

fn versions() -> core::ops::RangeInclusive<i16> {
    SESSIONS_FROM..=ApiKey::Fetch.versions().max
}

/// A node whose shards may keep so many sessions.
fn keeping(fetch_sessions: usize) -> Config {
    Config { limits: Limits { fetch_sessions, ..Limits::default() }, ..config(1) }
}

/// Begins a session of these partitions; its id.
async fn begin(client: &mut Client, version: i16, topic: &Topic, from: &[(i32, i64)]) -> i32 {
    let fetched = Fetch::new(topic, from).version(version).session(0, 0).call(client).await;
    assert_eq!((fetched.error, fetched.partitions.len()), (ErrorCode::NONE, from.len()), "v{version}");
    assert!(fetched.session_id >= 0);
    fetched.session_id
}

/// Goes on in a session, with these changes.
async fn go_on(
    client: &mut Client,
    version: i16,
    topic: &Topic,
    (id, epoch): (i32, i32),
    changes: &[(i32, i64)],
) -> Fetched {
    Fetch::new(topic, changes).version(version).session(id, epoch).call(client).await
}

/// Which partitions were told, and how many records of each.
fn told(fetched: &Fetched) -> Vec<(i32, usize)> {
    assert_eq!(fetched.error, ErrorCode::NONE);
    fetched.partitions.iter().map(|partition| (partition.index, read(&partition.records).len())).collect()
}

#[test]
fn in_a_session_the_client_names_changes_and_is_told_news() {
    on_node(1, config(1), async |node| {
        let topic = node.topic("t", 3).await;
        let mut client = node.connect(0).await;
        for version in versions() {
            let starts: Vec<i64> = ends(&mut client, &topic).await;
            let from: Vec<(i32, i64)> = (0..).zip(starts.iter().copied()).collect();
            let id = begin(&mut client, version, &topic, &from).await;
            assert!(id > 0, "v{version}");
            // Nothing is new.
            let idle = go_on(&mut client, version, &topic, (id, 1), &[]).await;
            assert_eq!((told(&idle), idle.session_id), (vec![], id), "v{version}");
            // One partition has a record, and until the client moves on in it, it has it again.
            produce(&mut client, &topic, 1, &batch(&["a"])).await;
            for epoch in [2, 3] {
                let news = go_on(&mut client, version, &topic, (id, epoch), &[]).await;
                assert_eq!(told(&news), [(1, 1)], "v{version}");
                assert_eq!(news.partitions[0].high_watermark, starts[1] + 1);
            }
            let moved = go_on(&mut client, version, &topic, (id, 4), &[(1, starts[1] + 1)]).await;
            assert_eq!(told(&moved), [], "v{version}");
            // Somebody else reads on in between; what is forgotten is not told any more.
            let request = Fetch::new(&topic, &[]).version(version).session(id, 5);
            let (name, topic_id) = topic.at(version, BY_ID);
            let forgotten = ForgottenTopic { topic: name, topic_id, partitions: vec![1, 7] };
            let mut with_forgotten = request.request();
            with_forgotten.forgotten_topics_data = vec![forgotten];
            let answer = client.ask(version, &with_forgotten).await;
            assert_eq!(told(&request.outcome(&answer)), []);
            produce(&mut client, &topic, 1, &batch(&["b"])).await;
            produce(&mut client, &topic, 2, &batch(&["c"])).await;
            let news = go_on(&mut client, version, &topic, (id, 6), &[]).await;
            assert_eq!(told(&news), [(2, 1)], "v{version}");
            // Closed: the last answer is a whole one.
            let last = go_on(&mut client, version, &topic, (id, -1), &[(2, starts[2])]).await;
            assert_eq!((told(&last), last.session_id), (vec![(2, 1)], 0));
            let gone = go_on(&mut client, version, &topic, (id, 7), &[]).await;
            assert_eq!(gone.error, ErrorCode::FETCH_SESSION_ID_NOT_FOUND);
        }
        assert_eq!(node.snapshot(0).await.fetch_sessions, 0, "all were closed");
    });
}

/// Where each partition ends.
async fn ends(client: &mut Client, topic: &Topic) -> Vec<i64> {
    let mut found = Vec::new();
    for partition in 0..i32::try_from(topic.leaders.len()).unwrap() {
        found.push(Fetch::at(topic, partition, 0).call(client).await.only().high_watermark);
    }
    found
}

#[test]
fn a_session_waits_for_any_of_its_partitions_and_tells_a_log_start_that_moved() {
    let settings = [("log.retention.check.interval.ms", "60000")];
    on_node(2, config_with(1, &settings), async |node| {
        let kept = [("retention.bytes", "1000000"), ("segment.bytes", "1048576")];
        let topic = node.topic_with("t", 2, &kept).await;
        let mut client = node.connect(0).await;
        let mut writer = node.connect(0).await;
        for _ in 0..8 {
            produce(&mut writer, &topic, 0, &large(500_000)).await;
        }
        let id = begin(&mut client, 17, &topic, &[(0, 8), (1, 0)]).await;
        // An answer behind the request: it waited.
        let waiting = Fetch::new(&topic, &[]).session(id, 1).waiting(30_000, 1);
        client.send(17, &waiting.request()).await;
        produce(&mut writer, &topic, 1, &batch(&["a"])).await;
        let news = waiting.outcome(&client.answer(17).await);
        assert_eq!(told(&news), [(1, 1)]);
        go_on(&mut client, 17, &topic, (id, 2), &[(1, 1)]).await;
        node.pause(Duration::from_secs(61)).await;
        let news = go_on(&mut client, 17, &topic, (id, 3), &[]).await;
        assert_eq!(told(&news), [(0, 0)]);
        assert!(news.partitions[0].log_start > 0);
        assert_eq!(told(&go_on(&mut client, 17, &topic, (id, 4), &[]).await), []);
    });
}

#[test]
fn an_error_is_told_each_time_and_its_end_once() {
    on_node(3, config(1), async |node| {
        let topic = node.topic("t", 2).await;
        let mut client = node.connect(0).await;
        let id = begin(&mut client, 17, &topic, &[(0, 0), (1, 5)]).await;
        for epoch in [1, 2] {
            let fetched = go_on(&mut client, 17, &topic, (id, epoch), &[]).await;
            let errors: Vec<_> = fetched.partitions.iter().map(|told| (told.index, told.error)).collect();
            assert_eq!(errors, [(1, ErrorCode::OFFSET_OUT_OF_RANGE)]);
        }
        let mended = go_on(&mut client, 17, &topic, (id, 3), &[(1, 0)]).await;
        assert_eq!(told(&mended), [(1, 0)]);
        assert_eq!(told(&go_on(&mut client, 17, &topic, (id, 4), &[]).await), []);
        assert_eq!(node.delete(&topic).await, ErrorCode::NONE);
        let gone = go_on(&mut client, 17, &topic, (id, 5), &[]).await;
        let errors: Vec<_> = gone.partitions.iter().map(|told| told.error).collect();
        assert_eq!(errors, [ErrorCode::UNKNOWN_TOPIC_ID; 2]);
    });
}

#[test]
fn under_a_limit_of_bytes_what_had_records_goes_behind_the_others() {
    on_node(4, config(1), async |node| {
        let topic = node.topic("t", 3).await;
        let mut client = node.connect(0).await;
        for partition in 0..3 {
            for _ in 0..4 {
                produce(&mut client, &topic, partition, &large(10_000)).await;
            }
        }
        // Each fetch has room for one batch, and the client never moves on.
        let limited = |session: (i32, i32), from: &[(i32, i64)]| {
            let mut fetch = Fetch::new(&topic, from).session(session.0, session.1);
            fetch.request.max_bytes = 1;
            fetch
        };
        let first = limited((0, 0), &[(0, 0), (1, 0), (2, 0)]).call(&mut client).await;
        let had = |fetched: &Fetched| told(fetched).iter().position(|(_, records)| *records > 0);
        assert_eq!(had(&first), Some(0));
        let mut order = Vec::new();
        for epoch in 1..=5 {
            let fetched = limited((first.session_id, epoch), &[]).call(&mut client).await;
            let [(partition, 1)] = told(&fetched)[..] else { panic!("one batch fits: {:?}", told(&fetched)) };
            order.push(partition);
        }
        assert_eq!(order, [1, 2, 0, 1, 2]);
    });
}

#[test]
fn requests_that_do_not_belong_to_the_session_are_refused_and_it_stays() {
    on_node(5, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        for version in versions() {
            for (id, epoch) in [(7, 1), (7, i32::MAX), (-7, 1), (0, 1), (0, -2)] {
                let fetched = go_on(&mut client, version, &topic, (id, epoch), &[(0, 0)]).await;
                assert_eq!(
                    fetched.error,
                    ErrorCode::FETCH_SESSION_ID_NOT_FOUND,
                    "({id}, {epoch}) v{version}"
                );
                assert_eq!((fetched.session_id, fetched.partitions), (0, vec![]));
            }
            let id = begin(&mut client, version, &topic, &[(0, 0)]).await;
            for epoch in [2, i32::MAX, -2] {
                let fetched = go_on(&mut client, version, &topic, (id, epoch), &[]).await;
                assert_eq!(fetched.error, ErrorCode::INVALID_FETCH_SESSION_EPOCH, "{epoch} in v{version}");
            }
            let other = if version < BY_ID { BY_ID } else { BY_ID - 1 };
            let fetched = go_on(&mut client, other, &topic, (id, 1), &[]).await;
            assert_eq!(fetched.error, ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR, "v{version} and v{other}");
            assert_eq!(told(&go_on(&mut client, version, &topic, (id, 1), &[]).await), []);
            // A new one in its place ends it.
            let fetch = Fetch::at(&topic, 0, 0).version(version).session(id, 0);
            let fetched = fetch.call(&mut client).await;
            assert!(fetched.session_id > 0 && fetched.session_id != id);
            let gone = go_on(&mut client, version, &topic, (id, 2), &[]).await;
            assert_eq!(gone.error, ErrorCode::FETCH_SESSION_ID_NOT_FOUND);
            go_on(&mut client, version, &topic, (fetched.session_id, -1), &[]).await;
        }
    });
}

#[test]
fn a_request_overtaken_by_the_next_one_of_its_session_says_so() {
    on_node(6, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        let id = begin(&mut client, 17, &topic, &[(0, 0)]).await;
        let waiting = Fetch::new(&topic, &[]).session(id, 1).waiting(30_000, 1);
        client.send(17, &waiting.request()).await;
        // Of two connections the later one may be the faster.
        node.pause(Duration::from_secs(1)).await;
        let mut other = node.connect(0).await;
        assert_eq!(told(&go_on(&mut other, 17, &topic, (id, 2), &[]).await), []);
        produce(&mut other, &topic, 0, &batch(&["a"])).await;
        let overtaken = waiting.outcome(&client.answer(17).await);
        assert_eq!(overtaken.error, ErrorCode::INVALID_FETCH_SESSION_EPOCH);
        assert_eq!(told(&go_on(&mut other, 17, &topic, (id, 3), &[]).await), [(0, 1)]);
    });
}

#[test]
fn a_session_outlives_its_connection_and_one_without_partitions_is_none() {
    on_node(7, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let id = begin(&mut node.connect(0).await, 17, &topic, &[(0, 0)]).await;
        let mut client = node.connect(0).await;
        assert_eq!(told(&go_on(&mut client, 17, &topic, (id, 1), &[]).await), []);
        let request = Fetch::new(&topic, &[]).session(id, 2);
        let mut forgetting = request.request();
        let forgotten = ForgottenTopic { topic: "", topic_id: topic.id, partitions: vec![0] };
        forgetting.forgotten_topics_data = vec![forgotten];
        let answer = client.ask(17, &forgetting).await;
        let fetched = request.outcome(&answer);
        assert_eq!((told(&fetched), fetched.session_id), (vec![], 0));
        assert_eq!(node.snapshot(0).await.fetch_sessions, 0);
        assert_eq!(begin(&mut client, 17, &topic, &[]).await, 0, "there is nothing to keep");
    });
}

#[test]
fn without_room_a_client_is_told_that_it_has_none_until_one_was_silent_for_long() {
    on_node(8, keeping(2), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        let first = begin(&mut client, 17, &topic, &[(0, 0)]).await;
        node.pause(Duration::from_secs(60)).await;
        let second = begin(&mut client, 17, &topic, &[(0, 0)]).await;
        assert!(first > 0 && second > 0);
        assert_eq!(begin(&mut client, 17, &topic, &[(0, 0)]).await, 0);
        node.pause(Duration::from_secs(61)).await;
        let third = begin(&mut client, 17, &topic, &[(0, 0)]).await;
        assert!(third > 0, "the first was silent for two minutes");
        let gone = go_on(&mut client, 17, &topic, (first, 1), &[]).await;
        assert_eq!(gone.error, ErrorCode::FETCH_SESSION_ID_NOT_FOUND);
        for id in [second, third] {
            assert_eq!(told(&go_on(&mut client, 17, &topic, (id, 1), &[]).await), []);
        }
    });
}

#[test]
fn a_broker_may_have_no_sessions_at_all() {
    on_node(9, keeping(0), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        for version in versions() {
            assert_eq!(begin(&mut client, version, &topic, &[(0, 0)]).await, 0);
        }
    });
}
