"""The parts of pages that come from benchmarks; `sections.py` puts them there."""

import itertools
import json

from tables import NUMBERS, table


def speed() -> str:
    """The simulator beside a loop in PyTorch: `make bench ARGS="--store docs/results/speed.json"`."""
    numbers = json.loads((NUMBERS / "speed.json").read_text())
    cpu, gpu = numbers["cpu"], numbers["gpu"]
    one = cpu["training"]["turnout, 1 seed"]
    rows = []
    for name, time in cpu["training"].items():
        times = "" if time == one else f"{time / one:.{0 if time > 10 * one else 1}f} times as long"
        rows.append([name, f"{time:.3g}", times])
    on_gpu = [f"{gpu['training'][f'turnout, {seeds}']:.2g}" for seeds in ("1 seed", "10 seeds")]
    fleets = [f"{time:.2g} ms out of {int(count):,} clients" for count, time in cpu["population"].items()]
    return "\n".join(
        [
            table(("", f"milliseconds per round, {cpu['machine']}", ""), rows),
            "",
            f"`make bench`, medians of one run, after compilation. On {gpu['machine']} the same run takes",
            f"{on_gpu[0]} ms per round for 1 seed and {on_gpu[1]} ms for 10. The cost follows the participants:",
            f"a round of 1,000 participants takes {', '.join(fleets[:-1])} and {fleets[-1]}, in {cpu['peak_gib']} GiB.",
        ]
    )


def intervals() -> str:
    """How often intervals hold: `benchmarks/interval_coverage.py --store`; one table for rows of the same sizes."""
    numbers = json.loads((NUMBERS / "coverage.json").read_text(encoding="utf-8"))
    by_kind: dict[tuple[str, str, float], dict[str, str]] = {}
    for row in itertools.chain(*numbers["parts"].values()):
        short = row["level"] - row["held"]
        shown = f"{100 * row['held']:.1f}"
        bold = short > (0.03 if row["is_run"] else 0.02)
        of_kind = by_kind.setdefault((row["what"], row["draws"], row["level"]), {})
        of_kind[row["size"]] = f"**{shown}**" if bold else shown
    tables: dict[tuple[str, ...], list[list[str]]] = {}
    for (what, draws, level), cells in by_kind.items():
        tables.setdefault(tuple(cells), []).append([what, draws, f"{100 * level:g}", *cells.values()])
    return "\n\n".join(table(("interval of", "draws", "promised", *sizes), rows) for sizes, rows in tables.items())


def performance() -> str:
    """Rounds, what they must do, and how near they come to the device: `python benchmarks/performance.py --store`."""
    numbers = json.loads((NUMBERS / "performance.json").read_text())
    rows = []
    for kind in numbers.values():
        for name, entry in kind["rounds"].items():
            per_second = {what: 1e3 * entry[what] / entry["ms, 1 seeds"] for what in ("operations", "bytes")}
            product = kind["ceilings"][f"product {'bfloat16' if 'bfloat16' in name else 'float32'}"]
            more = [f"{entry[key]:.3g} ({key[4:]})" for key in entry if key.startswith("ms") and key != "ms, 1 seeds"]
            rows.append(
                [
                    f"{name}, {kind['machine']}",
                    f"{entry['operations'] / 1e9:.3g}",
                    f"{entry['bytes'] / 1e9:.3g}",
                    f"{entry['ms, 1 seeds']:.3g}",
                    ", ".join(more),
                    f"{100 * per_second['operations'] / product:.2g} %",
                    f"{100 * per_second['bytes'] / kind['ceilings']['copy']:.2g} %",
                ]
            )
    head = ("round", "GFLOP", "GB", "ms, one seed", "ms, more seeds", "of the product ceiling", "of the copy ceiling")
    ceilings = [
        f"{kind['machine']}: {kind['ceilings']['product float32'] / 1e12:.3g} TFLOP/s in float32 "
        f"(as the compiler multiplies), {kind['ceilings']['product bfloat16'] / 1e12:.3g} in bfloat16, "
        f"{kind['ceilings']['copy'] / 1e9:.3g} GB/s; jax {kind['jax']}"
        for kind in numbers.values()
    ]
    peers = [f"{name}: {value:.3g} ms" for name, value in numbers["cpu"].get("peers", {}).items() if name != "version"]
    beside = [f"\nMeasured alternately on {numbers['cpu']['machine']}: {', '.join(peers)}."] if peers else []
    ceilings = ["Measured ceilings:", "", *(f"- {line}" for line in ceilings), *beside, ""]
    return "\n".join([table(head, rows), "", *ceilings, *_larger(numbers), *_beside_rounds(numbers["gpu"])])


def _larger(numbers: dict) -> list[str]:
    """Local steps of larger models beside PyTorch's, as far as they were measured."""
    rows = [
        [
            f"{name}, {kind['machine']}",
            f"{times['turnout']:.3g}",
            f"{times['pytorch']:.3g}" if "pytorch" in times else "",
        ]
        for kind in numbers.values()
        for name, times in kind.get("larger", {}).items()
    ]
    head = ("local step", "turnout, ms", "PyTorch, ms")
    return [table(head, rows), ""] if rows else []


def own_models() -> str:
    """Networks that people bring, beside `tasks.network`: `python benchmarks/own_models.py --store`."""
    numbers = json.loads((NUMBERS / "performance.json").read_text())
    rows = [
        [f"{name}, {kind['machine']}", *(f"{form}: {value:.3g}" for form, value in [each]), entry["date"], entry["jax"]]
        for kind in numbers.values()
        for name, entry in kind.get("own", {}).items()
        for each in entry["ms"].items()
    ]
    if not rows:
        return "No figures are stored yet: `python benchmarks/own_models.py --store` measures the device at hand."
    return table(("what, where", "milliseconds", "date", "jax"), rows)


def _beside_rounds(gpu: dict) -> list[str]:
    """What the benchmark measured besides rounds, as far as it was asked for."""
    on, call, draw = f"On {gpu['machine']}", gpu["call"], gpu.get("availability")
    lines = [f"{on} a whole call of 200 rounds of W1 takes {call['one training']:.0f} ms once it is compiled."]
    if "420 trainings" in call:
        lines.append(f"420 such trainings take {call['420 trainings'] / 1e3:.2g} s.")
    if draw is not None:
        lines.append(f"To draw who of {draw['clients']:,} independent clients is available takes {draw['ms']:.2g} ms")
        lines.append(f"per round and {draw['peak GiB']:.2g} GiB (`--availability {draw['clients']}`).")
    return lines


def precision() -> str:
    """What 16 bits cost and gain: `python benchmarks/precision.py --store`."""
    numbers = json.loads((NUMBERS / "precision.json").read_text())
    rows = [
        [
            name,
            f"{row['float32']:.1f}",
            f"{row['bfloat16']:.1f}",
            f"{row['change']:+.2f} [{row['low']:+.2f}, {row['high']:+.2f}]",
            f"{row['seconds float32']:.3g}",
            f"{row['seconds bfloat16']:.3g}",
        ]
        for name, row in numbers["rows"].items()
    ]
    head = ("strategy", "float32, %", "bfloat16, %", "change, points", "s per training, float32", "s, bfloat16")
    about = f"`{numbers['model']}` on {numbers['task']}, {numbers['rounds']} rounds, {numbers['seeds']} seeds, "
    return "\n".join([table(head, rows), "", f"{about}{numbers['machine']}."])


def million() -> str:
    """A million clients: `python benchmarks/million.py --store docs/results/million.json`."""
    numbers = json.loads((NUMBERS / "million.json").read_text())
    rows = dict(sorted(numbers["rows"].items()))
    timed = {name: row for name, row in rows.items() if "cpu_ms" in row}
    shown = [
        [name, f"{row['ms']:.0f}", f"{row['cpu_ms']:.0f}", f"{row['peak_gib']:.1f}"] for name, row in timed.items()
    ]
    memories = ", ".join(f"{name} {row['needs_gib']:.1f}" for name, row in rows.items() if "needs_gib" in row)
    loads, diagnosis = [row["load"] for row in rows.values()], rows["diagnosis"]
    return "\n".join(
        [
            table(("", "wall time, ms per round", "CPU time of all threads, ms per round", "peak memory, GiB"), shown),
            "",
            f"`{numbers['command']}`, {numbers['machine']}, shared by {min(loads):.0f} to {max(loads):.0f}",
            "running programs: compare CPU times rather than wall times. The diagnosis of a log of",
            f"{diagnosis['rounds']:,} rounds takes {diagnosis['seconds']:.0f} s and {diagnosis['peak_gib']:.1f} GiB.",
            f"Strategies with one model per client were not run. Their memory would take, in GiB: {memories}.",
        ]
    )


def arrivals() -> str:
    """Time per simulated arrival beside other simulators: `python benchmarks/arrivals.py --store`."""
    numbers = json.loads((NUMBERS / "arrivals.json").read_text())
    columns = ("processor", "times", "wall", "times of wall")
    rows = [[name, *(f"{row[column]:,.0f}" for column in columns)] for name, row in numbers["rows"].items()]
    head = ("simulator", "µs of the processor per arrival", "times ours", "µs by the wall's clock", "times ours")
    about = numbers["about"]
    return "\n".join(
        [
            table(head, rows),
            "",
            f"`benchmarks/arrivals.py`, medians of {about['turns']} turns on {about['cores']} cores, which about",
            f"{about['load']} running programs shared: compare the processor's times.",
        ]
    )
