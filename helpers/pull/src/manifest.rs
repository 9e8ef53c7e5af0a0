//! From the name of an image to its manifest: documents of a registry, proved and judged.

use hyper::Response;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use kelson_image::{Digest, Version};
use kelson_unpack::archive::{
    Config, Descriptor, Form, Hasher, Index, MAX_JSON, Manifest, Platform, Shape, Trouble, is_index,
    is_manifest, parse,
};

use crate::body::Body;
use crate::error::PullError;
use crate::registry::{Asked, Registry};
use crate::retry::Retry;

/// The documents that are asked for.
const ACCEPT: HeaderValue = HeaderValue::from_static(
    "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, \
     application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.docker.distribution.manifest.v2+json",
);
/// The header in which a registry tells the digest of a manifest.
const DIGEST: &str = "docker-content-digest";

/// A document that was proved.
#[derive(Debug, Clone)]
pub struct Document {
    pub media_type: String,
    pub digest: Digest,
    pub bytes: Vec<u8>,
}

/// An image before its layers.
#[derive(Debug)]
pub(crate) struct Resolved {
    /// What the name leads to: an index, or the manifest itself.
    pub top: Document,
    /// The manifest for this host, where it is another document.
    pub child: Option<Document>,
    pub manifest: Manifest,
    /// Of the manifest.
    pub digest: Digest,
}

/// Asks a registry what a version of the image is, and chooses the platform of this host.
///
/// # Errors
/// Why there is none.
pub(crate) async fn resolve(
    registry: &Registry<'_>,
    version: &Version,
    host: &Platform,
    tries: u32,
) -> Result<Resolved, PullError> {
    let expected = match version {
        Version::Digest(digest) => Some(*digest),
        Version::Tag(_) => None,
    };
    let top = manifest(registry, &version.to_string(), expected, None, tries).await?;
    let at = |trouble| PullError::Document(Box::new(trouble), registry.host.clone());
    let file = format!("manifest {}", top.digest);
    let child = match form(&file, &top).map_err(at)? {
        Form::Manifest => None,
        _ => {
            let index: Index = parse(&file, &top.bytes).map_err(at)?;
            let chosen = choose(&index, host).map_err(|held| PullError::Platform {
                host: registry.host.clone(),
                held,
                wanted: host.clone(),
            })?;
            let name = chosen.digest.to_string();
            let child = manifest(registry, &name, Some(chosen.digest), Some(chosen.size), tries).await?;
            if form(&format!("manifest {name}"), &child).map_err(at)? != Form::Manifest {
                let text = "an index in an index".to_owned();
                return Err(at(Trouble::Unsupported { file, text }));
            }
            Some(child)
        }
    };
    let own = child.as_ref().unwrap_or(&top);
    let (file, digest) = (format!("manifest {}", own.digest), own.digest);
    let manifest: Manifest = parse(&file, &own.bytes).map_err(at)?;
    check(&manifest, &file).map_err(at)?;
    Ok(Resolved { manifest, digest, top, child })
}

/// A document that is wanted, and what is known of it.
pub(crate) struct Wanted {
    /// `manifests/…` or `blobs/…`.
    pub(crate) path: String,
    /// In an error.
    pub(crate) what: String,
    pub(crate) accept: Option<HeaderValue>,
    pub(crate) expected: Option<Digest>,
    pub(crate) size: Option<u64>,
    /// Bytes that are read at most.
    pub(crate) most: u64,
}

impl Wanted {
    pub(crate) fn new(path: String, what: String) -> Wanted {
        Wanted { path, what, accept: None, expected: None, size: None, most: MAX_JSON }
    }
}

async fn manifest(
    registry: &Registry<'_>,
    name: &str,
    expected: Option<Digest>,
    size: Option<u64>,
    tries: u32,
) -> Result<Document, PullError> {
    let wanted = Wanted::new(format!("manifests/{name}"), format!("manifest {name}"));
    document(registry, Wanted { accept: Some(ACCEPT), expected, size, ..wanted }, tries).await
}

/// Fetches a small document, and proves what is known of it.
///
/// # Errors
/// Why this registry does not give it.
pub(crate) async fn document(
    registry: &Registry<'_>,
    wanted: Wanted,
    tries: u32,
) -> Result<Document, PullError> {
    let Wanted { path, what, accept, expected, size, most } = wanted;
    let asked = Asked { path, what: what.clone(), accept, ..Asked::default() };
    let mut retry = Retry::new(tries);
    let (media_type, reported, bytes) = loop {
        match read(registry, &asked, most).await {
            Ok(read) => break read,
            Err(error) => retry.after(error).await?,
        }
    };
    let (host, found) = (registry.host.clone(), bytes.len() as u64);
    if let Some(expected) = size.filter(|size| *size != found) {
        return Err(PullError::Length { host, what, expected, found });
    }
    let digest = Hasher::of(&bytes);
    match expected.or(reported) {
        Some(expected) if expected != digest => {
            Err(PullError::Digest { host, what, expected, found: digest })
        }
        _ => Ok(Document { media_type, digest, bytes }),
    }
}

async fn read(
    registry: &Registry<'_>,
    asked: &Asked,
    most: u64,
) -> Result<(String, Option<Digest>, Vec<u8>), PullError> {
    let answer = registry.get(asked).await?;
    let media_type =
        header(&answer, CONTENT_TYPE.as_str()).split(';').next().unwrap_or_default().trim().to_owned();
    let reported = Digest::parse(&header(&answer, DIGEST)).ok();
    let bytes = Body::of(answer, &registry.host, &asked.what).whole(most).await?;
    Ok((media_type, reported, bytes))
}

fn header(answer: &Response<Incoming>, name: &str) -> String {
    answer.headers().get(name).and_then(|text| text.to_str().ok()).unwrap_or_default().to_owned()
}

/// What a document is, by its own description and by the registry's.
///
/// # Errors
/// It is neither, or both.
pub fn form(file: &str, document: &Document) -> Result<Form, Trouble> {
    let neither = || Trouble::Json {
        file: file.to_owned(),
        text: "it is neither an index nor a manifest, or both".to_owned(),
    };
    let media_type = document.media_type.as_str();
    match parse::<Shape>(file, &document.bytes)?.form() {
        Form::Index if !is_manifest(media_type) => Ok(Form::Index),
        Form::Manifest if !is_index(media_type) => Ok(Form::Manifest),
        _ => Err(neither()),
    }
}

/// The manifest of the platform that suits this host best, the first where several do as well. The error: what there is.
///
/// # Errors
/// None suits.
pub fn choose<'a>(index: &'a Index, host: &Platform) -> Result<&'a Descriptor, String> {
    let images = || {
        let all = index.manifests.0.iter();
        all.filter(|one| one.media_type.is_empty() || is_manifest(&one.media_type))
            .filter(|one| one.annotations.as_ref().is_none_or(|notes| notes.attached.is_none()))
    };
    let platform = |one: &Descriptor| one.platform.as_ref().and_then(|platform| platform.read());
    let suits = |one: &Descriptor| platform(one).and_then(|platform| host.suits(&platform));
    let best = images().rev().filter(|one| suits(one).is_some()).max_by_key(|one| suits(one));
    // One that says nothing of its platform is judged by its config.
    best.or_else(|| images().find(|one| platform(one).is_none())).ok_or_else(|| {
        let mut held: Vec<String> = Vec::new();
        for name in images().filter_map(|one| Some(platform(one)?.to_string())) {
            if !held.contains(&name) && held.len() < 16 {
                held.push(name);
            }
        }
        if held.is_empty() { "no platform".to_owned() } else { held.join(", ") }
    })
}

/// Whether it is the manifest of an image or an artifact that can be unpacked.
///
/// # Errors
/// What is wrong with it.
pub fn check(manifest: &Manifest, file: &str) -> Result<(), Trouble> {
    if manifest.config.size > MAX_JSON {
        let size = manifest.config.size;
        return Err(Trouble::LargeJson { file: "its config".to_owned(), size, most: MAX_JSON });
    }
    manifest.layers.0.iter().try_for_each(|layer| manifest.file_of(layer, file).map(drop))
}

/// Whether a config belongs to this manifest and is for this host. That of an artifact says nothing.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn judge(
    resolved: &Resolved,
    bytes: &[u8],
    host: &Platform,
    registry: &str,
) -> Result<(), PullError> {
    if !resolved.manifest.is_of_image() {
        return Ok(());
    }
    let at = |trouble| PullError::Document(Box::new(trouble), registry.to_owned());
    let config = Config::parse("its config", bytes).map_err(at)?;
    config.fits(resolved.digest, resolved.manifest.layers.0.len()).map_err(at)?;
    let platform = config.platform_or(None, "its config").map_err(at)?;
    match host.suits(&platform) {
        // The index has said which platform it is for.
        None if resolved.child.is_none() => Err(PullError::Platform {
            host: registry.to_owned(),
            held: platform.to_string(),
            wanted: host.clone(),
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(platforms: &[&str]) -> Index {
        let digest = Digest::new([1; 32]);
        let manifests: Vec<String> = platforms
            .iter()
            .enumerate()
            .map(|(number, platform)| format!(r#"{{"digest":"{digest}","size":{number}{platform}}}"#))
            .collect();
        parse("index", format!(r#"{{"manifests":[{}]}}"#, manifests.join(",")).as_bytes()).unwrap()
    }

    fn of(architecture: &str) -> String {
        format!(r#","platform":{{"os":"linux","architecture":"{architecture}"}}"#)
    }

    #[test]
    fn the_platform_of_the_host_is_chosen() {
        let host = Platform::new("linux", "amd64", "v2");
        let (amd, arm) = (of("amd64"), of("arm64"));
        let better = r#","platform":{"os":"linux","architecture":"amd64","variant":"v2"}"#;
        let attached =
            format!(r#"{amd},"annotations":{{"vnd.docker.reference.type":"attestation-manifest"}}"#);
        let other = format!(r#"{amd},"mediaType":"application/x""#);
        let chosen = |platforms: &[&str]| choose(&index(platforms), &host).map(|one| one.size);
        assert_eq!(chosen(&[&arm, &amd, &amd]), Ok(1));
        assert_eq!(chosen(&[&amd, better]), Ok(1));
        assert_eq!(chosen(&[&attached, &other, &amd]), Ok(2));
        assert_eq!(chosen(&[&arm, ""]), Ok(1), "its config tells");
        assert_eq!(chosen(&[&arm, &arm]), Err("linux/arm64".to_owned()));
        assert_eq!(chosen(&[]), Err("no platform".to_owned()));
    }

    #[test]
    fn a_document_is_what_it_and_the_registry_say() {
        let oci = |kind: &str| format!("application/vnd.oci.image.{kind}.v1+json");
        for (media_type, text, right) in [
            (oci("index"), r#"{"manifests":[]}"#, Some(Form::Index)),
            (oci("manifest"), r#"{"manifests":[]}"#, None),
            (oci("manifest"), r#"{"config":{},"layers":[]}"#, Some(Form::Manifest)),
            (oci("index"), r#"{"config":{},"layers":[]}"#, None),
            (String::new(), r#"{"config":{}}"#, Some(Form::Manifest)),
            (String::new(), r#"{"config":{},"manifests":[]}"#, None),
            (String::new(), "{}", None),
            (String::new(), "<html>", None),
        ] {
            let bytes = text.as_bytes().to_vec();
            let document = Document { media_type, digest: Digest::new([0; 32]), bytes };
            assert_eq!(form("x", &document).ok(), right, "{text}");
        }
    }
}
