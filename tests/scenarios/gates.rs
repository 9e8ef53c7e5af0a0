//! Gates (G1 to G11): what a service waits for, who says what, and what a stop or a second request does meanwhile.

mod after;
mod fact;
mod g10_cause_is_data;
mod g11_start_with_dependencies;
mod g1_all_hold_now;
mod g2_text_of_a_wait;
mod g3_stop_takes_effect_at_once;
mod g4_failed_one_shot;
mod g5_dependant_runs_on;
mod g6_cycles_and_strangers;
mod g7_manual_is_down;
mod g8_two_requests_at_once;
mod g9_stopped_one_shot;
mod kernel_argument;
