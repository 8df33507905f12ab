"""Fine-tuning by adapters: a character transformer, trained in one place, then tuned by 200 clients that come and go.

The text is Python's own manual. The first half of its pages trains the base; stretches of the other half belong to the
clients, and the last hundred of them are seldom there. Trained, sent and remembered are narrow matrices beside the
frozen weights. A folder as an argument takes the place of the first part: its model.safetensors is the base.
"""

import sys
import tempfile
from pydoc_data.topics import topics

import jax
import numpy as np
import optax

import turnout
from turnout import Local, World, availability, simulate
from turnout.strategies import FedAvg, LastWord
from turnout.tasks import adapt, from_arrays, load_params, save_params, transformer

CONTEXT, CLIENTS = 16, 200
MODEL = transformer(97, CONTEXT, width=48, layers=2)
PAGES = [topics[name] for name in sorted(topics)]
ASKED = {"metrics": ["validation_accuracy"], "seeds": 1}


def samples(pages, num_clients, count):
    """Stretches of characters and the one that comes next, from as many consecutive parts of the text as clients."""
    text = "".join(pages).encode("ascii", "replace")
    tokens = np.clip(np.frombuffer(text, np.uint8).astype(np.int32) - 30, 0, 96)
    starts = np.linspace(0, len(tokens) - CONTEXT - 1, num_clients * count).astype(int)
    windows = tokens[starts[:, None] + np.arange(CONTEXT + 1)[None, :]]
    return windows[:, :-1], windows[:, -1].astype(np.int64), np.arange(len(starts)) // count


def size(task):
    return sum(leaf.size for leaf in jax.tree.leaves(jax.eval_shape(task.init, jax.random.key(0))))


turnout.use_compilation_cache()
folder = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()
adam = Local(learning_rate=3e-3, batch_size=32, optimizer=optax.adam(1.0))
if len(sys.argv) == 1:
    central = from_arrays(samples(PAGES[: len(PAGES) // 2], 1, 40_000), model=MODEL, validation_share=0.05)
    alone = World(availability.bernoulli(1, 1.0), compute=600)
    trained = simulate(central, alone, FedAvg(), rounds=1, local=adam, **ASKED)
    save_params(jax.tree.map(lambda leaf: leaf[0], trained.params), folder)

base = load_params(folder, MODEL)
data = samples(PAGES[len(PAGES) // 2 :], CLIENTS, 100)
task, whole = (from_arrays(data, model=model) for model in (adapt(MODEL, base, rank=2), MODEL))
print(f"trained, sent and remembered: {size(task):,} numbers; the whole model has {size(whole):,} numbers")
world = World(availability.two_classes(CLIENTS, gap=0.45), compute=5)
for strategy in (FedAvg(cohort=20), LastWord(cohort=20)):
    history = simulate(task, world, strategy, rounds=60, local=Local(learning_rate=0.3, batch_size=16), **ASKED)
    print(f"base      {100 * history.metrics['validation_accuracy'][0, 0]:.1f} % of characters right")
    print(f"{type(strategy).__name__:9} {100 * history.final('validation_accuracy')[0]:.1f} % of characters right")
