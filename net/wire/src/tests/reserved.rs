//! Counts the memory that decoding reserves.

use core::cell::Cell;

thread_local! {
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

pub(crate) fn add(bytes: usize) {
    BYTES.set(BYTES.get().saturating_add(bytes));
}

/// What `decode` returns, and the bytes it reserved.
pub(super) fn counted<T>(decode: impl FnOnce() -> T) -> (T, usize) {
    BYTES.set(0);
    let decoded = decode();
    (decoded, BYTES.get())
}
