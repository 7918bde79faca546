//! Sockets.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::cell::Cell;
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use engine_io::{
    BLOCK_BYTES, Buffer, Closer, DirectFile, Io, ListenMode, Listener, OpenMode, SendPiece, Stream,
    StreamReader, StreamWriter, Task, deadline,
};
use sim::{CrashMode, NetworkSettings, Sim, SimIo, SimNode, SimReader, SimStream, SimWriter};

const BLOCK: u64 = BLOCK_BYTES as u64;

/// Two machines and their shards; the first one serves.
struct Pair {
    sim: Sim,
    server: SimNode,
    client: SimNode,
    server_io: SimIo,
    client_io: SimIo,
}

impl Pair {
    fn new(seed: u64) -> Self {
        let sim = Sim::new(seed);
        let (server, client) = (sim.node(), sim.node());
        let (server_io, client_io) = (server.io(), client.io());
        Self { sim, server, client, server_io, client_io }
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::new(self.server.address(), 9092)
    }

    /// A connection: the server's socket, then the client's.
    fn connect(&self) -> (SimStream, SimStream) {
        self.sim.block_on(async {
            let listener = self.server_io.listen(self.address(), ListenMode::Exclusive).await.unwrap();
            let client = self.client_io.connect(self.address()).await.unwrap();
            (listener.accept().await.unwrap(), client)
        })
    }
}

async fn send(writer: &mut SimWriter, bytes: Vec<u8>) -> std::io::Result<()> {
    writer.send(vec![SendPiece::Owned(bytes)]).await
}

async fn receive(reader: &mut SimReader, bytes_max: usize) -> std::io::Result<Vec<u8>> {
    let (received, buffer) = reader.receive_some(Vec::with_capacity(bytes_max)).await;
    received.map(|_| buffer)
}

fn numbered(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| u8::try_from(at % 251).unwrap()).collect()
}

#[test]
fn bytes_arrive_in_order_whatever_the_pieces() {
    for seed in 0..20 {
        let pair = Pair::new(seed);
        let (server, client) = pair.connect();
        assert_eq!(server.peer_address(), client.local_address());
        assert_eq!((client.peer_address(), server.local_address()), (pair.address(), pair.address()));
        let (_server_reader, mut writer) = server.split();
        let (mut reader, _client_writer) = client.split();
        let task = pair.server_io.spawn(async move {
            for piece in numbered(700_000).chunks(333_333) {
                send(&mut writer, piece.to_vec()).await.unwrap();
            }
        });
        let (result, bytes) = pair.sim.block_on(reader.receive_exactly(vec![9], 700_000));
        result.unwrap();
        assert_eq!((bytes[0], &bytes[1..]), (9, &numbered(700_000)[..]));
        pair.sim.block_on(task.join());
    }
}

#[test]
fn receives_are_short_by_chance_and_never_larger_than_what_fits() {
    let pair = Pair::new(1);
    pair.sim.network().configure(NetworkSettings { receive_bytes_max: 100, ..NetworkSettings::default() });
    let (server, client) = pair.connect();
    let (_server_reader, mut writer) = server.split();
    let (mut reader, _client_writer) = client.split();
    let mut lengths = BTreeSet::new();
    pair.sim.block_on(async {
        send(&mut writer, vec![1; 20_000]).await.unwrap();
        pair.client_io.sleep(Duration::from_millis(50)).await;
        for _ in 0..200 {
            lengths.insert(receive(&mut reader, 80).await.unwrap().len());
        }
    });
    assert!(lengths.len() > 20 && lengths.contains(&80) && *lengths.last().unwrap() <= 80, "{lengths:?}");
}

#[test]
fn a_slow_reader_holds_its_writer_up() {
    let pair = Pair::new(2);
    pair.sim
        .network()
        .configure(NetworkSettings { in_flight_bytes_max: 10_000, ..NetworkSettings::default() });
    let (server, client) = pair.connect();
    let (_server_reader, mut writer) = server.split();
    let (mut reader, _client_writer) = client.split();
    let sent = Rc::new(Cell::new(0));
    let counted = Rc::clone(&sent);
    let task = pair.server_io.spawn(async move {
        for _ in 0..30 {
            send(&mut writer, vec![1; 1_000]).await.unwrap();
            counted.set(counted.get() + 1);
        }
    });
    pair.sim.run_for(Duration::from_secs(1));
    assert_eq!(sent.get(), 10);
    let (result, _) = pair.sim.block_on(reader.receive_exactly(Vec::new(), 5_000));
    result.unwrap();
    pair.sim.run_for(Duration::from_secs(1));
    assert_eq!(sent.get(), 15);
    assert!(!task.is_finished());
}

#[test]
fn a_port_is_one_listeners_unless_all_share_it() {
    let pair = Pair::new(3);
    let io = &pair.server_io;
    pair.sim.block_on(async {
        let kind = async |address, mode| io.listen(address, mode).await.err().map(|error| error.kind());
        let first = io.listen(pair.address(), ListenMode::Exclusive).await.unwrap();
        let any = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 9092);
        assert_eq!(kind(pair.address(), ListenMode::Exclusive).await, Some(ErrorKind::AddrInUse));
        assert_eq!(kind(any, ListenMode::SharedByShards).await, Some(ErrorKind::AddrInUse));
        drop(first);
        let _shared = io.listen(any, ListenMode::SharedByShards).await.unwrap();
        let _also = io.listen(any, ListenMode::SharedByShards).await.unwrap();
        let foreign = SocketAddr::new(pair.client.address(), 9092);
        assert_eq!(kind(foreign, ListenMode::Exclusive).await, Some(ErrorKind::AddrNotAvailable));
        let free = SocketAddr::new(pair.server.address(), 0);
        let (one, other) = (
            io.listen(free, ListenMode::Exclusive).await.unwrap(),
            io.listen(free, ListenMode::Exclusive).await.unwrap(),
        );
        assert_ne!(one.local_address().port(), 0);
        assert_ne!(one.local_address(), other.local_address());
    });
}

#[test]
fn connections_spread_over_the_shards_that_share_a_port() {
    let pair = Pair::new(4);
    pair.sim.block_on(async {
        let one = pair.server_io.listen(pair.address(), ListenMode::SharedByShards).await.unwrap();
        let other = pair.server.io().listen(pair.address(), ListenMode::SharedByShards).await.unwrap();
        let mut clients = Vec::new();
        for _ in 0..40 {
            clients.push(pair.client_io.connect(pair.address()).await.unwrap());
        }
        let mut accepted = [0, 0];
        for (listener, count) in [&one, &other].into_iter().zip(&mut accepted) {
            let at = pair.server_io.now().after(Duration::from_millis(1));
            while let Some(stream) = deadline(&pair.server_io, at, listener.accept()).await {
                stream.unwrap();
                *count += 1;
            }
        }
        assert_eq!(accepted[0] + accepted[1], 40);
        assert!(accepted.iter().all(|count| *count > 5), "{accepted:?}");
    });
}

#[test]
fn nobody_listening_refuses_and_nobody_there_is_unreachable() {
    let pair = Pair::new(5);
    pair.sim.block_on(async {
        let kind = async |address| pair.client_io.connect(address).await.err().unwrap().kind();
        assert_eq!(kind(pair.address()).await, ErrorKind::ConnectionRefused);
        let nowhere = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 77)), 9092);
        assert_eq!(kind(nowhere).await, ErrorKind::HostUnreachable);
        let local = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9092);
        let _listener = pair.server_io.listen(local, ListenMode::Exclusive).await.unwrap();
        assert_eq!(kind(pair.address()).await, ErrorKind::ConnectionRefused);
        pair.server_io.connect(local).await.unwrap();
    });
    assert_eq!(pair.sim.network().connection_count(), 0);
}

#[test]
fn a_closed_listener_breaks_what_it_never_accepted() {
    let pair = Pair::new(6);
    pair.sim.block_on(async {
        let listener = pair.server_io.listen(pair.address(), ListenMode::Exclusive).await.unwrap();
        let (mut reader, _writer) = pair.client_io.connect(pair.address()).await.unwrap().split();
        drop(listener);
        let mut outcomes = Vec::new();
        for _ in 0..2 {
            outcomes.push(receive(&mut reader, 10).await.map_err(|error| error.kind()));
            pair.client_io.sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(outcomes[1], Err(ErrorKind::ConnectionReset));
    });
}

#[test]
fn a_given_up_connect_leaves_no_connection() {
    let pair = Pair::new(7);
    pair.sim.block_on(async {
        let _listener = pair.server_io.listen(pair.address(), ListenMode::Exclusive).await.unwrap();
        let at = pair.client_io.now().after(Duration::from_micros(5));
        assert!(deadline(&pair.client_io, at, pair.client_io.connect(pair.address())).await.is_none());
        pair.client_io.sleep(Duration::from_millis(10)).await;
    });
    assert_eq!(pair.sim.network().connection_count(), 0);
}

#[test]
fn a_client_that_ends_sending_still_receives() {
    let pair = Pair::new(8);
    let (server, client) = pair.connect();
    let (mut server_reader, mut server_writer) = server.split();
    let (mut reader, mut writer) = client.split();
    pair.sim.block_on(async {
        send(&mut writer, b"ask".to_vec()).await.unwrap();
        writer.end_sending();
        assert_eq!(send(&mut writer, b"more".to_vec()).await.unwrap_err().kind(), ErrorKind::BrokenPipe);
        let (result, asked) = server_reader.receive_exactly(Vec::new(), 3).await;
        result.unwrap();
        assert_eq!(asked, b"ask");
        assert_eq!(receive(&mut server_reader, 10).await.unwrap(), b"");
        send(&mut server_writer, b"answer".to_vec()).await.unwrap();
        let (result, answer) = reader.receive_exactly(Vec::new(), 6).await;
        result.unwrap();
        assert_eq!(answer, b"answer");
        let (result, _) = server_reader.receive_exactly(Vec::new(), 1).await;
        assert_eq!(result.unwrap_err().kind(), ErrorKind::UnexpectedEof);
    });
}

#[test]
fn a_dropped_socket_ends_after_what_it_sent_and_only_when_both_halves_are_gone() {
    let pair = Pair::new(9);
    let (server, client) = pair.connect();
    let (server_reader, mut server_writer) = server.split();
    let (mut reader, mut writer) = client.split();
    pair.sim.block_on(async {
        drop(server_reader);
        send(&mut server_writer, b"bye".to_vec()).await.unwrap();
        drop(server_writer);
        let (result, bytes) = reader.receive_exactly(Vec::new(), 3).await;
        result.unwrap();
        assert_eq!(bytes, b"bye");
        assert_eq!(receive(&mut reader, 10).await.unwrap(), b"");
        send(&mut writer, b"anyone?".to_vec()).await.unwrap();
        pair.client_io.sleep(Duration::from_millis(10)).await;
        assert_eq!(
            send(&mut writer, b"anyone?".to_vec()).await.unwrap_err().kind(),
            ErrorKind::ConnectionReset
        );
    });
    drop((reader, writer));
    assert_eq!(pair.sim.network().connection_count(), 0);
}

#[test]
fn a_socket_dropped_with_bytes_unread_breaks_the_connection() {
    let pair = Pair::new(17);
    let (server, client) = pair.connect();
    let (mut server_reader, mut server_writer) = server.split();
    pair.sim.block_on(async {
        send(&mut server_writer, b"unwanted".to_vec()).await.unwrap();
        pair.server_io.sleep(Duration::from_millis(10)).await;
        drop(client);
        pair.server_io.sleep(Duration::from_millis(10)).await;
        assert_eq!(receive(&mut server_reader, 10).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    });
}

#[test]
fn a_closer_ends_what_is_awaited_on_both_sides() {
    let pair = Pair::new(10);
    pair.sim.network().configure(NetworkSettings { in_flight_bytes_max: 100, ..NetworkSettings::default() });
    let (server, client) = pair.connect();
    let (mut server_reader, mut server_writer) = server.split();
    let (mut reader, _writer) = client.split();
    let closer = server_reader.closer();
    let receiving = pair.server_io.spawn(async move {
        assert_eq!(receive(&mut server_reader, 10).await.unwrap(), b"");
    });
    let sending = pair.server_io.spawn(async move {
        assert_eq!(send(&mut server_writer, vec![1; 500]).await.unwrap_err().kind(), ErrorKind::BrokenPipe);
    });
    pair.sim.run_for(Duration::from_millis(10));
    assert!(!receiving.is_finished() && !sending.is_finished());
    closer.close();
    closer.close();
    pair.sim.block_on(async {
        receiving.join().await;
        sending.join().await;
        let (result, bytes) = reader.receive_exactly(Vec::new(), 101).await;
        assert_eq!((result.unwrap_err().kind(), bytes.len()), (ErrorKind::UnexpectedEof, 100));
    });
}

#[test]
fn a_reset_reaches_both_ends() {
    let pair = Pair::new(11);
    let (server, client) = pair.connect();
    let (mut server_reader, _server_writer) = server.split();
    let (mut reader, _writer) = client.split();
    pair.sim.network().reset_connections(&pair.client);
    pair.sim.block_on(async {
        assert_eq!(receive(&mut server_reader, 10).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
        assert_eq!(receive(&mut reader, 10).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    });
}

#[test]
fn resets_come_by_chance_where_they_are_asked_for() {
    let pair = Pair::new(12);
    pair.sim.network().configure(NetworkSettings { reset_one_in: Some(20), ..NetworkSettings::default() });
    let (_server, client) = pair.connect();
    let (_reader, mut writer) = client.split();
    let error = pair.sim.block_on(async {
        loop {
            if let Err(error) = send(&mut writer, vec![1; 10]).await {
                break error;
            }
            pair.client_io.sleep(Duration::from_millis(3)).await;
        }
    });
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[test]
fn a_crash_breaks_the_machines_connections_and_frees_its_ports() {
    let pair = Pair::new(13);
    let (server, client) = pair.connect();
    let (mut reader, _writer) = client.split();
    pair.server.crash(CrashMode::KeepAll);
    pair.sim.block_on(async {
        assert_eq!(receive(&mut reader, 10).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
        drop(server);
        let refused = pair.client_io.connect(pair.address()).await.err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        let io = pair.server.io();
        let _listener = io.listen(pair.address(), ListenMode::Exclusive).await.unwrap();
        pair.client_io.connect(pair.address()).await.unwrap();
    });
}

#[test]
fn a_cut_way_holds_bytes_back_until_it_is_healed() {
    let pair = Pair::new(14);
    let (server, client) = pair.connect();
    let (mut server_reader, mut server_writer) = server.split();
    let (mut reader, mut writer) = client.split();
    pair.sim.network().cut(&pair.client, &pair.server);
    pair.sim.block_on(async {
        send(&mut writer, b"there".to_vec()).await.unwrap();
        send(&mut server_writer, b"back".to_vec()).await.unwrap();
        let (result, bytes) = reader.receive_exactly(Vec::new(), 4).await;
        result.unwrap();
        assert_eq!(bytes, b"back");
        let at = pair.server_io.now().after(Duration::from_secs(5));
        assert!(deadline(&pair.server_io, at, receive(&mut server_reader, 10)).await.is_none());
        pair.sim.network().heal();
        let (result, bytes) = server_reader.receive_exactly(Vec::new(), 5).await;
        result.unwrap();
        assert_eq!(bytes, b"there");
    });
}

/// A file of eight numbered blocks on the server.
async fn numbered_file(io: &SimIo) {
    io.create_folder(Path::new("/data")).await.unwrap();
    let file = io.open(Path::new("/data/log"), OpenMode::New).await.unwrap();
    file.write(0, Rc::new(numbered_buffer(io))).await.unwrap();
}

fn numbered_buffer(io: &SimIo) -> sim::SimBuffer {
    let mut buffer = io.buffer(8 * BLOCK_BYTES);
    buffer.as_mut_slice().copy_from_slice(&numbered(8 * BLOCK_BYTES));
    buffer
}

#[test]
fn a_file_is_sent_from_any_position_cold_or_warm() {
    for seed in 0..20 {
        let pair = Pair::new(seed);
        let (server, client) = pair.connect();
        let (_server_reader, mut server_writer) = server.split();
        let (mut reader, _writer) = client.split();
        pair.sim.block_on(async {
            numbered_file(&pair.server_io).await;
            let file = pair.server_io.open_send_file(Path::new("/data/log")).await.unwrap();
            server_writer.send_file(&file, 1_000, 20_000).await.unwrap();
            let (result, bytes) = reader.receive_exactly(Vec::new(), 20_000).await;
            result.unwrap();
            assert_eq!(bytes, numbered(8 * BLOCK_BYTES)[1_000..21_000]);
            let past_the_end = server_writer.send_file(&file, 7 * BLOCK, 2 * BLOCK).await.unwrap_err();
            assert_eq!(past_the_end.kind(), ErrorKind::UnexpectedEof);
        });
    }
}

/// Sends two blocks of a file, then changes the file as `change` says before the client has received them.
fn change_what_is_owed(change: impl AsyncFn(&SimIo, sim::SimFile)) {
    let pair = Pair::new(15);
    let (server, client) = pair.connect();
    let (_server_reader, mut server_writer) = server.split();
    pair.sim.block_on(async {
        numbered_file(&pair.server_io).await;
        let file = pair.server_io.open_send_file(Path::new("/data/log")).await.unwrap();
        server_writer.send_file(&file, 2 * BLOCK, 2 * BLOCK).await.unwrap();
        let file = pair.server_io.open(Path::new("/data/log"), OpenMode::Existing).await.unwrap();
        change(&pair.server_io, file).await;
    });
    drop(client);
}

#[test]
#[should_panic(expected = "bytes that a socket still owes its client")]
fn a_write_over_bytes_that_a_socket_owes_is_a_bug() {
    change_what_is_owed(async |io, file| {
        file.write(BLOCK, Rc::new(io.buffer(2 * BLOCK_BYTES))).await.unwrap()
    });
}

#[test]
#[should_panic(expected = "bytes that a socket still owes its client")]
fn a_truncation_of_bytes_that_a_socket_owes_is_a_bug() {
    change_what_is_owed(async |_, file| file.truncate(3 * BLOCK).await.unwrap());
}

#[test]
fn a_write_beside_bytes_that_a_socket_owes_is_fine() {
    change_what_is_owed(async |io, file| {
        file.write(4 * BLOCK, Rc::new(io.buffer(BLOCK_BYTES))).await.unwrap()
    });
    change_what_is_owed(async |io, file| file.write(0, Rc::new(io.buffer(2 * BLOCK_BYTES))).await.unwrap());
}

#[test]
fn what_was_received_or_will_never_be_is_no_longer_owed() {
    let pair = Pair::new(16);
    let (server, client) = pair.connect();
    let (_server_reader, mut server_writer) = server.split();
    let (mut reader, writer) = client.split();
    pair.sim.block_on(async {
        numbered_file(&pair.server_io).await;
        let sent = pair.server_io.open_send_file(Path::new("/data/log")).await.unwrap();
        let file = pair.server_io.open(Path::new("/data/log"), OpenMode::Existing).await.unwrap();
        server_writer.send_file(&sent, 0, BLOCK).await.unwrap();
        let (result, _) = reader.receive_exactly(Vec::new(), BLOCK_BYTES).await;
        result.unwrap();
        file.write(0, Rc::new(numbered_buffer(&pair.server_io))).await.unwrap();
        server_writer.send_file(&sent, 0, BLOCK).await.unwrap();
        pair.server_io.sleep(Duration::from_millis(50)).await;
        server_writer.send_file(&sent, BLOCK, BLOCK).await.unwrap();
        drop((reader, writer));
        pair.server_io.sleep(Duration::from_millis(50)).await;
        file.truncate(0).await.unwrap();
    });
}
