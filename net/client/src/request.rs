//! What producers and consumers share about their requests.

/// Numbers the requests of one producer or consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// A request that got no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestFailure {
    /// Not a byte of it left: the broker has not seen it.
    NotSent,
    /// It left, or a part of it did; whether the broker carried it out is unknown.
    NoAnswer,
}
