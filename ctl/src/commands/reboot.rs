//! `reboot`: stop everything in order and reboot the host.

super::ending::command! {
    /// Stop everything in order and reboot the host
    ///
    /// It shows the services as they stop, until the connection ends. Over the
    /// network it asks for confirmation first, if it is on a terminal.
    ///
    /// Examples:
    ///   kelsonctl reboot
    ///   kelsonctl reboot --no-wait --reason 'new kernel'
    Reboot, "Reboot"
}
