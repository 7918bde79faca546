//! Sockets over loopback.

#![expect(clippy::unwrap_used, reason = "a test may fail anywhere")]

#[cfg(test)]
mod harness;

use core::time::Duration;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;

use engine_io::{
    Buffer, Closer, DirectFile, Io, ListenMode, Listener, OpenMode, SendFile, SendPiece, Stream,
    StreamReader, StreamWriter, Task,
};
use engine_io_glommio::{GlommioIo, GlommioListener, GlommioStream};
use harness::{on_shard, pattern};

fn anywhere() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

async fn listen(io: &GlommioIo) -> GlommioListener {
    io.listen(anywhere(), ListenMode::Exclusive).await.unwrap()
}

async fn pair(io: &GlommioIo) -> (GlommioStream, GlommioStream) {
    let listener = listen(io).await;
    let client = io.connect(listener.local_address()).await.unwrap();
    (client, listener.accept().await.unwrap())
}

/// Receives until the peer closes, in pieces of at most `bytes_max`.
async fn receive_all(reader: &mut impl StreamReader, bytes_max: usize) -> Vec<u8> {
    let mut whole = Vec::new();
    loop {
        let (count, buffer) = reader.receive_some(Vec::with_capacity(bytes_max)).await;
        if count.unwrap() == 0 {
            return whole;
        }
        whole.extend_from_slice(&buffer);
    }
}

#[test]
fn both_ends_know_both_addresses() {
    on_shard(|io, _| async move {
        let (client, server) = pair(&io).await;
        assert_eq!(client.peer_address(), server.local_address());
        assert_eq!(server.peer_address(), client.local_address());
    });
}

#[test]
fn a_taken_port_is_refused_unless_shards_share_it() {
    on_shard(|io, _| async move {
        let first = listen(&io).await;
        let again = io.listen(first.local_address(), ListenMode::Exclusive).await;
        assert_eq!(again.unwrap_err().kind(), ErrorKind::AddrInUse);
        let shared = io.listen(anywhere(), ListenMode::SharedByShards).await.unwrap();
        io.listen(shared.local_address(), ListenMode::SharedByShards).await.unwrap();
    });
}

#[test]
fn nobody_listening_is_an_error() {
    on_shard(|io, _| async move {
        let address = listen(&io).await.local_address();
        assert_eq!(io.connect(address).await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    });
}

#[test]
fn questions_and_answers_pass_in_turn() {
    on_shard(|io, _| async move {
        let (client, server) = pair(&io).await;
        let echo = io.spawn(async move {
            let (mut reader, mut writer) = server.split();
            loop {
                let (count, buffer) = reader.receive_some(Vec::with_capacity(4096)).await;
                if count.unwrap() == 0 {
                    return;
                }
                writer.send(vec![SendPiece::Owned(buffer)]).await.unwrap();
            }
        });
        let (mut reader, mut writer) = client.split();
        for round in 0..1000_u32 {
            writer.send(vec![SendPiece::Owned(round.to_be_bytes().to_vec())]).await.unwrap();
            let (result, answer) = reader.receive_exactly(Vec::new(), 4).await;
            result.unwrap();
            assert_eq!(answer, round.to_be_bytes());
        }
        drop((reader, writer));
        echo.join().await;
    });
}

#[test]
fn received_bytes_are_appended_and_never_more_than_asked() {
    on_shard(|io, _| async move {
        let (client, server) = pair(&io).await;
        let (_reader, mut writer) = client.split();
        let bytes = pattern(1 << 20);
        let (mut reader, _writer) = server.split();
        let sent = bytes.clone();
        let send = io.spawn(async move { writer.send(vec![SendPiece::Owned(sent)]).await.unwrap() });
        let mut buffer = Vec::with_capacity(1 << 16);
        for bytes in [0, 1, 4, 100, 300_000] {
            let before = buffer.len();
            let (result, back) = reader.receive_exactly(buffer, bytes).await;
            result.unwrap();
            assert_eq!(back.len(), before + bytes);
            buffer = back;
        }
        buffer.extend_from_slice(&receive_exactly(&mut reader, bytes.len() - buffer.len()).await);
        assert_eq!(buffer, bytes);
        send.join().await;
    });
}

async fn receive_exactly(reader: &mut impl StreamReader, bytes: usize) -> Vec<u8> {
    let (result, buffer) = reader.receive_exactly(Vec::new(), bytes).await;
    result.unwrap();
    buffer
}

#[test]
fn an_end_before_the_last_byte_is_an_error_and_the_bytes_come_back() {
    on_shard(|io, _| async move {
        let (client, server) = pair(&io).await;
        let (mut reader, _writer) = server.split();
        let (_reader, mut writer) = client.split();
        writer.send(vec![SendPiece::Owned(vec![1, 2, 3])]).await.unwrap();
        drop((_reader, writer));
        let (result, buffer) = reader.receive_exactly(vec![0], 4).await;
        assert_eq!(result.unwrap_err().kind(), ErrorKind::UnexpectedEof);
        assert_eq!(buffer, [0, 1, 2, 3]);
    });
}

/// Far more than both socket buffers hold, in every kind of piece, to a reader that takes little at a time.
#[test]
fn many_pieces_reach_a_slow_reader_whole_and_in_order() {
    on_shard(|io, folder| async move {
        let file = io.open(&folder.join("log"), OpenMode::New).await.unwrap();
        let bytes = pattern(1 << 20);
        let mut buffer = io.buffer(bytes.len());
        buffer.as_mut_slice().copy_from_slice(&bytes);
        let buffer = Rc::new(buffer);
        file.write(0, Rc::clone(&buffer)).await.unwrap();
        let read = file.read(0, bytes.len()).await.unwrap();
        let mut pieces = Vec::new();
        let mut expected = Vec::new();
        for round in 0..200_usize {
            let range = round * 17..bytes.len() / 16 + round;
            pieces.push(SendPiece::Buffer(Rc::clone(&buffer), range.clone()));
            pieces.push(SendPiece::Owned(vec![u8::try_from(round).unwrap(); round % 3]));
            pieces.push(SendPiece::Read(read.clone(), range.clone()));
            expected.extend_from_slice(&bytes[range.clone()]);
            expected.resize(expected.len() + round % 3, u8::try_from(round).unwrap());
            expected.extend_from_slice(&bytes[range]);
        }
        let (client, server) = pair(&io).await;
        let (_reader, mut writer) = client.split();
        let send = io.spawn(async move { writer.send(pieces).await.unwrap() });
        let (mut reader, _writer) = server.split();
        let received = receive_exactly_slowly(&mut reader, expected.len()).await;
        assert!(received == expected);
        send.join().await;
    });
}

async fn receive_exactly_slowly(reader: &mut impl StreamReader, bytes: usize) -> Vec<u8> {
    let mut whole = Vec::new();
    while whole.len() < bytes {
        let (count, buffer) = reader.receive_some(Vec::with_capacity(10_000)).await;
        assert!(count.unwrap() > 0);
        whole.extend_from_slice(&buffer);
    }
    whole
}

#[test]
fn a_long_send_lets_other_tasks_run() {
    on_shard(|io, _| async move {
        let (client, server) = pair(&io).await;
        let (_reader, mut writer) = client.split();
        let (mut reader, _writer) = server.split();
        let drain = io.spawn(async move {
            receive_all(&mut reader, 1 << 20).await;
        });
        let turns = Rc::new(core::cell::Cell::new(0));
        let counter = Rc::clone(&turns);
        let other = io.clone();
        let counting = io.spawn(async move {
            loop {
                counter.set(counter.get() + 1);
                other.yield_now().await;
            }
        });
        writer.send(vec![SendPiece::Owned(vec![0; 8 << 20])]).await.unwrap();
        assert!(turns.get() >= 15, "one turn each 512 KiB, not {}", turns.get());
        drop((counting, _reader, writer));
        drain.join().await;
    });
}

#[test]
fn closing_ends_a_receive_and_a_send_that_wait() {
    on_shard(|io, _| async move {
        let (client, server) = pair(&io).await;
        let (mut reader, mut writer) = server.split();
        let closer = reader.closer();
        let receiving = io.spawn(async move {
            let (count, _) = reader.receive_some(Vec::with_capacity(10)).await;
            assert_eq!(count.unwrap(), 0);
        });
        let sending = io.spawn(async move {
            let error = writer.send(vec![SendPiece::Owned(vec![0; 64 << 20])]).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BrokenPipe);
        });
        // Long enough for both to wait; where not, both still end as asserted.
        io.sleep(Duration::from_millis(5)).await;
        closer.close();
        closer.clone().close();
        receiving.join().await;
        sending.join().await;
        closer.close();
        drop(client);
    });
}

#[test]
fn a_closer_does_not_keep_the_connection_open() {
    on_shard(|io, _| async move {
        let (client, server) = pair(&io).await;
        let (reader, writer) = server.split();
        let _closer = reader.closer();
        drop((reader, writer));
        let (mut reader, _writer) = client.split();
        assert!(receive_all(&mut reader, 10).await.is_empty());
    });
}

fn reset(stream: TcpStream) {
    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
}

#[test]
fn a_peer_that_reset_before_accept_does_not_stop_the_listener() {
    on_shard(|io, _| async move {
        let listener = listen(&io).await;
        reset(TcpStream::connect(listener.local_address()).unwrap());
        let (mut reader, _writer) = listener.accept().await.unwrap().split();
        let (count, _) = reader.receive_some(Vec::with_capacity(10)).await;
        assert_eq!(count.unwrap_err().kind(), ErrorKind::ConnectionReset);
        let mut client = TcpStream::connect(listener.local_address()).unwrap();
        client.write_all(b"hello").unwrap();
        let (mut reader, _writer) = listener.accept().await.unwrap().split();
        assert_eq!(receive_exactly(&mut reader, 5).await, b"hello");
    });
}

#[test]
fn a_reset_while_sending_is_an_error_not_a_signal() {
    on_shard(|io, _| async move {
        let listener = listen(&io).await;
        let client = TcpStream::connect(listener.local_address()).unwrap();
        let (_reader, mut writer) = listener.accept().await.unwrap().split();
        reset(client);
        loop {
            let Err(error) = writer.send(vec![SendPiece::Owned(vec![0; 1 << 20])]).await else { continue };
            assert!([ErrorKind::BrokenPipe, ErrorKind::ConnectionReset].contains(&error.kind()), "{error}");
            break;
        }
    });
}

#[test]
fn accepting_waits_for_a_connection_and_dropping_the_wait_loses_none() {
    on_shard(|io, _| async move {
        let listener = listen(&io).await;
        for _ in 0..20 {
            let mut accept = Box::pin(listener.accept());
            assert!(futures_lite::future::poll_once(&mut accept).await.is_none());
            let mut client = TcpStream::connect(listener.local_address()).unwrap();
            drop(accept);
            let (_reader, mut writer) = listener.accept().await.unwrap().split();
            writer.send(vec![SendPiece::Owned(b"in".to_vec())]).await.unwrap();
            let mut answer = [0; 2];
            client.read_exact(&mut answer).unwrap();
            assert_eq!(&answer, b"in");
        }
    });
}

#[test]
fn an_accept_that_waits_wakes_up() {
    on_shard(|io, _| async move {
        let listener = Rc::new(listen(&io).await);
        for _ in 0..20 {
            let accepting = Rc::clone(&listener);
            let accepted = io.spawn(async move { drop(accepting.accept().await.unwrap()) });
            io.sleep(Duration::from_micros(200)).await;
            let client = io.connect(listener.local_address()).await.unwrap();
            accepted.join().await;
            drop(client);
        }
    });
}

/// Direct writes leave nothing in the page cache, so the first send is cold.
#[test]
fn a_file_is_sent_cold_and_warm_exactly() {
    on_shard(|io, folder| async move {
        let bytes = pattern(8 << 20);
        write_direct(&io, &folder.join("log"), &bytes).await;
        let file = io.open_send_file(&folder.join("log")).await.unwrap();
        let len = bytes.len() as u64;
        assert_eq!(file.resident(0, len), 0);
        send_and_compare(&io, &file, 0, &bytes).await;
        bring_in(&file, 0, len).await;
        send_and_compare(&io, &file, 0, &bytes).await;
        send_and_compare(&io, &file, 4097, &bytes[4097..1_000_003]).await;
    });
}

/// Prefetches until all is there: a busy host may take pages back meanwhile.
async fn bring_in(file: &<GlommioIo as Io>::SendFile, position: u64, bytes: u64) {
    for _ in 0..20 {
        file.prefetch(position, bytes).await.unwrap();
        if file.resident(position, bytes) == bytes {
            return;
        }
    }
    panic!("prefetched and not there: {} of {bytes} bytes", file.resident(position, bytes));
}

async fn write_direct(io: &GlommioIo, path: &std::path::Path, bytes: &[u8]) {
    let file = io.open(path, OpenMode::New).await.unwrap();
    for (index, chunk) in bytes.chunks(1 << 20).enumerate() {
        let mut buffer = io.buffer(chunk.len());
        buffer.as_mut_slice().copy_from_slice(chunk);
        file.write((index << 20) as u64, Rc::new(buffer)).await.unwrap();
    }
    file.flush().await.unwrap();
    file.close().await.unwrap();
}

async fn send_and_compare(
    io: &GlommioIo,
    file: &<GlommioIo as Io>::SendFile,
    position: u64,
    expected: &[u8],
) {
    let (client, server) = pair(io).await;
    let (_reader, mut writer) = client.split();
    let (file, bytes) = (file.clone(), expected.len() as u64);
    let send = io.spawn(async move {
        writer.send_file(&file, position, bytes).await.unwrap();
        drop(_reader);
    });
    let (mut reader, _writer) = server.split();
    assert!(receive_all(&mut reader, 70_000).await == expected);
    send.join().await;
}

/// The file is removed in steps when what was sent of it lies in the sockets' queues, in pages that the cache and the sockets
/// share.
#[test]
fn what_was_sent_of_a_file_that_is_removed_arrives_as_it_was() {
    on_shard(|io, folder| async move {
        // A step of 2 MiB from the end backwards would end in the middle of a page that is sent.
        let (bytes, sent) = (pattern((5 << 20) + 1_000), (3 << 20) - 50_000..(3 << 20) + 50_000);
        for _ in 0..5 {
            let path = folder.join("log");
            std::fs::write(&path, &bytes).unwrap();
            let file = io.open_send_file(&path).await.unwrap();
            let (client, server) = pair(&io).await;
            let ((reader_there, mut writer), (mut reader, _writer)) = (client.split(), server.split());
            writer.send_file(&file, sent.start as u64, sent.len() as u64).await.unwrap();
            io.remove_file(&path).await.unwrap();
            drop((reader_there, writer));
            assert!(
                receive_all(&mut reader, 70_000).await == bytes[sent.clone()],
                "it has changed on its way"
            );
        }
    });
}

#[test]
fn a_file_that_is_too_short_is_an_error() {
    on_shard(|io, folder| async move {
        std::fs::write(folder.join("file"), [1; 100]).unwrap();
        let file = io.open_send_file(&folder.join("file")).await.unwrap();
        let (client, server) = pair(&io).await;
        let (_reader, mut writer) = client.split();
        let error = writer.send_file(&file, 0, 101).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
        drop((_reader, writer));
        let (mut reader, _writer) = server.split();
        assert_eq!(receive_all(&mut reader, 1000).await, [1; 100]);
    });
}

#[test]
fn residency_is_counted_from_the_position_to_the_first_gap() {
    on_shard(|io, folder| async move {
        let path = folder.join("log");
        write_direct(&io, &path, &pattern(64 << 20)).await;
        let file = io.open_send_file(&path).await.unwrap();
        // The second half, so that read-ahead (8 MiB or less) can't reach the first.
        let half = 32 << 20;
        bring_in(&file, half, 1 << 20).await;
        bring_in(&file, half + 5, 1000).await;
        assert_eq!(file.resident(half - 10, 1 << 20), 0);
        let end = file.resident(half, half);
        assert!(end < half, "the end of the file is not there: {end}");
        assert_eq!(file.resident(0, 0), 0);
        file.prefetch(0, 0).await.unwrap();
    });
}
