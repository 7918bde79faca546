//! What every request passes: who asks, and may they.
//!
//! Without authentication everyone is the anonymous principal and may do everything. The calls are made all the same,
//! at the places where they will decide, so that no handler has to be found again for them.

/// Who a client is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Principal {
    name: &'static str,
}

impl Principal {
    /// A client that didn't say who it is.
    pub(crate) const fn anonymous() -> Self {
        Self { name: "ANONYMOUS" }
    }
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Append to a topic.
    Write,
    /// Read from a topic.
    Read,
    /// See that a topic or the cluster exists.
    Describe,
    /// Create a topic.
    Create,
    /// Give a topic more partitions.
    Alter,
    /// Delete a topic.
    Delete,
    /// See settings.
    DescribeConfigs,
    /// Change settings.
    AlterConfigs,
    /// Take a producer id.
    IdempotentWrite,
}

/// What it is asked of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource<'a> {
    /// A topic, by name.
    Topic(&'a str),
    /// The cluster.
    Cluster,
}

/// The answer to "may they".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// They may.
    Allowed,
}

/// Whether `principal` may do `operation` on `resource`.
pub(crate) fn authorize(principal: &Principal, operation: Operation, resource: Resource<'_>) -> Decision {
    tracing::trace!(principal = principal.name, ?operation, ?resource, "authorize");
    Decision::Allowed
}
