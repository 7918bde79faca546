//! The proposals of this node that are under way.

use std::collections::BTreeMap;

use super::effects::Token;
use crate::metadata::snapshot::LogPosition;

/// By index: the term it was proposed in, and its token.
#[derive(Debug, Default)]
pub(super) struct Proposals(BTreeMap<u64, (u64, Token)>);

impl Proposals {
    pub(super) fn insert(&mut self, position: LogPosition, token: Token) {
        let before = self.0.insert(position.index, (position.term, token));
        assert!(before.is_none(), "two proposals at one index");
    }

    /// The token of the proposal that was committed at this place.
    pub(super) fn take(&mut self, position: LogPosition) -> Option<Token> {
        let (term, token) = self.0.remove(&position.index)?;
        assert_eq!(term, position.term, "a leader's own entry was replaced while it led");
        Some(token)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them: this node doesn't lead any more.
    pub(super) fn abandon(&mut self) -> impl Iterator<Item = Token> + use<> {
        std::mem::take(&mut self.0).into_values().map(|(_, token)| token)
    }
}
