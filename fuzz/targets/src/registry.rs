//! What a registry sends.

use std::path::Path;

use kelson_image::{Digest, Reference, Remote};
use kelson_pull::challenge::Challenge;
use kelson_pull::manifest::{Document, check, choose, form};
use kelson_pull::place::Place;
use kelson_unpack::archive::{Form, Index, Manifest, Platform, parse};

use crate::archives::is_relative;

/// A header of an answer, and the name of an image.
pub fn words(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Some(Challenge::Bearer { realm, service, scope }) = Challenge::parse(&text) {
        let length = realm.len() + service.map_or(0, |text| text.len()) + scope.map_or(0, |text| text.len());
        // Each parameter may serve once more for another name, but is none that was not there.
        assert!(length <= 3 * text.len(), "{text:?}");
    }
    let from = Place::at("registry.example:5000", true, "/v2/".to_owned());
    if let Some(to) = from.redirect(&text) {
        assert!(to.path.starts_with(['/', '?']), "{to:?}");
        assert!(!to.host.contains('@'), "{to:?}");
    }
    if let Some(remote) = Remote::parse(&text) {
        let reference = Reference::parse(&text).expect("it is the name of an image");
        assert!(remote.repository.ends_with(reference.repository().rsplit('/').next().unwrap_or_default()));
        assert!(!remote.repository.contains(".."), "it becomes a path: {remote:?}");
    }
}

/// A manifest or an index.
pub fn documents(data: &[u8]) {
    let document = Document { media_type: String::new(), digest: Digest::new([0; 32]), bytes: data.to_vec() };
    match form("document", &document) {
        Ok(Form::Index) => {
            if let Ok(index) = parse::<Index>("index", data) {
                let host = Platform::new("linux", "amd64", "v2");
                if let Ok(chosen) = choose(&index, &host)
                    && let Some(platform) = chosen.platform.as_ref().and_then(|platform| platform.read())
                {
                    assert!(host.suits(&platform).is_some(), "{platform}");
                }
            }
        }
        Ok(_) => {
            if let Ok(manifest) = parse::<Manifest>("manifest", data)
                && check(&manifest, "manifest").is_ok()
            {
                for file in
                    manifest.layers.0.iter().filter_map(|layer| manifest.file_of(layer, "manifest").ok()?)
                {
                    assert!(is_relative(Path::new(file)), "it becomes a path: {file:?}");
                }
            }
        }
        Err(_) => {}
    }
}
