//! `poweroff`: stop everything in order and power the host off.

super::ending::command! {
    /// Stop everything in order and power the host off
    ///
    /// It shows the services as they stop, until the connection ends. Over the
    /// network it asks for confirmation first, if it is on a terminal.
    ///
    /// Examples:
    ///   kelsonctl poweroff
    ///   kelsonctl poweroff --no-wait --reason 'move to rack 4'
    Poweroff, "Power off"
}
