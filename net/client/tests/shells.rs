//! The client's shells on the simulated seam, against a tiny cluster.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

#[expect(dead_code, reason = "the load generator's tests use more of it")]
mod broker;

use core::time::Duration;
use std::net::SocketAddr;

use broker::Cluster;
use engine_io::{Io, ListenMode, Listener, SendPiece, Stream, StreamReader, StreamWriter};
use engine_record::{Compression, Offset, PartitionIndex};
use net_client::admin::AdminError;
use net_client::connection::ConnectError;
use net_client::producer_core::NotTaken;
use net_client::{
    Acks, Admin, BatchWriter, BrokerId, Client, ClientSettings, Connection, ConnectionSettings, Consumer,
    ConsumerSettings, CreateMode, Endpoint, LogSize, NewTopic, OtherProtocol, Producer, ProducerRecord,
    ProducerSettings, SendError, SettingChange, Start,
};
use net_wire::ErrorCode;
use sim::{Sim, SimIo, SimNode};

const P0: PartitionIndex = PartitionIndex(0);

/// Two brokers, 1 and 2, and a machine for the client.
struct Setting {
    sim: Sim,
    cluster: Cluster,
    nodes: [SimNode; 2],
    io: SimIo,
}

impl Setting {
    fn new(seed: u64) -> Self {
        let sim = Sim::new(seed);
        let nodes = [sim.node(), sim.node()];
        let io = sim.node().io();
        let cluster = Cluster::default();
        cluster.start(1, &nodes[0]);
        cluster.start(2, &nodes[1]);
        Self { sim, cluster, nodes, io }
    }

    fn client(&self) -> Client<SimIo> {
        let endpoint = Endpoint { host: self.nodes[0].address().to_string().into(), port: 9_092 };
        Client::new(
            self.io.clone(),
            ClientSettings { bootstrap: vec![endpoint], ..ClientSettings::default() },
        )
    }

    fn producer(&self, settings: ProducerSettings) -> Producer<SimIo> {
        Producer::new(self.client(), settings).unwrap()
    }

    fn consumer(&self) -> Consumer<SimIo> {
        Consumer::new(self.client(), ConsumerSettings::default())
    }
}

fn numbers(count: u32) -> Vec<Vec<u8>> {
    (0..count).map(|number| number.to_be_bytes().to_vec()).collect()
}

/// Reads so many values.
async fn read(consumer: &Consumer<SimIo>, count: usize) -> Vec<Vec<u8>> {
    let mut values = Vec::new();
    while values.len() < count {
        let records = consumer.poll(Duration::from_secs(60)).await.unwrap().expect("records come");
        values.extend(records.records().map(|record| record.unwrap().value.unwrap().to_vec()));
    }
    values
}

#[test]
fn what_is_sent_is_delivered_in_order_and_read_back() {
    let setting = Setting::new(1);
    setting.cluster.create("t", &[1, 2]);
    setting.sim.block_on(async {
        let producer = setting.producer(ProducerSettings::default());
        let mut handles = Vec::new();
        for value in numbers(200) {
            let record = ProducerRecord::new("t", &value).with_partition(P0);
            handles.push(producer.send(&record).await.unwrap());
        }
        for (handle, offset) in handles.into_iter().zip(0..) {
            let delivered = handle.await.unwrap();
            assert_eq!((delivered.partition, delivered.offset), (P0, Offset::new(offset)));
        }
        let consumer = setting.consumer();
        consumer.assign("t", P0, Start::Earliest);
        assert_eq!(read(&consumer, 200).await, numbers(200));
        assert_eq!(consumer.position("t", P0), Ok(Offset::new(200)));
        producer.close(Duration::from_secs(1)).await;
        consumer.close();
    });
    assert_eq!(setting.cluster.values("t", 0), numbers(200));
}

#[test]
fn broken_connections_and_moving_leaders_lose_and_repeat_nothing() {
    for seed in 0..20 {
        let setting = Setting::new(seed);
        setting.cluster.create("t", &[1]);
        setting.sim.block_on(async {
            let mut settings = ProducerSettings::default();
            settings.batches.linger = Duration::ZERO;
            settings.batches.batch_bytes = 200;
            let producer = setting.producer(settings);
            let consumer = setting.consumer();
            consumer.assign("t", P0, Start::Earliest);
            let mut handles = Vec::new();
            for (value, number) in numbers(300).into_iter().zip(0_usize..) {
                let record = ProducerRecord::new("t", &value).with_partition(P0);
                handles.push(producer.send(&record).await.unwrap());
                if number % 20 == 7 {
                    setting.sim.network().reset_connections(&setting.nodes[number / 20 % 2]);
                }
                if number % 50 == 30 {
                    setting.cluster.move_leader("t", 0, if number % 100 == 30 { 2 } else { 1 });
                }
                if number % 3 == 0 {
                    setting.io.sleep(Duration::from_micros(300)).await;
                }
            }
            for handle in handles {
                handle.await.unwrap();
            }
            assert_eq!(read(&consumer, 300).await, numbers(300), "seed {seed}");
        });
        assert_eq!(setting.cluster.values("t", 0), numbers(300), "seed {seed}");
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| {
        let setting = Setting::new(seed);
        setting.cluster.create("t", &[1, 2, 1]);
        setting.sim.block_on(async {
            let producer = setting.producer(ProducerSettings::default());
            for value in numbers(50) {
                drop(producer.send(&ProducerRecord::new("t", &value)).await.unwrap());
            }
            producer.close(Duration::from_secs(5)).await;
        });
        setting.sim.trace_hash()
    };
    assert_eq!(run(5), run(5));
}

#[test]
fn every_level_of_acks_and_a_batch_written_elsewhere_arrive() {
    let setting = Setting::new(3);
    setting.cluster.create("t", &[2]);
    setting.sim.block_on(async {
        for acks in [Acks::None, Acks::Leader, Acks::All] {
            let settings =
                ProducerSettings { acks, is_idempotent: acks == Acks::All, ..ProducerSettings::default() };
            let producer = setting.producer(settings);
            assert_eq!(producer.partition_count("t").await, Ok(1));
            let mut writer = BatchWriter::new(producer.buffer());
            for value in numbers(3) {
                let fill = |room: &mut [u8]| room.copy_from_slice(&value);
                writer.push_with(setting.io.timestamp(), None, value.len(), fill).unwrap();
            }
            let batch = writer.seal(Compression::None).unwrap();
            let delivery = producer.send_batch("t", P0, batch).await.unwrap().await;
            let offset = delivery.result.unwrap().base_offset;
            assert_eq!(offset.is_some(), acks != Acks::None);
            producer.close(Duration::from_secs(1)).await;
        }
    });
    setting.sim.run_for(Duration::from_secs(1));
    assert_eq!(setting.cluster.values("t", 0), [numbers(3), numbers(3), numbers(3)].concat());
}

#[test]
fn a_poll_without_records_ends_in_time_and_a_new_record_ends_it_at_once() {
    let setting = Setting::new(4);
    setting.cluster.create("t", &[1]);
    setting.sim.block_on(async {
        let consumer = setting.consumer();
        consumer.assign("t", P0, Start::Latest);
        let before = setting.io.now();
        assert!(consumer.poll(Duration::from_secs(2)).await.unwrap().is_none());
        assert!(setting.io.now().since(before) >= Duration::from_secs(2));
        let requests = setting.cluster.request_count();
        assert!(requests < 20, "{requests} requests for two seconds of nothing");
        let producer = setting.producer(ProducerSettings::default());
        drop(producer.send(&ProducerRecord::new("t", b"new")).await.unwrap());
        assert_eq!(read(&consumer, 1).await, [b"new".to_vec()]);
    });
}

#[test]
fn an_old_brokers_list_of_versions_is_understood() {
    let setting = Setting::new(5);
    setting.cluster.create("t", &[1]);
    setting.cluster.speaks_only_version_zero_of_api_versions();
    setting.sim.block_on(async {
        let producer = setting.producer(ProducerSettings::default());
        producer.send(&ProducerRecord::new("t", b"v")).await.unwrap().await.unwrap();
    });
}

#[test]
fn who_speaks_something_else_at_a_brokers_port_is_named() {
    let sim = Sim::new(12);
    let speaker = sim.node();
    let (there, address) = (speaker.io(), speaker.address());
    let begun: [&[u8]; 3] =
        [b"\x15\x03\x01\x00\x02\x02\x46", b"HTTP/1.1 400 Bad Request\r\n", b"SSH-2.0-x\r\n"];
    let _task = speaker.io().spawn(async move {
        let listener = there.listen(SocketAddr::new(address, 9_092), ListenMode::Exclusive).await.unwrap();
        for bytes in begun {
            let (_reader, mut writer) = listener.accept().await.unwrap().split();
            writer.send(vec![SendPiece::Owned(bytes.to_vec())]).await.unwrap();
        }
    });
    let io = sim.node().io();
    for known in [OtherProtocol::Tls, OtherProtocol::Http, OtherProtocol::Ssh] {
        let settings = ConnectionSettings::default();
        let opening = Connection::open(&io, SocketAddr::new(address, 9_092), settings);
        let error = sim.block_on(opening).err().unwrap();
        assert!(matches!(error, ConnectError::Other(other) if other == known), "{error}");
    }
}

#[test]
fn who_answers_brokers_with_nothing_is_greeted_in_other_ways() {
    for (greeting, answer, known) in [
        (0x16, b"\x15\x03\x03\x00\x02\x02\x28".as_slice(), Some(OtherProtocol::Tls)),
        (b'G', b"HTTP/1.0 404 Not Found\r\n", Some(OtherProtocol::Http)),
        (b'?', b"", None),
    ] {
        let sim = Sim::new(13);
        let speaker = sim.node();
        let (there, at) = (speaker.io(), SocketAddr::new(speaker.address(), 9_092));
        let _task = speaker.io().spawn(async move {
            let listener = there.listen(at, ListenMode::Exclusive).await.unwrap();
            loop {
                let (mut reader, mut writer) = listener.accept().await.unwrap().split();
                let (_received, begun) = reader.receive_exactly(Vec::new(), 1).await;
                if begun == [greeting] {
                    writer.send(vec![SendPiece::Owned(answer.to_vec())]).await.unwrap();
                    // What is sent is read before the connection ends.
                    let _ended = reader.receive_exactly(Vec::new(), 1_000).await;
                }
            }
        });
        let io = sim.node().io();
        let asking = OtherProtocol::ask(&io, at, Duration::from_secs(1));
        assert_eq!(sim.block_on(asking), known);
    }
}

#[test]
fn a_topic_that_never_comes_is_given_up_in_time() {
    let setting = Setting::new(6);
    setting.sim.block_on(async {
        let settings =
            ProducerSettings { delivery_timeout: Duration::from_secs(3), ..ProducerSettings::default() };
        let producer = setting.producer(settings);
        let refused = producer.send(&ProducerRecord::new("nowhere", b"v")).await.unwrap_err();
        assert_eq!(refused, SendError::TimedOut(NotTaken::TopicUnknown));
    });
}

#[test]
fn a_full_memory_makes_the_sender_wait_and_loses_nothing() {
    let setting = Setting::new(7);
    setting.cluster.create("t", &[1]);
    setting.sim.block_on(async {
        let mut settings = ProducerSettings { buffer_bytes_max: 4_000, ..ProducerSettings::default() };
        settings.batches.batch_bytes = 1_000;
        settings.batches.linger = Duration::from_secs(3_600);
        settings.delivery_timeout = Duration::from_secs(7_200);
        let producer = setting.producer(settings);
        for _ in 0..100 {
            drop(producer.send(&ProducerRecord::new("t", &[7; 300])).await.unwrap());
        }
        producer.flush().await;
    });
    assert_eq!(setting.cluster.values("t", 0).len(), 100);
}

#[test]
fn closing_gives_up_what_a_silent_broker_keeps() {
    let setting = Setting::new(8);
    setting.cluster.create("t", &[1]);
    setting.sim.block_on(async {
        let producer = setting.producer(ProducerSettings::default());
        producer.send(&ProducerRecord::new("t", b"first")).await.unwrap().await.unwrap();
        setting.nodes[0].crash(sim::CrashMode::KeepAll);
        let handle = producer.send(&ProducerRecord::new("t", b"second")).await.unwrap();
        producer.close(Duration::from_secs(2)).await;
        assert!(handle.await.is_err());
    });
}

#[test]
fn a_topics_settings_are_told_and_changed() {
    let setting = Setting::new(19);
    setting.cluster.create("topic", &[1]);
    setting.sim.block_on(async {
        let admin = Admin::new(setting.client());
        let change = |name: &str, value: Option<&str>| SettingChange {
            name: name.into(),
            value: value.map(Box::from),
        };
        let told = async |topic: &str| {
            let told = admin.topic_settings(topic).await.unwrap();
            told.into_iter().map(|one| (one.name, one.value.unwrap(), one.is_own)).collect::<Vec<_>>()
        };
        let default = ("segment.ms".into(), "1".into(), false);
        assert_eq!(told("topic").await, std::slice::from_ref(&default));
        let changes = [change("retention.ms", Some("5")), change("a", Some("b"))];
        admin.alter_topic("topic", &changes).await.unwrap();
        let own = |name: &str, value: &str| (name.into(), value.into(), true);
        assert_eq!(told("topic").await, [own("a", "b"), own("retention.ms", "5"), default.clone()]);
        admin.alter_topic("topic", &[change("a", None)]).await.unwrap();
        assert_eq!(told("topic").await, [own("retention.ms", "5"), default]);
        let unknown = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
        let refused = admin.alter_topic("none", &changes).await.unwrap_err();
        assert!(matches!(refused, AdminError::Refused(refused) if refused.code == unknown));
        let refused = admin.topic_settings("none").await.unwrap_err();
        assert!(matches!(refused, AdminError::Refused(refused) if refused.code == unknown));
    });
}

#[test]
fn topics_are_created_described_listed_and_deleted() {
    let setting = Setting::new(9);
    setting.sim.block_on(async {
        let admin = Admin::new(setting.client());
        let topic = NewTopic {
            name: "made".into(),
            partitions: Some(3),
            replication_factor: None,
            configs: vec![("retention.ms".into(), "1000".into())],
        };
        admin.create_topic(&topic, CreateMode::ValidateOnly).await.unwrap();
        assert!(admin.list_topics().await.unwrap().is_empty());
        admin.create_topic(&topic, CreateMode::Create).await.unwrap();
        let again = admin.create_topic(&topic, CreateMode::Create).await.unwrap_err();
        assert!(matches!(again, AdminError::Refused(refused) if refused.code == ErrorCode::TOPIC_ALREADY_EXISTS));
        assert_eq!(admin.describe_topic("made").await.unwrap().partitions.len(), 3);
        assert_eq!(admin.offset("made", PartitionIndex(2), Start::Latest).await.unwrap(), Offset::ZERO);
        assert_eq!(admin.offset("made", PartitionIndex(2), Start::Time(5)).await.unwrap(), Offset::ZERO);
        admin.create_partitions("made", 5, CreateMode::ValidateOnly).await.unwrap();
        assert_eq!(admin.describe_topic("made").await.unwrap().partitions.len(), 3);
        admin.create_partitions("made", 5, CreateMode::Create).await.unwrap();
        assert_eq!(admin.describe_topic("made").await.unwrap().partitions.len(), 5);
        for (name, code) in
            [("made", ErrorCode::INVALID_PARTITIONS), ("none", ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)]
        {
            let refused = admin.create_partitions(name, 5, CreateMode::Create).await.unwrap_err();
            assert!(matches!(refused, AdminError::Refused(refused) if refused.code == code));
        }
        let cluster = admin.describe_cluster().await.unwrap();
        assert_eq!((&*cluster.id, cluster.brokers.len()), ("tiny", 2));
        admin.delete_topic("made").await.unwrap();
        let gone = admin.describe_topic("made").await.unwrap_err();
        assert!(matches!(gone, AdminError::Refused(refused) if refused.code == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
        assert!(admin.delete_topic("made").await.is_err());
    });
}

#[test]
fn offsets_of_many_partitions_take_one_question_a_broker() {
    let setting = Setting::new(10);
    let leaders: Vec<i32> = (0..1_000).map(|partition| partition % 2 + 1).collect();
    setting.cluster.create("wide", &leaders);
    setting.cluster.storage_fails("wide", 5, true);
    setting.sim.block_on(async {
        let admin = Admin::new(setting.client());
        let partitions: Vec<_> = (0..1_000).map(PartitionIndex).collect();
        let before = setting.cluster.request_count();
        let found = admin.offsets("wide", &partitions, Start::Time(0)).await.unwrap();
        let requests = setting.cluster.request_count() - before;
        assert!(requests < 30, "{requests} requests for 1,000 partitions, one of which has failed");
        for (partition, found) in found.into_iter().enumerate() {
            let expected =
                if partition == 5 { Err(ErrorCode::KAFKA_STORAGE_ERROR) } else { Ok(Offset::ZERO) };
            assert_eq!(found, expected, "partition {partition}");
        }
        let unknown = admin.offsets("wide", &[PartitionIndex(1_000)], Start::Latest).await.unwrap_err();
        assert!(matches!(unknown, AdminError::UnknownPartition { partition: PartitionIndex(1_000), .. }));
    });
}

#[test]
fn a_partition_whose_storage_fails_is_told_of_and_read_on_once_it_can_be() {
    let setting = Setting::new(11);
    setting.cluster.create("t", &[1]);
    setting.sim.block_on(async {
        let producer = setting.producer(ProducerSettings::default());
        producer.send(&ProducerRecord::new("t", b"v")).await.unwrap().await.unwrap();
        setting.cluster.storage_fails("t", 0, true);
        let consumer = setting.consumer();
        consumer.assign("t", P0, Start::At(Offset::ZERO));
        assert!(consumer.poll(Duration::from_secs(5)).await.unwrap().is_none());
        let stalled = consumer.stalled(Duration::from_secs(4));
        assert_eq!((stalled[0].partition, stalled[0].position), (P0, Some(Offset::ZERO)));
        assert_eq!(stalled[0].code, ErrorCode::KAFKA_STORAGE_ERROR);
        setting.cluster.storage_fails("t", 0, false);
        assert_eq!(read(&consumer, 1).await, [b"v".to_vec()]);
        assert_eq!(consumer.stalled(Duration::ZERO), []);
    });
}

#[test]
fn segments_and_shards_are_told_by_ringlog_and_other_brokers_tell_bytes_all_the_same() {
    let setting = Setting::new(31);
    setting.cluster.create("t", &[1, 2, 1]);
    setting.sim.block_on(async {
        let led = [
            (PartitionIndex(0), BrokerId(1)),
            (PartitionIndex(1), BrokerId(2)),
            (PartitionIndex(2), BrokerId(1)),
        ];
        let client = setting.client();
        client.refresh(None).await.unwrap();
        let sizes = Admin::new(client).log_sizes("t", &led).await;
        let ringlogs = LogSize { bytes: 0, segments: Some(3), shard: Some(2) };
        let others = LogSize { bytes: 0, segments: None, shard: None };
        let expected = [(0, ringlogs), (1, others), (2, ringlogs)];
        assert!(sizes.into_iter().eq(expected.map(|(index, size)| (PartitionIndex(index), size))));
    });
}
