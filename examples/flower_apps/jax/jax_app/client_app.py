"""The client: it knows nothing of the server's strategy."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from jax_app.task import create_model, get_params, load_data, set_params
from jax_app.task import test as test_fn
from jax_app.task import train as train_fn

app = ClientApp()


@app.train()
def train(msg: Message, context: Context):
    """Train the model on local data."""
    model = set_params(create_model(), msg.content["arrays"].to_numpy_ndarrays())
    data, _ = load_data(context.node_config["partition-id"])
    config = context.run_config
    model, train_loss = train_fn(model, data, config["batch-size"], config["learning-rate"])
    metrics = MetricRecord({"train_loss": train_loss, "num-examples": len(data[1])})
    content = RecordDict({"arrays": ArrayRecord(get_params(model)), "metrics": metrics})
    return Message(content=content, reply_to=msg)


@app.evaluate()
def evaluate(msg: Message, context: Context):
    """Evaluate the model on local data."""
    model = set_params(create_model(), msg.content["arrays"].to_numpy_ndarrays())
    _, data = load_data(context.node_config["partition-id"])
    eval_loss, eval_acc = test_fn(model, *data)
    metrics = {"eval_loss": float(eval_loss), "eval_acc": float(eval_acc), "num-examples": len(data[1])}
    return Message(content=RecordDict({"metrics": MetricRecord(metrics)}), reply_to=msg)
