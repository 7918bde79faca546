//! `ringlog topic describe`.

use engine_io::Io;
use engine_record::PartitionIndex;
use net_client::metadata::Partition;
use net_client::{Admin, AdminError, BrokerId, Client, ClientError, ErrorCode, LogSize, Start};
use serde_json::{Map, Value, json};

use super::{Common, table};
use crate::client::{self, MissingTopics, failed_admin};
use crate::failure::Failure;
use crate::output::{Counted, print};

/// A topic, ready to be shown.
struct Described {
    id: String,
    /// The settings it has of its own, by name; `None` where the broker doesn't tell.
    own: Option<Vec<(String, String)>>,
    partitions: Vec<DescribedPartition>,
}

struct DescribedPartition {
    leader: Option<Leader>,
    replicas: Vec<i32>,
    in_sync_replicas: Vec<i32>,
}

/// A partition that is led has offsets to be asked for.
struct Leader {
    broker: i32,
    endpoint: Option<String>,
    epoch: i32,
    offsets: Result<Offsets, String>,
    /// What its log takes; `None` where it doesn't tell.
    log: Option<LogSize>,
}

/// What can be read, or why it can't be told.
#[derive(Clone, Copy)]
struct Offsets {
    /// The first.
    earliest: i64,
    /// The one after the last.
    latest: i64,
}

pub(super) fn run(name: &str, common: &Common) -> Result<(), Failure> {
    let owned = name.to_owned();
    let described = client::run(&common.cluster, MissingTopics::AreErrors, async move |client| {
        describe(&client, &owned).await.map_err(|error| failed_admin(&error))
    })?;
    print(if common.json { described.json(name).to_string() } else { described.text(name) })
}

async fn describe<I: Io>(client: &Client<I>, name: &str) -> Result<Described, AdminError> {
    let admin = Admin::new(client.clone());
    let topic = admin.describe_topic(name).await?;
    let own = own_settings(&admin, name).await?;
    let indexed = (0..).map(PartitionIndex).zip(&topic.partitions);
    let led: Vec<_> =
        indexed.filter(|(_, partition)| partition.leader.is_some()).map(|(index, _)| index).collect();
    let mut offsets = offsets(client, name, &led).await?.into_iter();
    let indexed = (0..).map(PartitionIndex).zip(&topic.partitions);
    let leaders: Vec<_> =
        indexed.clone().filter_map(|(index, partition)| Some((index, partition.leader?))).collect();
    let logs = admin.log_sizes(name, &leaders).await;
    let partitions = indexed.map(|(index, partition)| {
        let offsets = partition.leader.and_then(|broker| Some((broker, offsets.next()?)));
        let ids = |brokers: &[BrokerId]| brokers.iter().map(|broker| broker.0).collect();
        DescribedPartition {
            leader: offsets.map(|(broker, offsets)| Leader {
                log: logs.get(&index).copied(),
                ..leader(client, broker, partition, offsets)
            }),
            replicas: ids(&partition.replicas),
            in_sync_replicas: ids(&partition.in_sync_replicas),
        }
    });
    Ok(Described { id: topic.id.to_string(), own, partitions: partitions.collect() })
}

/// Brokers that don't know the question hide nothing else.
async fn own_settings<I: Io>(
    admin: &Admin<I>,
    name: &str,
) -> Result<Option<Vec<(String, String)>>, AdminError> {
    let settings = match admin.topic_settings(name).await {
        Err(AdminError::Client(ClientError::Version(_))) => return Ok(None),
        settings => settings?,
    };
    let own = settings.into_iter().filter(|setting| setting.is_own);
    Ok(Some(own.map(|own| (own.name.into(), own.value.unwrap_or_default().into())).collect()))
}

fn leader<I: Io>(
    client: &Client<I>,
    broker: BrokerId,
    partition: &Partition,
    offsets: Result<Offsets, ErrorCode>,
) -> Leader {
    let endpoint = client.with_metadata(|metadata| metadata.endpoint(broker).map(ToString::to_string));
    let offsets = offsets.map_err(|code| code.to_string());
    Leader { broker: broker.0, endpoint, epoch: partition.leader_epoch, offsets, log: None }
}

/// What can be read of these partitions. One that can't be used doesn't hide the others.
async fn offsets<I: Io>(
    client: &Client<I>,
    topic: &str,
    partitions: &[PartitionIndex],
) -> Result<Vec<Result<Offsets, ErrorCode>>, AdminError> {
    let admin = Admin::new(client.clone());
    let earliest = admin.offsets(topic, partitions, Start::Earliest).await?;
    let latest = admin.offsets(topic, partitions, Start::Latest).await?;
    let both = earliest
        .into_iter()
        .zip(latest)
        .map(|(earliest, latest)| Ok(Offsets { earliest: earliest?.value(), latest: latest?.value() }));
    Ok(both.collect())
}

impl Described {
    fn json(&self, name: &str) -> Value {
        let partitions: Vec<_> =
            (0_usize..).zip(&self.partitions).map(|(index, partition)| partition.json(index)).collect();
        let own = self.own.as_ref().map(|own| {
            let pairs = own.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str())));
            pairs.collect::<Map<_, _>>()
        });
        json!({ "name": name, "id": self.id, "configs": own, "partitions": partitions })
    }

    fn text(&self, name: &str) -> String {
        let rows = (0_usize..).zip(&self.partitions).map(|(index, partition)| partition.row(index));
        let head = [
            "PARTITION",
            "LEADER",
            "ENDPOINT",
            "SHARD",
            "EPOCH",
            "IN SYNC",
            "EARLIEST",
            "LATEST",
            "BYTES",
            "SEGMENTS",
        ];
        let (count, id) = (Counted(self.partitions.len(), "partition"), &self.id);
        format!("topic {name}, id {id}, {count}\n{}{}", self.own_text(), table(head, rows.collect()))
    }

    fn own_text(&self) -> String {
        match self.own.as_deref() {
            None => String::new(),
            Some([]) => "settings: all as the broker has them\n".to_owned(),
            Some(own) => {
                let own: Vec<_> = own.iter().map(|(name, value)| format!("{name}={value}")).collect();
                format!("settings of its own: {}\n", own.join(", "))
            }
        }
    }
}

impl DescribedPartition {
    fn json(&self, index: usize) -> Value {
        let leader = self.leader.as_ref();
        let offsets = leader.and_then(|leader| leader.offsets.as_ref().ok());
        let log = leader.and_then(|leader| leader.log);
        json!({
            "partition": index,
            "leader": leader.map(|leader| leader.broker),
            "endpoint": leader.and_then(|leader| leader.endpoint.as_deref()),
            "shard": log.and_then(|log| log.shard),
            "leader_epoch": leader.map(|leader| leader.epoch),
            "replicas": self.replicas,
            "in_sync_replicas": self.in_sync_replicas,
            "earliest_offset": offsets.map(|offsets| offsets.earliest),
            "latest_offset": offsets.map(|offsets| offsets.latest),
            "log_bytes": log.map(|log| log.bytes),
            "segment_count": log.and_then(|log| log.segments),
            "error": leader.and_then(|leader| leader.offsets.as_ref().err()),
        })
    }

    fn row(&self, index: usize) -> [String; 10] {
        let in_sync = format!("{} of {}", self.in_sync_replicas.len(), self.replicas.len());
        let dash = || "-".to_owned();
        let Some(leader) = &self.leader else {
            let mut row = [(); 10].map(|()| dash());
            (row[0], row[1], row[5]) = (index.to_string(), "NONE".to_owned(), in_sync);
            return row;
        };
        let (earliest, latest) = match &leader.offsets {
            Ok(offsets) => (offsets.earliest.to_string(), offsets.latest.to_string()),
            Err(error) => (dash(), error.clone()),
        };
        [
            index.to_string(),
            leader.broker.to_string(),
            leader.endpoint.clone().unwrap_or_else(dash),
            leader.log.and_then(|log| log.shard).map_or_else(dash, |shard| shard.to_string()),
            leader.epoch.to_string(),
            in_sync,
            earliest,
            latest,
            leader.log.map_or_else(dash, |log| log.bytes.to_string()),
            leader.log.and_then(|log| log.segments).map_or_else(dash, |count| count.to_string()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn led(offsets: Result<Offsets, String>) -> DescribedPartition {
        let endpoint = Some("127.0.0.1:9093".to_owned());
        let log = offsets.is_ok().then_some(LogSize { bytes: 4_096, segments: Some(3), shard: Some(1) });
        let leader = Some(Leader { broker: 1_001, endpoint, epoch: 3, offsets, log });
        DescribedPartition { leader, replicas: vec![1_001], in_sync_replicas: vec![1_001] }
    }

    fn described() -> Described {
        let whole = led(Ok(Offsets { earliest: 5, latest: 42 }));
        let offline = led(Err("KAFKA_STORAGE_ERROR (56)".to_owned()));
        let orphan = DescribedPartition { leader: None, replicas: vec![2_000], in_sync_replicas: Vec::new() };
        let own = Some(vec![("a".to_owned(), "1".to_owned()), ("b".to_owned(), String::new())]);
        Described { id: "id".to_owned(), own, partitions: vec![whole, offline, orphan] }
    }

    #[test]
    fn partitions_stand_in_a_table_with_or_without_a_leader_or_offsets() {
        assert_eq!(
            described().text("t"),
            "topic t, id id, 3 partitions\n\
             settings of its own: a=1, b=\n\
             PARTITION  LEADER  ENDPOINT        SHARD  EPOCH  IN SYNC  EARLIEST  LATEST                    BYTES  SEGMENTS\n\
             0          1001    127.0.0.1:9093  1      3      1 of 1   5         42                        4096   3\n\
             1          1001    127.0.0.1:9093  -      3      1 of 1   -         KAFKA_STORAGE_ERROR (56)  -      -\n\
             2          NONE    -               -      -      0 of 1   -         -                         -      -"
        );
    }

    #[test]
    fn one_partition_is_no_plural() {
        let partitions = vec![led(Ok(Offsets { earliest: 0, latest: 1 }))];
        let text = Described { id: "id".to_owned(), own: None, partitions }.text("t");
        assert!(text.starts_with("topic t, id id, 1 partition\nPARTITION"), "{text}");
    }

    #[test]
    fn a_topic_without_settings_of_its_own_says_whose_it_has() {
        let text = Described { own: Some(Vec::new()), ..described() }.text("t");
        assert!(text.contains("settings: all as the broker has them\n"), "{text}");
    }

    #[test]
    fn programs_get_numbers_and_nulls() {
        let json = described().json("t");
        assert_eq!(json["configs"], json!({ "a": "1", "b": "" }));
        assert_eq!(json["partitions"][0]["shard"], 1);
        assert_eq!(json["partitions"][0]["latest_offset"], 42);
        let log =
            |partition: usize| ["log_bytes", "segment_count"].map(|key| &json["partitions"][partition][key]);
        assert_eq!(log(0), [&json!(4_096), &json!(3)]);
        assert_eq!(log(1), [&Value::Null, &Value::Null]);
        assert_eq!(json["partitions"][1]["error"], "KAFKA_STORAGE_ERROR (56)");
        assert_eq!(json["partitions"][2]["leader"], Value::Null);
    }

    #[test]
    fn brokers_of_other_projects_count_no_segments_and_have_no_shards() {
        let mut partition = led(Ok(Offsets { earliest: 0, latest: 1 }));
        partition.leader.as_mut().unwrap().log = Some(LogSize { bytes: 7, segments: None, shard: None });
        assert_eq!(partition.row(0)[8..], ["7", "-"]);
        assert_eq!((&*partition.row(0)[3], &partition.json(0)["shard"]), ("-", &Value::Null));
        assert_eq!(
            (&partition.json(0)["log_bytes"], &partition.json(0)["segment_count"]),
            (&json!(7), &Value::Null)
        );
    }
}
