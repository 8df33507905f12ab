"""Every strategy in the settings that tests run: the one list that contracts, golden runs and real nodes share.

A name is that of the strategy's file, followed by what is special about the setting. The first setting of a strategy
stands for it where one is enough.
"""

from turnout.strategies import (
    F3AST,
    MIFA,
    AdaFed,
    CAFed,
    CAFedAvg,
    Debiased,
    FedACS,
    FedAU,
    FedAvg,
    FedAWE,
    FedLaAvg,
    FedNova,
    FedVARP,
    ImportanceSampling,
    LastWord,
    MoreAvailable,
    NormSampling,
    OptimalSampling,
    StaleFill,
    Unbiased,
    UniformSampling,
)

SETTINGS = {
    "fedavg": FedAvg(),
    "fedavg all": FedAvg(normaliser="all"),
    "fedavg cohort": FedAvg(cohort=3),
    "fedavg draws": FedAvg(cohort=3, normaliser="draws"),
    "unbiased": Unbiased(),
    "more_available": MoreAvailable(),
    "adafed": AdaFed(),
    "importance_sampling": ImportanceSampling(cohort=3),
    "norm_sampling": NormSampling(cohort=3),
    "optimal_sampling": OptimalSampling(cohort=3),
    "optimal_sampling approximate": OptimalSampling(cohort=3, approximate=True),
    "uniform_sampling": UniformSampling(cohort=3),
    "fedau": FedAU(cutoff=4.0),
    "fedau cohort": FedAU(cohort=3),
    "debiased": Debiased(),
    "debiased weight": Debiased(batch=3.0, apply="weight"),
    "fedlaavg cohort": FedLaAvg(cohort=2, warmup=3),
    "fedlaavg": FedLaAvg(),
    "mifa": MIFA(),
    "mifa wait": MIFA(wait=True),
    "mifa bits": MIFA(bits=16),
    "fedvarp": FedVARP(),
    "fedvarp cohort": FedVARP(cohort=3),
    "last_word": LastWord(),
    "last_word plain": LastWord(fading=0.0),
    "last_word cohort": LastWord(cohort=3),
    "last_word bits": LastWord(bits=8),
    "last_word blend": LastWord(blend=True),
    "stale_fill": StaleFill(cohort=3),
    "fedawe": FedAWE(),
    "fednova": FedNova(),
    "fednova all": FedNova(normaliser="all", effective_steps=2.0),
    "fednova draws": FedNova(cohort=3, normaliser="draws"),
    "ca_fed": CAFed(),
    "ca_fed cohort": CAFed(kappa=0.2, memory=0.2, cohort=3, optimum=0.0),
    "ca_fed clusters": CAFed(factor=1.0, clusters=[0, 1, 2, 3, 4, 5, 6]),
    "f3ast": F3AST(cohort=3, beta=0.1),
    "f3ast correlated": F3AST(cohort=[1, 3], beta=0.1, utility="correlated", initial="uniform"),
    "fedacs": FedACS(cohort=3),
    "c_a_fedavg": CAFedAvg(cohort=3),
}

ONE_EACH = {
    next(name for name, other in SETTINGS.items() if type(other) is kind): next(
        other for other in SETTINGS.values() if type(other) is kind
    )
    for kind in {type(strategy): None for strategy in SETTINGS.values()}
}
