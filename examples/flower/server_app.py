"""A Flower ServerApp with an asynchronous server: FedBuff, staleness weights, a detector, and noise at the server.

`federate` replaces a Flower strategy and its `start(grid, arrays)`, which waits for all replies of a round.
"""

from __future__ import annotations

import task
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp

from asyncfl.api import gather, run_of
from asyncfl.extras.live.flower.own import federate

app = ServerApp()


def evaluate(arrays: ArrayRecord) -> dict[str, float]:
    """Evaluate a model version on the test set."""
    model = task.net()
    model.load_state_dict(arrays.to_torch_state_dict())
    return task.evaluate(model)


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the federation, print the metrics of each version, and write the run."""
    config = context.run_config
    clients = int(config["clients"])
    outcome = federate(
        grid,
        ArrayRecord(task.net().state_dict()),
        clients=clients,
        protocol={
            "kind": "fedbuff",
            "rounds": config["rounds"],
            "buffer": config["buffer"],
            "dispatch": {"kind": "constant", "in_flight": clients},
            "staleness": {"kind": "polynomial", "exponent": 0.5},
        },
        privacy={
            "kind": "dp_fedavg",
            "noise_at": "server",
            "noise_multiplier": config["noise-multiplier"],
            "clip_norm": 2.0,
        },
        defence={"detector": {"kind": "evidence"}, "strikes": {"threshold": 3}} if config["detector"] else None,
        evaluate=evaluate,
        progress=lambda row, in_flight: print(
            f"version {row['version']}: accuracy {row['test_accuracy']:.3f}, "
            f"mean staleness {row['staleness_mean']:.1f}, {in_flight} in flight",
            flush=True,
        ),
    )
    # With a detector, an update's weight depends on the data of all clients, so the ledger proves no epsilon.
    [public] = outcome.ledger[
        (outcome.ledger["adversary"] == "public") & (outcome.ledger["holder"] == "model")
    ].itertuples()
    flags = f" ({public.flags})" if public.flags else ""
    print(f"epsilon of the published models: {public.exact_epsilon:.1f} at delta {public.delta:g}{flags}", flush=True)
    gather(outcome.scenario, [run_of(outcome.scenario, outcome.run)]).save(str(config["results"]), force=True)
    print(f"{config['results']} written: asyncfl trace tells what happened", flush=True)
