//! Starts that must fail, each in a process of its own: limits and filters hold for the whole process.

#![expect(clippy::unwrap_used, reason = "a test may fail anywhere")]

#[cfg(test)]
mod harness;

use std::process::Command;

use engine_io::{DirectFile, Io, ListenMode, Listener, OpenMode};
use engine_io_glommio::{StartError, abort_on_panic, run, run_without_folder};
use harness::{IO_MEMORY_BYTES, folder, on_shard_in, spec};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Set in the child processes only.
const CHILD: &str = "START_TEST_CHILD";

/// Runs the named test again in a child process; whether it ran and succeeded, and what it printed.
fn in_child(test: &str) -> (bool, String) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let ran = String::from_utf8_lossy(&output.stdout).contains("test result: ok. 1 passed");
    (output.status.success() && ran, String::from_utf8_lossy(&output.stderr).into_owned())
}

fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

fn start() -> StartError {
    let folder = folder();
    run(vec![spec("one")], IO_MEMORY_BYTES, folder.path(), |_, _| async {}).unwrap_err()
}

fn lower(resource: Resource, to: u64) {
    let limit = getrlimit(resource);
    setrlimit(resource, Rlimit { current: Some(to), maximum: limit.maximum }).unwrap();
}

#[test]
fn no_shards_is_an_error() {
    let folder = folder();
    let error = run(Vec::new(), IO_MEMORY_BYTES, folder.path(), |_, _| async {}).unwrap_err();
    assert!(matches!(error, StartError::NoShards));
}

#[test]
fn a_processor_that_is_not_there_is_named() {
    let folder = folder();
    for cpu in [700, usize::MAX] {
        let mut far = spec("far");
        far.cpu = Some(cpu);
        let error =
            run(vec![spec("near"), far], IO_MEMORY_BYTES, folder.path(), |_, _| async {}).unwrap_err();
        assert!(matches!(error, StartError::NoSuchProcessor { cpu: named } if named == cpu));
    }
}

#[test]
fn threads_that_may_not_be_started_are_an_error() {
    if !is_child() {
        let (held, said) = in_child("threads_that_may_not_be_started_are_an_error");
        assert!(held, "{said}");
        return;
    }
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split(' ').next().unwrap().parse().unwrap();
    lower(Resource::As, pages * rustix::param::page_size() as u64 + (32 << 20));
    let folder = folder();
    let shards = (0..16).map(|number| spec(&format!("s{number}"))).collect();
    let error = run(shards, IO_MEMORY_BYTES, folder.path(), |_, _| async {}).unwrap_err();
    let StartError::Threads { started, needed: 80, .. } = error else { panic!("{error}") };
    assert!((1..80).contains(&started), "{started}");
}

#[test]
fn memory_that_may_not_be_had_is_an_error() {
    if !is_child() {
        let (held, said) = in_child("memory_that_may_not_be_had_is_an_error");
        assert!(held, "{said}");
        return;
    }
    lower(Resource::As, 2 << 30);
    let folder = folder();
    let error = run(vec![spec("one")], 1 << 30, folder.path(), |_, _| async {}).unwrap_err();
    assert!(matches!(error, StartError::Memory { needed_bytes: 0xC000_0000 }), "{error}");
}

#[test]
fn a_data_folder_that_is_not_there_is_named() {
    let missing = folder().path().join("missing");
    let error = run(vec![spec("one")], IO_MEMORY_BYTES, &missing, |_, _| async {}).unwrap_err();
    assert!(matches!(&error, StartError::Folder { folder, .. } if *folder == missing), "{error}");
    assert!(error.to_string().contains("missing"));
}

#[test]
fn without_a_folder_shards_connect_and_files_are_still_found() {
    let folder = folder();
    let path = folder.path().join("f");
    let running = run_without_folder(vec![spec("one")], IO_MEMORY_BYTES, move |_, io| {
        let path = path.clone();
        async move {
            let listener = io.listen(([127, 0, 0, 1], 0).into(), ListenMode::Exclusive).await.unwrap();
            let connected = io.connect(listener.local_address()).await;
            let file = io.open(&path, OpenMode::New).await.unwrap();
            connected.is_ok() && file.size().await.unwrap() == 0
        }
    });
    assert!(running.unwrap().join().remove(0).unwrap());
}

#[test]
fn too_little_locked_memory_is_told_with_the_limit() {
    if is_child() {
        lower(Resource::Memlock, 65_536);
        let error = start();
        assert!(matches!(error, StartError::LockedMemory { limit_bytes: 65_536, .. }), "{error}");
        return;
    }
    let (ok, printed) = in_child("too_little_locked_memory_is_told_with_the_limit");
    assert!(ok, "{printed}");
}

#[test]
fn too_few_descriptors_are_told() {
    if is_child() {
        let open = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
        lower(Resource::Nofile, open + 3);
        let error = start();
        assert!(matches!(error, StartError::Descriptors), "{error}");
        return;
    }
    let (ok, printed) = in_child("too_few_descriptors_are_told");
    assert!(ok, "{printed}");
}

#[test]
fn a_forbidden_and_a_missing_ring_are_told_apart() {
    if is_child() {
        // Filters add up and the strictest wins by value: ERRNO filters give the newest one's number.
        deny_ring::deny(libc::ENOSYS);
        assert!(matches!(start(), StartError::RingMissing));
        deny_ring::deny(libc::EPERM);
        assert!(matches!(start(), StartError::RingForbidden));
        return;
    }
    let (ok, printed) = in_child("a_forbidden_and_a_missing_ring_are_told_apart");
    assert!(ok, "{printed}");
}

#[test]
fn a_panic_on_a_shard_stops_the_process_and_says_where() {
    if is_child() {
        abort_on_panic();
        let folder = folder();
        on_shard_in(folder.path(), |_, _| async { panic!("broken on purpose") });
        return;
    }
    let (ok, printed) = in_child("a_panic_on_a_shard_stops_the_process_and_says_where");
    assert!(!ok);
    assert!(
        printed.contains("thread test panicked at") && printed.contains("broken on purpose"),
        "{printed}"
    );
    assert!(printed.contains("start.rs"), "{printed}");
}

mod deny_ring {
    //! A filter that makes `io_uring_setup` fail.

    const LOAD_NUMBER: u16 = 0x20;
    const IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;

    fn step(code: u16, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
        libc::sock_filter { code, jt, jf, k }
    }

    #[expect(unsafe_code, reason = "no safe wrapper installs a filter")]
    pub(crate) fn deny(errno: i32) {
        let setup = u32::try_from(libc::SYS_io_uring_setup).unwrap();
        let deny = libc::SECCOMP_RET_ERRNO | u32::try_from(errno).unwrap();
        let mut steps = [
            step(LOAD_NUMBER, 0, 0, 0),
            step(IF_EQUAL, 0, 1, setup),
            step(RETURN, 0, 0, deny),
            step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let program = libc::sock_fprog { len: 4, filter: steps.as_mut_ptr() };
        // SAFETY: takes numbers only.
        let result = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
        assert_eq!(result, 0);
        // SAFETY: the kernel copies the program, which lives across the call.
        let result =
            unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
        assert_eq!(result, 0);
    }
}
