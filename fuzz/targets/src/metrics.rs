//! The metrics of PID 1 as kelson-apid and kelsonctl read them.

use kelson_apid::openmetrics::Text;
use kelson_proto::v1::GetMetricsResponse;
use prost::Message as _;

use crate::input::Input;

/// Pages of metrics, each with its length before it.
pub fn text(data: &[u8]) {
    let mut input = Input(data);
    let mut text = Text::default();
    let mut written = String::new();
    while !input.is_empty() {
        let Ok(page) = GetMetricsResponse::decode(input.piece()) else { continue };
        page.families.iter().for_each(|family| text.family(family));
        written += &text.take();
    }
    assert!(written.is_empty() || written.ends_with('\n'));
}
