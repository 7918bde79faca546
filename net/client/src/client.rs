//! Connections to a cluster, and what is known of it. Producers, consumers and admin calls stand on it.

use core::cell::{Cell, RefCell};
use core::time::Duration;
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;

use engine_io::{Io, Signal};
use net_wire::messages::metadata::MetadataRequestTopic;
use net_wire::messages::{MetadataRequest, MetadataResponse};
use net_wire::{DecodeError, EncodeError, ErrorCode, Message};

use crate::connection::{Answer, ConnectError, Connection, ConnectionSettings, NoCommonVersion};
use crate::metadata::{BrokerId, Endpoint, Metadata};
use crate::request::RequestFailure;
use crate::resolver::Resolver;

/// How to reach a cluster.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// Where to begin: any brokers of the cluster.
    pub bootstrap: Vec<Endpoint>,
    /// What holds for every connection.
    pub connections: ConnectionSettings,
    /// How long a broker may take to answer a question about the cluster.
    pub request_timeout: Duration,
    /// Turns host names into addresses.
    pub resolver: Resolver,
    /// Whether asking for a topic that isn't there may create it, where brokers allow that.
    pub creates_topics: bool,
}

impl Default for ClientSettings {
    fn default() -> Self {
        Self {
            bootstrap: Vec::new(),
            connections: ConnectionSettings::default(),
            request_timeout: Duration::from_secs(30),
            resolver: Resolver::default(),
            creates_topics: true,
        }
    }
}

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No broker is known at all.
    #[error("no broker is known")]
    NoBroker,
    /// The metadata doesn't know this broker.
    #[error("broker {} is not known", .0.0)]
    UnknownBroker(BrokerId),
    /// A host's name has no address.
    #[error("{endpoint}: the name can't be resolved: {cause}")]
    Unresolved {
        /// The endpoint.
        endpoint: Endpoint,
        /// What the system says.
        cause: io::Error,
    },
    /// A broker can't be reached.
    #[error("{endpoint}: {cause}")]
    Connect {
        /// The endpoint.
        endpoint: Endpoint,
        /// Why not.
        cause: ConnectError,
    },
    /// Several brokers were tried, and none can be reached; what each said, in the order they were tried.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    NoneReached(Vec<Self>),
    /// The broker didn't answer.
    #[error("no answer came")]
    NoAnswer(RequestFailure),
    /// The broker speaks no version of the API that this client does.
    #[error(transparent)]
    Version(#[from] NoCommonVersion),
    /// The answer can't be read.
    #[error("the answer can't be read: {0}")]
    Decode(#[from] DecodeError),
    /// The question can't be put in the version the broker speaks.
    #[error("the request can't be written: {0}")]
    Encode(#[from] EncodeError),
    /// The broker answered with an error.
    #[error("the broker answered {0}")]
    Refused(ErrorCode),
}

impl From<RequestFailure> for ClientError {
    fn from(failure: RequestFailure) -> Self {
        Self::NoAnswer(failure)
    }
}

/// What a connection is for. A fetch may wait at the broker, and answers come in order: what must not wait behind it
/// needs a connection of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// Questions about the cluster.
    Control,
    /// Batches.
    Produce,
    /// Records.
    Fetch,
}

type Connections<I> = BTreeMap<(Endpoint, Purpose), Rc<Connection<I>>>;

struct Inner<I: Io> {
    io: I,
    settings: ClientSettings,
    metadata: RefCell<Metadata>,
    connections: RefCell<Connections<I>>,
    /// Whose turn it is among brokers that are all as good.
    turn: Cell<usize>,
    metadata_changed: Signal,
}

/// See the module. Clones share everything.
pub struct Client<I: Io> {
    inner: Rc<Inner<I>>,
}

impl<I: Io> Clone for Client<I> {
    fn clone(&self) -> Self {
        Self { inner: Rc::clone(&self.inner) }
    }
}

impl<I: Io> Client<I> {
    /// A client that has asked nothing yet.
    #[must_use]
    pub fn new(io: I, settings: ClientSettings) -> Self {
        let inner = Inner {
            io,
            settings,
            metadata: RefCell::default(),
            connections: RefCell::default(),
            turn: Cell::new(0),
            metadata_changed: Signal::new(),
        };
        Self { inner: Rc::new(inner) }
    }

    /// The seam it stands on.
    #[must_use]
    pub fn io(&self) -> &I {
        &self.inner.io
    }

    /// The settings it works by.
    #[must_use]
    pub fn settings(&self) -> &ClientSettings {
        &self.inner.settings
    }

    /// Looks at what is known of the cluster.
    pub fn with_metadata<T>(&self, look: impl FnOnce(&Metadata) -> T) -> T {
        look(&self.inner.metadata.borrow())
    }

    /// Changes what is known, and tells who waits for that.
    pub(crate) fn change_metadata<T>(&self, change: impl FnOnce(&mut Metadata) -> T) -> T {
        let result = change(&mut self.inner.metadata.borrow_mut());
        self.inner.metadata_changed.notify();
        result
    }

    /// Given whenever metadata came.
    #[must_use]
    pub fn metadata_changed(&self) -> &Signal {
        &self.inner.metadata_changed
    }

    /// Ends all connections.
    pub fn close(&self) {
        let connections = core::mem::take(&mut *self.inner.connections.borrow_mut());
        for connection in connections.into_values() {
            connection.close();
        }
    }
}

/// Connections.
impl<I: Io> Client<I> {
    /// The connection to an endpoint that is open already.
    pub(crate) fn opened(&self, broker: BrokerId, purpose: Purpose) -> Option<Rc<Connection<I>>> {
        let endpoint = self.inner.metadata.borrow().endpoint(broker)?.clone();
        self.opened_to(&endpoint, purpose)
    }

    fn opened_to(&self, endpoint: &Endpoint, purpose: Purpose) -> Option<Rc<Connection<I>>> {
        let connections = self.inner.connections.borrow();
        connections
            .get(&(endpoint.clone(), purpose))
            .filter(|connection| !connection.is_closed())
            .map(Rc::clone)
    }

    /// A connection to a broker the metadata knows; an open one where there is one.
    ///
    /// # Errors
    /// Where the broker isn't known or can't be reached.
    pub async fn broker(&self, broker: BrokerId, purpose: Purpose) -> Result<Rc<Connection<I>>, ClientError> {
        let endpoint = self.inner.metadata.borrow().endpoint(broker).cloned();
        self.connect(&endpoint.ok_or(ClientError::UnknownBroker(broker))?, purpose).await
    }

    /// A connection to any broker: a known one, or one of the bootstrap list.
    ///
    /// # Errors
    /// What the one tried said, or [`ClientError::NoneReached`] with what each did.
    pub async fn any(&self) -> Result<Rc<Connection<I>>, ClientError> {
        let mut endpoints: Vec<_> = self.with_metadata(|metadata| {
            metadata.brokers().values().map(|broker| broker.endpoint.clone()).collect()
        });
        let turn = self.inner.turn.get();
        self.inner.turn.set(turn.wrapping_add(1));
        let known = endpoints.len();
        endpoints.rotate_left(turn % known.max(1));
        for endpoint in &self.inner.settings.bootstrap {
            if !endpoints.contains(endpoint) {
                endpoints.push(endpoint.clone());
            }
        }
        let mut errors = Vec::new();
        for endpoint in endpoints {
            match self.connect(&endpoint, Purpose::Control).await {
                Ok(connection) => return Ok(connection),
                Err(error) => errors.push(error),
            }
        }
        Err(match errors.pop() {
            None => ClientError::NoBroker,
            Some(only) if errors.is_empty() => only,
            Some(last) => {
                errors.push(last);
                ClientError::NoneReached(errors)
            }
        })
    }

    async fn connect(&self, endpoint: &Endpoint, purpose: Purpose) -> Result<Rc<Connection<I>>, ClientError> {
        if let Some(open) = self.opened_to(endpoint, purpose) {
            return Ok(open);
        }
        let opened = Rc::new(self.open(endpoint).await?);
        // Someone else may have been faster; two connections to one broker would reorder requests.
        if let Some(open) = self.opened_to(endpoint, purpose) {
            return Ok(open);
        }
        let key = (endpoint.clone(), purpose);
        let replaced = self.inner.connections.borrow_mut().insert(key, Rc::clone(&opened));
        drop(replaced);
        Ok(opened)
    }

    async fn open(&self, endpoint: &Endpoint) -> Result<Connection<I>, ClientError> {
        let addresses = self.inner.settings.resolver.resolve(endpoint).await;
        let addresses =
            addresses.map_err(|cause| ClientError::Unresolved { endpoint: endpoint.clone(), cause })?;
        let mut last = ConnectError::TimedOut;
        for address in addresses {
            match Connection::open(&self.inner.io, address, self.inner.settings.connections.clone()).await {
                Ok(connection) => return Ok(connection),
                Err(error) => last = error,
            }
        }
        Err(ClientError::Connect { endpoint: endpoint.clone(), cause: last })
    }
}

/// Questions.
impl<I: Io> Client<I> {
    /// Asks over a connection, in the highest version both ends speak.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn ask<'m, M: Message<'m>>(
        &self,
        connection: &Connection<I>,
        message: &M,
    ) -> Result<Answer, ClientError> {
        let version = connection.version(M::API, i16::MAX)?;
        let until = self.inner.io.now().after(self.inner.settings.request_timeout);
        let pending = connection.start_message(message, version, until)?;
        Ok(connection.finish(pending).await?)
    }

    /// Asks for the metadata of these topics, or of all where none are named.
    ///
    /// # Errors
    /// See [`ClientError`]; an error about one topic isn't one of these, but stands in the metadata.
    pub async fn refresh(&self, topics: Option<&[Rc<str>]>) -> Result<(), ClientError> {
        let connection = self.any().await?;
        let named = |name| MetadataRequestTopic { name: Some(name), ..MetadataRequestTopic::default() };
        let request = MetadataRequest {
            topics: topics.map(|topics| topics.iter().map(|topic| named(&**topic)).collect()),
            allow_auto_topic_creation: self.inner.settings.creates_topics,
            ..MetadataRequest::default()
        };
        let answer = self.ask(&connection, &request).await?;
        let response: MetadataResponse<'_> = answer.decode()?;
        if !response.error_code.is_none() {
            return Err(ClientError::Refused(response.error_code));
        }
        self.change_metadata(|metadata| metadata.apply(&response));
        Ok(())
    }
}
