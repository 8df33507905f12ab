"""The client: it knows nothing of the server's strategy."""

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from pytorch_app.task import Net, load_data
from pytorch_app.task import test as test_fn
from pytorch_app.task import train as train_fn

app = ClientApp()
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")


@app.train()
def train(msg: Message, context: Context):
    """Train the model on local data."""
    model = Net()
    model.load_state_dict(msg.content["arrays"].to_torch_state_dict())
    config = context.run_config
    trainloader, _ = load_data(context.node_config["partition-id"], config["batch-size"])
    train_loss = train_fn(model, trainloader, config["local-epochs"], msg.content["config"]["lr"], device)
    metrics = MetricRecord({"train_loss": train_loss, "num-examples": len(trainloader.dataset)})
    content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics})
    return Message(content=content, reply_to=msg)


@app.evaluate()
def evaluate(msg: Message, context: Context):
    """Evaluate the model on local data."""
    model = Net()
    model.load_state_dict(msg.content["arrays"].to_torch_state_dict())
    _, testloader = load_data(context.node_config["partition-id"], context.run_config["batch-size"])
    eval_loss, eval_acc = test_fn(model, testloader, device)
    metrics = MetricRecord({"eval_loss": eval_loss, "eval_acc": eval_acc, "num-examples": len(testloader.dataset)})
    return Message(content=RecordDict({"metrics": metrics}), reply_to=msg)
