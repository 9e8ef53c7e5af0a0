//! Restarts (R1 to R7): what follows an exit, how often, after which delay, and what an operator's restart is.

mod r1_policies_and_ends;
mod r2_budget;
mod r3_backoff;
mod r4_operator_is_not_counted;
mod r5_gate_is_asked_again;
mod r6_last_end;
mod r7_some_ends;
