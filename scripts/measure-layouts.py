#!/usr/bin/env python3
"""Put what each layout's operations cost between the markers of docs/layouts/NAME.md.

usage: scripts/measure-layouts.py [--check] [ESPALIER]     (default build/release/espalier)

The figures are means of `espalier compare` on the shipped trees: units, requests and round trips, which are
the same on every machine.  --check writes nothing and fails when a page does not show what is measured now.
"""
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TREES = ("datasets/world.csv", "datasets/animals.csv")
START, END = "<!-- measured -->", "<!-- /measured -->"
COMMAND = "compare {tree} --store memory: --sample 50 --addressing {addressing} --no-report"


def compare(espalier, tree, addressing):
    """The layouts of `compare --json`, by name."""
    words = [espalier] + COMMAND.format(tree=tree, addressing=addressing).split() + ["--json"]
    output = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    return {layout["name"]: layout for layout in json.loads(output.stdout)["layouts"]}


def figure(value):
    return f"{value:,.1f}"


def cells(operation):
    units = [operation[kind]["mean"] for kind in ("read_units", "write_units")]
    return [*(figure(u) if u else "" for u in units), figure(operation["requests"]["mean"]),
            figure(operation["round_trips"]["mean"])]


def table(by_id, by_key):
    names = ["read units", "write units", "requests", "round trips"]
    rows = [["operation", "plan", *names, "*by key:* " + names[0], *names[1:]], ["---"] * 10]
    for one, other in zip(by_id["operations"], by_key["operations"]):
        rows.append([one["name"], one["plan"], *cells(one), *cells(other)])
    return ["| " + " | ".join(row) + " |" for row in rows]


def section(name, measured):
    lines = []
    for tree in TREES:
        by_id, by_key = measured[tree, "id"][name], measured[tree, "key"][name]
        load = by_id["load"]
        command = COMMAND.format(tree=tree, addressing="id")
        lines += ["", f"`{tree}`: {load['items']:,} items, {load['item_bytes']:,} bytes and {load['index_bytes']:,} of "
                  f"index entries; {load['write_units']:,.0f} write units to load. `espalier {command}`, and the same "
                  "with `--addressing key`:", "", *table(by_id, by_key)]
    return "\n".join(lines).strip() + "\n"


def main():
    words = [word for word in sys.argv[1:] if word != "--check"]
    check = len(words) < len(sys.argv) - 1
    espalier = os.path.abspath(words[0]) if words else os.path.join(ROOT, "build/release/espalier")
    measured = {(tree, addressing): compare(espalier, tree, addressing) for tree in TREES for addressing in ("id", "key")}
    stale = []
    for name in measured[TREES[0], "id"]:
        page = f"docs/layouts/{name}.md"
        path = os.path.join(ROOT, page)
        if not os.path.exists(path):
            stale.append(f"{page} is missing")
            continue
        with open(path) as file:
            old = file.read()
        text = old if START in old else old.rstrip() + f"\n\n## Measured\n\nMeans of 50 nodes each.\n\n{START}\n{END}\n"
        text = text[: text.index(START) + len(START)] + "\n" + section(name, measured) + text[text.index(END):]
        if text != old:
            stale.append(f"{page} shows other figures than are measured now: run scripts/measure-layouts.py")
        if not check:
            with open(path, "w") as file:
                file.write(text)
    if check or any("missing" in line for line in stale):
        print("\n".join(stale))
        sys.exit(1 if stale else 0)


main()
