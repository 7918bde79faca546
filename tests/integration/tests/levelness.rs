//! Every shard leads its share of a topic, and no file moves when the number of shards changes.

use std::time::Duration;

use integration::clock::unix_ms;
use integration::rdkafka_load::{Load, assert_holds};
use integration::{Broker, Content, Options, Shape, topics};

const WAIT: Duration = Duration::from_secs(60);
const RECORDS: u64 = 200;
const TOPICS: [(&str, i32); 4] = [("eight", 8), ("twelve", 12), ("seven", 7), ("five", 5)];

#[test]
fn topics_are_level_over_the_shards_however_many_there_are() {
    let mut broker = Broker::start_with(&Options::new("levelness").with_port_per_shard());
    let content = Content { shape: Shape::Binary, first_timestamp_ms: unix_ms() - 3_600_000 };
    for (topic, partitions) in TOPICS {
        topics::create(broker.address(0), topic, partitions);
        fill(&broker, topic, partitions, content);
    }
    check_topics(&broker, content);
    check_total(&broker);
    broker.stop();
    broker.start_again_on("0");
    check_topics(&broker, content);
    broker.kill();
    broker.start_again_on("0,0,0");
    check_topics(&broker, content);
    broker.stop();
    broker.start_again_on("0,1");
    check_topics(&broker, content);
    check_total(&broker);
    broker.stop();
}

fn fill(broker: &Broker, topic: &str, partitions: i32, content: Content) {
    let load = Load::new(&broker.bootstrap(), topic, content, &[]);
    for sequence in 0..RECORDS {
        (0..partitions).for_each(|partition| load.send(partition, sequence));
    }
    let _ = load.finish(WAIT);
}

/// Each topic by itself is level and whole.
fn check_topics(broker: &Broker, content: Content) {
    for (topic, partitions) in TOPICS {
        let leaders = topics::describe(broker.address(0), topic).leaders;
        assert_eq!(i32::try_from(leaders.len()), Ok(partitions), "partitions of {topic}");
        assert_level(broker, &leaders, topic);
        let counts: Vec<u64> = leaders.iter().map(|_| RECORDS).collect();
        assert_holds(&broker.bootstrap(), topic, content, &counts, WAIT);
    }
}

/// All topics together are level: the odd partition of one goes where the odd one of another didn't.
fn check_total(broker: &Broker) {
    let leaders = TOPICS.map(|(topic, _)| topics::describe(broker.address(0), topic).leaders);
    assert_level(broker, &leaders.concat(), "all topics");
}

fn assert_level(broker: &Broker, leaders: &[i32], what: &str) {
    let counts = topics::leaders_by_broker(leaders);
    let shards = broker.ready().endpoints.iter().map(|endpoint| endpoint.broker_id);
    let of_shards: Vec<usize> = shards.map(|id| counts.get(&id).copied().unwrap_or(0)).collect();
    assert_eq!(of_shards.iter().sum::<usize>(), leaders.len(), "{what}: a leader is no shard: {counts:?}");
    let (most, least) = (of_shards.iter().max(), of_shards.iter().min());
    let difference = most.zip(least).map(|(most, least)| most - least);
    assert!(difference.is_some_and(|difference| difference <= 1), "{what} isn't level: {counts:?}");
}
