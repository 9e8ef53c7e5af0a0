//! Health checks (H4) of processes: where they run and as whom, what a timeout ends, what `status` tells.

mod h4_exec_checks;
