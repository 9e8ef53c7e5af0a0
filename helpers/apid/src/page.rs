//! The page for a browser: which machine this is, and how to reach it with kelsonctl.

use tonic::body::Body;
use tonic::codegen::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue};
use tonic::codegen::http::{Method, Request, Response};

use super::metrics;

/// Where it is.
pub const PATH: &str = "/";

/// Whether this is no call of gRPC, which are all made with POST.
pub fn is_for_people<B>(request: &Request<B>) -> bool {
    matches!(*request.method(), Method::GET | Method::HEAD)
}

/// The page. Its reader has shown a certificate, as for every other answer.
pub fn answer(method: &Method) -> Response<Body> {
    let host = nix::sys::utsname::uname().map(|names| names.nodename().to_string_lossy().into_owned());
    let text = page(&host.unwrap_or_default());
    let mut response = Response::new(if method == Method::HEAD { Body::empty() } else { Body::new(text) });
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'"));
    response
}

fn page(host: &str) -> String {
    let host: String = host.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.')).collect();
    let (major, minor) = (env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"));
    let metrics = metrics::PATH;
    format!(
        "<!DOCTYPE html>\n\
         <html lang=\"en\">\n\
         <title>{host}: Kelson</title>\n\
         <h1>{host}</h1>\n\
         <p>This is the API of Kelson {major}.{minor}, the init system of this machine. It is gRPC, and there is nothing to \
         click here.\n\
         <ul>\n\
         <li><code>kelsonctl -n ADDRESS status</code> shows the machine and its services, \
         <code>kelsonctl -n ADDRESS dashboard</code> steers them.\n\
         <li><a href=\"{metrics}\">{metrics}</a> has numbers for Prometheus and others.\n\
         <li>Any gRPC client can ask for the interface by reflection.\n\
         </ul>\n\
         </html>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_name_is_no_html() {
        assert!(page("edge-1.example").contains("<h1>edge-1.example</h1>"));
        assert!(page("<script>a&b").contains("<h1>scriptab</h1>"));
    }
}
