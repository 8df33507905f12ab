"""The client: it knows nothing of the server's strategy."""

import warnings

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from sklearn.metrics import accuracy_score, log_loss

from sklearn_app.task import get_model, get_model_params, load_data, set_model_params

app = ClientApp()


@app.train()
def train(msg: Message, context: Context):
    """Train the model on local data."""
    model = get_model(context.run_config["local-epochs"])
    set_model_params(model, msg.content["arrays"].to_numpy_ndarrays())
    x_train, _, y_train, _ = load_data(context.node_config["partition-id"], context.node_config["num-partitions"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a few iterations do not converge
        model.fit(x_train, y_train)
    train_logloss = log_loss(y_train, model.predict_proba(x_train))
    metrics = MetricRecord({"num-examples": len(x_train), "train_logloss": train_logloss})
    content = RecordDict({"arrays": ArrayRecord(get_model_params(model)), "metrics": metrics})
    return Message(content=content, reply_to=msg)


@app.evaluate()
def evaluate(msg: Message, context: Context):
    """Evaluate the model on local data."""
    model = get_model(context.run_config["local-epochs"])
    set_model_params(model, msg.content["arrays"].to_numpy_ndarrays())
    _, x_test, _, y_test = load_data(context.node_config["partition-id"], context.node_config["num-partitions"])
    metrics = {
        "num-examples": len(x_test),
        "test_logloss": log_loss(y_test, model.predict_proba(x_test), labels=model.classes_),
        "accuracy": accuracy_score(y_test, model.predict(x_test)),
    }
    return Message(content=RecordDict({"metrics": MetricRecord(metrics)}), reply_to=msg)
