"""The service, group and machine files that the documents show, and YAML as Kelson reads it."""
import re
import textwrap

import yaml


class Yaml12(yaml.SafeLoader):
    """Plain words as YAML 1.2 and Kelson have them: `off` and `yes` are words, a time of day is no number."""


Yaml12.yaml_implicit_resolvers = {}
for tag, pattern, first in [
    ("bool", r"^(true|false)$", "tf"),
    ("int", r"^-?[0-9]+$", "-0123456789"),
    ("float", r"^-?[0-9]+\.[0-9]+$", "-0123456789"),
    ("null", r"^(null|~|)$", ["n", "~", ""]),
]:
    Yaml12.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(pattern), list(first))


def load(text):
    return yaml.load(text, Yaml12)


def files(page):
    """(path, text) of each block of YAML whose first line names it as a service, group or machine file."""
    for block in re.findall(r"^ *```yaml\n(.*?)^ *```$", page.read_text(), flags=re.MULTILINE | re.DOTALL):
        block = textwrap.dedent(block)
        name = re.match(r"# (?:\S+/)?((?:services|groups)/\S+\.yaml|machine\.yaml)\n", block)
        if name:
            yield name[1], block
