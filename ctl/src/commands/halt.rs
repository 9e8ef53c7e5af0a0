//! `halt`: stop everything in order and halt the host.

super::ending::command! {
    /// Stop everything in order and halt the host
    ///
    /// It shows the services as they stop, until the connection ends. Over the
    /// network it asks for confirmation first, if it is on a terminal.
    ///
    /// Examples:
    ///   kelsonctl halt
    ///   kelsonctl halt --no-wait --reason 'move to rack 4'
    Halt, "Halt"
}
