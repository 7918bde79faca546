//! What the stores of one shard share: memory for batches, and the descriptors kept open.

use std::rc::Rc;

use engine_io::Io;

use crate::config::StoreConfig;
use crate::descriptors::Descriptors;
use crate::pool::Pool;

/// The memory and the descriptors of a shard. Cloning it shares it.
///
/// Whoever needs memory gets it, in the order of asking, in whichever folder its partition lies. A store that fails gives
/// back what it has.
pub struct Resources<I: Io> {
    pub(crate) pool: Rc<Pool<I>>,
    pub(crate) descriptors: Rc<Descriptors<I>>,
}

impl<I: Io> Clone for Resources<I> {
    fn clone(&self) -> Self {
        Self { pool: Rc::clone(&self.pool), descriptors: Rc::clone(&self.descriptors) }
    }
}

impl<I: Io> Resources<I> {
    /// As many as `config` gives to a store alone: its `pool_bytes` and `idle_descriptors_max`. All that share them are to
    /// be configured alike.
    #[must_use]
    pub fn new(config: &StoreConfig) -> Self {
        let descriptors = Rc::new(Descriptors::new(config.idle_descriptors_max));
        Self { pool: Rc::new(Pool::new(config.pool_bytes)), descriptors }
    }
}
