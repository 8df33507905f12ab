"""The network, its training, and the data of a client."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    """Two layers, with a normalisation whose counter of batches is not a float."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2))

    def forward(self, inputs):
        return self.layers(inputs)


def load_data(partition_id: int, batch_size: int):
    """Made-up samples of this client, 80 % to train and 20 % to test."""
    draw = torch.Generator().manual_seed(int(partition_id))
    inputs = torch.randn(100, 8, generator=draw) + 0.2 * partition_id
    labels = (inputs[:, :2].sum(dim=1) > 0.4 * partition_id).long()
    data = TensorDataset(inputs, labels)
    parts = [torch.utils.data.Subset(data, part) for part in (range(80), range(80, 100))]
    trainloader = DataLoader(parts[0], batch_size=batch_size, shuffle=True, generator=draw)
    return trainloader, DataLoader(parts[1], batch_size=batch_size)


def train(net, trainloader, epochs: int, lr: float, device):
    net.to(device).train()
    criterion, optimizer = nn.CrossEntropyLoss(), torch.optim.SGD(net.parameters(), lr=lr)
    total = 0.0
    for _ in range(epochs):
        for inputs, labels in trainloader:
            optimizer.zero_grad()
            loss = criterion(net(inputs.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            total += loss.item()
    return total / (epochs * len(trainloader))


@torch.no_grad()
def test(net, testloader, device):
    net.to(device).eval()
    loss, correct = 0.0, 0
    for inputs, labels in testloader:
        outputs = net(inputs.to(device)).cpu()
        loss += nn.functional.cross_entropy(outputs, labels, reduction="sum").item()
        correct += (outputs.argmax(dim=1) == labels).sum().item()
    return loss / len(testloader.dataset), correct / len(testloader.dataset)
