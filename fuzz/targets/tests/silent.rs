//! As `corpus`, for what writes to the standard output: it is silenced for the whole process meanwhile.

mod replay;

#[test]
fn ctl_responses() {
    replay::replay("ctl_responses");
}
