//! One file an API: from the decoded request to the answer.

pub(crate) mod alter_configs;
pub(crate) mod api_versions;
pub(crate) mod config_resource;
pub(crate) mod create_partitions;
pub(crate) mod create_topics;
pub(crate) mod delete_records;
pub(crate) mod delete_topics;
pub(crate) mod describe_cluster;
pub(crate) mod describe_configs;
pub(crate) mod describe_log_dirs;
pub(crate) mod describe_topic_partitions;
pub(crate) mod fetch;
pub(crate) mod init_producer_id;
pub(crate) mod list_config_resources;
pub(crate) mod list_offsets;
pub(crate) mod metadata;
pub(crate) mod offset_for_leader_epoch;
mod orders;
pub(crate) mod produce;
