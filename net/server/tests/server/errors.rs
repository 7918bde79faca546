//! What the server says in its log: an operator is woken by errors, so there must be none that isn't one.

use std::sync::{Arc, Mutex, Once};

use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};

/// Keeps the lines of the level `ERROR`.
#[derive(Clone, Default)]
struct Errors(Arc<Mutex<Vec<String>>>);

impl Subscriber for Errors {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::ERROR
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        self.0.lock().unwrap().push(format!("{event:?}"));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Listens to nothing and may at any time: so no place that logs is taken for one that nobody ever listens to, which
/// tests on other threads would otherwise have it taken for.
struct Quiet;

impl Subscriber for Quiet {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, _: &Metadata<'_>) -> bool {
        false
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The errors logged while `test` runs.
pub(crate) fn errors_logged(test: impl FnOnce()) -> Vec<String> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| tracing::subscriber::set_global_default(Quiet).unwrap());
    let errors = Errors::default();
    tracing::subscriber::with_default(errors.clone(), test);
    errors.0.lock().unwrap().clone()
}
