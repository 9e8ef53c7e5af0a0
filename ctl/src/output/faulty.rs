//! A file with mistakes, and which version of it is in use.

use std::time::SystemTime;

use kelson_proto::v1::{FaultyFile, FileMistake};

use super::time;

/// The advice to the operator.
const WAY_OUT: &str = "correct the file and run `kelsonctl reload`";

/// `/etc/kelson/services/web.yaml:2:11: unknown key …`
pub fn mistake(mistake: &FileMistake) -> String {
    let FileMistake { file, line, column, message } = mistake;
    match line {
        0 => format!("{file}: {message}"),
        _ => format!("{file}:{line}:{column}: {message}"),
    }
}

/// `the version read 5m ago (2026-11-21T09:48:05.123Z)`
pub fn earlier(file: &FaultyFile, now: SystemTime) -> String {
    match &file.earlier_read {
        Some(at) => {
            format!("the version read {} ago ({})", time::relative(time::ago(at, now)), time::rfc3339(at))
        }
        None => "an earlier version".to_owned(),
    }
}

/// All of it in lines; nothing where no earlier version is in use: the service has failed then, and says why.
pub fn lines(file: &FaultyFile, now: SystemTime) -> Vec<String> {
    if !file.earlier_in_use {
        return Vec::new();
    }
    let in_use = format!("{} is in use; {WAY_OUT}", earlier(file, now));
    file.mistakes.iter().map(mistake).chain([in_use]).collect()
}

/// The note about a start of a service with an earlier version of its file.
pub fn started(name: &str, file: &FaultyFile, now: SystemTime) -> Option<String> {
    let mistakes: Vec<String> = file.mistakes.iter().map(mistake).collect();
    file.earlier_in_use.then(|| {
        let (earlier, mistakes) = (earlier(file, now), mistakes.join("; "));
        format!("{name}: its file has a mistake, so {earlier} is in use: {mistakes}; {WAY_OUT}")
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn file(earlier_read: Option<i64>) -> FaultyFile {
        let mistake = |line, message: &str| FileMistake {
            file: "services/web.yaml".to_owned(),
            line,
            column: 3,
            message: message.to_owned(),
        };
        FaultyFile {
            mistakes: vec![mistake(0, "the file is empty"), mistake(2, "unknown key")],
            earlier_in_use: true,
            earlier_read: earlier_read.map(|seconds| prost_types::Timestamp { seconds, nanos: 0 }),
        }
    }

    #[test]
    fn each_mistake_has_its_place_and_the_version_in_use_its_time() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1060);
        let version = "the version read 1m ago (1970-01-01T00:16:40.000Z)";
        assert_eq!(
            lines(&file(Some(1000)), now),
            [
                "services/web.yaml: the file is empty".to_owned(),
                "services/web.yaml:2:3: unknown key".to_owned(),
                format!("{version} is in use; {WAY_OUT}"),
            ]
        );
        assert_eq!(
            started("web", &file(None), now).unwrap(),
            format!(
                "web: its file has a mistake, so an earlier version is in use: services/web.yaml: the file is empty; \
                 services/web.yaml:2:3: unknown key; {WAY_OUT}"
            )
        );
        let failed = FaultyFile { earlier_in_use: false, ..file(None) };
        assert_eq!((lines(&failed, now), started("web", &failed, now)), (vec![], None));
    }
}
