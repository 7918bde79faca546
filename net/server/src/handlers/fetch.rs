//! Fetch: reads batches from the partitions named, as they are stored.
//!
//! The answer goes out at once when it has an error or at least `min_bytes`; otherwise the request waits for the high
//! watermark of any of its partitions to move, or for its time to run out. In a session (KIP-227, [`crate::fetch_sessions`])
//! the partitions are the session's, and those are told of which there is news.

use core::mem::size_of;
use core::time::Duration;
use std::any::Any;
use std::rc::Rc;

use engine_io::{BLOCK_BYTES, Io, SendPiece, deadline, first};
use engine_record::{LeaderEpoch, Offset, PartitionIndex, TopicId, TopicPartition};
use engine_store::{FlushInterest, Piece as StorePiece, Read, ReadBound, ReadRequest};
use net_wire::fetch::{FetchFrame, FetchResponseStart, FetchResponseWriter, FetchedPartition, Piece};
use net_wire::messages::LeaderIdAndEpoch;
use net_wire::messages::fetch::{FetchPartition, FetchRequest};
use net_wire::topic_ref::TopicRef;
use net_wire::{EncodeError, ErrorCode};

use crate::dispatch::Request;
use crate::endpoint::Endpoint;
use crate::error_code;
use crate::fetch_sessions::{Kind, Outcome, Told};
use crate::forward;
use crate::hooks::{Decision, Operation, Resource, authorize};
use crate::partition::{AnyOf, Partition};
use crate::reply_memory::{self, Held};
use crate::response::{self, CloseReason, Reply, ReplyPiece, Response};
use crate::settings::FETCH_BYTES_MAX;
use crate::shard::{NotServed, Shard};
use crate::turns::Turns;

mod session;

pub(crate) use session::{Answering, choose};

use session::{Came, Listed};

/// From this version on topics are named by id.
const TOPIC_ID_FROM: i16 = 13;
/// From this version on the answer can say what is wrong with the request as a whole.
const REQUEST_ERROR_FROM: i16 = 7;
/// From this version on the answer names leaders' addresses.
pub(crate) const ENDPOINTS_FROM: i16 = 16;

/// No fetch waits longer, whatever it asks for: it holds its request's memory, and an early answer is always right.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// What a partition's records that are read from a file keep in memory, at most, in bytes: up to the whole block at their
/// end and what lies before it in the one before.
const FROM_FILE_BYTES: u64 = 2 * BLOCK_BYTES as u64;

/// What stands before a partition's records in an answer, at most, in bytes.
const HEAD_BYTES: usize = 64;

/// One partition asked for.
struct Asked<'a> {
    topic: TopicRef<'a>,
    partition: &'a FetchPartition,
    hosted: Result<Hosted, NotServed>,
}

/// A partition of this shard, by what is needed to look it up again after a wait.
#[derive(Clone, Copy)]
struct Hosted {
    id: TopicPartition,
    from: Offset,
}

/// What was read for all partitions, and the memory it keeps; none where there was none to be had.
struct Answer<'a, I: Io> {
    fetched: Vec<Fetched<'a, I>>,
    memory: Option<Held>,
    /// Whether it has fewer bytes than it might, for want of memory.
    is_cut: bool,
}

/// What is answered for one partition.
struct Fetched<'a, I: Io> {
    topic: TopicRef<'a>,
    asked: &'a FetchPartition,
    outcome: Result<Read<I>, NotServed>,
}

impl<'a, I: Io> Fetched<'a, I> {
    fn index(&self) -> i32 {
        self.asked.partition
    }

    fn came(&self) -> Came<'a> {
        let read = self.outcome.as_ref().ok();
        let told = read.map(|read| Told {
            high_watermark: read.high_watermark.value(),
            log_start: read.log_start.value(),
        });
        let outcome = Outcome { told, has_records: read.is_some_and(|read| read.bytes > 0) };
        (self.topic, self.asked, outcome)
    }
}

pub(crate) async fn handle<I: Io>(
    shard: &Rc<Shard<I>>,
    request: &Request<I>,
) -> Result<Response<I>, CloseReason> {
    let asked: FetchRequest<'_> = request.decode()?;
    let kind = match refuse(&asked).and_then(|()| session::begin(shard, request, &asked)) {
        Ok(kind) => kind,
        Err(error) => return Ok(answer_error(request, error)?),
    };
    let named = asked.topics.iter().flat_map(|topic| {
        let name = session::named(request.version, topic);
        topic.partitions.iter().map(move |partition| (name, partition))
    });
    match kind {
        Kind::Whole => answer_for(shard, request, &asked, Answering::Whole, named).await,
        Kind::New => answer_for(shard, request, &asked, Answering::New, named).await,
        Kind::Next(at) => {
            let listed = match session::list(shard, request.version, &asked, at).await {
                Ok(listed) => listed,
                Err(error) => return Ok(answer_error(request, error)?),
            };
            let ended = session::end_if_empty(shard, at);
            let answering = if ended { Answering::Whole } else { Answering::Next(at, &listed) };
            answer_for(shard, request, &asked, answering, listed.iter().map(Listed::asked)).await
        }
    }
}

/// Waits until there is something to answer for these partitions, or it is time.
async fn answer_for<'a, I: Io>(
    shard: &Shard<I>,
    request: &Request<I>,
    asked: &FetchRequest<'_>,
    answering: Answering<'_>,
    partitions: impl Iterator<Item = (TopicRef<'a>, &'a FetchPartition)> + Clone,
) -> Result<Response<I>, CloseReason> {
    if forward::forwards(shard, &request.connection) {
        let wanted: Vec<_> = partitions.clone().collect();
        if let Some(response) = forward::fetch::answer(shard, request, asked, answering, &wanted).await? {
            return Ok(response);
        }
    }
    let max_wait = Duration::from_millis(u64::try_from(asked.max_wait_ms).unwrap_or(0)).min(WAIT_MAX);
    let until = request.received_at.after(max_wait);
    let min_bytes = u64::try_from(asked.min_bytes).unwrap_or(0);
    let partitions = resolve(shard, request, partitions).await;
    loop {
        let (moves, waitable) = watch(shard, &partitions).await;
        let last_turn = !waitable || request.connection.is_hurried() || shard.io().now() >= until;
        let news = news(shard, &partitions).await;
        if last_turn || news.is_some() || min_bytes == 0 {
            let answer = read_all(shard, request, asked, &partitions, news).await;
            if last_turn || answer.is_enough(min_bytes) {
                return Ok(respond(shard, request, asked, answering, answer).await?);
            }
        }
        let _at_once = flush_interest(shard, &partitions).await;
        // The time running out is looked at above, like a move, and so is a hurry.
        let _moved = deadline(shard.io(), until, first(AnyOf(moves), request.connection.hurried())).await;
    }
}

/// Has the shard flush at once while a reader waits for what is only flushed: whoever wrote it with acks=1 doesn't wait.
async fn flush_interest<I: Io>(shard: &Shard<I>, partitions: &[Asked<'_>]) -> Option<FlushInterest<I>> {
    let mut turns = Turns::new(shard.io());
    for asked in partitions {
        turns.step().await;
        let Ok(partition) = asked.hosted.and_then(|hosted| shard.partition(hosted.id)) else { continue };
        if partition.settings().awaits_flush() {
            return Some(partition.log().flush_interest());
        }
    }
    None
}

/// What is wrong with the request as a whole.
fn refuse(asked: &FetchRequest<'_>) -> Result<(), ErrorCode> {
    let replica = asked.replica_id.max(asked.replica_state.replica_id);
    // Followers fetch through the internal listener, where they prove who they are.
    if replica >= 0 { Err(ErrorCode::CLUSTER_AUTHORIZATION_FAILED) } else { Ok(()) }
}

pub(crate) fn answer_error<I: Io>(
    request: &Request<I>,
    error: ErrorCode,
) -> Result<Response<I>, EncodeError> {
    if request.version < REQUEST_ERROR_FROM {
        return Ok(Response::Close(CloseReason::UnsupportedVersion {
            api: request.api,
            version: request.version,
        }));
    }
    let writer = FetchResponseWriter::begin(FetchFrame::default(), &start(request, error, 0, 0))?;
    Ok(Response::Reply(Reply::of(writer.finish(&[])?.head)))
}

pub(crate) fn start<I: Io>(
    request: &Request<I>,
    error_code: ErrorCode,
    session_id: i32,
    topic_count: usize,
) -> FetchResponseStart {
    FetchResponseStart {
        version: request.version,
        correlation_id: request.correlation_id,
        throttle_time_ms: request.throttle_time_ms,
        error_code,
        session_id,
        topic_count,
    }
}

/// Finds the partitions asked for, in their order.
async fn resolve<'a, I: Io>(
    shard: &Shard<I>,
    request: &Request<I>,
    listed: impl Iterator<Item = (TopicRef<'a>, &'a FetchPartition)>,
) -> Vec<Asked<'a>> {
    let (mut partitions, mut last) = (Vec::new(), None);
    let mut turns = Turns::new(shard.io());
    for (topic, partition) in listed {
        turns.step().await;
        let id = match last {
            Some((known, id)) if known == topic => id,
            Some(_) | None => readable(shard, request, topic),
        };
        last = Some((topic, id));
        let hosted = id.map_err(NotServed::from).and_then(|id| check(shard, id, partition));
        partitions.push(Asked { topic, partition, hosted });
    }
    partitions
}

/// The topic's id, where the client may read the topic: a session's are asked about in each of its fetches, too.
fn readable<I: Io>(
    shard: &Shard<I>,
    request: &Request<I>,
    topic: TopicRef<'_>,
) -> Result<TopicId, ErrorCode> {
    let image = shard.image();
    let (name, id) = match topic {
        TopicRef::Name(name) => {
            (name, image.topic_named(name).map(|topic| topic.id).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION))
        }
        TopicRef::Id(id) => {
            let id = TopicId(id.0);
            (image.topic(id).map_or("", |topic| &topic.name), Ok(id))
        }
    };
    let Decision::Allowed = authorize(&request.connection.principal, Operation::Read, Resource::Topic(name));
    id
}

fn check<I: Io>(shard: &Shard<I>, topic: TopicId, asked: &FetchPartition) -> Result<Hosted, NotServed> {
    let id = TopicPartition { topic, partition: PartitionIndex(asked.partition) };
    let partition = shard.partition(id)?;
    check_epoch(&partition, asked.current_leader_epoch)?;
    let from = Offset::new(asked.fetch_offset).ok_or(ErrorCode::OFFSET_OUT_OF_RANGE)?;
    let offsets = partition.offsets();
    if from < offsets.log_start || from > offsets.log_end {
        return Err(ErrorCode::OFFSET_OUT_OF_RANGE.into());
    }
    Ok(Hosted { id, from })
}

/// Fences a client that knows an older leader, or a newer one than this shard does (KIP-320).
pub(crate) fn check_epoch<I: Io>(partition: &Partition<I>, known: i32) -> Result<(), ErrorCode> {
    let LeaderEpoch(current) = partition.leader_epoch();
    match known {
        -1 => Ok(()),
        known if known < current => Err(ErrorCode::FENCED_LEADER_EPOCH),
        known if known > current => Err(ErrorCode::UNKNOWN_LEADER_EPOCH),
        _ => Ok(()),
    }
}

/// The next moves of all partitions, and whether it makes sense to wait for one.
async fn watch<I: Io>(shard: &Shard<I>, partitions: &[Asked<'_>]) -> (Vec<engine_io::Wait>, bool) {
    let mut moves = Vec::with_capacity(partitions.len());
    let mut turns = Turns::new(shard.io());
    for asked in partitions {
        turns.step().await;
        match asked.hosted.and_then(|hosted| shard.partition(hosted.id)) {
            Ok(partition) => moves.push(partition.next_move()),
            Err(_) => return (Vec::new(), false),
        }
    }
    let waitable = !moves.is_empty();
    (moves, waitable)
}

/// What is known of the records to be read before they are.
#[derive(Clone, Copy)]
struct News {
    /// The largest batch that there may be among them, in bytes.
    batch_bytes: u32,
    /// How many bytes of records the request allows for the partitions that have some.
    bytes: u64,
}

/// `None` where no partition has a record to read.
async fn news<I: Io>(shard: &Shard<I>, partitions: &[Asked<'_>]) -> Option<News> {
    let mut news: Option<News> = None;
    let mut turns = Turns::new(shard.io());
    for asked in partitions {
        turns.step().await;
        let Ok(hosted) = asked.hosted else { continue };
        let Ok(partition) = shard.partition(hosted.id) else { continue };
        if partition.offsets().high_watermark > hosted.from {
            let before = news.unwrap_or(News { batch_bytes: 0, bytes: 0 });
            let more = u64::try_from(asked.partition.partition_max_bytes).unwrap_or(0);
            news = Some(News {
                batch_bytes: before.batch_bytes.max(partition.settings().max_message_bytes),
                bytes: before.bytes.saturating_add(more),
            });
        }
    }
    news
}

impl<I: Io> Answer<'_, I> {
    /// Whether it tells its client more than that there is nothing.
    fn is_worth_sending(&self) -> bool {
        self.fetched.iter().any(|partition| partition.outcome.as_ref().map_or(true, |read| read.bytes > 0))
    }

    /// Whether it is worth sending before its time: it has an error, or as many bytes as the client wants or as there
    /// is memory for.
    fn is_enough(&self, min_bytes: u64) -> bool {
        let mut bytes = 0;
        for partition in &self.fetched {
            match &partition.outcome {
                Ok(read) => bytes += u64::from(read.bytes),
                Err(_) => return true,
            }
        }
        self.is_cut || bytes >= min_bytes
    }
}

/// How many bytes of records the answer may have, but for a single larger batch.
pub(crate) fn limit_of<I: Io>(shard: &Shard<I>, asked: &FetchRequest<'_>) -> u32 {
    let limit = u32::try_from(asked.max_bytes).unwrap_or(0);
    limit.min(shard.config().broker.fetch_bytes_max).min(FETCH_BYTES_MAX)
}

/// Reads the partitions with the memory there is; from files alone where there is none, and if that gives no records
/// once there is some.
async fn read_all<'a, I: Io>(
    shard: &Shard<I>,
    request: &Request<I>,
    asked: &FetchRequest<'_>,
    partitions: &[Asked<'a>],
    news: Option<News>,
) -> Answer<'a, I> {
    let heads = (partitions.len() * (size_of::<Fetched<'_, I>>() + HEAD_BYTES)) as u64;
    let reading = Reading { shard, partitions, limit: limit_of(shard, asked), heads };
    let Some(news) = news else { return reading.read(Source::Nothing, 0).await };
    let wanted = news.bytes.min(u64::from(reading.limit));
    let (least, most) = (heads + u64::from(news.batch_bytes), heads + wanted);
    if let Some(memory) = reply_memory::try_reserve_fetched(shard, least, most) {
        return reading.read(Source::Anywhere(memory), wanted).await;
    }
    if heads + FROM_FILE_BYTES <= reply_memory::SMALL_BYTES
        && let Some(memory) = reply_memory::try_reserve_anyway(shard, &request.connection)
    {
        let answer = reading.read(Source::Files(memory), wanted).await;
        if answer.is_worth_sending() {
            return answer;
        }
    }
    let memory = reply_memory::reserve_fetched(shard, least, most);
    // What waits behind this fetch may hold the memory that it would wait for.
    let memory = first(memory, request.connection.hurried()).await.ok().flatten();
    reading.read(memory.map_or(Source::Nothing, Source::Anywhere), wanted).await
}

/// Where records are read, and the memory for what is kept of them.
enum Source {
    /// Nowhere: there is no memory, or no record.
    Nothing,
    /// Wherever they are.
    Anywhere(Held),
    /// From files also where they are in memory, but for what isn't in files yet.
    Files(Held),
}

/// Partitions to be read in order, under the limits of one request.
struct Reading<'r, 'a, I: Io> {
    shard: &'r Shard<I>,
    partitions: &'r [Asked<'a>],
    /// Bytes of records in the answer, but for the first batch.
    limit: u32,
    /// What is kept besides records, in bytes.
    heads: u64,
}

impl<'a, I: Io> Reading<'_, 'a, I> {
    /// Until the limit is used up, or the memory. The first partition with data may exceed the limit by a batch, so that a
    /// large batch can always be read (KIP-74); so there is memory for the largest, or none is read.
    async fn read(&self, source: Source, wanted: u64) -> Answer<'a, I> {
        let (memory, from_files) = match source {
            Source::Nothing => (None, false),
            Source::Anywhere(memory) => (Some(memory), false),
            Source::Files(memory) => (Some(memory), true),
        };
        let mut room = memory.as_ref().map_or(0, |memory| memory.amount().saturating_sub(self.heads));
        let is_cut = from_files || room < wanted;
        let mut left = self.limit;
        let mut nothing_yet = memory.is_some();
        let mut fetched = Vec::with_capacity(self.partitions.len());
        let mut turns = Turns::new(self.shard.io());
        for partition in self.partitions {
            turns.step().await;
            let own_limit = u32::try_from(partition.partition.partition_max_bytes).unwrap_or(0);
            let max_bytes = own_limit.min(left).min(fitting(room, from_files));
            let outcome = match partition.hosted {
                Ok(hosted) => read(self.shard, hosted, max_bytes, (nothing_yet, from_files)).await,
                Err(refused) => Err(refused),
            };
            if let Ok(read) = &outcome
                && read.bytes > 0
            {
                nothing_yet = false;
                left = left.saturating_sub(read.bytes);
                room = room.saturating_sub(bytes_kept(read));
            }
            fetched.push(Fetched { topic: partition.topic, asked: partition.partition, outcome });
        }
        Answer { fetched, memory, is_cut }
    }
}

/// How many bytes of records may be read where so many may be kept.
fn fitting(room: u64, from_files: bool) -> u32 {
    if !from_files {
        return u32::try_from(room).unwrap_or(u32::MAX);
    }
    if room >= FROM_FILE_BYTES { u32::MAX } else { 0 }
}

/// What an answer with these records keeps in memory: of those in files nothing.
fn bytes_kept<I: Io>(read: &Read<I>) -> u64 {
    let kept = |piece: &StorePiece<I>| match piece {
        StorePiece::Memory(piece) => reply_memory::bytes_kept(piece),
        StorePiece::File { .. } => 0,
    };
    read.pieces.iter().map(kept).sum()
}

async fn read<I: Io>(
    shard: &Shard<I>,
    hosted: Hosted,
    max_bytes: u32,
    (at_least_one, from_files): (bool, bool),
) -> Result<Read<I>, NotServed> {
    let partition = shard.partition(hosted.id)?;
    let request =
        ReadRequest { offset: hosted.from, max_bytes, at_least_one, bound: ReadBound::HighWatermark };
    let log = partition.log();
    let read = if from_files { log.read_files(request).await } else { log.read(request).await };
    read.map_err(|error| {
        if partition.is_closed() {
            let gone = NotServed::from(ErrorCode::NOT_LEADER_OR_FOLLOWER);
            return shard.partition(hosted.id).err().unwrap_or(gone);
        }
        error_code::of_read(&error).into()
    })
}

async fn respond<I: Io>(
    shard: &Shard<I>,
    request: &Request<I>,
    asked: &FetchRequest<'_>,
    answering: Answering<'_>,
    answer: Answer<'_, I>,
) -> Result<Response<I>, EncodeError> {
    if request.connection.is_forwarded() {
        return Ok(Response::Fetched(part(request, asked, answer)));
    }
    let came = answer.fetched.iter().map(Fetched::came);
    let (session_id, told) = match choose(shard, request, answering, came).await {
        Ok(chosen) => chosen,
        Err(error) => return answer_error(request, error),
    };
    let fetched = told.of(answer.fetched);
    let mut counts = counts(shard, fetched.iter().map(|fetched| fetched.topic)).await.into_iter();
    let begin = start(request, ErrorCode::NONE, session_id, counts.len());
    let mut writer = FetchResponseWriter::begin(FetchFrame::default(), &begin)?;
    let mut reads = Vec::new();
    let mut moved_away = false;
    let mut turns = Turns::new(shard.io());
    let mut left = 0;
    for partition in fetched {
        turns.step().await;
        if left == 0 {
            left = counts.next().expect("there is a count for every run of a topic");
            writer.topic(partition.topic, left)?;
        }
        left -= 1;
        let index = partition.index();
        match partition.outcome {
            Ok(read) => {
                writer.partition(&found(index, &read, asked), bytes(&read))?;
                reads.extend((read.bytes > 0).then_some(read));
            }
            Err(why) => {
                moved_away |= why.leader.is_some();
                writer.partition(&not_found(request.version, index, why), 0)?;
            }
        }
    }
    let endpoints = shard.endpoints_told_if(moved_away && request.version >= ENDPOINTS_FROM, request);
    let endpoints: Vec<_> = endpoints.iter().map(Endpoint::on_wire).collect();
    let kept = reads.iter().map(bytes_kept).sum();
    Ok(Response::Reply(splice(writer.finish(&endpoints)?, reads, answer.memory, kept)))
}

/// What the shard that has the client's socket makes its answer of.
fn part<I: Io>(
    request: &Request<I>,
    asked: &FetchRequest<'_>,
    answer: Answer<'_, I>,
) -> response::Fetched<I> {
    let partition = |fetched: Fetched<'_, I>| {
        let index = fetched.index();
        match fetched.outcome {
            Ok(read) => (found(index, &read, asked), (read.bytes > 0).then_some(read)),
            Err(why) => (not_found(request.version, index, why), None),
        }
    };
    response::Fetched {
        partitions: answer.fetched.into_iter().map(partition).collect(),
        memory: answer.memory,
    }
}

/// How many partitions stand one after the other of each topic.
pub(crate) async fn counts<'a, I: Io>(
    shard: &Shard<I>,
    topics: impl Iterator<Item = TopicRef<'a>>,
) -> Vec<usize> {
    let mut counts: Vec<usize> = Vec::new();
    let (mut turns, mut last) = (Turns::new(shard.io()), None);
    for topic in topics {
        turns.step().await;
        match counts.last_mut() {
            Some(count) if last == Some(topic) => *count += 1,
            Some(_) | None => counts.push(1),
        }
        last = Some(topic);
    }
    counts
}

fn bytes<I: Io>(read: &Read<I>) -> usize {
    usize::try_from(read.bytes).expect("32 bits fit a size")
}

fn found<I: Io>(index: i32, read: &Read<I>, asked: &FetchRequest<'_>) -> FetchedPartition<'static> {
    FetchedPartition {
        partition_index: index,
        high_watermark: read.high_watermark.value(),
        last_stable_offset: read.high_watermark.value(),
        log_start_offset: read.log_start.value(),
        aborted_transactions: (asked.isolation_level == 1).then_some(&[]),
        ..FetchedPartition::default()
    }
}

fn not_found(version: i16, index: i32, why: NotServed) -> FetchedPartition<'static> {
    // A topic that went while the request waited is gone by the name it was asked for.
    let gone_by_name = version < TOPIC_ID_FROM && why.error == ErrorCode::UNKNOWN_TOPIC_ID;
    FetchedPartition {
        partition_index: index,
        error_code: if gone_by_name { ErrorCode::UNKNOWN_TOPIC_OR_PARTITION } else { why.error },
        high_watermark: -1,
        current_leader: why
            .leader
            .map(|(leader_id, epoch)| LeaderIdAndEpoch { leader_id, leader_epoch: epoch.0 }),
        ..FetchedPartition::default()
    }
}

/// Puts the records between the pieces of the response, by reference. They keep so many bytes.
fn splice<I: Io>(frame: FetchFrame, reads: Vec<Read<I>>, memory: Option<Held>, kept: u64) -> Reply<I> {
    let pieces: Vec<Piece> = frame.pieces().collect();
    let head = Rc::new(frame.head);
    let memory = memory.map(|mut memory| {
        memory.set(head.len() as u64 + kept);
        memory
    });
    let mut reply =
        Reply { pieces: Vec::with_capacity(pieces.len() + reads.len()), memory, held: Vec::new() };
    let mut reads = reads.into_iter();
    for piece in pieces {
        match piece {
            Piece::Head(range) => {
                reply.pieces.push(ReplyPiece::Memory(SendPiece::Shared(Rc::clone(&head), range)));
            }
            Piece::Records(_) => {
                let mut read = reads.next().expect("there is a read for every splice");
                let records = core::mem::take(&mut read.pieces);
                reply.pieces.extend(records.into_iter().map(reply_piece));
                // It keeps the bytes where they are until they are sent.
                reply.held.push(Box::new(read) as Box<dyn Any>);
            }
        }
    }
    reply
}

fn reply_piece<I: Io>(piece: StorePiece<I>) -> ReplyPiece<I> {
    match piece {
        StorePiece::Memory(piece) => ReplyPiece::Memory(piece),
        StorePiece::File { file, position, bytes } => ReplyPiece::File { file, position, bytes },
    }
}
