//! Why a setting of Kafka's brokers doesn't carry over: one table, by name or by how the name begins.

/// Whether somebody has to look at it before the broker takes the place of the old one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    /// Nothing is lost.
    Nobody,
    /// Something is that a person should decide about.
    Person,
}

/// A reason, for all names that it is given for.
#[derive(Debug)]
pub(super) struct Reason {
    /// A name, or how names begin where it ends with a dot or a star.
    names: &'static [&'static str],
    pub(super) why: &'static str,
    pub(super) needs: Needs,
}

const fn nobody(names: &'static [&'static str], why: &'static str) -> Reason {
    Reason { names, why, needs: Needs::Nobody }
}

const fn person(names: &'static [&'static str], why: &'static str) -> Reason {
    Reason { names, why, needs: Needs::Person }
}

/// The reason for a name: of those that fit the one that says most of the name.
pub(super) fn reason(name: &str) -> Option<&'static Reason> {
    let fitting = REASONS.iter().filter_map(|reason| Some((reason.fits(name)?, reason)));
    fitting.max_by_key(|(letters, _)| *letters).map(|(_, reason)| reason)
}

impl Reason {
    /// How many letters of the name it is given for.
    fn fits(&self, name: &str) -> Option<usize> {
        let fits = self.names.iter().filter(|pattern| {
            let beginning = pattern.strip_suffix('*').or_else(|| pattern.ends_with('.').then_some(**pattern));
            beginning.map_or(**pattern == name, |beginning| name.starts_with(beginning))
        });
        fits.map(|pattern| pattern.len()).max()
    }
}

#[rustfmt::skip]
static REASONS: [Reason; 37] = [
    nobody(&["zookeeper.", "broker.id.generation.enable", "reserved.broker.max.id"],
        "there is no ZooKeeper: the nodes keep the metadata themselves, and a node's number is written in its folder"),
    nobody(&["process.roles", "controller.", "metadata.", "early.start.listeners", "broker.heartbeat.interval.ms", "broker.session.timeout.ms",
             "initial.broker.registration.timeout.ms", "server.max.startup.time.ms", "unstable."],
        "there are no roles to give: each node serves clients and takes part in keeping the metadata"),
    nobody(&["num.network.threads", "num.io.threads", "background.threads", "queued.max.requests", "queued.max.request.bytes"],
        "there are no pools of threads: one shard runs on each core, chosen with `cpus`; what waits is bounded by memory"),
    nobody(&["num.recovery.threads.per.data.dir"],
        "each shard recovers its own partitions, all shards at once"),
    nobody(&["socket.send.buffer.bytes", "socket.receive.buffer.bytes"],
        "the kernel sizes the buffers of sockets"),
    nobody(&["socket.listen.backlog.size"],
        "up to 1,024 connections wait to be accepted, and no more than net.core.somaxconn"),
    nobody(&["connections.max.idle.ms", "connection.failed.authentication.delay.ms"],
        "an idle connection costs next to nothing and isn't closed"),
    nobody(&["max.connection.creation.rate", "max.connections.per.ip.overrides", "connections.max.reauth.ms"],
        "connections are bounded by max.connections and max.connections.per.ip alone"),
    person(&["ssl.", "sasl.", "security.", "password.encoder.", "listener.name."],
        "TLS and authentication aren't served yet: listen where nobody else can reach it, or behind a proxy that does both"),
    person(&["authorizer.", "super.users", "allow.everyone.if.no.acl.found", "principal.builder.class", "delegation.", "early.start.authorizer"],
        "there is no authorization yet: whoever reaches the broker may do everything"),
    nobody(&["log.flush.", "flush.messages", "flush.ms"],
        "nothing is flushed by time or count: acks=all is answered when the batch is on the drive (flush.mode)"),
    nobody(&["log.cleaner."],
        "there is no compaction yet, so there is nothing to tune"),
    nobody(&["log.segment.delete.delay.ms"],
        "a deleted segment goes as soon as nobody reads it any more"),
    nobody(&["log.index.size.max.bytes"],
        "an index grows with its segment"),
    nobody(&["log.preallocate"],
        "space is allocated before it is written, in steps that grow with use"),
    nobody(&["log.roll.jitter.*"],
        "segments of different partitions are rolled one at a time anyway"),
    nobody(&["log.message.format.version", "inter.broker.protocol.version", "log.message.downconversion.enable"],
        "deprecated, and gone from Kafka 4: there is one format of records and none is converted"),
    nobody(&["log.message.timestamp.*"],
        "timestamps are bounded by log.message.timestamp.before.max.ms and log.message.timestamp.after.max.ms"),
    nobody(&["log.local.", "remote."],
        "there is no second storage tier: all that is kept lies in log.dirs"),
    nobody(&["log.dir.failure.timeout.ms"],
        "a log directory that fails takes its own partitions offline at once, and the others go on"),
    nobody(&["cordoned.log.dirs"],
        "a new partition goes where there are fewest; to give a folder up, see the README"),
    nobody(&["offsets.", "group.", "share."],
        "there are no consumer groups yet; clients assign partitions themselves"),
    nobody(&["transaction.", "transactional.", "producer.id.expiration.*"],
        "there are no transactions yet; a producer is remembered as long as its records"),
    nobody(&["quota.", "client.quota.*", "replication.quota.", "controller.quota.", "num.quota.samples", "alter.log.dirs.replication.quota.*"],
        "there are no quotas"),
    nobody(&["replica.", "num.replica.", "follower.", "replication.", "leader.imbalance.*", "auto.leader.rebalance.enable"],
        "one node: there are no followers to bring up to date and no leaders to move"),
    nobody(&["controlled.shutdown.*"],
        "a stop is always an orderly one, within seconds"),
    nobody(&["unclean.leader.election.enable", "unclean.leader.election.interval.ms"],
        "a replica that isn't in sync never becomes the leader"),
    nobody(&["broker.rack"],
        "one node: replicas needn't be kept apart"),
    nobody(&["metric.*", "metrics.", "kafka.metrics.", "auto.include.jmx.reporter", "telemetry."],
        "counters are written with --stats-file; there are no plugins of Java"),
    nobody(&["compression.*"],
        "batches are kept as they were sent"),
    nobody(&["fetch.purgatory.*", "producer.purgatory.*", "delete.records.purgatory.*"],
        "who waits is woken, there is nothing to clear"),
    nobody(&["request.timeout.ms", "connections.", "socket.connection.setup.*", "inter.broker.listener.name"],
        "it concerns the connections between brokers: one node has none"),
    nobody(&["max.request.partition.size.limit"],
        "entries of a request are bounded by its size and the shard's memory"),
    person(&["create.topic.policy.class.name", "alter.config.policy.class.name", "replica.selector.class", "plugin.path"],
        "classes of Java can't be loaded: whatever the class refused or chose isn't"),
    nobody(&["confluent."],
        "a setting of a distribution of Kafka, not of Kafka"),
    nobody(&["leader.replication.throttled.replicas", "follower.replication.throttled.replicas"],
        "one node: nothing is replicated that could be throttled"),
    nobody(&["log.initial.task.delay.ms"],
        "the first look for old records is one interval after the start"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_the_one_that_says_most_of_the_name() {
        let why = |name: &str| reason(name).map(|reason| reason.why);
        assert!(why("zookeeper.connect").unwrap().contains("no ZooKeeper"));
        assert!(why("replica.fetch.max.bytes").unwrap().contains("one node"));
        assert!(why("replica.selector.class").unwrap().contains("classes of Java"));
        assert!(why("controller.quota.window.num").unwrap().contains("quotas"));
        assert_eq!(why("zookeeper"), None);
        assert_eq!(why("my.own.setting"), None);
    }

    #[test]
    fn what_keeps_others_out_is_never_dropped_without_a_person() {
        for name in
            ["ssl.keystore.location", "sasl.enabled.mechanisms", "authorizer.class.name", "super.users"]
        {
            assert_eq!(reason(name).unwrap().needs, Needs::Person, "{name}");
        }
    }

    #[test]
    fn no_pattern_stands_twice_and_none_is_a_setting_that_carries_over() {
        let mut names: Vec<_> = REASONS.iter().flat_map(|reason| reason.names).collect();
        assert_eq!(names.iter().find(|name| net_server::settings::is_broker_setting(name)), None);
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
