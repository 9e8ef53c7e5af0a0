//! One of several hosts of a call: its name, and its whole answer.

use std::cell::RefCell;

use serde_yaml::Value;

use crate::failure::Failure;
use crate::output::page::front;
use crate::output::{Format, Page, Terminal, led};

/// The name of one host, and its whole answer.
#[derive(Debug)]
pub struct Node {
    name: String,
    /// How wide the widest name of all is.
    widest: usize,
    kept: RefCell<Vec<Kept>>,
}

/// The output that is shown once all have answered.
#[derive(Debug)]
pub enum Kept {
    Page(Page),
    Views(Vec<Value>),
}

impl Node {
    pub fn new(name: String, widest: usize) -> Node {
        Node { name, widest, kept: RefCell::default() }
    }

    /// Takes its answer.
    pub fn take(&self) -> Vec<Kept> {
        self.kept.take()
    }

    /// How wide the widest name of all is.
    pub fn widest(&self) -> usize {
        self.widest
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The text in front of a line about it.
    pub fn front(&self, terminal: &Terminal) -> String {
        front(&self.name, self.widest, terminal)
    }

    /// The columns that [`Node::front`] takes.
    pub fn front_width(&self) -> usize {
        self.widest + 2
    }

    /// Keeps what is to be shown beside the pages of the others.
    pub fn keep_page(&self, page: Page) {
        self.kept.borrow_mut().push(Kept::Page(page));
    }

    /// Keeps what is to stand in one list with that of the others.
    pub fn keep_view(&self, view: Value) {
        self.kept.borrow_mut().push(Kept::Views(led(&self.name, view)));
    }

    /// One item of a stream for programs.
    pub fn item(&self, format: Format, view: Value) -> Result<String, Failure> {
        led(&self.name, view).iter().map(|value| format.item(value)).collect()
    }
}
