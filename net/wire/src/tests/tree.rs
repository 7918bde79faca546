//! Reads what `Debug` prints, so that two implementations' structures can be compared field by field.
//!
//! Equal bytes alone don't show that a field has the right name: two neighbouring integers swapped in both directions
//! give the same bytes.

use std::collections::BTreeMap;

/// A printed value, without the names of its types: `Some(X(1))` and `1` are the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Tree {
    Null,
    Leaf(String),
    List(Vec<Self>),
    Fields(BTreeMap<String, Self>),
}

impl Tree {
    pub(super) fn of(value: &impl core::fmt::Debug) -> Self {
        let text = format!("{value:?}");
        let mut parser = Parser { rest: &text };
        let tree = parser.value();
        assert_eq!(parser.rest, "", "all is read");
        tree
    }
}

struct Parser<'t> {
    rest: &'t str,
}

impl<'t> Parser<'t> {
    fn value(&mut self) -> Tree {
        match self.rest.chars().next().expect("a value") {
            '"' => self.string(),
            '[' => self.list(),
            '{' => self.fields(),
            _ => self.word(),
        }
    }

    fn word(&mut self) -> Tree {
        let end = self.rest.find([',', '(', ')', ']', '}', ' ', '"']).unwrap_or(self.rest.len());
        let word = self.take(end);
        if word == "b" && self.rest.starts_with('"') {
            return self.string();
        }
        if self.skip("(") {
            let inner = self.value();
            assert!(self.skip(")"), "{}", self.rest);
            return inner;
        }
        if self.skip(" {") {
            self.rest = self.rest.strip_prefix(' ').unwrap_or(self.rest);
            return self.fields_inner();
        }
        if word == "None" { Tree::Null } else { Tree::Leaf(word.to_owned()) }
    }

    fn string(&mut self) -> Tree {
        let mut escaped = true;
        let end = self.rest.find(|c| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        });
        Tree::Leaf(self.take(end.expect("a closing quote") + 1).to_owned())
    }

    fn list(&mut self) -> Tree {
        assert!(self.skip("["));
        let mut items = Vec::new();
        while !self.skip("]") {
            items.push(self.value());
            self.skip(", ");
        }
        Tree::List(items)
    }

    fn fields(&mut self) -> Tree {
        assert!(self.skip("{"));
        self.fields_inner()
    }

    fn fields_inner(&mut self) -> Tree {
        let mut fields = BTreeMap::new();
        while !self.skip("}") && !self.skip(" }") {
            let name = self.take(self.rest.find(':').expect("a field's name")).to_owned();
            assert!(self.skip(": "));
            fields.insert(name, self.value());
            self.skip(", ");
        }
        Tree::Fields(fields)
    }

    fn take(&mut self, len: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at(len);
        self.rest = rest;
        taken
    }

    fn skip(&mut self, text: &str) -> bool {
        let Some(rest) = self.rest.strip_prefix(text) else { return false };
        self.rest = rest;
        true
    }
}
