"""Networks for sequences of tokens, which predict the token that comes next."""

import functools
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, Int

from turnout.declarations import Count, checked
from turnout.tasks.models.model import Model
from turnout.types import RandomKey

Tokens = Int[Array, " context"]
Logits = Float[Array, " vocabulary"]


class LstmNetwork(eqx.Module):
    """An embedding, one LSTM layer, and a linear map of its last state."""

    embedding: eqx.nn.Embedding
    cell: eqx.nn.LSTMCell
    output: eqx.nn.Linear

    def __init__(self, vocabulary: int, width: int, key: RandomKey):
        embedding, cell, output = jr.split(key, 3)
        self.embedding = eqx.nn.Embedding(vocabulary, width, key=embedding)
        self.cell = eqx.nn.LSTMCell(width, width, key=cell)
        self.output = eqx.nn.Linear(width, vocabulary, key=output)

    def __call__(self, tokens: Tokens) -> Logits:
        def step(state: tuple[Array, Array], token: Array) -> tuple[tuple[Array, Array], None]:
            return self.cell(self.embedding(token), state), None

        zeros = jnp.zeros(self.cell.hidden_size)
        (hidden, _), _ = jax.lax.scan(step, (zeros, zeros), tokens)
        return self.output(hidden)


class TransformerBlock(eqx.Module):
    """Attention and a perceptron, each with a layer norm before it and added to its input."""

    attention: eqx.nn.MultiheadAttention
    perceptron: eqx.nn.MLP
    norms: tuple[eqx.nn.LayerNorm, eqx.nn.LayerNorm]

    def __init__(self, width: int, heads: int, key: RandomKey):
        attention, perceptron = jr.split(key)
        self.attention = eqx.nn.MultiheadAttention(heads, width, key=attention)
        self.perceptron = eqx.nn.MLP(width, width, 4 * width, depth=1, activation=jax.nn.gelu, key=perceptron)
        self.norms = eqx.nn.LayerNorm(width), eqx.nn.LayerNorm(width)

    def __call__(self, features: Float[Array, "context width"]) -> Float[Array, "context width"]:
        normed = jax.vmap(self.norms[0])(features)
        features = features + self.attention(normed, normed, normed)
        return features + jax.vmap(self.perceptron)(jax.vmap(self.norms[1])(features))


class TransformerNetwork(eqx.Module):
    """Embeddings of tokens and places, blocks, and a linear map of the last place; all places see each other."""

    embedding: eqx.nn.Embedding
    places: Float[Array, "context width"]
    blocks: tuple[TransformerBlock, ...]
    norm: eqx.nn.LayerNorm
    output: eqx.nn.Linear
    remat: bool = eqx.field(static=True)

    def __init__(self, vocabulary: int, context: int, width: int, heads: int, layers: int, remat: bool, key: RandomKey):
        embedding, places, output, *blocks = jr.split(key, 3 + layers)
        self.remat = remat
        self.embedding = eqx.nn.Embedding(vocabulary, width, key=embedding)
        self.places = 0.02 * jr.normal(places, (context, width))
        self.blocks = tuple(TransformerBlock(width, heads, block) for block in blocks)
        self.norm = eqx.nn.LayerNorm(width)
        self.output = eqx.nn.Linear(width, vocabulary, key=output)

    def __call__(self, tokens: Tokens) -> Logits:
        features = jax.vmap(self.embedding)(tokens) + self.places
        for block in self.blocks:
            features = eqx.filter_checkpoint(block)(features) if self.remat else block(features)
        return self.output(self.norm(features[-1]))


@checked
@functools.cache
def lstm(vocabulary: Count, width: Count = 64) -> Model:
    """An LSTM for tokens below `vocabulary`."""
    model = Model.from_module(lambda key: LstmNetwork(vocabulary, width, key), rewrite=False)
    return replace(model, sample=jax.ShapeDtypeStruct((1,), jnp.int32))  # of any length


@checked
@functools.cache
def transformer(
    vocabulary: Count, context: Count, width: Count = 64, heads: Count = 4, layers: Count = 2, remat: bool = False
) -> Model:
    """A transformer for `context` tokens below `vocabulary`.

    With `remat` what a block computes is not kept for the gradient but computed again: one pass forwards more, and less
    memory.
    """
    if width % heads:
        raise ValueError(f"width is {width}; it must be a multiple of the {heads} heads")
    model = Model.from_module(
        lambda key: TransformerNetwork(vocabulary, context, width, heads, layers, remat, key), rewrite=False
    )
    return replace(model, sample=jax.ShapeDtypeStruct((context,), jnp.int32))
