//! What was done in the store of a fleet, line by line.

use crate::call::Call;
use crate::failure::Failure;
use crate::output::{Page, escape, views};

#[derive(Debug, Default)]
pub struct Done {
    steps: Vec<String>,
}

views! {
    Done: done { steps }
}

impl Done {
    pub fn add(&mut self, step: String) {
        self.steps.push(step);
    }

    pub fn show(&self, call: &Call) -> Result<(), Failure> {
        call.show(self, || Page::Text(self.steps.iter().map(|step| format!("{}\n", escape(step))).collect()))
    }
}
