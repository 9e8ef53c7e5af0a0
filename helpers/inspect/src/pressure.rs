//! How long processes waited for something, as the kernel tells it (Documentation/accounting/psi.rst).

use kelson_proto::v1::Pressure;

use crate::system::System;

/// Of `cpu`, `memory` or `io`. `None`: the kernel does not count it.
pub fn read(system: &System, of: &str) -> Option<Pressure> {
    let text = system.proc(&format!("pressure/{of}")).ok()?;
    let share = |line: &str, key: &str| {
        let words = text.lines().find_map(|found| found.strip_prefix(line));
        let value = words?.split_whitespace().find_map(|word| word.strip_prefix(key))?.parse::<f64>();
        value.ok().map(|percent| percent / 100.0)
    };
    let [some, full] = ["some ", "full "].map(|line| {
        ["avg10=", "avg60=", "avg300="].map(|key| share(line, key).filter(|share| share.is_finite()))
    });
    let [some_10, some_60, some_300] = some;
    let [full_10, full_60, full_300] = full.map(Option::unwrap_or_default);
    Some(Pressure {
        some_10: some_10?,
        some_60: some_60.unwrap_or_default(),
        some_300: some_300.unwrap_or_default(),
        full_10,
        full_60,
        full_300,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::testing::Played;

    #[test]
    fn shares_of_the_time() {
        let played = Played::new(&[
            ("proc/pressure/cpu", "some avg10=2.50 avg60=1.00 avg300=0.25 total=391926\n"),
            ("proc/pressure/memory", "some avg10=x\n"),
        ]);
        let cpu = read(&played.system, "cpu").unwrap();
        assert_eq!((cpu.some_10, cpu.some_60, cpu.some_300, cpu.full_10), (0.025, 0.01, 0.0025, 0.0));
        assert_eq!(read(&played.system, "memory"), None);
        assert_eq!(read(&played.system, "io"), None);
    }
}
