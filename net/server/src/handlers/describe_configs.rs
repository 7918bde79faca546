//! DescribeConfigs: the settings of topics and of this node's brokers.

use core::mem::size_of;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use engine_io::Io;
use net_wire::ErrorCode;
use net_wire::messages::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResourceResult, DescribeConfigsResponse,
    DescribeConfigsResult, DescribeConfigsSynonym,
};

use crate::dispatch::Request;
use crate::handlers::config_resource::{ConfigResource, Named, NotNamed};
use crate::hooks::Operation;
use crate::reply_memory;
use crate::response::{CloseReason, Response};
use crate::settings::{
    BROKER_SETTINGS, DescribedSetting, Synonym, TOPIC_SETTINGS, is_broker_setting, is_topic_setting,
};
use crate::shard::Shard;
use crate::turns::Turns;

/// Why a resource's settings aren't told.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error(transparent)]
    NotNamed(#[from] NotNamed),
    #[error("the topic does not exist")]
    UnknownTopic,
}

impl Refused {
    fn code(&self) -> ErrorCode {
        match self {
            Self::NotNamed(error) => error.code(),
            Self::UnknownTopic => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        }
    }
}

/// A resource and which settings of it are wanted: those that are known of the named ones, or all.
struct Asked<'a> {
    resource: ConfigResource<'a>,
    wanted: Option<BTreeSet<&'a str>>,
}

/// What is told of a resource.
struct Told<'a> {
    resource: ConfigResource<'a>,
    is_read_only: bool,
    settings: Result<Vec<DescribedSetting>, (ErrorCode, String)>,
}

/// What is told of each setting besides its value.
#[derive(Clone, Copy)]
struct Besides {
    synonyms: bool,
    documentation: bool,
}

pub(crate) async fn handle<I: Io>(
    shard: &Rc<Shard<I>>,
    request: &Request<I>,
) -> Result<Response<I>, CloseReason> {
    let asked: DescribeConfigsRequest<'_> = request.decode()?;
    let besides = Besides { synonyms: asked.include_synonyms, documentation: asked.include_documentation };
    let asked = each_once(shard, &asked.resources).await;
    let bytes = answer_bytes(shard, request, &asked, besides).await;
    let memory = reply_memory::reserve_list(shard, bytes).await.ok_or(CloseReason::NoMemory)?;
    let _turn = shard.turn_to_make(bytes).await;
    let mut told = Vec::with_capacity(asked.len());
    let mut turns = Turns::new(shard.io());
    for asked in &asked {
        turns.steps(TOPIC_SETTINGS.len()).await;
        told.push(tell(shard, request, asked, besides));
    }
    let results = told.iter().map(|told| answer(told, besides)).collect();
    Ok(request.answer(&DescribeConfigsResponse { throttle_time_ms: 0, results }).counted(memory))
}

/// The resources in the order of the request, each once: a few bytes that name a topic again and again would be answered
/// with all its settings each time. One that is named twice is asked for what either mention wants.
async fn each_once<'a, I: Io>(shard: &Shard<I>, resources: &[DescribeConfigsResource<'a>]) -> Vec<Asked<'a>> {
    let mut all: Vec<Asked<'a>> = Vec::new();
    let mut places = BTreeMap::new();
    let mut turns = Turns::new(shard.io());
    for named in resources {
        turns.step().await;
        let mut wanted = None;
        // As in Kafka, no names are all names.
        if let Some(keys) = named.configuration_keys.as_ref().filter(|keys| !keys.is_empty()) {
            let mut known = BTreeSet::new();
            for &key in keys {
                turns.step().await;
                known.extend((is_topic_setting(key) || is_broker_setting(key)).then_some(key));
            }
            wanted = Some(known);
        }
        let resource = ConfigResource { kind: named.resource_type, name: named.resource_name };
        let place = *places.entry(resource).or_insert(all.len());
        match all.get_mut(place) {
            None => all.push(Asked { resource, wanted }),
            Some(before) => match (&mut before.wanted, wanted) {
                (Some(names), Some(more)) => names.extend(more),
                (_, None) | (None, _) => before.wanted = None,
            },
        }
    }
    all
}

/// What the answer takes while it is made, at most, in bytes: each setting as it is found, put into an answer and encoded,
/// which counts twice since it grows.
async fn answer_bytes<I: Io>(
    shard: &Shard<I>,
    request: &Request<I>,
    asked: &[Asked<'_>],
    besides: Besides,
) -> u64 {
    /// A name and a value, as they are encoded.
    const PAIR_BYTES: usize = 64;
    const DOCUMENTATION_BYTES: usize = 160;
    const SYNONYMS: usize = 3;
    let mut setting = size_of::<DescribedSetting>() + size_of::<DescribeConfigsResourceResult<'_>>();
    setting += 32 + 2 * PAIR_BYTES;
    if besides.synonyms {
        let synonym = size_of::<Synonym>() + size_of::<DescribeConfigsSynonym<'_>>();
        setting += SYNONYMS * (synonym + 32 + 2 * PAIR_BYTES);
    }
    if besides.documentation {
        setting += 2 * DOCUMENTATION_BYTES;
    }
    let mut settings = 0;
    let mut turns = Turns::new(shard.io());
    for asked in asked {
        turns.step().await;
        let all = match asked.resource.resolve(shard, request, Operation::DescribeConfigs) {
            Ok(Named::Topic(name)) => shard.topic_id(name).map_or(0, |_| TOPIC_SETTINGS.len()),
            Ok(Named::Broker) => BROKER_SETTINGS.len(),
            Ok(Named::EveryBroker) | Err(_) => 0,
        };
        settings += asked.wanted.as_ref().map_or(all, |wanted| wanted.len().min(all));
    }
    // A resource and its name, and what is said to one that is refused.
    let heads = asked.len()
        * (size_of::<Told<'_>>() + size_of::<DescribeConfigsResult<'_>>() + 3 * DOCUMENTATION_BYTES);
    (2 * request.body().len() + heads + settings * setting) as u64
}

fn tell<'a, I: Io>(shard: &Shard<I>, request: &Request<I>, asked: &Asked<'a>, besides: Besides) -> Told<'a> {
    let resource = asked.resource;
    let named = resource.resolve(shard, request, Operation::DescribeConfigs);
    // Settings of the broker are in its configuration file.
    let is_read_only = matches!(named, Ok(Named::Broker));
    let settings = named.map_err(Refused::from).and_then(|named| settings(shard, named, asked));
    let settings = settings.map(|mut settings| {
        if !besides.synonyms {
            settings.iter_mut().for_each(|setting| setting.synonyms = Vec::new());
        }
        settings
    });
    Told {
        resource,
        is_read_only,
        settings: settings.map_err(|refused| (refused.code(), refused.to_string())),
    }
}

fn settings<I: Io>(
    shard: &Shard<I>,
    named: Named<'_>,
    asked: &Asked<'_>,
) -> Result<Vec<DescribedSetting>, Refused> {
    let wanted = |name: &str| asked.wanted.as_ref().is_none_or(|wanted| wanted.contains(name));
    let broker = &shard.config().broker;
    match named {
        Named::Topic(name) => {
            let image = shard.image();
            let topic = image.topic_named(name).ok_or(Refused::UnknownTopic)?;
            Ok(broker.describe_topic(&topic.configs, wanted))
        }
        Named::Broker => Ok(broker.describe(wanted)),
        Named::EveryBroker => Ok(Vec::new()),
    }
}

fn answer<'t>(told: &'t Told<'_>, besides: Besides) -> DescribeConfigsResult<'t> {
    let (error_code, error_message, settings) = match &told.settings {
        Ok(settings) => (ErrorCode::NONE, None, settings.as_slice()),
        Err((code, message)) => (*code, Some(message.as_str()), &[][..]),
    };
    let config = |setting: &'t DescribedSetting| DescribeConfigsResourceResult {
        name: setting.name,
        value: setting.value.as_deref(),
        read_only: told.is_read_only,
        config_source: setting.source.code(),
        is_sensitive: false,
        synonyms: setting.synonyms.iter().map(synonym).collect(),
        config_type: setting.kind.code(),
        documentation: besides.documentation.then_some(setting.documentation),
    };
    DescribeConfigsResult {
        error_code,
        error_message,
        resource_type: told.resource.kind,
        resource_name: told.resource.name,
        configs: settings.iter().map(config).collect(),
    }
}

fn synonym(synonym: &Synonym) -> DescribeConfigsSynonym<'_> {
    DescribeConfigsSynonym { name: synonym.name, value: Some(&synonym.value), source: synonym.source.code() }
}
