//! The keys of each file, for the schemas and the documents.

use crate::grammar::{group_file, machine_file, service_file, volume_file};
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

pub fn volume() -> Mapping {
    volume_file().describe()
}

/// All files, each named as its mapping is.
pub fn all() -> [Mapping; 4] {
    [service(), group(), machine(), volume()]
}
