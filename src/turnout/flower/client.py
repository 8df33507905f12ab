"""The client's side: any ClientApp made to answer the server's questions, and one around functions of numpy arrays."""
# Long: a fifth of it says what the arguments of two public functions are, and refuses others without jax.

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from turnout.flower.greeted import Greeted, Loss, Name, Reach, Settings, Size, read_order, reply_with
from turnout.flower.steering import steer
from turnout.flower.wire import messages as wire
from turnout.flower.wire.layout import Arrays

if TYPE_CHECKING:
    from turnout.flower.memory import Place
    from turnout.flower.secure.rules import Rules
    from turnout.strategies.client_side import ClientSide
    from turnout.uploads import Upload

Train = Callable[[Arrays, Settings, Context], tuple[Mapping[str, np.ndarray], Mapping[str, float]]]
Evaluate = Callable[[Arrays, Settings, Context], Mapping[str, float]]


def greet(
    app: ClientApp,
    *,
    name: Name | None = None,
    size: Size | None = None,
    loss: Loss | None = None,
    reach: Reach | None = None,
    state: Place | None = None,
    side: type[ClientSide] | None = None,
    secure: Rules | None = None,
) -> ClientApp:
    """An existing ClientApp that also tells the server who it is, how much data it has, and what a model loses there.

    Put `app = greet(app)` below your app, or `app = greet(ClientApp())` above its functions; they stay as they are.

    Args:
        app: your app, with its functions for training and evaluation.
        name: name of the client, from the context; if not given, `client-id` or `partition-id` of the node's config.
        size: number of samples, from the context; if not given, the `num-examples` that the app reported last.
        loss: (arrays, config, context) to the loss of a model without training, for strategies that probe; if not
            given, the app's own evaluation is asked for it: its `loss`, or whatever metric ends in "loss" there.
        reach: steps of plain SGD in a round: a number, the name of a metric that the app reports, or a function of its
            metrics. Strategies for unequal work need it; if not given, all clients count as doing the same, or, where
            the training calls `steer`, as many steps as it was called.
        state: file for what the client has sent, or a function of the context that names it; for strategies with their
            memory on the clients. If not given, it is lost when the node restarts.
        side: the class of a client side of your own, for strategies that are not shipped; no code travels.
        secure: what this client insists on in secure sums; it then sends nothing but updates under masks.
            Experimental.

    """
    if not isinstance(app, ClientApp):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"greet takes a ClientApp, not an object of {type(app).__name__}")
    _check_functions(name=name, size=size, loss=loss)
    _check_reach(reach)
    _check_place(state)
    return Greeted(app, name=name, size=size, loss=loss, reach=reach, state=state, side=side, secure=secure)


# Beside `turnout.declarations`, which imports jax: a client that sends models does without it.
def _check_functions(**given: object) -> None:
    for name, one in given.items():
        if one is not None and (not callable(one) or isinstance(one, type)):
            raise TypeError(f"{name} must be a function, not an object of {type(one).__name__}")


def _check_reach(reach: object) -> None:
    number = isinstance(reach, int | float | np.number) and not isinstance(reach, bool) and 0 <= reach < 1e300
    if not (reach is None or number or (isinstance(reach, str) and reach) or callable(reach)):
        raise TypeError("reach must be a number of 0 or more, the name of a metric, or a function of the metrics")


def _check_place(state: object) -> None:
    if not (state is None or (isinstance(state, str) and state) or isinstance(state, Path) or callable(state)):
        raise TypeError("state must be a path, or a function of the context that names one")


def _check_uploads(uploads: object) -> None:
    if uploads is None:
        return
    from turnout.uploads import Upload  # imports jax

    if not isinstance(uploads, Upload):
        raise TypeError(f"uploads must be a transform such as Clip(1.0), not an object of {type(uploads).__name__}")


# Long: most of it documents the arguments.
def client_app(
    *,
    train: Train,
    loss: Loss | None = None,
    evaluate: Evaluate | None = None,
    size: Size | None = None,
    uploads: Upload | None = None,
    state: Place | None = None,
    side: type[ClientSide] | None = None,
    secure: Rules | None = None,
) -> ClientApp:
    """A ClientApp that trains with a function of yours, in any framework.

    Args:
        train: (arrays, config, context) to (arrays after local work, metrics). The config holds the step length `lr`,
            which the strategy may scale, `seed`, 32 bits per client and round, and `steer`, to call on each gradient
            where a strategy steers local steps. Of the metrics, `loss` is the mean loss during local work, `reach` the
            number of steps of plain SGD, `num-examples` the samples used; all are optional, others are passed on.
        loss: (arrays, config, context) to the loss of a model without training, for strategies that probe.
        evaluate: (arrays, config, context) to metrics of a model on the client's own data.
        size: number of samples on this client, for `target="size"`.
        uploads: transform of an update before it is sent, from `turnout.uploads`; if not given, the model is sent.
        state: file for the memory of `uploads`, and of what was sent to a strategy with its memory on the clients; or
            a function of the context that names it, where several clients share a machine; if not given, the memory is
            lost when the node restarts.
        side: the class of a client side of your own, for strategies that are not shipped; no code travels.
        secure: what this client insists on in secure sums; it then sends nothing but updates under masks.
            Experimental.

    """
    _check_functions(train=train, loss=loss, evaluate=evaluate, size=size)
    _check_uploads(uploads)
    _check_place(state)
    app = ClientApp()

    @app.train()
    def work(message: Message, context: Context) -> Message:
        arrays, config = read_order(message)
        trained, metrics = train(arrays, {**config, "steer": steer}, context)
        return reply_with(message, metrics, {wire.ARRAYS: wire.to_record(trained)})

    if evaluate is not None:

        @app.evaluate()
        def measure(message: Message, context: Context) -> Message:
            return reply_with(message, evaluate(*read_order(message), context))

    return Greeted(app, size=size, loss=loss, uploads=uploads, state=state, side=side, secure=secure)
