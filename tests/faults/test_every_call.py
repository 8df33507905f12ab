"""Every public name that can be called is in the campaign of wrong arguments, or is none that users call."""

import ast
from pathlib import Path

FOLDER = Path(__file__).parent
DOCS = FOLDER.parents[1] / "docs"
FILES = ("public_calls", "calls_in_time", "calls_with_data", "calls_of_workbench", "calls_on_nodes")
BY_RULE = ("turnout.strategies", "turnout.uploads")  # all of their names, but for bases
BASES = "Compute Durations ErgodicProcess Links Loss Model Pace Process Strategy ClientSide Task Upload Words"
RESULTS = "Audit History Diagnosis Claim Experiment ExperimentError HistoryPlots LogError Outcome Reproduced Run Server"
RESULTS += " StrategyComparison Tuned DataTask Split Terms UploadContext WireSize Log Quadratics"
MADE_BY_A_BUILDER = "Diurnal FiniteChain MinimumSeparation Periodic SeparatedSampling Trace"
OF_LIBRARIES = "from_flax from_torch"  # that are not installed
OF_DATA_SETS = "cifar10 cinic10 fashion_mnist femnist mnist"  # that are not here; arguments as those of `digits`
WITHOUT_ARGUMENTS = "Oracle use_compilation_cache"
OF_A_RESULT = "save_tuned"  # of `tune`, where the campaign ends
IN_A_TRAINING = "steer"  # which only a node with an order can call; tests/flower/test_steering.py has wrong calls
ALONE = (WITHOUT_ARGUMENTS, OF_A_RESULT, IN_A_TRAINING)
LEFT_OUT = {
    name
    for names in (
        BASES,
        RESULTS,
        MADE_BY_A_BUILDER,
        OF_LIBRARIES,
        OF_DATA_SETS,
        WITHOUT_ARGUMENTS,
        OF_A_RESULT,
        IN_A_TRAINING,
    )
    for name in names.split()
}
PARTS_OF_ROUNDS = "turnout.types"  # what the library hands to strategies


def named_in_calls():
    """Everything that the files of calls name."""
    named = set()
    for file in FILES:
        for node in ast.walk(ast.parse((FOLDER / f"{file}.py").read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                named |= {node.value, node.value.rpartition(".")[2]}
    return named


def test_every_public_call_is_tried_with_wrong_arguments(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    public_names = __import__("public_names")
    named, missing, packages = named_in_calls(), [], set(public_names.PACKAGES) - {*BY_RULE, PARTS_OF_ROUNDS}
    for package in sorted(packages):
        for name in public_names.public_names(package):
            kind = public_names.find(package, name).node
            if isinstance(kind, ast.FunctionDef | ast.ClassDef) and name not in named | LEFT_OUT:
                missing.append(f"{package}.{name}")
    assert not missing, "add these to a file of calls, or to what is left out, with the reason"
