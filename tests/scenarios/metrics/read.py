"""Reads OpenMetrics text with the parser of Prometheus' own client library, which takes nothing that is not right.

read.py < TEXT                        prints each sample as a line of JSON: {"name", "type", "labels", "value"}
read.py URL CA CERTIFICATE KEY        the same of what an HTTPS server answers to a client with this certificate
read.py --classic URL CA …            the same, in the classic format
"""
import json
import ssl
import sys
import urllib.request

from prometheus_client import parser as classic
from prometheus_client.openmetrics import parser as openmetrics

# The request of each, and the answer that it is to get.
WANTED = {
    classic: ("text/plain;version=0.0.4;q=1,*/*;q=0.1", "text/plain; version=0.0.4; charset=utf-8"),
    openmetrics: (
        "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
        "application/openmetrics-text; version=1.0.0; charset=utf-8",
    ),
}


def fetch(parser, url, ca, certificate, key):
    context = ssl.create_default_context(cafile=ca)
    context.load_cert_chain(certificate, key)
    accept, expected = WANTED[parser]
    request = urllib.request.Request(url, headers={"Accept": accept})
    with urllib.request.urlopen(request, context=context, timeout=30) as answer:
        kind = answer.headers["content-type"]
        if kind != expected:
            sys.exit(f"it says that it is {kind}")
        return answer.read().decode()


def main():
    words = sys.argv[1:]
    parser = classic if words[:1] == ["--classic"] else openmetrics
    words = [word for word in words if word != "--classic"]
    text = fetch(parser, *words) if words else sys.stdin.read()
    for family in parser.text_string_to_metric_families(text):
        if not family.documentation:
            sys.exit(f"{family.name} does not say what it is")
        for sample in family.samples:
            put = {"name": sample.name, "type": family.type, "labels": sample.labels, "value": sample.value}
            print(json.dumps(put))


if __name__ == "__main__":
    main()
