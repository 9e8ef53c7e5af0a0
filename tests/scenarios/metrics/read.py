"""Reads OpenMetrics text with the parser of Prometheus' own client library, which takes nothing that is not right.

read.py < TEXT                        prints each sample as a line of JSON: {"name", "type", "labels", "value"}
read.py URL CA CERTIFICATE KEY        the same of what an HTTPS server answers to a client with this certificate
"""
import json
import ssl
import sys
import urllib.request

from prometheus_client.openmetrics import parser


def fetch(url, ca, certificate, key):
    context = ssl.create_default_context(cafile=ca)
    context.load_cert_chain(certificate, key)
    with urllib.request.urlopen(url, context=context, timeout=30) as answer:
        kind = answer.headers["content-type"]
        if kind != "application/openmetrics-text; version=1.0.0; charset=utf-8":
            sys.exit(f"it says that it is {kind}")
        return answer.read().decode()


def main():
    text = fetch(*sys.argv[1:]) if len(sys.argv) > 1 else sys.stdin.read()
    for family in parser.text_string_to_metric_families(text):
        if not family.documentation:
            sys.exit(f"{family.name} does not say what it is")
        for sample in family.samples:
            put = {"name": sample.name, "type": family.type, "labels": sample.labels, "value": sample.value}
            print(json.dumps(put))


if __name__ == "__main__":
    main()
