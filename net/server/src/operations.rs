//! What a client may do, as a bit set. Source: KIP-430; the numbers are those of `AclOperation`.

const READ: u32 = 3;
const WRITE: u32 = 4;
const CREATE: u32 = 5;
const DELETE: u32 = 6;
const ALTER: u32 = 7;
const DESCRIBE: u32 = 8;
const CLUSTER_ACTION: u32 = 9;
const DESCRIBE_CONFIGS: u32 = 10;
const ALTER_CONFIGS: u32 = 11;
const IDEMPOTENT_WRITE: u32 = 12;

/// Everything that can be allowed on the cluster.
pub(crate) const CLUSTER_OPERATIONS: i32 = 1 << CREATE
    | 1 << ALTER
    | 1 << DESCRIBE
    | 1 << CLUSTER_ACTION
    | 1 << DESCRIBE_CONFIGS
    | 1 << ALTER_CONFIGS
    | 1 << IDEMPOTENT_WRITE;

/// Everything that can be allowed on a topic.
pub(crate) const TOPIC_OPERATIONS: i32 = 1 << READ
    | 1 << WRITE
    | 1 << CREATE
    | 1 << DELETE
    | 1 << ALTER
    | 1 << DESCRIBE
    | 1 << DESCRIBE_CONFIGS
    | 1 << ALTER_CONFIGS;
