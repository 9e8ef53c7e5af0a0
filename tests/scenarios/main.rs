//! The scenarios of a host, each in a PID namespace of its own. A family is a folder, a scenario a folder in it, whose
//! tests bear the scenario's id: `g1_…`.

mod access;
mod apply;
mod basics;
mod chaos;
mod command_line;
mod containers;
mod crash;
mod crossing;
mod delegation;
mod devlog;
mod dhcp;
mod door;
mod environment;
mod events;
mod exec;
mod files;
mod gates;
mod groups;
mod health;
mod hooks;
mod hostile;
mod inspect;
mod metrics;
mod processes;
mod recovery;
mod restarts;
mod rootless;
mod run_end;
mod scale;
mod schemas;
mod small;
mod stdout;
mod stock_client;
mod stopping;
