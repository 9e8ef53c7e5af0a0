//! The keys of each file, for the schemas and the documents.

use crate::grammar::{group_file, machine_file, service_file};
use crate::schema::Mapping;
use kelson_spec::machine::MachineSpec;
use std::rc::Rc;

pub fn service() -> Mapping {
    service_file().describe()
}

pub fn group() -> Mapping {
    group_file().describe()
}

pub fn machine() -> Mapping {
    machine_file(&Rc::new(MachineSpec::default())).describe()
}

/// All files, each named as its mapping is.
pub fn all() -> [Mapping; 3] {
    [service(), group(), machine()]
}
