//! The test's hand on the network.

use std::rc::Rc;

use super::NetworkSettings;
use crate::executor::Core;
use crate::node::SimNode;

/// The network, seen from outside: to make it slow and to break it.
#[derive(Clone)]
pub struct SimNetwork {
    core: Rc<Core>,
}

impl SimNetwork {
    pub(crate) const fn new(core: Rc<Core>) -> Self {
        Self { core }
    }

    /// Sets how the network behaves from now on.
    ///
    /// # Panics
    /// Where a limit of bytes is 0.
    pub fn configure(&self, settings: NetworkSettings) {
        self.core.world(|world| world.network.configure(settings));
    }

    /// Breaks every connection of the machine, which runs on. Each end learns of it in its own time.
    pub fn reset_connections(&self, node: &SimNode) {
        self.core.world(|world| {
            for end in world.network.ends_of(node.machine()) {
                world.reset_both(end.connection);
            }
        });
    }

    /// Lets nothing pass from one machine to the other any more; the way back stays. Connections are kept: what is sent
    /// is held until [`Self::heal`], as a sender that tries again would hold it.
    pub fn cut(&self, from: &SimNode, to: &SimNode) {
        self.core.world(|world| world.cut_way(from.machine(), to.machine()));
    }

    /// Lets everything pass again, what was held first.
    pub fn heal(&self) {
        self.core.world(crate::world::World::heal_network);
    }

    /// How many connections there are that any program still holds an end of.
    #[must_use]
    pub fn connection_count(&self) -> usize {
        self.core.world(|world| world.network.connections.len())
    }
}
