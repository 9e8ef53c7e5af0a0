//! The kernel's command line, and the arguments of `init`.

use kelson_fuzz_init::options::{Mode, Options};
use kelson_spec::network::Prefixed;
use kelson_spec::{duration_text, parse_duration, parse_size, size_text};
use kelson_task::MountOptions;

/// The first line is the kernel's, each further one an argument of `init`.
pub fn kernel_line(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut lines = text.split('\n');
    let line = lines.next().unwrap_or_default().to_owned();
    let arguments: Vec<String> = lines.take(64).map(str::to_owned).collect();
    for usual in [Mode::Machine, Mode::Container] {
        let options = Options::gather(&arguments, usual, kelson_spec::Features::ALL, || Some(line.clone()));
        assert!(options.config.is_absolute() && options.runtime_dir.is_absolute());
        assert!(options.state_dir.is_absolute());
        for ip in &options.kernel.ip {
            for Prefixed(address, prefix) in &ip.interface.addresses {
                assert!(*prefix <= if address.is_ipv4() { 32 } else { 128 }, "{ip:?}");
            }
        }
    }
    for word in line.split(' ').take(64) {
        let options = MountOptions::parse([word]);
        let _ = options.after_bind();
        let again = MountOptions::parse([options.data.as_str()]);
        assert_eq!(again.data, options.data, "what is the file system's own stays so");
        if let Some(size) = parse_size(word) {
            assert_eq!(parse_size(&size_text(size)), Some(size), "{word}");
        }
        if let Some(duration) = parse_duration(word) {
            assert_eq!(parse_duration(&duration_text(duration)), Some(duration), "{word}");
        }
    }
}
