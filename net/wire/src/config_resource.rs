//! What may have settings: the numbers that stand for it wherever settings are asked for or changed.

/// A topic, by name.
pub const TOPIC: i8 = 2;
/// A broker, by the digits of its id; all brokers where the name is empty.
pub const BROKER: i8 = 4;
/// The levels at which a broker logs.
pub const BROKER_LOGGER: i8 = 8;
/// Which figures clients send, by the name of the wish.
pub const CLIENT_METRICS: i8 = 16;
/// A group of consumers, by name.
pub const GROUP: i8 = 32;
