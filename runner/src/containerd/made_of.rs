//! The parts of a container, kept in its record at containerd: the next incarnation of PID 1 reads them
//! there, and need not ask for the image again.

use containerd_client::services::v1::Container;
use prost_types::Any;

use crate::images::ImageConfig;
use crate::runner::RunnerError;

/// Names it among the record's extensions.
const EXTENSION: &str = "kelson.image";
const TYPE: &str = "kelson/image";

/// The extension of a new record.
pub(super) fn written(image: &ImageConfig) -> Result<(String, Any), RunnerError> {
    let value = serde_json::to_vec(image)
        .map_err(|error| RunnerError::new(format!("cannot describe the image: {error}")))?;
    Ok((EXTENSION.to_owned(), Any { type_url: TYPE.to_owned(), value }))
}

/// `None`: the record is another's, or of a version that wrote it otherwise.
pub(super) fn read(record: &Container) -> Option<ImageConfig> {
    let extension = record.extensions.get(EXTENSION).filter(|extension| extension.type_url == TYPE)?;
    serde_json::from_slice(&extension.value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_again() {
        let image = ImageConfig {
            image: "demo/web:1".into(),
            entrypoint: vec!["/serve".into()],
            uid: 33,
            stop_signal: Some(3),
            home: Some("/srv".into()),
            ..ImageConfig::default()
        };
        let mut record = Container { extensions: [written(&image).unwrap()].into(), ..Container::default() };
        assert_eq!(read(&record), Some(image));
        // Of another version, which knew less, or of nobody.
        let extension = record.extensions.get_mut(EXTENSION).unwrap();
        extension.value = br#"{"image":"demo/web:1","later":1}"#.to_vec();
        assert_eq!(read(&record).unwrap().image, "demo/web:1");
        record.extensions.get_mut(EXTENSION).unwrap().value = b"{".to_vec();
        assert_eq!(read(&record), None);
        assert_eq!(read(&Container::default()), None);
    }
}
