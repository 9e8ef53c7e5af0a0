//! `halt`: stop everything in order and halt the host.

super::ending::command! {
    /// Stop everything in order and halt the host
    ///
    /// Shows what stops, in its order, until the connection ends.
    /// On a terminal it asks first if the host is reached over the network.
    ///
    /// Examples:
    ///   kelsonctl halt
    ///   kelsonctl halt --no-wait --reason 'move to rack 4'
    Halt, "Halt"
}
