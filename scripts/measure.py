#!/usr/bin/env python3
"""Measure espalier on this machine and put the figures between the markers of docs/performance.md.

usage: scripts/measure.py [--nodes N]     (default 10000000; needs about 20 GB of disk in build/measure)

Every figure stands beside the command that made it; whole commands are run three times and the
best is shown.  Run it on a quiet machine, after `cmake --preset release && cmake --build --preset release`.
"""
import os
import platform
import re
import shutil
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RELEASE = "build/release"
WORK = "build/measure"
TRIES = 3


def run(command):
    """Seconds of wall clock, seconds of CPU, peak resident MiB, output of a shell command."""
    started = time.monotonic()
    child = subprocess.Popen(command, shell=True, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    output = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    wall = time.monotonic() - started
    if status != 0:
        sys.exit(f"{command}\n{output}\nfailed with status {status}")
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, output


def whole_command(rows, what, command, prepare=None):
    best = None
    for _ in range(TRIES):
        if prepare:
            prepare()
        result = run("exec " + command)
        best = result if best is None or result[0] < best[0] else best
    rows.append(f"| {what} | `{command}` | {best[0]:.2f} s | {best[1]:.2f} s | {best[2]:,.0f} MiB |")
    print(rows[-1], flush=True)


def program(lines, command):
    _, _, _, output = run(command)
    lines += ["", f"`{command}`", "", "```", output.rstrip(), "```"]
    print("\n".join(lines[-4:]), flush=True)


def machine():
    with open("/proc/cpuinfo") as info:
        model = re.search(r"model name\s*: (.*)", info.read())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
    return f"{os.cpu_count()} cores of {model.group(1) if model else platform.machine()}, {memory} GiB, Linux {platform.release()}"


def main():
    nodes = int(sys.argv[2]) if sys.argv[1:2] == ["--nodes"] else 10_000_000
    tenth = nodes // 10
    os.chdir(ROOT)
    os.makedirs(WORK, exist_ok=True)
    espalier = f"{RELEASE}/espalier"
    big, small = f"{WORK}/{nodes}.csv", f"{WORK}/{tenth}.csv"
    for path, count in ((big, nodes), (small, tenth)):
        run(f"{espalier} generate kary10 --nodes {count} --payload 60 --order shuffled --seed 1 > {path}")
    fresh = lambda: shutil.rmtree(f"{WORK}/db", ignore_errors=True)

    rows = ["| what | command | wall | CPU | peak memory |", "|---|---|---|---|---|"]
    whole_command(rows, "a shuffled CSV becomes `path` items", f"{espalier} import {big} --layout path --to null: --table nodes")
    whole_command(rows, "... `replica` items", f"{espalier} import {big} --layout replica --to null: --table nodes")
    whole_command(rows, "embedded store, `path` with its index", f"{espalier} import {small} --layout path --to local:{WORK}/db --table nodes", fresh)
    whole_command(rows, "eight layouts, all operations, 200 samples", f"{espalier} compare datasets/world.csv --no-report")
    fresh()

    lines = [f"Measured {time.strftime('%Y-%m-%d')} on {machine()}.", "", "### Whole commands", "", *rows, "", "### Programs"]
    programs = f"{RELEASE}/bench/programs"
    program(lines, f"{programs}/tree_bench {nodes}")
    program(lines, f"{programs}/import_bench {tenth}")
    program(lines, f"{programs}/convert_bench {tenth}")
    program(lines, f"{programs}/convert_bench {nodes}")
    program(lines, f"{programs}/encode_bench")
    program(lines, f"{programs}/local_bench {tenth}")
    program(lines, f"{programs}/wire_bench")

    page = "docs/performance.md"
    with open(page) as file:
        text = file.read()
    start, end = "<!-- figures -->", "<!-- /figures -->"
    text = text[: text.index(start) + len(start)] + "\n" + "\n".join(lines) + "\n" + text[text.index(end):]
    with open(page, "w") as file:
        file.write(text)
    for path in (big, small):
        os.remove(path)


main()
