//! `[Timer]`: what systemd.timer(5) describes.

use crate::key::Neutral::No;
use crate::key::{Key, kept, lost, moot, nearly};
use crate::timers::{after_boot, calendar, every, jitter, persistent};

pub const KEYS: [Key; 15] = [
    kept("OnCalendar", calendar, "`schedule: {calendar: …}`"),
    nearly("OnActiveSec", after_boot, "`schedule: {afterBoot: …}`, counted from the boot"),
    kept("OnBootSec", after_boot, "`schedule: {afterBoot: …}`"),
    kept("OnStartupSec", after_boot, "`schedule: {afterBoot: …}`"),
    nearly("OnUnitActiveSec", every, "`schedule: {every: …}`, counted from its last start by the schedule"),
    nearly("OnUnitInactiveSec", every, "`schedule: {every: …}`, counted from its last start by the schedule"),
    moot("AccuracySec", "starts are on time"),
    kept("RandomizedDelaySec", jitter, "`schedule: {jitter: …}`"),
    lost("FixedRandomDelay", No, "the random delay is another one each time"),
    lost("OnClockChange", No, "a clock that is set starts nothing"),
    lost("OnTimezoneChange", No, "another time zone starts nothing"),
    moot("Unit", "the service that has the `schedule`"),
    kept("Persistent", persistent, "`schedule: {catchUp: …}`; `no` without it"),
    lost("WakeSystem", No, "the host is not woken from suspend"),
    moot("RemainAfterElapse", "the schedule is a part of the service"),
];
