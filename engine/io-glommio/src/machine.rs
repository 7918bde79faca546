//! What must hold before the runtime is asked for a shard: where it does not, the runtime panics, leaves the process, or
//! gives an error that has lost its cause.

use std::fs;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::Mutex;
use std::thread;

use rustix::process::{Resource, getrlimit};
use rustix::thread::CpuSet;

use crate::ShardSpec;
use crate::executor::POOL_THREADS;
use crate::start_error::StartError;

/// Below this the runtime refuses to begin.
const LOCKED_BYTES_MIN: u64 = 512 << 10;

/// What a shard holds from its first moment (rings, eventfd), and needs for a moment while the runtime reads the
/// properties of its drive.
const DESCRIPTORS_PER_SHARD: u64 = 16;

/// Each ring of a shard has memory of its own for direct I/O.
const RING_MEMORIES: usize = 3;

/// Its own, and those of its pool.
const THREADS_PER_SHARD: usize = 1 + POOL_THREADS;

pub(crate) fn check(specs: &[ShardSpec], io_memory_bytes: usize) -> Result<(), StartError> {
    if specs.is_empty() {
        return Err(StartError::NoShards);
    }
    check_processors(specs)?;
    check_locked_memory()?;
    check_descriptors(specs.len() as u64)?;
    check_ring()?;
    let memory_bytes = io_memory_bytes.saturating_mul(RING_MEMORIES).saturating_mul(specs.len());
    check_room(specs.len() * THREADS_PER_SHARD, memory_bytes)
}

/// Starts so many threads at once, asks for so much memory, and gives both back: the runtime panics where it can't have
/// them.
fn check_room(needed: usize, memory_bytes: usize) -> Result<(), StartError> {
    let (gate, mut count) = (Mutex::new(()), 0);
    let (started, reserved) = thread::scope(|scope| {
        let closed = gate.lock();
        let started = (0..needed).try_for_each(|_| {
            thread::Builder::new().spawn_scoped(scope, || drop(gate.lock()))?;
            count += 1;
            Ok(())
        });
        let reserved = Vec::<u8>::new().try_reserve_exact(memory_bytes);
        drop(closed);
        (started, reserved)
    });
    started.map_err(|source| StartError::Threads { started: count, needed, source })?;
    reserved.map_err(|_| StartError::Memory { needed_bytes: memory_bytes })
}

fn check_processors(specs: &[ShardSpec]) -> Result<(), StartError> {
    let allowed =
        rustix::thread::sched_getaffinity(None).map_err(|errno| StartError::Thread(errno.into()))?;
    let is_allowed = |cpu| cpu < CpuSet::MAX_CPU && allowed.is_set(cpu);
    match specs.iter().filter_map(|spec| spec.cpu).find(|&cpu| !is_allowed(cpu)) {
        Some(cpu) => Err(StartError::NoSuchProcessor { cpu }),
        None => Ok(()),
    }
}

fn check_locked_memory() -> Result<(), StartError> {
    match getrlimit(Resource::Memlock).current {
        Some(limit_bytes) if limit_bytes < LOCKED_BYTES_MIN => {
            Err(StartError::LockedMemory { limit_bytes, needed_bytes: LOCKED_BYTES_MIN })
        }
        Some(_) | None => Ok(()),
    }
}

fn check_descriptors(shards: u64) -> Result<(), StartError> {
    let Some(limit) = getrlimit(Resource::Nofile).current else { return Ok(()) };
    let open = fs::read_dir("/proc/self/fd").map_err(StartError::of_ring)?.count() as u64;
    let left = limit.saturating_sub(open);
    if left < shards.saturating_mul(DESCRIPTORS_PER_SHARD) { Err(StartError::Descriptors) } else { Ok(()) }
}

/// Tries to make a ring: the runtime panics, or leaves the process, where it can't.
fn check_ring() -> Result<(), StartError> {
    /// Came with Linux 5.11, after all operations the runtime uses; so a kernel that has it has them too.
    const FEATURE_EXT_ARG: u32 = 1 << 8;
    let mut parameters = [0_u32; 30];
    make_ring(&mut parameters)?;
    let [_, _, _, _, _, features, ..] = parameters;
    if features & FEATURE_EXT_ARG == 0 { Err(StartError::RingTooOld) } else { Ok(()) }
}

/// Makes a ring of one entry and closes it.
fn make_ring(parameters: &mut [u32; 30]) -> Result<(), StartError> {
    let number = ring_setup(parameters);
    match i32::try_from(number) {
        Ok(number) if number >= 0 => {
            drop(own(number));
            Ok(())
        }
        Ok(_) | Err(_) => Err(StartError::of_ring(io::Error::last_os_error())),
    }
}

#[expect(
    unsafe_code,
    reason = "the ring itself is the runtime's; only whether one can be made is asked here"
)]
fn ring_setup(parameters: &mut [u32; 30]) -> libc::c_long {
    // SAFETY: the kernel reads and writes the 120 bytes of `struct io_uring_params`, which is `parameters`.
    unsafe { libc::syscall(libc::SYS_io_uring_setup, 1_u32, parameters.as_mut_ptr()) }
}

#[expect(unsafe_code, reason = "a system call gives a descriptor as a number")]
fn own(descriptor: i32) -> OwnedFd {
    // SAFETY: the kernel just opened it for us and nobody else knows the number.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}
