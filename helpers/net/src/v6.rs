//! DHCPv6 (RFC 8415): a client with the parts of that of DHCPv4, of which it has the exchanges, the records and the file of
//! name servers.

pub mod client;
mod delegation;
pub mod identity;
pub mod interface;
pub mod lease;
pub mod message;
mod placement;
mod record;
mod remainder;
mod state;
