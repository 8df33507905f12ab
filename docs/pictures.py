"""Draw the pictures of the documentation into docs/images: `make pictures`."""

from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import polars as pl
from in_time import whom_shares

from turnout.availability import cyclic, markov
from turnout.simulator import simulate
from turnout.simulator.client_optimizer import Local
from turnout.strategies import LastWord
from turnout.tasks import quadratics
from turnout.theory import effective_normalised, effective_raw, retirement_age, word_left
from turnout.workbench.diagnosis.reading.log import Runs
from turnout.workbench.diagnosis.world.likeness import play
from turnout.workbench.report.page.colours import BLUE, GREEN, ORANGE, VERMILION, colour
from turnout.workbench.report.page.on_paper import add_heading
from turnout.world import World

IMAGES = Path(__file__).parent / "images"
ROUNDS = 100
THERE, AWAY = BLUE, "#e6e6e6"
STEPS = (  # of a round: who acts, what it is called, what it does
    ("nature", "world.step", "who is there,|what would arrive,|how much work"),
    ("server", "strategy.select", "whom to ask,|with what weight"),
    ("clients", "client.work", "some steps of SGD,|an update each"),
    ("nature", "nature.deliver", "some uploads|are lost"),
    ("server", "strategy.aggregate", "updates become|a move"),
    ("server", "optimizer", "the move|changes the model"),
    ("server", "facts.observe", "what is estimated|from the round"),
)
ACTORS = ("nature", "server", "clients")
SERVERS = (
    "FedAvg, rounds, all answer",
    "FedAvg, first half, late dropped",
    "FedAsync, all at work",
    "FedBuff, all at work",
    "FedBuff, 50 at work",
    "Unbiased (told π), all at work",
    "FedAU, all at work",
    "MIFA, all at work",
    "LastWord, all at work",
    "LastWord, first half, late kept",
)


def who_is_there() -> Any:
    """The same rates, different correlations: one row per client, one column per round."""
    rates = np.repeat([0.9, 0.5, 0.1], 4)
    panels = []
    for name, lam in (("λ = 0: no memory", 0.0), ("λ = 0.9: long stays, long absences", 0.9)):
        present = play(markov(12, pi=rates.tolist(), lam=lam), ROUNDS, seed=3)
        runs = Runs.from_matrix(present)
        rows = pl.DataFrame({"client": runs.client, "start": runs.first, "end": runs.end, "there": True})
        whole = pl.DataFrame({"client": np.arange(12, dtype=np.int32), "start": 0, "end": ROUNDS, "there": False})
        rows = pl.concat([whole, rows], how="vertical_relaxed")
        state = alt.condition("datum.there", alt.value(THERE), alt.value(AWAY))
        axis = alt.Axis(
            values=[1.5, 5.5, 9.5],
            labelExpr="datum.value < 2 ? 'π = 0.9' : datum.value < 6 ? 'π = 0.5' : 'π = 0.1'",
            ticks=False,
            grid=False,
            domain=False,
        )
        cells = (
            alt.Chart(rows)
            .mark_rect(stroke="white", strokeWidth=0.6)
            .encode(
                x=alt.X("start:Q", title="round", axis=alt.Axis(grid=False), scale=alt.Scale(domain=[0, ROUNDS])),
                x2="end:Q",
                y=alt.Y("top:Q", title=None, axis=axis, scale=alt.Scale(domain=[12, 0], nice=False)),
                y2="bottom:Q",
                color=state,
            )
        )
        cells = cells.transform_calculate(top="datum.client", bottom="datum.client + 1")
        panels.append(cells.properties(width=640, height=150, title=alt.TitleParams(name, anchor="start")))
    return add_heading(
        alt.vconcat(*panels), "The same rates, another world", ["One row per client, one column per round; blue: there"]
    )


def way_of_a_round() -> Any:
    """Who does what, from left to right."""
    rows = [
        {"x": place, "y": ACTORS.index(actor), "name": name, "does": does, "actor": actor}
        for place, (actor, name, does) in enumerate(STEPS)
    ]
    lanes = alt.Y("y:Q", axis=None, scale=alt.Scale(domain=[-0.6, 2.6], reverse=True))
    across = alt.X("x:Q", axis=None, scale=alt.Scale(domain=[-0.65, len(STEPS) - 0.35]))
    steps = alt.Chart(pl.DataFrame(rows))
    colours = alt.Scale(domain=list(ACTORS), range=[GREEN, BLUE, ORANGE])
    way = steps.mark_line(color="#aaaaaa", strokeWidth=2, interpolate="step").encode(across, lanes, order="x:Q")
    boxes = steps.mark_point(shape="circle", filled=True, size=900, opacity=1).encode(
        across, lanes, color=alt.Color("actor:N", scale=colours, legend=None)
    )
    numbers = steps.mark_text(color="white", fontSize=14, fontWeight="bold").encode(across, lanes, text="number:N")
    numbers = numbers.transform_calculate(number="datum.x + 1")
    texts = []
    for halo in ({"stroke": "white", "strokeWidth": 6}, {}):  # lines pass behind words
        names = steps.mark_text(fontSize=13, fontWeight="bold", dy=-28, **halo)
        does = steps.mark_text(fontSize=12, dy=28, lineBreak="|", lineHeight=15, color="#333333", **halo)
        texts += [names.encode(across, lanes, text="name:N"), does.encode(across, lanes, text="does:N")]
    titles = alt.Chart(pl.DataFrame({"y": [0, 1, 2], "actor": list(ACTORS)})).mark_text(
        align="right", fontSize=14, fontStyle="italic", x=-8
    )
    named = titles.encode(lanes, text="actor:N")
    chart = alt.layer(way, *texts, boxes, numbers, named).properties(width=1060, height=380)
    return add_heading(chart, "The way of a round", [])


def engine_words() -> Any:
    """Lanes and rounds on the left, the slots of one round of one lane on the right."""
    cells, words, marks = [], [], []

    def box(x: float, y: float, x2: float, y2: float, fill: str, stroke: str = "white") -> None:
        cells.append({"x": x, "y": y, "x2": x2, "y2": y2, "fill": fill, "stroke": stroke})

    def word(x: float, y: float, text: str, bold: bool = False) -> None:
        words.append({"x": x, "y": y, "text": text, "weight": "bold" if bold else "normal"})

    rounds, every = 12, 3
    for lane in range(4):
        top = lane + (0.5 if lane > 1 else 0.0)
        for t in range(rounds):
            box(t, top + 0.15, t + 1, top + 0.85, BLUE if (t // every) % 2 else "#7fb8dd")
        marks += [{"x": t, "y": top + 0.5} for t in range(0, rounds + 1, every)]
        word(-1.6, top + 0.5, f"lane {lane + 1}")
    word(-4.3, 1.0, "crew 1", bold=True)
    word(-4.3, 3.5, "crew 2", bold=True)
    word(1.5, -0.35, "block", bold=True)
    word(8.2, -0.35, "a diamond is an evaluation")
    for first, name in ((0, "segment 1"), (2 * every, "segment 2")):
        box(first + 0.1, 4.8, first + 2 * every - 0.1, 4.9, "#444444")
        word(first + every, 5.25, name, bold=True)
    left, steps = 16, (5, 4, 4, 2, 1, 0, 0, 0)
    for slot, count in enumerate(steps):
        top = slot * 0.56 + (0.3 if slot > 3 else 0.0)
        box(left, top, left + 6, top + 0.46, "#ffffff", "#999999")
        for step in range(count):
            box(left + 0.1 + step * 1.1, top + 0.06, left + 1.1 + step * 1.1, top + 0.4, ORANGE)
        word(left - 1.0, top + 0.23, f"slot {slot + 1}")
        if not count:
            word(left + 3, top + 0.23, "empty")
    word(left + 8.2, 1.1, "chunk 1", bold=True)
    word(left + 8.2, 3.65, "chunk 2", bold=True)
    word(left + 3, -0.35, "one round of one lane: a job per slot", bold=True)
    word(left + 3, 5.25, "an orange box is a local step")
    across = alt.X("x:Q", axis=None, scale=alt.Scale(domain=[-5.6, 25.6]))
    down = alt.Y("y:Q", axis=None, scale=alt.Scale(domain=[-0.8, 5.7], reverse=True))
    fill = alt.Color("fill:N", scale=None)
    boxes = alt.Chart(pl.DataFrame(cells)).mark_rect().encode(across, down, fill, x2="x2:Q", y2="y2:Q")
    boxes = boxes.encode(stroke=alt.Stroke("stroke:N", scale=None))
    texts = [
        alt.Chart(pl.DataFrame([one for one in words if one["weight"] == weight]))
        .mark_text(fontSize=13, fontWeight=weight, color="#222222")
        .encode(across, down, text="text:N")
        for weight in ("normal", "bold")
    ]
    looks = alt.Chart(pl.DataFrame(marks)).mark_point(shape="diamond", filled=True, size=70, color=VERMILION, opacity=1)
    chart = alt.layer(boxes, looks.encode(across, down), *texts).properties(width=1060, height=330)
    return add_heading(chart, "The engine's words", ["Columns on the left: rounds"])


def effective_weight() -> Any:
    """How much a client counts over how much it should, by its rate; exact."""
    rates = np.linspace(0.05, 0.95, 20)
    target = np.full(20, 0.05)
    shares = {
        "fedavg": effective_normalised(rates, target),
        "unbiased": effective_raw(rates, target / rates),
        "adafed": effective_normalised(rates, target / rates),
        "more_available": effective_raw(rates, np.where(rates >= 0.5, target / rates, 0.0)),
    }
    rows = [
        {"strategy": name, "rate": rate, "ratio": ratio}
        for name, share in shares.items()
        for rate, ratio in zip(rates, share / target, strict=True)
    ]
    scale = alt.Scale(domain=list(shares), range=[colour(name) for name in shares])
    lines = (
        alt.Chart(pl.DataFrame(rows))
        .mark_line(point=alt.OverlayMarkDef(size=40), strokeWidth=2.5)
        .encode(
            alt.X("rate:Q", title="π, how often the client is there"),
            alt.Y("ratio:Q", title="effective weight over target"),
            alt.Color("strategy:N", scale=scale, sort=list(shares), legend=alt.Legend(title=None, symbolType="circle")),
        )
    )
    wanted = alt.Chart(pl.DataFrame({"y": [1.0]})).mark_rule(strokeDash=[5, 4], strokeWidth=1.5).encode(y="y:Q")
    chart = (wanted + lines).properties(width=640, height=320)
    return add_heading(
        chart, "For whom the model is trained", ["20 independent clients of equal target; 1 is as it should be"]
    )


def right_on_average() -> Any:
    """Unbiased's weight of one rare client, averaged over the rounds so far."""
    rows = []
    for lam in (0.0, 0.9):
        present = play(markov(6, pi=0.1, lam=lam), 1000, seed=1)
        mean = np.cumsum(present / 0.1, axis=1) / np.arange(1, 1001)
        rows += [
            {"client": f"{lam} {k}", "memory": f"λ = {lam:g}", "round": t + 1, "mean": mean[k, t]}
            for k in range(6)
            for t in range(9, 1000, 10)
        ]
    lines = (
        alt.Chart(pl.DataFrame(rows))
        .mark_line(strokeWidth=1.8)
        .encode(
            alt.X("round:Q", title="round", scale=alt.Scale(domain=[0, 1000])),
            alt.Y("mean:Q", title="mean weight so far over target", scale=alt.Scale(domain=[0, 4], clamp=True)),
            alt.Color("memory:N", scale=alt.Scale(range=[BLUE, VERMILION]), legend=alt.Legend(title=None)),
            detail="client:N",
        )
    )
    wanted = alt.Chart(pl.DataFrame({"y": [1.0]})).mark_rule(strokeDash=[5, 4], strokeWidth=1.5).encode(y="y:Q")
    note = ["Weight α / π on clients that are there 10 % of the time; six clients each"]
    return add_heading((wanted + lines).properties(width=640, height=280), "Right on average, and when", note)


def vanished() -> Any:
    """What is left of a client that was heard last in round 100, by fading; lines are stated, points simulated."""
    last, longest, share, every = 100, 1000, 0.1, 50
    away = np.arange(longest + 1)
    lines, points = [], []
    for fading, name in ((0.0, "0: never"), (0.5, "½, the default"), (1.0, "1")):
        left = word_left(away, last, fading)
        lines += [{"fading": name, "away": int(t), "left": float(left[t])} for t in away[::5]]
        task = quadratics(10, 1, centres=[[1.0]] + [[0.0]] * 9, noise=0.0)
        world = World(cyclic(10, period=10**6, offset=0, duration=[last + 1] + [10**6] * 9), compute=1)
        rounds = last + 1 + longest
        run = simulate(
            task, world, LastWord(fading=fading), rounds=rounds, local=Local(learning_rate=0.5), evaluate_every=every
        )
        loss = np.asarray(run.metrics["train_loss"], np.float64)[0]
        drawn = 1 - np.sqrt(np.maximum(2 * loss - share * (1 - share), 0.0)) / share  # x / α, from the loss
        times = run.evaluated - last - 1
        points += [
            {"fading": name, "away": int(t), "left": float(x)} for t, x in zip(times, drawn, strict=True) if t > 0
        ]
    scale = alt.Scale(domain=["0: never", "½, the default", "1"], range=[ORANGE, BLUE, GREEN])
    across = alt.X("away:Q", title="rounds since the client was heard", scale=alt.Scale(domain=[0, longest]))
    up = alt.Y("left:Q", title="part of its share that still counts", scale=alt.Scale(domain=[0, 1.05]))
    hue = alt.Color("fading:N", scale=scale, sort=None, legend=alt.Legend(title="fading", symbolType="circle"))
    stated = alt.Chart(pl.DataFrame(lines)).mark_line(strokeWidth=2.5).encode(across, up, hue)
    played = alt.Chart(pl.DataFrame(points)).mark_point(filled=True, size=36, opacity=1).encode(across, up, hue)
    age = retirement_age(mean_absence=20.0, vanishing=0.001, heard=last)
    mark = pl.DataFrame({"away": [age], "left": [0.06], "text": [f"retired after {age} rounds"]})
    rule = alt.Chart(mark).mark_rule(strokeDash=[5, 4], strokeWidth=1.5).encode(alt.X("away:Q"))
    text = alt.Chart(mark).mark_text(align="left", dx=6, fontSize=12).encode(across, up, text="text:N")
    chart = alt.layer(stated, played, rule, text).properties(width=640, height=300)
    note = [
        "Last heard in round 100; lines: the formula, points: LastWord on ten quadratics.",
        "Dashed: where to retire it, if absences last 20 rounds and one in 1,000 is for ever",
    ]
    return add_heading(chart, "A client that vanishes fades by a power of time", note)


def slow_clients() -> Any:
    """How much the slow clients count, by server."""
    asked = whom_shares()["FedAvg, rounds, all answer"]["always there"]["slow_share"]
    names = {"always there": "everybody always there", "two classes": "two classes of availability"}
    rows = [
        {"server": server, "world": names[world], "share": whom_shares()[server][world]["slow_share"]}
        for server in SERVERS
        for world in names
    ]
    colours = alt.Scale(domain=list(names.values()), range=[BLUE, ORANGE])
    up = alt.Y("server:N", title=None, sort=list(SERVERS), axis=alt.Axis(labelLimit=300, grid=False, domain=False))
    across = alt.X("share:Q", title="share of the weight, %", scale=alt.Scale(domain=[0, 50]))
    offset = alt.YOffset("world:N", scale=alt.Scale(paddingOuter=0.15))
    base = alt.Chart(pl.DataFrame(rows)).encode(across, up, yOffset=offset)
    legend = alt.Legend(title=None, symbolType="square")
    bars = base.mark_bar().encode(color=alt.Color("world:N", scale=colours, legend=legend))
    numbers = base.mark_text(align="left", dx=7, fontSize=11).encode(text=alt.Text("share:Q", format=".0f"))
    wanted = alt.Chart(pl.DataFrame({"x": [asked]})).mark_rule(strokeDash=[5, 4], strokeWidth=1.5).encode(x="x:Q")
    note = (
        f"44 of 100 clients are slow: work takes them 7 to 21 ticks, the others 2 to 6. Dashed: the {asked:.0f} % asked"
    )
    chart = (bars + numbers + wanted).properties(width=460, height=320)
    return add_heading(chart, "How much the slow clients count", [note])


PICTURES = {
    "who_is_there": who_is_there,
    "way_of_a_round": way_of_a_round,
    "effective_weight": effective_weight,
    "right_on_average": right_on_average,
    "engine_words": engine_words,
    "vanished": vanished,
    "slow_clients": slow_clients,
}

if __name__ == "__main__":
    for picture, draw in PICTURES.items():
        draw().save(IMAGES / f"{picture}.svg")
