//! Numbers of bytes for people.

/// `512 B`, `1.5 KiB`, `64.0 MiB`.
pub fn size(count: u64) -> String {
    let mut value = count as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            return if unit == "B" { format!("{value:.0} {unit}") } else { format!("{value:.1} {unit}") };
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(
            [0, 1023, 1024, 67_108_864, 5 << 40].map(size),
            ["0 B", "1023 B", "1.0 KiB", "64.0 MiB", "5.0 TiB"]
        );
    }
}
