//! Ringlog's own settings, which stand at the top of the configuration file.

/// Where Kafka's settings stand in the file.
pub(super) const KAFKA_TABLE: &str = "kafka";

/// One of Ringlog's own settings, as it is explained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnSetting {
    /// Its name in the file; on the command line it has hyphens.
    pub name: &'static str,
    /// What it may be.
    pub values: &'static str,
    /// What it is unless said, as it would be written or in words.
    pub default: &'static str,
    /// What it means.
    pub documentation: &'static str,
    /// Whether the command line has it as well.
    pub has_flag: bool,
}

/// All of them, in the order in which they are explained.
#[rustfmt::skip]
pub const OWN_SETTINGS: [OwnSetting; 8] = [
    own("node_id", "a number from 0 to 2147482", "1",
        "This node's number in its cluster. Clients see each shard as the broker of number node_id * 1000 + shard."),
    own("data_dir", "a folder", "ringlog-data",
        "Where the data are. The folder is on a file system with direct I/O (ext4, XFS)."),
    own("listen", "HOST:PORT, HOST or :PORT", "127.0.0.1:9092",
        "Where the node listens for clients. Shard i listens on PORT + i; port 0 takes any free port for each shard."),
    own("advertise", "HOST:PORT or HOST", "the address that the client reached",
        "Where clients are told to come to; shard i is told as PORT + i."),
    own("cpus", "a list such as 0,2-5", "one of each core",
        "The CPUs to run on, one shard on each; a CPU named twice runs two."),
    own("routing", "`shard` or `node`", "shard",
        "How clients reach partitions. With `shard` each shard is a broker of its own, with a port of its own; with `node` all are one broker with one port, and what belongs to another shard is passed on."),
    in_file(own("disk_soft_watermark", "a percentage or bytes, such as 5% or 10GiB", "5%, at most 5 GiB",
        "Records are refused while the drive has less than this free; reads and deletions go on.")),
    in_file(own("disk_hard_watermark", "a percentage or bytes, such as 1% or 1GiB", "1%, at most 1 GiB",
        "New topics are refused as well while the drive has less than this free: the rest is kept for the metadata.")),
];

const fn own(
    name: &'static str,
    values: &'static str,
    default: &'static str,
    documentation: &'static str,
) -> OwnSetting {
    OwnSetting { name, values, default, documentation, has_flag: true }
}

/// One that is only in the file.
const fn in_file(setting: OwnSetting) -> OwnSetting {
    OwnSetting { has_flag: false, ..setting }
}

#[cfg(test)]
mod tests {
    use super::super::{ConfigFile, NODE_ID_MAX};
    use super::*;

    #[test]
    fn every_setting_of_the_table_is_one_of_the_file_and_is_read_back() {
        for OwnSetting { name, .. } in OWN_SETTINGS {
            let written = if name == "node_id" { "7" } else { "\"7\"" };
            let file = ConfigFile::parse(&format!("{name} = {written}\n")).unwrap();
            assert_eq!(file.own(name).as_deref(), Some("7"), "{name}");
            assert_eq!(ConfigFile::default().own(name), None);
        }
        let hint = ConfigFile::parse("kafk = 1\n").unwrap_err().to_string();
        assert!(hint.contains("did you mean `kafka`"), "{hint}");
    }

    #[test]
    fn the_range_that_is_told_is_the_one_that_is_checked() {
        let node_id = OWN_SETTINGS.iter().find(|own| own.name == "node_id").unwrap();
        assert!(node_id.values.ends_with(&format!("to {NODE_ID_MAX}")));
    }
}
