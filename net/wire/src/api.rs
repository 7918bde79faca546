//! The table of APIs: one row each.

use core::fmt;

/// An inclusive range of versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionRange {
    /// The lowest version, inclusive.
    pub min: i16,
    /// The highest version, inclusive.
    pub max: i16,
}

impl VersionRange {
    /// Whether `version` lies in the range.
    #[must_use]
    pub const fn contains(self, version: i16) -> bool {
        self.min <= version && version <= self.max
    }
}

/// Declares [`ApiKey`] and everything that depends on the row alone.
macro_rules! apis {
    ($(
        $(#[$doc:meta])*
        $name:ident = $key:literal, serves $min:literal to $max:literal,
            advertised from $advertised:literal, flexible from $flexible:literal;
    )*) => {
        /// An API this crate can encode and decode.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum ApiKey {
            $( $(#[$doc])* $name, )*
        }

        impl ApiKey {
            /// Every API, by ascending key.
            pub const ALL: &[Self] = &[$( Self::$name, )*];

            /// The API with this key, if there is one here.
            #[must_use]
            pub const fn from_code(key: i16) -> Option<Self> {
                match key {
                    $( $key => Some(Self::$name), )*
                    _ => None,
                }
            }

            /// The key on the wire.
            #[must_use]
            pub const fn code(self) -> i16 {
                match self { $( Self::$name => $key, )* }
            }

            /// The name the protocol gives it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $( Self::$name => stringify!($name), )* }
            }

            /// The versions that can be encoded and decoded.
            #[must_use]
            pub const fn versions(self) -> VersionRange {
                match self { $( Self::$name => VersionRange { min: $min, max: $max }, )* }
            }

            /// The versions to advertise. Wider than [`ApiKey::versions`] where old clients take a missing low
            /// version for a missing feature.
            #[must_use]
            pub const fn advertised(self) -> VersionRange {
                match self { $( Self::$name => VersionRange { min: $advertised, max: $max }, )* }
            }

            /// The first version with compact lengths and tagged fields.
            #[must_use]
            pub const fn flexible_from(self) -> i16 {
                match self { $( Self::$name => $flexible, )* }
            }
        }
    };
}

apis! {
    /// Appends record batches. Advertised from 0, since librdkafka up to 2.11.0 sends uncompressed data to a broker
    /// that doesn't list version 0; versions 0 to 2 carry record formats that no longer exist and are refused.
    Produce = 0, serves 3 to 13, advertised from 0, flexible from 9;
    /// Reads record batches.
    Fetch = 1, serves 4 to 17, advertised from 4, flexible from 12;
    /// Finds offsets by time, and a partition's ends.
    ListOffsets = 2, serves 1 to 10, advertised from 1, flexible from 6;
    /// Names brokers, topics and leaders.
    Metadata = 3, serves 0 to 13, advertised from 0, flexible from 9;
    /// Lists the APIs and versions served.
    ApiVersions = 18, serves 0 to 4, advertised from 0, flexible from 3;
    /// Creates topics.
    CreateTopics = 19, serves 2 to 7, advertised from 2, flexible from 5;
    /// Deletes topics.
    DeleteTopics = 20, serves 1 to 6, advertised from 1, flexible from 4;
    /// Deletes the oldest records of partitions.
    DeleteRecords = 21, serves 0 to 2, advertised from 0, flexible from 2;
    /// Hands out producer ids and epochs.
    InitProducerId = 22, serves 0 to 5, advertised from 0, flexible from 2;
    /// Finds where the records of leaders' epochs end.
    OffsetForLeaderEpoch = 23, serves 2 to 4, advertised from 2, flexible from 4;
    /// Tells the settings of topics and brokers.
    DescribeConfigs = 32, serves 1 to 4, advertised from 1, flexible from 4;
    /// Replaces the settings of topics.
    AlterConfigs = 33, serves 0 to 2, advertised from 0, flexible from 2;
    /// Tells what is in log directories.
    DescribeLogDirs = 35, serves 1 to 4, advertised from 1, flexible from 2;
    /// Gives topics more partitions.
    CreatePartitions = 37, serves 0 to 3, advertised from 0, flexible from 2;
    /// Changes settings of topics by name.
    IncrementalAlterConfigs = 44, serves 0 to 1, advertised from 0, flexible from 1;
    /// Describes the cluster and its brokers.
    DescribeCluster = 60, serves 0 to 2, advertised from 0, flexible from 0;
    /// Lists what has settings.
    ListConfigResources = 74, serves 0 to 1, advertised from 0, flexible from 0;
    /// Describes topics and partitions, a page at a time.
    DescribeTopicPartitions = 75, serves 0 to 0, advertised from 0, flexible from 0;
}

impl ApiKey {
    /// Whether `version` has compact lengths and tagged fields. Also answered for versions that aren't served.
    #[must_use]
    pub const fn is_flexible(self, version: i16) -> bool {
        version >= self.flexible_from()
    }
}

impl fmt::Display for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_ascend_and_lead_back_to_their_api() {
        assert!(ApiKey::ALL.is_sorted_by_key(|api| api.code()));
        for &api in ApiKey::ALL {
            assert_eq!(ApiKey::from_code(api.code()), Some(api));
        }
        assert_eq!(ApiKey::from_code(4), None);
        assert_eq!(ApiKey::from_code(-1), None);
    }

    #[test]
    fn advertised_ranges_end_where_served_ranges_end() {
        for &api in ApiKey::ALL {
            assert!(api.advertised().min <= api.versions().min);
            assert!(api.versions().min <= api.versions().max);
            assert_eq!(api.advertised().max, api.versions().max);
        }
    }

    #[test]
    fn only_produce_advertises_what_it_refuses() {
        let lies = |api: &&ApiKey| api.advertised() != api.versions();
        assert_eq!(ApiKey::ALL.iter().filter(lies).collect::<Vec<_>>(), [&ApiKey::Produce]);
    }
}
