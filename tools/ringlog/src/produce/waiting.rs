//! What is said while a broker lets records wait.

use std::pin::pin;
use std::time::Duration;

use engine_io::{Io, deadline};
use engine_record::PartitionIndex;
use futures_lite::future::poll_once;
use net_client::{Client, ErrorCode, Metadata};

use super::{Arguments, DELIVERY_TIMEOUT};
use crate::output::tell;

/// How long nothing may come of a record until that is told. A leader that moves takes less.
const SILENCE: Duration = Duration::from_secs(2);

/// Tells what is waited for: once, until it is something else.
pub(super) struct Waiting<I: Io> {
    client: Client<I>,
    topic: String,
    bootstrap: String,
    told: Option<Awaited>,
}

/// What is waited for, as far as the client knows.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Awaited {
    /// The topic, and why it can't be had.
    Topic(Option<ErrorCode>),
    /// A leader of this partition, the first that has none.
    Leader(PartitionIndex),
    /// What the leaders answer.
    Answer,
}

impl<I: Io> Waiting<I> {
    pub(super) fn new(client: &Client<I>, arguments: &Arguments) -> Self {
        let (topic, bootstrap) = (arguments.topic.clone(), arguments.cluster.bootstrap.clone());
        Self { client: client.clone(), topic, bootstrap, told: None }
    }

    /// Awaits what only the cluster can give.
    pub(super) async fn until<T>(&mut self, work: impl Future<Output = T>) -> T {
        let io = self.client.io().clone();
        each_silence(&io, work, || {
            if let Some(news) = self.news() {
                tell(format_args!("ringlog: {news}"));
            }
        })
        .await
    }

    fn news(&mut self) -> Option<String> {
        let awaited = self.client.with_metadata(|metadata| Awaited::of(metadata, &self.topic));
        if self.told.as_ref() == Some(&awaited) {
            return None;
        }
        let text = awaited.text(&self.topic, &self.bootstrap);
        self.told = Some(awaited);
        Some(text)
    }
}

/// Awaits `work`, and calls `say` whenever that has taken a silence longer.
async fn each_silence<I: Io, T>(io: &I, work: impl Future<Output = T>, mut say: impl FnMut()) -> T {
    let mut work = pin!(work);
    // Most is there already, and no clock is needed for it.
    if let Some(done) = poll_once(work.as_mut()).await {
        return done;
    }
    loop {
        match deadline(io, io.now().after(SILENCE), work.as_mut()).await {
            Some(done) => return done,
            None => say(),
        }
    }
}

impl Awaited {
    fn of(metadata: &Metadata, topic: &str) -> Self {
        let Some(known) = metadata.topic(topic) else { return Self::Topic(metadata.topic_error(topic)) };
        let mut partitions = (0..).map(PartitionIndex).zip(&known.partitions);
        let orphan = partitions.find(|(_, partition)| partition.leader.is_none());
        orphan.map_or(Self::Answer, |(index, _)| Self::Leader(index))
    }

    fn text(&self, topic: &str, bootstrap: &str) -> String {
        let describe = format!("`ringlog topic describe {topic} --bootstrap {bootstrap}` tells more");
        let (what, advice) = match self {
            Self::Topic(Some(code)) if *code == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => (
                format!("topic {topic}, which isn't there and isn't created by itself"),
                format!("create it with `ringlog topic create {topic} --bootstrap {bootstrap}`"),
            ),
            Self::Topic(Some(code)) => (format!("topic {topic}: {code}"), describe),
            Self::Topic(None) => (format!("what a broker says of topic {topic}"), describe),
            Self::Leader(partition) => (format!("a leader of {topic}/{partition}"), describe),
            Self::Answer => (format!("a broker to take records of topic {topic}"), describe),
        };
        let seconds = DELIVERY_TIMEOUT.as_secs();
        format!("waiting for {what}; {advice}. Each record is tried for {seconds} s, then given up")
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use sim::Sim;

    use super::*;

    #[test]
    fn a_silence_is_told_each_time_it_has_lasted_and_what_is_there_at_once_is_none() {
        let sim = Sim::new(1);
        let (io, said) = (sim.node().io(), Cell::new(0));
        let say = || said.set(said.get() + 1);
        let wait = |seconds| each_silence(&io, io.sleep(Duration::from_secs(seconds)), say);
        assert_eq!(sim.block_on(each_silence(&io, async { 7 }, say)), 7);
        sim.block_on(wait(1));
        assert_eq!(said.get(), 0);
        sim.block_on(wait(5));
        assert_eq!(said.get(), 2);
    }

    #[test]
    fn what_is_told_names_the_cause_the_way_out_and_the_bound() {
        let text = |awaited: Awaited| awaited.text("t", "h:1");
        let missing = text(Awaited::of(&Metadata::default(), "t"));
        assert!(missing.starts_with("waiting for what a broker says of topic t; "), "{missing}");
        assert_eq!(
            text(Awaited::Topic(Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION))),
            "waiting for topic t, which isn't there and isn't created by itself; create it with `ringlog topic create \
             t --bootstrap h:1`. Each record is tried for 60 s, then given up"
        );
        assert_eq!(
            text(Awaited::Leader(PartitionIndex(3))),
            "waiting for a leader of t/3; `ringlog topic describe t --bootstrap h:1` tells more. Each record is tried \
             for 60 s, then given up"
        );
        assert!(text(Awaited::Answer).contains("a broker to take records"));
    }
}
