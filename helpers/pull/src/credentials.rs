//! The names and passwords for registries: files as `docker login` and `podman login` write them.

use std::collections::HashMap;

use hyper::header::HeaderValue;
use kelson_image::Remote;
use serde::Deserialize;

/// Under which Docker's tools keep what they know of Docker's registry.
const DOCKER: &str = "https://index.docker.io/v1/";

/// What the files know of each registry.
#[derive(Debug, Default, Deserialize)]
pub struct Credentials {
    #[serde(default)]
    auths: HashMap<String, Entry>,
}

#[derive(Debug, Deserialize)]
struct Entry {
    /// `NAME:PASSWORD`, in base64.
    auth: Option<String>,
}

impl Credentials {
    /// Takes the content of a file in. What it knows of a registry goes before what was known.
    ///
    /// # Errors
    /// What is wrong with the file; the text holds nothing of its content.
    pub fn add(&mut self, bytes: &[u8]) -> Result<(), String> {
        let more: Credentials = serde_json::from_slice(bytes).map_err(|error| {
            format!(
                "line {} is not right; {{\"auths\": {{\"registry.example\": {{\"auth\": \"…\"}}}}}} would be",
                error.line()
            )
        })?;
        self.auths.extend(more.auths);
        Ok(())
    }

    /// The header `Authorization` for a registry, where the files know it.
    pub fn of(&self, registry: &str) -> Option<HeaderValue> {
        let names = [registry, DOCKER];
        let names = names.into_iter().take(if registry == Remote::DOCKER { 2 } else { 1 });
        let auth = names.filter_map(|name| self.auths.get(name)?.auth.as_deref()).next()?;
        let mut value = HeaderValue::try_from(format!("Basic {auth}")).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_registry_is_known_by_its_name() {
        let file = br#"{"auths":{"registry.example:5000":{"auth":"YTpi"},"https://index.docker.io/v1/":{"auth":"Yzpk"},
            "odd.example":{"auth":"a\nb"},"empty.example":{}},"credsStore":"x"}"#;
        let mut credentials = Credentials::default();
        credentials.add(file).unwrap();
        let of = |registry| credentials.of(registry).map(|value| value.to_str().unwrap().to_owned());
        assert_eq!(of("registry.example:5000").as_deref(), Some("Basic YTpi"));
        assert_eq!(of("docker.io").as_deref(), Some("Basic Yzpk"));
        for none in ["registry.example", "odd.example", "empty.example", "other.example"] {
            assert_eq!(of(none), None, "{none}");
        }
        assert!(!format!("{:?}", credentials.of("docker.io")).contains("Yzpk"));
        let error = credentials.add(b"{\"auths\":{\"secret").unwrap_err();
        assert!(error.contains("line 1") && !error.contains("secret"), "{error}");
        let of = |credentials: &Credentials, registry| {
            credentials.of(registry).map(|value| value.to_str().unwrap().to_owned())
        };
        credentials
            .add(br#"{"auths":{"docker.io":{"auth":"ZTpm"},"empty.example":{"auth":"Zzpo"}}}"#)
            .unwrap();
        assert_eq!(of(&credentials, "docker.io").as_deref(), Some("Basic ZTpm"));
        assert_eq!(of(&credentials, "empty.example").as_deref(), Some("Basic Zzpo"));
        assert_eq!(of(&credentials, "registry.example:5000").as_deref(), Some("Basic YTpi"));
    }
}
