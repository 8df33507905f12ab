"""The client: it knows nothing of the server's strategy."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from numpy_app.task import load_data
from numpy_app.task import test as test_fn
from numpy_app.task import train as train_fn

app = ClientApp()


@app.train()
def train(msg: Message, context: Context):
    """Train the model on local data."""
    model = msg.content["arrays"].to_numpy_ndarrays()
    data, _ = load_data(context.node_config["partition-id"])
    model, train_loss = train_fn(model, data, context.run_config["local-epochs"], msg.content["config"]["lr"])
    metrics = MetricRecord({"train_loss": train_loss, "num-examples": len(data[1])})
    return Message(content=RecordDict({"arrays": ArrayRecord(model), "metrics": metrics}), reply_to=msg)


@app.evaluate()
def evaluate(msg: Message, context: Context):
    """Evaluate the model on local data."""
    _, data = load_data(context.node_config["partition-id"])
    eval_loss, eval_acc = test_fn(msg.content["arrays"].to_numpy_ndarrays(), data)
    metrics = MetricRecord({"eval_loss": eval_loss, "eval_acc": eval_acc, "num-examples": len(data[1])})
    return Message(content=RecordDict({"metrics": metrics}), reply_to=msg)
