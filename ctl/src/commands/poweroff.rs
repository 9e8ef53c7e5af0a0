//! `poweroff`: stop everything in order and power the host off.

super::ending::command! {
    /// Stop everything in order and power the host off
    ///
    /// Shows what stops, in its order, until the connection ends.
    /// On a terminal it asks first if the host is reached over the network.
    ///
    /// Examples:
    ///   kelsonctl poweroff
    ///   kelsonctl poweroff --no-wait --reason 'move to rack 4'
    Poweroff, "Power off"
}
