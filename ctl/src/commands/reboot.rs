//! `reboot`: stop everything in order and reboot the host.

super::ending::command! {
    /// Stop everything in order and reboot the host
    ///
    /// Shows what stops, in its order, until the connection ends.
    /// On a terminal it asks first if the host is reached over the network.
    ///
    /// Examples:
    ///   kelsonctl reboot
    ///   kelsonctl reboot --no-wait --reason 'new kernel'
    Reboot, "Reboot"
}
